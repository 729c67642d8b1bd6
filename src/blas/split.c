/* An f32 number has 24 bits, a bf16 eight: x1 = bf16(x), x2 = bf16(x - x1), x3 = x - x1 - x2, where both differences
 * are exact (Sterbenz; Henry, Tang and Heinecke 2019, "Leveraging the bfloat16 artificial intelligence datatype for
 * higher-precision computations"). Whoever calls has seen to it that no part is below the normal numbers (range.h). */
#include "blas/split.h"

#include <omp.h>
#include <string.h>

#include "blas/parts.h"
#include "core/fail.h"
#include "core/parallel.h"
#include "cpu/registry/kernels.h"

enum { BLOCK = 32, TILE = 16, CHUNK = 512 };

static int64_t whole_blocks(int64_t k) {
    return (k + BLOCK - 1) / BLOCK * BLOCK;
}

int64_t amp_blas_joined_k(const amp_blas_way *way, int64_t k) {
    return way->terms > 1 ? way->terms * whole_blocks(k) : k;
}

static amp_blas_parts_function *best_parts(void) {
#ifdef AMP_HAVE_AVX2
    if (amp_isa_usable(AMP_ISA_AVX2)) return amp_blas_parts_avx2;
#endif
    return amp_blas_parts_ref;
}

/* ---- A ----------------------------------------------------------------------------------------------------------- */

/* A tile of rows and a stretch of K, row by row; a transposed A is read along its lines. */
static void gather(float tile[TILE][CHUNK], const amp_blas_operand *a, int64_t rows, int64_t k) {
    for (int64_t j = 0; j < k; j++)
        for (int64_t i = 0; i < rows; i++) tile[i][j] = a->data[i * a->row + j * a->column];
}

/* dst: the place of the first term. */
static void split_tile(uint16_t *dst, const amp_blas_way *way, const amp_blas_operand *a, int64_t rows, int64_t k,
                       int64_t stretch) {
    float tile[TILE][CHUNK];
    uint16_t kinds[AMP_BLAS_MAX_PARTS][CHUNK], *const parts[] = {kinds[0], kinds[1], kinds[2]};
    const bool dense = a->column == 1;
    amp_blas_parts_function *const split = best_parts();
    if (!dense) gather(tile, a, rows, k);
    for (int64_t i = 0; i < rows; i++) {
        split(dense ? a->data + i * a->row : tile[i], k, parts);
        for (int t = 0; t < way->terms; t++)
            memcpy(dst + (i * way->terms + t) * stretch, parts[way->term[t].a], (size_t)k * sizeof **parts);
    }
}

/* Behind the last of K each stretch has zeros, as what is packed of B has. */
static void clear_rest(uint16_t *dst, const amp_blas_way *way, int64_t rows, int64_t k, int64_t stretch) {
    for (int64_t t = 0; t < rows * way->terms; t++)
        memset(dst + t * stretch + k, 0, (size_t)(stretch - k) * sizeof *dst);
}

void amp_blas_split_a(uint16_t *dst, const amp_blas_way *way, const amp_blas_operand *a, int64_t rows, int64_t k) {
    const int64_t tiles = (rows + TILE - 1) / TILE, stretch = whole_blocks(k);
    const int threads = amp_parallel_threads(rows * k, AMP_GRAIN_ELEMENTS / 2);
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
    for (int64_t t = 0; t < tiles; t++) {
        const int64_t first = t * TILE, count = rows - first < TILE ? rows - first : TILE;
        uint16_t *const to = dst + first * way->terms * stretch;
        for (int64_t j = 0; j < k; j += CHUNK) {
            amp_blas_operand part = *a;
            part.data += first * a->row + j * a->column;
            split_tile(to + j, way, &part, count, k - j < CHUNK ? k - j : CHUNK, stretch);
        }
        clear_rest(to, way, count, k, stretch);
    }
}

/* ---- B ----------------------------------------------------------------------------------------------------------- */

size_t amp_blas_packed_bytes(const amp_blas_way *way, int64_t n, int64_t k) {
    return way->parts == 0 ? amp_gemm_f32_packed_bytes(n, k) : amp_gemm_packed_bytes(n, amp_blas_joined_k(way, k));
}

/* A block of 32 k of a panel of 32 columns: its parts are packed to each term's stretch. Its lines are rows of B, or
 * columns where those are dense. */
