/* bf16 GEMM on AVX-512F: B up-converted in registers, f32 FMA.
 *
 * Formula:     c = rne(a_k · b_k + c), fused, in ascending k; then act(alpha · c + beta · r + bias). A bf16 value is the
 *              upper half of an f32: the even element of a pair is shifted up, the odd one is masked.
 * Accumulator: f32, one per element of C, in a register over a K block and in f32 scratch between K blocks.
 * Error bound: |c - exact| ≤ K · 2⁻²⁴ · Σ|a_k b_k| to first order.
 * Denormals:   kept, as MXCSR says by default.
 * ISA:         AVX512F, AVX512BW.
 * Source:      Intel SDM volume 2, VFMADD231PS. */
#include <immintrin.h>

#include "cpu/gemm_isa.h"
#include "cpu/gemm_simd.h"

static void pack_a(const amp_gemm_pack_a *p, void *dst) {
    simd_pack_a(p, dst, true);
}

/* rows · 2 · panels accumulators, at most 28; beside them a vector or two of B, one of A and the mask. */
static inline __attribute__((always_inline)) void tile_of(const amp_gemm_tile *t, const int rows, const int panels) {
    __m512 acc[28];
    float *c = t->c;
#pragma GCC unroll 28
    for (int i = 0; i < rows * 2 * panels; i++)
        acc[i] = t->accumulate ? _mm512_load_ps(c + 16 * i) : _mm512_setzero_ps();
    const char *a = (const char *)t->a;
    const int64_t a_step = (int64_t)t->panel_rows * 128, b_panel = (int64_t)t->b_panel_stride;
    const uint16_t *b = t->b;
    const __m512i upper = _mm512_set1_epi32((int)0xffff0000);
    for (int64_t block = 0; block < t->blocks; block++) {
        for (int pair = 0; pair < 16; pair++) {
#pragma GCC unroll 2
            for (int odd = 0; odd < 2; odd++) {
                const uint16_t *again = b; /* opaque: loading twice is free, keeping raw B would spill accumulators */
                __asm__("" : "+r"(again));
#pragma GCC unroll 8
                for (int p = 0; p < panels; p++) {
                    const uint16_t *at_b = again + p * b_panel + pair * 64;
                    const __m512i raw0 = _mm512_load_si512(at_b), raw1 = _mm512_load_si512(at_b + 32);
                    const __m512 b0 = (__m512)(odd ? _mm512_and_si512(raw0, upper) : _mm512_slli_epi32(raw0, 16));
                    const __m512 b1 = (__m512)(odd ? _mm512_and_si512(raw1, upper) : _mm512_slli_epi32(raw1, 16));
#pragma GCC unroll 14
                    for (int r = 0; r < rows; r++) {
                        const __m512 x = _mm512_set1_ps(*(const float *)(a + r * 128 + pair * 8 + odd * 4));
                        __m512 *const at = &acc[(r * panels + p) * 2];
                        at[0] = _mm512_fmadd_ps(x, b0, at[0]);
                        at[1] = _mm512_fmadd_ps(x, b1, at[1]);
                    }
                }
            }
        }
        a += a_step;
        b += AMP_GEMM_BLOCK_VALUES;
    }
#pragma GCC unroll 28
    for (int i = 0; i < rows * 2 * panels; i++) _mm512_store_ps(c + 16 * i, acc[i]);
}

static void tile(const amp_gemm_tile *t) {
    switch (t->rows * 16 + t->panels) {
#define TILE(rows, panels)                                                                                             \
    case (rows)*16 + (panels): tile_of(t, rows, panels); break;
        AMP_GEMM_TILES_28(TILE)
#undef TILE
    default: __builtin_unreachable();
    }
}

static const amp_gemm_isa isa = {
    .a_f32 = true,
    .max_rows = 14,
    .max_panels = AMP_GEMM_PANELS_28,
    .group_panels = 1,
    .pass_blocks = 32,
    .pack_a = pack_a,
    .tile = tile,
    .finish = amp_gemm_finish_avx512,
};

amp_status amp_gemm_bf16_avx512(const amp_gemm *g) {
    return amp_gemm_run(g, &isa);
}
