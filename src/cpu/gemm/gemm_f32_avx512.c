/* f32 GEMM on AVX-512F.
 *
 * Formula:     c = rne(a_k · b_k + c), fused, in ascending k; then act(alpha · c + beta · r + bias).
 * Accumulator: f32, one per element of C, in a register over a K block and in f32 scratch between K blocks.
 * Error bound: |c - exact| ≤ K · 2⁻²⁴ · Σ|a_k b_k| to first order.
 * Denormals:   kept, as MXCSR says by default.
 * ISA:         AVX512F, AVX512BW.
 * Source:      Intel SDM volume 2, VFMADD231PS. */
#include <immintrin.h>

#include "cpu/gemm/gemm_fma_avx512.h"
#include "cpu/gemm/gemm_simd.h"
#include "cpu/gemm/window_gemm_avx512.h"

static void pack_a(const amp_gemm_pack_a *p, void *dst) {
    simd_pack_a(p, dst, SIMD_A_EXACT);
}

static void tile(const amp_gemm_tile *t) {
    tile_any(t, true);
}

static void direct(const amp_gemm_direct *t) {
    direct_any(t, false);
}

static const amp_gemm_isa isa = {
    .a_f32 = true,
    .stores = true,
    .b_f32 = true,
    .max_rows = 14,
    .max_panels = AMP_GEMM_PANELS_28,
    .chunk_rows = 64,
    .group_panels = 1,
    .pass_blocks = 16,
    .pack_a = pack_a,
    .tile = tile,
    .finish = amp_gemm_finish_avx512,
    .relu = amp_gemm_relu_avx512,
    .end = simd_end_streams,
    .direct = direct,
};

amp_status amp_gemm_f32_avx512(const amp_gemm *g) {
    return amp_gemm_run(g, &isa);
}