static void pack_block(char *dst, int64_t stretch_bytes, const amp_blas_way *way, const amp_blas_operand *b, int64_t n,
                       int64_t k, amp_gemm_pack_function *pack) {
    uint16_t kinds[AMP_BLAS_MAX_PARTS][BLOCK * BLOCK];
    const bool by_rows = b->column == 1 || b->row != 1;
    const int64_t lines = by_rows ? k : n, length = by_rows ? n : k;
    const int64_t pitch = by_rows ? b->row : b->column, step = by_rows ? b->column : b->row;
    amp_blas_parts_function *const split = best_parts();
    for (int64_t i = 0; i < lines; i++) {
        uint16_t *const parts[] = {kinds[0] + i * BLOCK, kinds[1] + i * BLOCK, kinds[2] + i * BLOCK};
        float line[BLOCK];
        for (int64_t j = 0; j < length; j++) line[j] = b->data[i * pitch + j * step];
        split(line, length, parts);
    }
    for (int t = 0; t < way->terms; t++)
        pack((uint16_t *)(void *)(dst + t * stretch_bytes), kinds[way->term[t].b], AMP_BF16, (int)n, (int)k,
             by_rows ? 1 : BLOCK, by_rows ? BLOCK : 1);
}

/* A panel is contiguous along K (docs/kernels.md), so its stretches follow each other. */
static void pack_panel(char *dst, const amp_blas_way *way, const amp_blas_operand *b, int64_t n, int64_t k,
                       amp_gemm_pack_function *pack) {
    const int64_t block_bytes = (int64_t)amp_gemm_packed_bytes(BLOCK, BLOCK);
    const int64_t stretch_bytes = whole_blocks(k) / BLOCK * block_bytes;
    for (int64_t at = 0; at < k; at += BLOCK) {
        amp_blas_operand block = *b;
        block.data += at * b->row;
        pack_block(dst + at / BLOCK * block_bytes, stretch_bytes, way, &block, n, k - at < BLOCK ? k - at : BLOCK,
                   pack);
    }
}

static amp_status pack_parts(char *dst, const amp_blas_way *way, const amp_blas_operand *b, int64_t n, int64_t k) {
    const int64_t panels = (n + BLOCK - 1) / BLOCK, bytes = (int64_t)amp_blas_packed_bytes(way, BLOCK, k);
    const int threads = amp_parallel_threads(n * k, AMP_GRAIN_ELEMENTS / 2);
    amp_kernel_function *const found = amp_kernel_get(AMP_KERNEL_GEMM_PACK, AMP_F32, AMP_BF16);
    amp_gemm_pack_function *const pack = (amp_gemm_pack_function *)found;
    if (!pack) return amp_last_status();
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
    for (int64_t p = 0; p < panels; p++) {
        amp_blas_operand panel = *b;
        panel.data += p * BLOCK * b->column;
        pack_panel(dst + p * bytes, way, &panel, n - p * BLOCK < BLOCK ? n - p * BLOCK : BLOCK, k, pack);
    }
    return AMP_OK;
}

/* In f32 a panel is k lines of 32 columns. Those that fill the last one are its last again, not zeros: an infinity times
 * zero would raise an exception that the product does not have. */
static void fill_up(float *panels, int64_t n, int64_t k) {
    const int64_t used = n % BLOCK;
    float *line = panels + n / BLOCK * (int64_t)(amp_gemm_f32_packed_bytes(BLOCK, k) / sizeof *line);
    for (int64_t i = 0; used && i < k; i++, line += BLOCK)
        for (int64_t j = used; j < BLOCK; j++) line[j] = line[used - 1];
}

static amp_status pack_f32(float *dst, const amp_blas_operand *b, int64_t n, int64_t k) {
    AMP_TRY(amp_gemm_f32_pack(dst, b->data, n, k, b->column, b->row));
    fill_up(dst, n, k);
    return AMP_OK;
}

amp_status amp_blas_pack_b(void *dst, const amp_blas_way *way, const amp_blas_operand *b, int64_t n, int64_t k) {
    if (way->parts == 0) return pack_f32(dst, b, n, k);
    if (way->terms == 1) return amp_gemm_pack(dst, b->data, AMP_F32, n, k, b->column, b->row);
    return pack_parts(dst, way, b, n, k);
}
