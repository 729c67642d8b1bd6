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

/* A pair of k: rows · panels · vectors accumulators, at most 28; beside them two vectors of B, one of A and the mask. */
static inline __attribute__((always_inline)) void multiply_pair(__m512 acc[28], const char *a, const uint16_t *b,
                                                                int64_t b_panel, const int rows, const int panels,
                                                                const int vectors) {
    const __m512i upper = _mm512_set1_epi32((int)0xffff0000);
#pragma GCC unroll 2
    for (int odd = 0; odd < 2; odd++) {
        const uint16_t *again = b; /* opaque: loading twice is free, keeping raw B would spill accumulators */
        __asm__("" : "+r"(again));
#pragma GCC unroll 8
        for (int p = 0; p < panels; p++) {
            const uint16_t *at_b = again + p * b_panel;
            const __m512i raw0 = _mm512_load_si512(at_b), raw1 = _mm512_load_si512(at_b + 32);
            const __m512 b0 = (__m512)(odd ? _mm512_and_si512(raw0, upper) : _mm512_slli_epi32(raw0, 16));
            const __m512 b1 = (__m512)(odd ? _mm512_and_si512(raw1, upper) : _mm512_slli_epi32(raw1, 16));
#pragma GCC unroll 14
            for (int r = 0; r < rows; r++) {
                const __m512 x = _mm512_set1_ps(*(const float *)(a + r * 128 + odd * 4));
                __m512 *const at = &acc[(r * panels + p) * vectors];
                at[0] = _mm512_fmadd_ps(x, b0, at[0]);
                if (vectors == 2) at[1] = _mm512_fmadd_ps(x, b1, at[1]);
            }
        }
    }
}

static inline __attribute__((always_inline)) void tile_of(const amp_gemm_tile *t, const int rows, const int panels,
                                                          const int vectors) {
    __m512 acc[28];
    float *c = t->c;
#pragma GCC unroll 28
    for (int i = 0; i < rows * panels * vectors; i++)
        acc[i] = t->accumulate ? _mm512_load_ps(c + 32 / vectors * i) : _mm512_setzero_ps();
    const char *a = (const char *)t->a;
    const int64_t a_step = (int64_t)t->panel_rows * 128, b_panel = (int64_t)t->b_panel_stride;
    const uint16_t *b = t->b;
    for (int64_t block = 0; block < t->pairs / 16; block++) {
        for (int pair = 0; pair < 16; pair++)
            multiply_pair(acc, a + pair * 8, b + pair * 64, b_panel, rows, panels, vectors);
        a += a_step;
        b += AMP_GEMM_BLOCK_VALUES;
    }
    for (int pair = 0; pair < (int)(t->pairs % 16); pair++)
        multiply_pair(acc, a + pair * 8, b + pair * 64, b_panel, rows, panels, vectors);
#pragma GCC unroll 28
    for (int i = 0; i < rows * panels * vectors; i++) _mm512_store_ps(c + 32 / vectors * i, acc[i]);
}

static void tile(const amp_gemm_tile *t) {
    switch (AMP_GEMM_TILE_KEY(t->rows, t->panels, t->columns > 16 ? 2 : 1)) {
#define TILE(rows, panels, vectors)                                                                                    \
    case AMP_GEMM_TILE_KEY(rows, panels, vectors): tile_of(t, rows, panels, vectors); break;
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
