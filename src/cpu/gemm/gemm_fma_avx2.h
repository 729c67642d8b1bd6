/* The tile of the AVX2 kernels: f32 FMA, B in f32 or in bf16 that is up-converted in registers. Only for files that
 * are compiled for AVX2.
 *
 * Formula:     c = rne(a_k · b_k + c), fused, in ascending k; gemm_avx2.c and gemm_f32_avx2.c have bound and source.
 * Accumulator: f32, at most 12 vectors, one per element of C.
 * ISA:         AVX2, FMA. */
#ifndef AMP_CPU_GEMM_FMA_AVX2_H
#define AMP_CPU_GEMM_FMA_AVX2_H

#include <immintrin.h>

#include "cpu/gemm/gemm_isa.h"
#include "cpu/gemm/gemm_simd.h"

/* sum += a · b. In assembly, for with the intrinsic gcc 12 moves work about and runs out of registers. */
static inline __attribute__((always_inline)) void multiply_add(__m256 *sum, __m256 a, __m256 b) {
    __asm__ volatile("vfmadd231ps %2, %1, %0" : "+x"(*sum) : "x"(a), "x"(b));
}

static const uint32_t upper[8] __attribute__((aligned(32))) = {0xffff0000, 0xffff0000, 0xffff0000, 0xffff0000,
                                                               0xffff0000, 0xffff0000, 0xffff0000, 0xffff0000};

/* Eight elements of B; of eight pairs of bf16 the even or the odd ones. The mask stays in memory, for the same
 * reason. */
static inline __attribute__((always_inline)) __m256 load_b(const char *at, const bool odd, const bool b_f32) {
    __m256i x = _mm256_load_si256((const __m256i *)at);
    if (b_f32) return (__m256)x;
    if (!odd) return (__m256)_mm256_slli_epi32(x, 16);
    __asm__("vpand %1, %0, %0" : "+x"(x) : "m"(upper));
    return (__m256)x;
}

/* A pair of k: two vectors of B and one of A beside 12 sums. */
static inline __attribute__((always_inline)) void multiply_pair(__m256 acc[12], const char *a, const char *b,
                                                                int64_t b_panel, const int rows, const int vectors,
                                                                const bool b_f32) {
#pragma GCC unroll 2
    for (int odd = 0; odd < 2; odd++) {
        const char *again = b; /* opaque: loading twice is free, keeping raw B would spill accumulators */
        __asm__("" : "+r"(again));
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v += 2) {
            const char *at_b = again + v / 4 * b_panel + (b_f32 ? odd * 128 : 0) + v % 4 * 32;
            const __m256 b0 = load_b(at_b, odd, b_f32), b1 = load_b(at_b + 32, odd, b_f32);
#pragma GCC unroll 6
            for (int r = 0; r < rows; r++) {
                const __m256 x = _mm256_broadcast_ss((const float *)(a + r * 128 + odd * 4));
                multiply_add(&acc[r * vectors + v], x, b0);
                multiply_add(&acc[r * vectors + v + 1], x, b1);
            }
        }
    }
}

/* The lines of B that a pair of k will read some time later. Of f32 and many rows nothing is fetched: a block of B is
 * twice as long there and is met from L2, where the hardware keeps up, and what is fetched early drives A and C out of
 * L1 (Zen 3, 1024 × 768 × 768: 71 % of the peak with it, 86 without; 6 and 12 rows of 4096², from DRAM: 0.98 and
 * 1.02 of the speed). */
static inline __attribute__((always_inline)) void fetch_pair(const char *b, int64_t b_panel, const int vectors,
                                                             const bool b_f32) {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v += 2) {
        const char *at = b + v / 4 * b_panel + v % 4 * 32 + AMP_GEMM_AHEAD / (vectors > 4 ? 2 : 1);
        __builtin_prefetch(at);
        if (b_f32) __builtin_prefetch(at + 128);
    }
}

/* A strip's sums to C, from the registers; past the caches where C is more than stays near. */
static inline __attribute__((always_inline)) void store_strip(const amp_gemm_tile *t, const __m256 acc[12], int64_t row,
                                                              int64_t column, const int rows, const int vectors) {
    const amp_gemm_finish *const f = t->finish;
    float *c = (float *)f->c + row * f->c_row_stride + column;
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++) {
        const __m256 bias =
            f->bias ? (__m256)simd_load(f->bias, f->bias_dtype, column + v * 8, 1, 8) : _mm256_setzero_ps();
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++) {
            const __m256 sum = acc[r * vectors + v], x = f->bias ? _mm256_add_ps(sum, bias) : sum;
            float *to = c + r * f->c_row_stride + v * 8;
            if (f->streams)
                _mm256_stream_ps(to, x);
            else
                _mm256_storeu_ps(to, x);
        }
    }
}

