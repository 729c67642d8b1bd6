/* Conversions between f32, bf16 and f16, 8 or 16 elements a step; what is left over goes through the scalar
 * functions.
 *
 * Formula:     that of convert_ref.c, and its bits. bf16 is rounded by integers, f16 by VCVTPS2PH, whose rounding
 *              comes from the instruction and not from MXCSR.
 * Accumulator: none.
 * Error bound: half an ulp of the result.
 * Denormals:   kept: neither integers nor VCVTPS2PH, VCVTPH2PS heed FTZ or DAZ.
 * ISA:         AVX2, F16C.
 * Source:      Intel SDM volume 2, VCVTPS2PH. */
#include <immintrin.h>

#include "cpu/registry/kernels.h"

typedef __m256 load_function(const void *src);
typedef void store_function(void *dst, __m256 value);
typedef float load_one_function(const void *src);
typedef void store_one_function(void *dst, float value);

static inline __m256 load_f32(const void *src) {
    return _mm256_loadu_ps(src);
}

static inline __m256 load_bf16(const void *src) {
    const __m256i wide = _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(src)), 16);
    const __m256 value = _mm256_castsi256_ps(wide), nan = _mm256_cmp_ps(value, value, _CMP_UNORD_Q);
    return _mm256_or_ps(value, _mm256_and_ps(nan, _mm256_castsi256_ps(_mm256_set1_epi32(0x400000))));
}

static inline __m256 load_f16(const void *src) {
    return _mm256_cvtph_ps(_mm_loadu_si128(src));
}

static inline void store_f32(void *dst, __m256 value) {
    _mm256_storeu_ps(dst, value);
}

/* bf16 in the low half of each of 8 words. */
static inline __m256i round_bf16(__m256 value) {
    const __m256i bits = _mm256_castps_si256(value);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i sum = _mm256_add_epi32(_mm256_add_epi32(bits, odd), _mm256_set1_epi32(0x7fff));
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(value, value, _CMP_UNORD_Q));
    return _mm256_srli_epi32(_mm256_blendv_epi8(sum, quiet, nan), 16);
}

static inline void store_bf16(void *dst, __m256 value) {
    const __m256i words = round_bf16(value);
    _mm_storeu_si128(dst, _mm_packus_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
}

static inline void store_f16(void *dst, __m256 value) {
    _mm_storeu_si128(dst, _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

static inline float load_one_f32(const void *src) {
    return *(const amp_f32_unaligned *)src;
}

static inline float load_one_bf16(const void *src) {
    return amp_f32_from_bf16(*(const amp_u16_unaligned *)src);
}

static inline float load_one_f16(const void *src) {
    return amp_f32_from_f16(*(const amp_u16_unaligned *)src);
}

static inline void store_one_f32(void *dst, float value) {
    *(amp_f32_unaligned *)dst = value;
}

static inline void store_one_bf16(void *dst, float value) {
    *(amp_u16_unaligned *)dst = amp_bf16_from_f32(value);
}

static inline void store_one_f16(void *dst, float value) {
    *(amp_u16_unaligned *)dst = amp_f16_from_f32(value);
}

/* Always inlined, so that the functions given are inlined too. */
__attribute__((always_inline)) static inline void convert(char *dst, int64_t dst_size, store_function *store,
                                                          store_one_function *store_one, const char *src,
                                                          int64_t src_size, load_function *load,
                                                          load_one_function *load_one, int64_t n) {
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        const __m256 low = load(src + i * src_size), high = load(src + (i + 8) * src_size);
        store(dst + i * dst_size, low);
        store(dst + (i + 8) * dst_size, high);
    }
    for (; i + 8 <= n; i += 8) store(dst + i * dst_size, load(src + i * src_size));
    for (; i < n; i++) store_one(dst + i * dst_size, load_one(src + i * src_size));
}

void amp_convert_f32_bf16_avx2(void *dst, const void *src, int64_t n) {
    convert(dst, 2, store_bf16, store_one_bf16, src, 4, load_f32, load_one_f32, n);
}

void amp_convert_bf16_f32_avx2(void *dst, const void *src, int64_t n) {
    convert(dst, 4, store_f32, store_one_f32, src, 2, load_bf16, load_one_bf16, n);
}

void amp_convert_f32_f16_avx2(void *dst, const void *src, int64_t n) {
    convert(dst, 2, store_f16, store_one_f16, src, 4, load_f32, load_one_f32, n);
}

void amp_convert_f16_f32_avx2(void *dst, const void *src, int64_t n) {
    convert(dst, 4, store_f32, store_one_f32, src, 2, load_f16, load_one_f16, n);
}

void amp_convert_bf16_f16_avx2(void *dst, const void *src, int64_t n) {
    convert(dst, 2, store_f16, store_one_f16, src, 2, load_bf16, load_one_bf16, n);
}

void amp_convert_f16_bf16_avx2(void *dst, const void *src, int64_t n) {
    convert(dst, 2, store_bf16, store_one_bf16, src, 2, load_f16, load_one_f16, n);
}
