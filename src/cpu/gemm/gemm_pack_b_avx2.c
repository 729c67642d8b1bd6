/* Packing of GEMM's right-hand operand on AVX2.
 *
 * Formula:     moves and conversions; f32 and f16 are rounded to bf16, nearest even, in integer arithmetic, so that
 *              denormals and NaN payloads come out as in the reference.
 * Accumulator: none.
 * Error bound: equals the reference bit for bit.
 * ISA:         AVX2, F16C.
 * Source:      none beyond the packed format's definition (gemm_isa.h). */
#include <immintrin.h>

#include "cpu/gemm/gemm_isa.h"
#include "cpu/gemm/gemm_simd.h"

/* Eight values from element `i`; the bf16 value is in the upper half of each lane. */
static inline __attribute__((always_inline)) __m256i load_high(const void *src, amp_dtype dtype, int64_t i) {
    if (dtype == AMP_BF16)
        return _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)((const uint16_t *)src + i))),
                                 16);
    const __m256i u = dtype == AMP_F32
                          ? _mm256_loadu_si256((const __m256i *)((const float *)src + i))
                          : (__m256i)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)((const uint16_t *)src + i)));
    const __m256i magnitude = _mm256_and_si256(u, _mm256_set1_epi32(0x7fffffff));
    const __m256i nan = _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(0x7f800000));
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    const __m256i even = _mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7fff)), odd);
    return _mm256_blendv_epi8(even, _mm256_or_si256(u, _mm256_set1_epi32(0x400000)), nan);
}

/* Pairs of k, in 32 bits, of two vectors of eight columns at k and k + 1. */
static inline __attribute__((always_inline)) __m256i pair_up(__m256i even, __m256i odd) {
    return _mm256_blend_epi16(_mm256_srli_epi32(even, 16), odd, 0xaa);
}

/* Sixteen values from element `i` along k, as eight pairs in order. */
static inline __attribute__((always_inline)) __m256i load_pairs(const void *src, amp_dtype dtype, int64_t i) {
    if (dtype == AMP_BF16) return _mm256_loadu_si256((const __m256i *)((const uint16_t *)src + i));
    const __m256i low = _mm256_srli_epi32(load_high(src, dtype, i), 16);
    const __m256i high = _mm256_srli_epi32(load_high(src, dtype, i + 8), 16);
    return _mm256_permute4x64_epi64(_mm256_packus_epi32(low, high), 0xd8);
}

/* Transposes 8×8 values of 32 bits. */
static inline __attribute__((always_inline)) void transpose(__m256i r[8]) {
    __m256i t[8];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        t[2 * i] = _mm256_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm256_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        r[4 * i] = _mm256_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
        r[4 * i + 1] = _mm256_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
        r[4 * i + 2] = _mm256_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
        r[4 * i + 3] = _mm256_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        t[i] = _mm256_permute2x128_si256(r[i], r[4 + i], 0x20);
        t[4 + i] = _mm256_permute2x128_si256(r[i], r[4 + i], 0x31);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) r[i] = t[i];
}

static inline __attribute__((always_inline)) void pack_along_k(uint16_t *dst, const void *src, amp_dtype dtype,
                                                               int64_t stride_n) {
    for (int eight = 0; eight < 8; eight++) {
        const int n0 = eight / 2 * 8, k0 = eight % 2 * 16;
        __m256i r[8];
#pragma GCC unroll 8
        for (int n = 0; n < 8; n++) r[n] = load_pairs(src, dtype, (n0 + n) * stride_n + k0);
        transpose(r);
#pragma GCC unroll 8
        for (int pair = 0; pair < 8; pair++)
            _mm256_store_si256((__m256i *)(dst + (k0 / 2 + pair) * 64 + n0 * 2), r[pair]);
    }
}

static inline __attribute__((always_inline)) void pack_along_n(uint16_t *dst, const void *src, amp_dtype dtype,
                                                               int64_t stride_k) {
    for (int pair = 0; pair < 16; pair++) {
        for (int n = 0; n < 32; n += 8) {
            const __m256i even = load_high(src, dtype, 2 * pair * stride_k + n);
            const __m256i odd = load_high(src, dtype, (2 * pair + 1) * stride_k + n);
            _mm256_store_si256((__m256i *)(dst + pair * 64 + n * 2), pair_up(even, odd));
        }
    }
}

#include "cpu/gemm/gemm_pack_b_simd.h"

void amp_gemm_pack_bf16_avx2(uint16_t *dst, const void *src, amp_dtype dtype, int columns, int ks, int64_t stride_n,
                             int64_t stride_k) {
    pack_any(dst, src, dtype, columns, ks, stride_n, stride_k);
}