/* `vectors` of 8 columns from column `column` of a tile: rows · vectors accumulators, at most 12 of 16 registers. They
 * go to the tile, or `to_c` where nothing but a bias is added to them. */
static inline __attribute__((always_inline)) void strip_of(const amp_gemm_tile *t, const char *a, int64_t row,
                                                           int column, const bool to_c, const int rows,
                                                           const int vectors, const bool b_f32) {
    __m256 acc[12];
    const int64_t pitch = (int64_t)t->panels * AMP_GEMM_BLOCK, b_panel = t->b_panel_bytes;
    const char *b = (const char *)t->b + column / AMP_GEMM_BLOCK * b_panel + column % AMP_GEMM_BLOCK * 4;
    float *c = t->c + column;
#pragma GCC unroll 12
    for (int i = 0; i < rows * vectors; i++)
        acc[i] = t->accumulate ? _mm256_load_ps(c + i / vectors * pitch + i % vectors * 8) : _mm256_setzero_ps();
    const int64_t a_step = (int64_t)t->panel_rows * 128, b_pair = b_f32 ? 256 : 128;
    for (int64_t block = 0; block < t->pairs / 16; block++) {
        for (int pair = 0; pair < 16; pair++) {
            if (!b_f32 || rows < 4) fetch_pair(b + pair * b_pair, b_panel, vectors, b_f32);
            multiply_pair(acc, a + pair * 8, b + pair * b_pair, b_panel, rows, vectors, b_f32);
        }
        a += a_step;
        b += 16 * b_pair;
    }
    for (int pair = 0; pair < (int)(t->pairs % 16); pair++)
        multiply_pair(acc, a + pair * 8, b + pair * b_pair, b_panel, rows, vectors, b_f32);
    if (to_c) {
        store_strip(t, acc, row, t->column + column, rows, vectors);
        return;
    }
#pragma GCC unroll 12
    for (int i = 0; i < rows * vectors; i++) _mm256_store_ps(c + i / vectors * pitch + i % vectors * 8, acc[i]);
}

static inline __attribute__((always_inline)) void one_tile(const amp_gemm_tile *t, const char *a, int64_t row,
                                                           const int rows, const int vectors, const bool b_f32) {
    const bool plain = t->finish && t->finish->c_dtype == AMP_F32;
    int column = 0, stored = 0;
    for (; column < t->columns; column += vectors * 8) {
        const bool to_c = plain && column + vectors * 8 <= t->columns;
        strip_of(t, a, row, column, to_c, rows, vectors, b_f32);
        if (to_c) stored = column + vectors * 8;
    }
    if (!t->finish || stored == t->columns) return;
    const int pitch = t->panels * AMP_GEMM_BLOCK;
    const amp_gemm_place rest = {row, t->column + stored, rows, t->columns - stored, pitch};
    amp_gemm_finish_avx2(t->finish, &rest, t->c + stored);
}

static inline __attribute__((always_inline)) void tile_of(const amp_gemm_tile *t, const int rows, const int vectors,
                                                          const bool b_f32) {
    for (int64_t i = 0; i < t->repeat; i++)
        one_tile(t, (const char *)t->a + i * (int64_t)t->a_panel_bytes, t->row + i * rows, rows, vectors, b_f32);
}

static inline __attribute__((always_inline)) void tile_any(const amp_gemm_tile *t, const bool b_f32) {
    switch (t->rows) {
    case 1:
        if (t->panels == 2)
            tile_of(t, 1, 8, b_f32);
        else
            tile_of(t, 1, 4, b_f32);
        break;
    case 2: tile_of(t, 2, 4, b_f32); break;
    case 3: tile_of(t, 3, 4, b_f32); break;
    case 4: tile_of(t, 4, 2, b_f32); break;
    case 5: tile_of(t, 5, 2, b_f32); break;
    case 6: tile_of(t, 6, 2, b_f32); break;
    default: __builtin_unreachable();
    }
}

/* What the rows of all kernels of these tiles have. */
#define AMP_GEMM_TILES_FMA_AVX2                                                                                        \
    .a_f32 = true, .stores = true, .max_rows = 6, .max_panels = {1, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},   \
    .chunk_rows = 256, .group_panels = 1, .finish = amp_gemm_finish_avx2, .end = simd_end_streams

#endif /* AMP_CPU_GEMM_FMA_AVX2_H */
