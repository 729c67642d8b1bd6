/* Conversions between f32, bf16 and f16, 16 elements a step; the last step is masked.
 *
 * Formula:     that of convert_ref.c, and its bits. bf16 is rounded by integers, f16 by VCVTPS2PH, whose rounding
 *              comes from the instruction and not from MXCSR.
 * Accumulator: none.
 * Error bound: half an ulp of the result.
 * Denormals:   kept: neither integers nor VCVTPS2PH, VCVTPH2PS heed FTZ or DAZ.
 * ISA:         AVX512F, AVX512BW.
 * Source:      Intel SDM volume 2, VCVTPS2PH. */
#include <immintrin.h>

#include "cpu/registry/kernels.h"

typedef __m512 load_function(const void *src, __mmask16 mask);
typedef void store_function(void *dst, __mmask16 mask, __m512 value);

static inline __m512 load_f32(const void *src, __mmask16 mask) {
    return _mm512_maskz_loadu_ps(mask, src);
}

static inline __m512 load_bf16(const void *src, __mmask16 mask) {
    const __m512i bits = _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, src)), 16);
    const __m512 value = _mm512_castsi512_ps(bits);
    const __mmask16 nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
    return _mm512_castsi512_ps(_mm512_mask_or_epi32(bits, nan, bits, _mm512_set1_epi32(0x400000)));
}

static inline __m512 load_f16(const void *src, __mmask16 mask) {
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, src));
}

static inline void store_f32(void *dst, __mmask16 mask, __m512 value) {
    _mm512_mask_storeu_ps(dst, mask, value);
}

static inline void store_bf16(void *dst, __mmask16 mask, __m512 value) {
    const __m512i bits = _mm512_castps_si512(value);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i sum = _mm512_add_epi32(_mm512_add_epi32(bits, odd), _mm512_set1_epi32(0x7fff));
    const __mmask16 nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
    const __m512i rounded = _mm512_mask_or_epi32(sum, nan, bits, _mm512_set1_epi32(0x400000));
    _mm256_mask_storeu_epi16(dst, mask, _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16)));
}

static inline void store_f16(void *dst, __mmask16 mask, __m512 value) {
    _mm256_mask_storeu_epi16(dst, mask, _mm512_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

/* Always inlined, so that the functions given are inlined too, and full masks vanish. */
__attribute__((always_inline)) static inline void convert(char *dst, int64_t dst_size, store_function *store,
                                                          const char *src, int64_t src_size, load_function *load,
                                                          int64_t n) {
    const __mmask16 all = 0xffff;
    int64_t i = 0;
    for (; i + 32 <= n; i += 32) {
        const __m512 low = load(src + i * src_size, all), high = load(src + (i + 16) * src_size, all);
        store(dst + i * dst_size, all, low);
        store(dst + (i + 16) * dst_size, all, high);
    }
    for (; i < n; i += 16) {
        const __mmask16 mask = n - i >= 16 ? all : (__mmask16)((1u << (n - i)) - 1);
        store(dst + i * dst_size, mask, load(src + i * src_size, mask));
    }
}

void amp_convert_f32_bf16_avx512(void *dst, const void *src, int64_t n) {
    convert(dst, 2, store_bf16, src, 4, load_f32, n);
}

void amp_convert_bf16_f32_avx512(void *dst, const void *src, int64_t n) {
    convert(dst, 4, store_f32, src, 2, load_bf16, n);
}

void amp_convert_f32_f16_avx512(void *dst, const void *src, int64_t n) {
    convert(dst, 2, store_f16, src, 4, load_f32, n);
}

void amp_convert_f16_f32_avx512(void *dst, const void *src, int64_t n) {
    convert(dst, 4, store_f32, src, 2, load_f16, n);
}

void amp_convert_bf16_f16_avx512(void *dst, const void *src, int64_t n) {
    convert(dst, 2, store_f16, src, 2, load_bf16, n);
}

void amp_convert_f16_bf16_avx512(void *dst, const void *src, int64_t n) {
    convert(dst, 2, store_bf16, src, 2, load_f16, n);
}
