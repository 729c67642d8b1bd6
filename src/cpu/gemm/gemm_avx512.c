/* bf16 GEMM on AVX-512F: B up-converted in registers, f32 FMA.
 *
 * Formula:     c = rne(a_k · b_k + c), fused, in ascending k; then act(alpha · c + beta · r + bias). A bf16 value is
 *              the upper half of an f32: the even element of a pair is shifted up, the odd one is masked.
 * Accumulator: f32, one per element of C, in a register over a K block and in f32 scratch between K blocks.
 * Error bound: |c - exact| ≤ K · 2⁻²⁴ · Σ|a_k b_k| to first order.
 * Denormals:   kept, as MXCSR says by default.
 * ISA:         AVX512F, AVX512BW.
 * Source:      Intel SDM volume 2, VFMADD231PS. */
#include <immintrin.h>

#include "cpu/gemm/gemm_fma_avx512.h"
#include "cpu/gemm/gemm_simd.h"
#include "cpu/simd/relu_avx512.h"

static void pack_a(const amp_gemm_pack_a *p, void *dst) {
    simd_pack_a(p, dst, SIMD_A_ROUNDED);
}

static void tile(const amp_gemm_tile *t) {
    tile_any(t, false);
}

void amp_gemm_relu_avx512(void *c, amp_dtype dtype, int64_t rows, int64_t columns, int64_t stride) {
    if (dtype == AMP_BF16)
        relu_rows(c, rows, columns, stride * 2, true);
    else
        relu_rows(c, rows, columns, stride * 4, false);
}

static const amp_gemm_isa isa = {
    .a_f32 = true,
    .stores = true,
    .max_rows = 14,
    .max_panels = AMP_GEMM_PANELS_28,
    .chunk_rows = 64,
    .group_panels = 1,
    .pass_blocks = 32,
    .pack_a = pack_a,
    .tile = tile,
    .finish = amp_gemm_finish_avx512,
    .relu = amp_gemm_relu_avx512,
    .end = simd_end_streams,
};

amp_status amp_gemm_bf16_avx512(const amp_gemm *g) {
    return amp_gemm_run(g, &isa);
}
