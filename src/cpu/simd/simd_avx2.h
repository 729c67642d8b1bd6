/* Vectors of 8 floats for the kernel bodies (vmath_body.h and its kin); see simd_ref.h for what each name means. */
#ifndef AMP_CPU_SIMD_AVX2_H
#define AMP_CPU_SIMD_AVX2_H

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define SIMD_ISA avx2
enum { VL = 8 };

typedef __m256 vf;
typedef int32_t vi __attribute__((vector_size(32)));
typedef uint32_t vu __attribute__((vector_size(32)));
typedef __m256 vm; /* all bits of a lane set, or none */

static inline vf v_set1(float x) {
    return _mm256_set1_ps(x);
}
static inline vf v_load(const float *p) {
    return _mm256_loadu_ps(p);
}
static inline void v_store(float *p, vf x) {
    _mm256_storeu_ps(p, x);
}
static inline __m256i v_first(int64_t n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
static inline vf v_load_first(const float *p, int64_t n) {
    return _mm256_maskload_ps(p, v_first(n));
}
static inline void v_store_first(float *p, vf x, int64_t n) {
    _mm256_maskstore_ps(p, v_first(n), x);
}
static inline vf v_gather_lanes(const float *in, __m256i index, __m256i lanes) {
    const __m256i inside = _mm256_andnot_si256(_mm256_srai_epi32(index, 31), lanes);
    return _mm256_mask_i32gather_ps(_mm256_setzero_ps(), in, index, _mm256_castsi256_ps(inside), 4);
}
static inline vf v_gather(const float *in, const int32_t *index) {
    return v_gather_lanes(in, _mm256_loadu_si256((const __m256i *)(const void *)index), _mm256_set1_epi32(-1));
}
static inline vf v_gather_first(const float *in, const int32_t *index, int64_t n) {
    return v_gather_lanes(in, _mm256_maskload_epi32(index, v_first(n)), v_first(n));
}
static inline vf v_lookup_16(const float *table, vi index) {
    const __m256i low = (__m256i)index;
    const vf a = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table), low);
    const vf b = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table + 8), low);
    return _mm256_blendv_ps(a, b, _mm256_castsi256_ps(_mm256_slli_epi32(low, 28)));
}
static inline vf v_widen_bf16(__m128i x) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16));
}
static inline vf v_load_bf16(const uint16_t *p) {
    return v_widen_bf16(_mm_loadu_si128((const __m128i *)(const void *)p));
}
static inline vf v_load_bf16_first(const uint16_t *p, int64_t n) {
    uint16_t first[8] = {0};
    memcpy(first, p, (size_t)n * sizeof *first);
    return v_load_bf16(first);
}
static inline __m128i v_narrow_bf16(vf x) {
    const __m256i bits = _mm256_castps_si256(x), high = _mm256_srli_epi32(bits, 16);
    const __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
    const __m256i sum = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    const __m256i quiet = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    const __m256i words = _mm256_blendv_epi8(_mm256_srli_epi32(sum, 16), quiet, nan);
    return _mm_packus_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
}
static inline void v_store_bf16(uint16_t *p, vf x) {
    _mm_storeu_si128((__m128i *)(void *)p, v_narrow_bf16(x));
}
static inline void v_store_bf16_first(uint16_t *p, vf x, int64_t n) {
    uint16_t all[8];
    v_store_bf16(all, x);
    memcpy(p, all, (size_t)n * sizeof *all);
}
static inline void v_load_bf16_pair(const uint16_t *p, vf *even, vf *odd) {
    const __m256i both = _mm256_loadu_si256((const __m256i *)(const void *)p);
    *even = _mm256_castsi256_ps(_mm256_slli_epi32(both, 16));
    *odd = _mm256_castsi256_ps(_mm256_and_si256(both, _mm256_set1_epi32((int32_t)0xffff0000u)));
}
/* The rounded values in the upper halves. */
static inline __m256i v_rounded_bits(vf x) {
    const __m256i bits = _mm256_castps_si256(x);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i sum = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    return _mm256_blendv_epi8(sum, quiet, _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)));
}
static inline void v_store_bf16_pair(uint16_t *p, vf even, vf odd) {
    const __m256i low = _mm256_srli_epi32(v_rounded_bits(even), 16);
    _mm256_storeu_si256((__m256i *)(void *)p, _mm256_blend_epi16(low, v_rounded_bits(odd), 0xaa));
}
static inline void v_cut_bf16(uint16_t *p, vf x) {
    const __m256i words = _mm256_srli_epi32(_mm256_castps_si256(x), 16);
    const __m128i low = _mm256_castsi256_si128(words), high = _mm256_extracti128_si256(words, 1);
    _mm_storeu_si128((__m128i *)(void *)p, _mm_packus_epi32(low, high));
}
static inline void v_cut_bf16_first(uint16_t *p, vf x, int64_t n) {
    uint16_t all[8];
    v_cut_bf16(all, x);
    memcpy(p, all, (size_t)n * sizeof *all);
}
static inline void v_cut_bf16_pair(uint16_t *p, vf even, vf odd) {
    const __m256i low = _mm256_srli_epi32(_mm256_castps_si256(even), 16);
    _mm256_storeu_si256((__m256i *)(void *)p, _mm256_blend_epi16(low, _mm256_castps_si256(odd), 0xaa));
}
static inline vf v_load_f16(const uint16_t *p) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}
static inline vf v_load_f16_first(const uint16_t *p, int64_t n) {
    uint16_t first[8] = {0};
    memcpy(first, p, (size_t)n * sizeof *first);
    return v_load_f16(first);
}
static inline void v_store_f16(uint16_t *p, vf x) {
    _mm_storeu_si128((__m128i *)(void *)p, _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}
static inline void v_store_f16_first(uint16_t *p, vf x, int64_t n) {
    uint16_t all[8];
    v_store_f16(all, x);
    memcpy(p, all, (size_t)n * sizeof *all);
}
static inline vf v_fma(vf a, vf b, vf c) {
    return _mm256_fmadd_ps(a, b, c);
}
static inline vf v_max(vf a, vf b) {
    return _mm256_max_ps(a, b);
}
static inline vf v_min(vf a, vf b) {
    return _mm256_min_ps(a, b);
}
static inline vf v_sqrt(vf x) {
    return _mm256_sqrt_ps(x);
}
static inline vf v_floor(vf x) {
    return _mm256_round_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}
static inline vf v_ceil(vf x) {
    return _mm256_round_ps(x, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC);
}
static inline vf v_trunc(vf x) {
    return _mm256_round_ps(x, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
}
static inline vf v_round(vf x) {
    return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
static inline void v_store_mask(uint8_t *p, vm m) {
    const __m256i lanes = _mm256_castps_si256(m);
    const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256(lanes, 1));
    const __m128i bytes = _mm_and_si128(_mm_packs_epi16(words, words), _mm_set1_epi8(1));
    memcpy(p, &bytes, 8);
}
static inline bool v_any(vm m) {
    return _mm256_movemask_ps(m) != 0;
}
static inline vi v_bits(vf x) {
    return (vi)_mm256_castps_si256(x);
}
static inline vf v_from_bits(vi x) {
    return _mm256_castsi256_ps((__m256i)x);
}
static inline vf v_from_int(vi x) {
    return _mm256_cvtepi32_ps((__m256i)x);
}
static inline vi v_set1_int(int32_t x) {
    return (vi)_mm256_set1_epi32(x);
}
static inline vu v_lanes(void) {
    return (vu)_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
}
static inline vu v_set1_unsigned(uint32_t x) {
    return (vu)_mm256_set1_epi32((int32_t)x);
}
static inline vu v_mul_wide(vu a, vu b, vu *low) {
    const __m256i even = _mm256_mul_epu32((__m256i)a, (__m256i)b);
    const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64((__m256i)a, 32), _mm256_srli_epi64((__m256i)b, 32));
    *low = (vu)_mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
    return (vu)_mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa);
}
static inline vm v_le_unsigned(vu a, vu b) {
    return _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_max_epu32((__m256i)a, (__m256i)b), (__m256i)b));
}
static inline vf v_abs(vf x) {
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x);
}
static inline vm v_lt(vf a, vf b) {
    return _mm256_cmp_ps(a, b, _CMP_LT_OQ);
}
static inline vm v_eq(vf a, vf b) {
    return _mm256_cmp_ps(a, b, _CMP_EQ_OQ);
}
static inline vm v_unordered(vf a, vf b) {
    return _mm256_cmp_ps(a, b, _CMP_UNORD_Q);
}
static inline vf v_select(vm m, vf yes, vf no) {
    return _mm256_blendv_ps(no, yes, m);
}
/* 2^n in two halves, each in the normal range, so that the product rounds once. */
static inline vf v_scale2(vf x, vf n) {
    const vi k = (vi)_mm256_cvtps_epi32(n), half = k >> 1;
    return x * v_from_bits((half + 127) << 23) * v_from_bits((k - half + 127) << 23);
}
static inline vf v_keep_first(vf x, int64_t n, vf rest) {
    return _mm256_blendv_ps(rest, x, _mm256_castsi256_ps(v_first(n)));
}

static inline float v_sum(vf x) {
    const __m128 q = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    const __m128 d = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(d, _mm_shuffle_ps(d, d, 1)));
}
static inline float v_max_lane(vf x) {
    const __m128 q = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    const __m128 d = _mm_max_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_max_ss(d, _mm_shuffle_ps(d, d, 1)));
}

/* acc[i] += x[i], widened. */
static inline void v_add_to_doubles(double *acc, vf x) {
    const __m256d low = _mm256_cvtps_pd(_mm256_castps256_ps128(x));
    const __m256d high = _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1));
    _mm256_storeu_pd(acc, _mm256_add_pd(_mm256_loadu_pd(acc), low));
    _mm256_storeu_pd(acc + 4, _mm256_add_pd(_mm256_loadu_pd(acc + 4), high));
}

#endif /* AMP_CPU_SIMD_AVX2_H */
