/* bf16 GEMM on AVX512_BF16 without tiles.
 *
 * Formula:     per pair of k, ascending: c = rne(rne(a₁ · b₁ + c) + a₀ · b₀) for a pair (a₀, a₁) at (k, k + 1), both
 *              fused, in one vdpbf16ps; then act(alpha · c + beta · r + bias).
 * Accumulator: f32, one per element of C, in a register over a K block and in f32 scratch between K blocks.
 * Error bound: |c - exact| ≤ K · 2⁻²⁴ · Σ|a_k b_k| to first order, plus K · 2⁻¹²⁶ for flushed denormals.
 * Denormals:   vdpbf16ps reads denormals as zero and flushes denormal sums, whatever MXCSR says.
 * ISA:         AVX512_BF16, AVX512F, AVX512BW.
 * Source:      Intel SDM volume 2, VDPBF16PS. */
#include <immintrin.h>

#include "cpu/gemm_isa.h"
#include "cpu/gemm_simd.h"

/* One tile of constant size: rows · 2 · panels accumulators, at most 28, so that two vectors of B and one broadcast of A
 * fit the 32 registers. */
static inline __attribute__((always_inline)) void tile_of(const amp_gemm_tile *t, const int rows, const int panels) {
    __m512 acc[28];
    float *c = t->c;
#pragma GCC unroll 28
    for (int i = 0; i < rows * 2 * panels; i++)
        acc[i] = t->accumulate ? _mm512_load_ps(c + 16 * i) : _mm512_setzero_ps();
    const char *a = (const char *)t->a;
    const int64_t a_step = (int64_t)t->panel_rows * 64, b_panel = (int64_t)t->b_panel_stride;
    const uint16_t *b = t->b;
    for (int64_t block = 0; block < t->blocks; block++) {
#pragma GCC unroll 4
        for (int pair = 0; pair < 16; pair++) {
#pragma GCC unroll 8
            for (int p = 0; p < panels; p++) {
                const __m512bh b0 = (__m512bh)_mm512_load_si512(b + p * b_panel + pair * 64);
                const __m512bh b1 = (__m512bh)_mm512_load_si512(b + p * b_panel + pair * 64 + 32);
#pragma GCC unroll 14
                for (int r = 0; r < rows; r++) {
                    const __m512bh x = (__m512bh)_mm512_set1_epi32(*(const int *)(a + r * 64 + pair * 4));
                    __m512 *const at = &acc[(r * panels + p) * 2];
                    at[0] = _mm512_dpbf16_ps(at[0], x, b0);
                    at[1] = _mm512_dpbf16_ps(at[1], x, b1);
                }
            }
        }
        a += a_step;
        b += AMP_GEMM_BLOCK_VALUES;
    }
#pragma GCC unroll 28
    for (int i = 0; i < rows * 2 * panels; i++) _mm512_store_ps(c + 16 * i, acc[i]);
}

static void pack_a(const amp_gemm_pack_a *p, void *dst) {
    simd_pack_a(p, dst, false);
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
    .a_f32 = false,
    .max_rows = 14,
    .max_panels = AMP_GEMM_PANELS_28,
    .group_panels = 1,
    .pass_blocks = 32,
    .pack_a = pack_a,
    .tile = tile,
    .finish = amp_gemm_finish_avx512,
};

amp_status amp_gemm_bf16_avx512bf16(const amp_gemm *g) {
    return amp_gemm_run(g, &isa);
}
