/* The tile of the AVX-512F kernels: f32 FMA, B in f32 or in bf16 that is up-converted in registers. Only for files
 * that are compiled for AVX-512.
 *
 * Formula:     c = rne(a_k · b_k + c), fused, in ascending k; gemm_avx512.c and gemm_f32_avx512.c have bound and
 *              source.
 * Accumulator: f32, at most 28 vectors, one per element of C.
 * ISA:         AVX512F. */
#ifndef AMP_CPU_GEMM_FMA_AVX512_H
#define AMP_CPU_GEMM_FMA_AVX512_H

#include <immintrin.h>

#include "cpu/gemm/gemm_isa.h"
#include "cpu/gemm/gemm_store_avx512.h"

/* sum += a · b. In assembly, for with the intrinsic gcc 12 moves work about and runs out of registers. */
static inline __attribute__((always_inline)) void multiply_add(__m512 *sum, __m512 a, __m512 b) {
    __asm__ volatile("vfmadd231ps %2, %1, %0" : "+v"(*sum) : "v"(a), "v"(b));
}

/* A pair of k: rows · panels · vectors accumulators, at most 28; beside them two vectors of B, one of A and the
 * mask. */
static inline __attribute__((always_inline)) void multiply_pair(__m512 acc[28], const char *a, const char *b,
                                                                int64_t b_panel, const int rows, const int panels,
                                                                const int vectors, const bool b_f32) {
    const __m512i upper = _mm512_set1_epi32((int)0xffff0000);
#pragma GCC unroll 2
    for (int odd = 0; odd < 2; odd++) {
        const char *again = b; /* opaque: loading twice is free, keeping raw B would spill accumulators */
        __asm__("" : "+r"(again));
#pragma GCC unroll 8
        for (int p = 0; p < panels; p++) {
            const char *at_b = again + p * b_panel + (b_f32 ? odd * 128 : 0);
            const __m512i raw0 = _mm512_load_si512(at_b), raw1 = _mm512_load_si512(at_b + 64);
            const __m512 b0 = (__m512)(b_f32 ? raw0
                                       : odd ? _mm512_and_si512(raw0, upper)
                                             : _mm512_slli_epi32(raw0, 16));
            const __m512 b1 = (__m512)(b_f32 ? raw1
                                       : odd ? _mm512_and_si512(raw1, upper)
                                             : _mm512_slli_epi32(raw1, 16));
#pragma GCC unroll 14
            for (int r = 0; r < rows; r++) {
                const __m512 x = _mm512_set1_ps(*(const float *)(a + r * 128 + odd * 4));
                __m512 *const at = &acc[(r * panels + p) * vectors];
                multiply_add(&at[0], x, b0);
                if (vectors == 2) multiply_add(&at[1], x, b1);
            }
        }
    }
}

static inline __attribute__((always_inline)) void one_tile(const amp_gemm_tile *t, const char *a, int64_t row,
                                                           const int rows, const int panels, const int vectors,
                                                           const bool b_f32) {
    __m512 acc[28];
    float *c = t->c;
#pragma GCC unroll 28
    for (int i = 0; i < rows * panels * vectors; i++)
        acc[i] = t->accumulate ? _mm512_load_ps(c + 32 / vectors * i) : _mm512_setzero_ps();
    const int64_t a_step = (int64_t)t->panel_rows * 128, b_panel = t->b_panel_bytes, b_pair = b_f32 ? 256 : 128;
    const char *b = (const char *)t->b;
    for (int64_t block = 0; block < t->pairs / 16; block++) {
        for (int pair = 0; pair < 16; pair++) {
            amp_gemm_fetch(b + pair * b_pair, b_panel, panels, b_f32 ? 256 : 128);
            multiply_pair(acc, a + pair * 8, b + pair * b_pair, b_panel, rows, panels, vectors, b_f32);
        }
        a += a_step;
        b += 16 * b_pair;
    }
    for (int pair = 0; pair < (int)(t->pairs % 16); pair++)
        multiply_pair(acc, a + pair * 8, b + pair * b_pair, b_panel, rows, panels, vectors, b_f32);
    if (stores_whole(t, panels, vectors, !b_f32)) {
        store_whole(t, row, acc, rows, panels, vectors, !b_f32);
        return;
    }
#pragma GCC unroll 28
    for (int i = 0; i < rows * panels * vectors; i++) _mm512_store_ps(c + 32 / vectors * i, acc[i]);
    if (t->finish) store_part(t, row);
}

static inline __attribute__((always_inline)) void tile_of(const amp_gemm_tile *t, const int rows, const int panels,
                                                          const int vectors, const bool b_f32) {
    for (int64_t i = 0; i < t->repeat; i++)
        one_tile(t, (const char *)t->a + i * t->a_panel_bytes, t->row + i * rows, rows, panels, vectors, b_f32);
}

static inline __attribute__((always_inline)) void tile_any(const amp_gemm_tile *t, const bool b_f32) {
    switch (AMP_GEMM_TILE_KEY(t->rows, t->panels, t->columns > 16 ? 2 : 1)) {
#define TILE(rows, panels, vectors)                                                                                    \
    case AMP_GEMM_TILE_KEY(rows, panels, vectors): tile_of(t, rows, panels, vectors, b_f32); break;
        AMP_GEMM_TILES_28(TILE)
#undef TILE
    default: __builtin_unreachable();
    }
}

#endif /* AMP_CPU_GEMM_FMA_AVX512_H */
