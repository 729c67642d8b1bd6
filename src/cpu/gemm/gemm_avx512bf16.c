/* bf16 GEMM on AVX512_BF16 without tiles.
 *
 * Formula:     per pair of k, ascending: c = rne(rne(a₁ · b₁ + c) + a₀ · b₀) for a pair (a₀, a₁) at (k, k + 1), both
 *              fused, in one vdpbf16ps; then act(alpha · c + beta · r + bias).
 * Accumulator: f32, one per element of C, in a register over a K block and in f32 scratch between K blocks.
 * Error bound: |c - exact| ≤ K · 2⁻²⁴ · Σ|a_k b_k| to first order, plus K · 2⁻¹²⁶ for flushed denormals.
 * Denormals:   vdpbf16ps reads denormals as zero and flushes denormal sums, whatever MXCSR says.
 *              Where nothing but a bias is added, c + bias is rounded to bf16 by vcvtne2ps2bf16, which flushes them
 *              too.
 * ISA:         AVX512_BF16, AVX512F, AVX512BW.
 * Source:      Intel SDM volume 2, VDPBF16PS. */
#include <immintrin.h>

#include "cpu/gemm/gemm_finish_simd.h"
#include "cpu/gemm/gemm_isa.h"
#include "cpu/gemm/gemm_simd.h"
#include "cpu/gemm/gemm_store_avx512.h"
#include "cpu/gemm/window_gemm_avx512.h"

/* `pairs` pairs of k from one block: rows · panels · vectors accumulators, at most 28, so that two vectors of B and one
 * broadcast of A fit the 32 registers. */
static inline __attribute__((always_inline)) void multiply_pair(__m512 acc[28], const char *a, const uint16_t *b,
                                                                int64_t b_panel, const int rows, const int panels,
                                                                const int vectors) {
#pragma GCC unroll 8
    for (int p = 0; p < panels; p++) {
        const __m512bh b0 = (__m512bh)_mm512_load_si512(b + p * b_panel);
        const __m512bh b1 = (__m512bh)_mm512_load_si512(b + p * b_panel + 32);
#pragma GCC unroll 14
        for (int r = 0; r < rows; r++) {
            const __m512bh x = (__m512bh)_mm512_set1_epi32(*(const int *)(a + r * 64));
            __m512 *const at = &acc[(r * panels + p) * vectors];
            at[0] = _mm512_dpbf16_ps(at[0], x, b0);
            if (vectors == 2) at[1] = _mm512_dpbf16_ps(at[1], x, b1);
        }
    }
}

static inline __attribute__((always_inline)) void one_tile(const amp_gemm_tile *t, const char *a, int64_t row,
                                                           const int rows, const int panels, const int vectors) {
    __m512 acc[28];
    float *c = t->c;
#pragma GCC unroll 28
    for (int i = 0; i < rows * panels * vectors; i++)
        acc[i] = t->accumulate ? _mm512_load_ps(c + 32 / vectors * i) : _mm512_setzero_ps();
    const int64_t a_step = (int64_t)t->panel_rows * 64, b_panel = t->b_panel_bytes / 2;
    const uint16_t *b = t->b;
    for (int64_t block = 0; block < t->pairs / 16; block++) {
#pragma GCC unroll 4
        for (int pair = 0; pair < 16; pair++) {
            amp_gemm_fetch(b + pair * 64, t->b_panel_bytes, panels, 128);
            multiply_pair(acc, a + pair * 4, b + pair * 64, b_panel, rows, panels, vectors);
        }
        a += a_step;
        b += AMP_GEMM_BLOCK_VALUES;
    }
#pragma GCC unroll 1
    for (int pair = 0; pair < (int)(t->pairs % 16); pair++)
        multiply_pair(acc, a + pair * 4, b + pair * 64, b_panel, rows, panels, vectors);
    if (stores_whole(t, panels, vectors, true)) {
        store_whole(t, row, acc, rows, panels, vectors, true);
        return;
    }
#pragma GCC unroll 28
    for (int i = 0; i < rows * panels * vectors; i++) _mm512_store_ps(c + 32 / vectors * i, acc[i]);
    if (t->finish) store_part(t, row);
}

static inline __attribute__((always_inline)) void tile_of(const amp_gemm_tile *t, const int rows, const int panels,
                                                          const int vectors) {
    for (int64_t i = 0; i < t->repeat; i++)
        one_tile(t, (const char *)t->a + i * t->a_panel_bytes, t->row + i * rows, rows, panels, vectors);
}

static void pack_a(const amp_gemm_pack_a *p, void *dst) {
    simd_pack_a(p, dst, SIMD_A_BF16);
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

void amp_gemm_finish_avx512bf16(const amp_gemm_finish *f, const amp_gemm_place *place, const float *tile) {
    simd_finish(f, place, tile);
}

static void direct(const amp_gemm_direct *t) {
    direct_any(t, true);
}

static const amp_gemm_isa isa = {
    .a_f32 = false,
    .stores = true,
    .max_rows = 14,
    .max_panels = AMP_GEMM_PANELS_28,
    .chunk_rows = 64,
    .group_panels = 1,
    .pass_blocks = 32,
    .pack_a = pack_a,
    .tile = tile,
    .finish = amp_gemm_finish_avx512bf16,
    .relu = amp_gemm_relu_avx512,
    .end = simd_end_streams,
    .direct = direct,
};

amp_status amp_gemm_bf16_avx512bf16(const amp_gemm *g) {
    return amp_gemm_run(g, &isa);
}
