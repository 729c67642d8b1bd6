/* f32 GEMM on AVX2 and FMA.
 *
 * Formula:     c = rne(a_k · b_k + c), fused, in ascending k; then act(alpha · c + beta · r + bias).
 * Accumulator: f32, one per element of C, in a register over a K block and in f32 scratch between K blocks.
 * Error bound: |c - exact| ≤ K · 2⁻²⁴ · Σ|a_k b_k| to first order.
 * Denormals:   kept, as MXCSR says by default.
 * ISA:         AVX2, FMA.
 * Source:      Intel SDM volume 2, VFMADD231PS. */
#include <immintrin.h>

#include "cpu/gemm/gemm_fma_avx2.h"
#include "cpu/gemm/gemm_simd.h"
#include "cpu/gemm/window_gemm_avx2.h"

static void pack_a(const amp_gemm_pack_a *p, void *dst) {
    simd_pack_a(p, dst, SIMD_A_EXACT);
}

static void tile(const amp_gemm_tile *t) {
    tile_any(t, true);
}

static void direct(const amp_gemm_direct *t) {
    direct_any(t);
}

/* K in passes: 1024, for B's strips come from L2 in any case, and C is not put by and read again. Direct: of more K, a
 * panel of B leaves L2 between six rows and the next. */
const amp_gemm_isa amp_gemm_isa_f32_avx2 = {
    AMP_GEMM_TILES_FMA_AVX2,    .b_f32 = true,    .pass_blocks = 32, .pack_a = pack_a, .tile = tile,
    .relu = amp_gemm_relu_avx2, .direct = direct, .direct_k = 2304,
};

amp_status amp_gemm_f32_avx2(const amp_gemm *g) {
    return amp_gemm_run(g, &amp_gemm_isa_f32_avx2);
}
