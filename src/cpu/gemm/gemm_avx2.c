/* bf16 GEMM on AVX2 and FMA: B up-converted in registers, or, for many rows, once in memory; over windows, as the
 * product of f32, both.
 *
 * Formula:     c = rne(a_k · b_k + c), fused, in ascending k; then act(alpha · c + beta · r + bias). A bf16 value is
 *              the upper half of an f32: the even element of a pair is shifted up, the odd one is masked.
 * Accumulator: f32, one per element of C, in a register over a K block and in f32 scratch between K blocks.
 * Error bound: |c - exact| ≤ K · 2⁻²⁴ · Σ|a_k b_k| to first order.
 * Denormals:   kept, as MXCSR says by default.
 * ISA:         AVX2, FMA.
 * Source:      Intel SDM volume 2, VFMADD231PS. */
#include <immintrin.h>

#include "cpu/gemm/gemm_finish_simd.h"
#include "cpu/gemm/gemm_fma_avx2.h"
#include "cpu/gemm/gemm_simd.h"

static void pack_a(const amp_gemm_pack_a *p, void *dst) {
    simd_pack_a(p, dst, SIMD_A_ROUNDED);
}

static void tile(const amp_gemm_tile *t) {
    tile_any(t, false);
}

void amp_gemm_finish_avx2(const amp_gemm_finish *f, const amp_gemm_place *place, const float *tile) {
    simd_finish(f, place, tile);
}

/* As signed integers: the negative zero is the least, the negative infinity -128, and NaN above that. */
static void relu_bf16(int16_t *x, int64_t count) {
    const __m256i zero = _mm256_set1_epi16(INT16_MIN), nan = _mm256_set1_epi16(-127);
    int64_t i = 0;
    for (; i + 16 <= count; i += 16) {
        const __m256i values = _mm256_loadu_si256((const __m256i *)(x + i));
        const __m256i below = _mm256_and_si256(_mm256_cmpgt_epi16(values, zero), _mm256_cmpgt_epi16(nan, values));
        _mm256_storeu_si256((__m256i *)(x + i), _mm256_andnot_si256(below, values));
    }
    for (; i < count; i++)
        if (x[i] > INT16_MIN && x[i] < -127) x[i] = 0;
}

/* NaN stays. */
static void relu_f32(float *x, int64_t count) {
    const __m256 zero = _mm256_setzero_ps();
    int64_t i = 0;
    for (; i + 8 <= count; i += 8) _mm256_storeu_ps(x + i, _mm256_max_ps(zero, _mm256_loadu_ps(x + i)));
    for (; i < count; i++) x[i] = x[i] < 0 ? 0 : x[i];
}

void amp_gemm_relu_avx2(void *c, amp_dtype dtype, int64_t rows, int64_t columns, int64_t stride) {
    for (int64_t i = 0; i < rows; i++) {
        if (dtype == AMP_F32)
            relu_f32((float *)c + i * stride, columns);
        else
            relu_bf16((int16_t *)c + i * stride, columns);
    }
}

static void tile_unpacked(const amp_gemm_tile *t) {
    tile_any(t, true);
}

/* Of a line's pairs the even elements become one line, the odd ones the next. */
static void unpack_b(const void *packed, float *to, int64_t blocks) {
    const char *from = packed;
    for (int64_t pair = 0; pair < blocks * AMP_GEMM_BLOCK / 2; pair++, from += 128, to += 2 * AMP_GEMM_BLOCK) {
#pragma GCC unroll 4
        for (int v = 0; v < 4; v++) {
            _mm256_store_ps(to + v * 8, load_b(from + v * 32, false, false));
            _mm256_store_ps(to + AMP_GEMM_BLOCK + v * 8, load_b(from + v * 32, true, false));
        }
    }
}

/* Each tile that unpacks B for itself pays 8 operations for 48 products of vectors: with many rows it is done once for
 * all of them. */
static const amp_gemm_isa unpacking = {
    AMP_GEMM_TILES_FMA_AVX2, .unpack_b = unpack_b, .pass_blocks = 32, .pack_a = pack_a, .tile = tile_unpacked,
};

static const amp_gemm_isa isa = {
    AMP_GEMM_TILES_FMA_AVX2,
    .many = &unpacking,
    .many_rows = 64,
    .pass_blocks = 16,
    .pack_a = pack_a,
    .tile = tile,
    .wide = &amp_gemm_isa_f32_avx2,
};

amp_status amp_gemm_bf16_avx2(const amp_gemm *g) {
    return amp_gemm_run(g, &isa);
}
