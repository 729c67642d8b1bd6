/* Packing of GEMM operands and finishing of tiles on AVX-512.
 *
 * Formula:     moves and conversions; f32 and f16 are rounded to bf16, nearest even, in integer arithmetic, so that
 *              denormals and NaN payloads come out as in the reference; the activations stand in gemm_simd.h.
 * Accumulator: none; finishing is f32.
 * Error bound: packing equals the reference bit for bit.
 * ISA:         AVX512F, AVX512BW, F16C.
 * Source:      none beyond the packed format's definition (gemm_isa.h). */
#include <immintrin.h>

#include "cpu/gemm/gemm_finish_simd.h"
#include "cpu/gemm/gemm_isa.h"
#include "cpu/gemm/gemm_transpose_avx512.h"

void amp_gemm_finish_avx512(const amp_gemm_finish *f, const amp_gemm_place *place, const float *tile) {
    simd_finish(f, place, tile);
}

/* Sixteen values from element `i`; the bf16 value is in the upper half of each lane. */
static inline __attribute__((always_inline)) __m512i load_high(const void *src, amp_dtype dtype, int64_t i) {
    if (dtype == AMP_F32) return (__m512i)simd_round_bf16(*(const simd_f_any *)((const float *)src + i));
    const __m256i h = _mm256_loadu_si256((const __m256i *)((const uint16_t *)src + i));
    if (dtype == AMP_F16) return (__m512i)simd_round_bf16((simd_f)_mm512_cvtph_ps(h));
    return _mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16);
}

/* Thirty-two values from element `i`, as bf16 in order. */
static inline __attribute__((always_inline)) __m512i load_row(const void *src, amp_dtype dtype, int64_t i,
                                                              __m512i odd_words) {
    if (dtype == AMP_BF16) return _mm512_loadu_si512((const uint16_t *)src + i);
    return _mm512_permutex2var_epi16(load_high(src, dtype, i), odd_words, load_high(src, dtype, i + 16));
}

/* Columns lie 32 consecutive k each: transpose pairs of k. */
static inline __attribute__((always_inline)) void pack_along_k(uint16_t *dst, const void *src, amp_dtype dtype,
                                                               int64_t stride_n) {
    uint16_t words[32];
    for (int i = 0; i < 32; i++) words[i] = (uint16_t)(2 * i + 1);
    const __m512i odd_words = _mm512_loadu_si512(words);
    for (int half = 0; half < 2; half++) {
        __m512i r[16];
#pragma GCC unroll 16
        for (int n = 0; n < 16; n++) r[n] = load_row(src, dtype, (half * 16 + n) * stride_n, odd_words);
        transpose_16(r);
#pragma GCC unroll 16
        for (int pair = 0; pair < 16; pair++) _mm512_store_si512(dst + pair * 64 + half * 32, r[pair]);
    }
}

/* Rows lie 32 consecutive n each: interleave two of them. */
static inline __attribute__((always_inline)) void pack_along_n(uint16_t *dst, const void *src, amp_dtype dtype,
                                                               int64_t stride_k) {
    for (int pair = 0; pair < 16; pair++) {
        for (int half = 0; half < 2; half++) {
            const __m512i even = load_high(src, dtype, 2 * pair * stride_k + half * 16);
            const __m512i odd = load_high(src, dtype, (2 * pair + 1) * stride_k + half * 16);
            _mm512_store_si512(dst + pair * 64 + half * 32,
                               _mm512_mask_blend_epi16(0xaaaaaaaau, _mm512_srli_epi32(even, 16), odd));
        }
    }
}

#include "cpu/gemm/gemm_pack_b_simd.h"

void amp_gemm_pack_bf16_avx512(uint16_t *dst, const void *src, amp_dtype dtype, int columns, int ks, int64_t stride_n,
                               int64_t stride_k) {
    pack_any(dst, src, dtype, columns, ks, stride_n, stride_k);
}
