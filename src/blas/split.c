/* An f32 number has 24 bits, a bf16 eight: x1 = bf16(x), x2 = bf16(x - x1), x3 = x - x1 - x2, where both differences are
 * exact (Sterbenz; Henry, Tang and Heinecke 2019, "Leveraging the bfloat16 artificial intelligence datatype for
 * higher-precision computations"). Whoever calls has seen to it that no part is below the normal numbers (range.h). */
#include "blas/split.h"

#include <omp.h>

#include "core/half.h"
#include "core/parallel.h"
#include "cpu/registry/kernels.h"

enum { BLOCK = 32, TILE = 16 };

static int64_t whole_blocks(int64_t k) {
    return (k + BLOCK - 1) / BLOCK * BLOCK;
}

int64_t amp_blas_joined_k(const amp_blas_way *way, int64_t k) {
    return way->terms > 1 ? way->terms * whole_blocks(k) : k;
}

static void split(float x, uint16_t parts[AMP_BLAS_MAX_PARTS]) {
    for (int p = 0; p < AMP_BLAS_MAX_PARTS; p++) {
        parts[p] = amp_bf16_from_f32(x);
        x -= amp_f32_from_bf16(parts[p]);
    }
}

/* A tile of rows, element after element along K: a transposed A is read along its lines too. */
static void split_rows(uint16_t *dst, const amp_blas_way *way, const amp_blas_operand *a, int64_t rows, int64_t k) {
    const int64_t stretch = whole_blocks(k), pitch = way->terms * stretch;
    for (int64_t j = 0; j < stretch; j++) {
        for (int64_t i = 0; i < rows; i++) {
            uint16_t parts[AMP_BLAS_MAX_PARTS];
            split(j < k ? a->data[i * a->row + j * a->column] : 0.0f, parts);
            for (int t = 0; t < way->terms; t++) dst[i * pitch + t * stretch + j] = parts[way->term[t].a];
        }
    }
}

void amp_blas_split_a(uint16_t *dst, const amp_blas_way *way, const amp_blas_operand *a, int64_t rows, int64_t k) {
    const int64_t tiles = (rows + TILE - 1) / TILE, pitch = amp_blas_joined_k(way, k);
    const int threads = amp_parallel_threads(rows * k, AMP_GRAIN_ELEMENTS / 2);
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
    for (int64_t t = 0; t < tiles; t++) {
        amp_blas_operand part = *a;
        part.data += t * TILE * a->row;
        split_rows(dst + t * TILE * pitch, way, &part, rows - t * TILE < TILE ? rows - t * TILE : TILE, k);
    }
}

size_t amp_blas_packed_bytes(const amp_blas_way *way, int64_t n, int64_t k) {
    return way->parts == 0 ? amp_gemm_f32_packed_bytes(n, k) : amp_gemm_packed_bytes(n, amp_blas_joined_k(way, k));
}

/* A block of 32 k of a panel of 32 columns: its parts are packed to each term's stretch. */
static amp_status pack_block(char *dst, int64_t stretch_bytes, const amp_blas_way *way, const amp_blas_operand *b,
                             int64_t n, int64_t k) {
    uint16_t parts[AMP_BLAS_MAX_PARTS][BLOCK * BLOCK];
    for (int64_t i = 0; i < k; i++) {
        for (int64_t j = 0; j < n; j++) {
            uint16_t of_one[AMP_BLAS_MAX_PARTS];
            split(b->data[i * b->row + j * b->column], of_one);
            for (int p = 0; p < AMP_BLAS_MAX_PARTS; p++) parts[p][i * BLOCK + j] = of_one[p];
        }
    }
    amp_status status = AMP_OK;
    for (int t = 0; t < way->terms && status == AMP_OK; t++)
        status = amp_gemm_pack(dst + t * stretch_bytes, parts[way->term[t].b], AMP_BF16, n, k, 1, BLOCK);
    return status;
}

/* A panel is contiguous along K (docs/kernels.md), so its stretches follow each other. */
static amp_status pack_panel(char *dst, const amp_blas_way *way, const amp_blas_operand *b, int64_t n, int64_t k) {
    const int64_t block_bytes = (int64_t)amp_gemm_packed_bytes(BLOCK, BLOCK);
    const int64_t stretch_bytes = whole_blocks(k) / BLOCK * block_bytes;
    amp_status status = AMP_OK;
    for (int64_t at = 0; at < k && status == AMP_OK; at += BLOCK) {
        amp_blas_operand block = *b;
        block.data += at * b->row;
        status =
            pack_block(dst + at / BLOCK * block_bytes, stretch_bytes, way, &block, n, k - at < BLOCK ? k - at : BLOCK);
    }
    return status;
}

static amp_status pack_parts(char *dst, const amp_blas_way *way, const amp_blas_operand *b, int64_t n, int64_t k) {
    const int64_t panels = (n + BLOCK - 1) / BLOCK, bytes = (int64_t)amp_blas_packed_bytes(way, BLOCK, k);
    const int threads = amp_parallel_threads(n * k, AMP_GRAIN_ELEMENTS / 2);
    bool failed = !amp_kernel_select(AMP_KERNEL_GEMM_PACK, AMP_F32, AMP_BF16); /* before the region, not in it */
    if (failed) return amp_last_status();
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1) reduction(|| : failed)
    for (int64_t p = 0; p < panels; p++) {
        amp_blas_operand panel = *b;
        panel.data += p * BLOCK * b->column;
        const int64_t columns = n - p * BLOCK < BLOCK ? n - p * BLOCK : BLOCK;
        failed = pack_panel(dst + p * bytes, way, &panel, columns, k) != AMP_OK || failed;
    }
    return failed ? AMP_ERROR_INTERNAL : AMP_OK;
}

amp_status amp_blas_pack_b(void *dst, const amp_blas_way *way, const amp_blas_operand *b, int64_t n, int64_t k) {
    if (way->parts == 0) return amp_gemm_f32_pack(dst, b->data, n, k, b->column, b->row);
    if (way->terms == 1) return amp_gemm_pack(dst, b->data, AMP_F32, n, k, b->column, b->row);
    return pack_parts(dst, way, b, n, k);
}
