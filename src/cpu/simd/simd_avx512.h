/* Vectors of 16 floats for the kernel bodies (vmath_body.h and its kin); see simd_ref.h for what each name means. */
#ifndef AMP_CPU_SIMD_AVX512_H
#define AMP_CPU_SIMD_AVX512_H

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __AVX512BF16__
#define SIMD_ISA avx512bf16
#else
#define SIMD_ISA avx512
#endif
enum { VL = 16 };

typedef __m512 vf;
typedef int32_t vi __attribute__((vector_size(64)));
typedef uint32_t vu __attribute__((vector_size(64)));
typedef __mmask16 vm;

static inline vf v_set1(float x) {
    return _mm512_set1_ps(x);
}
static inline vf v_load(const float *p) {
    return _mm512_loadu_ps(p);
}
static inline void v_store(float *p, vf x) {
    _mm512_storeu_ps(p, x);
}
static inline vm v_first(int64_t n) {
    return (vm)((1u << n) - 1u);
}
static inline vf v_load_first(const float *p, int64_t n) {
    return _mm512_maskz_loadu_ps(v_first(n), p);
}
static inline void v_store_first(float *p, vf x, int64_t n) {
    _mm512_mask_storeu_ps(p, v_first(n), x);
}
static inline vf v_gather_lanes(const float *in, __m512i index) {
    const __mmask16 inside = _mm512_cmpge_epi32_mask(index, _mm512_setzero_si512());
    return _mm512_mask_i32gather_ps(_mm512_setzero_ps(), inside, index, in, 4);
}
static inline vf v_gather(const float *in, const int32_t *index) {
    return v_gather_lanes(in, _mm512_loadu_si512(index));
}
static inline vf v_gather_first(const float *in, const int32_t *index, int64_t n) {
    return v_gather_lanes(in, _mm512_mask_loadu_epi32(_mm512_set1_epi32(-1), v_first(n), index));
}
static inline vf v_lookup_16(const float *table, vi index) {
    return _mm512_permutexvar_ps((__m512i)index, _mm512_loadu_ps(table));
}
static inline vf v_lookup_32(const float *table, vi index) {
    return _mm512_permutex2var_ps(_mm512_loadu_ps(table), (__m512i)index, _mm512_loadu_ps(table + 16));
}
static inline vf v_load_bf16(const uint16_t *p) {
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
static inline vf v_load_bf16_first(const uint16_t *p, int64_t n) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(v_first(n), p)), 16));
}
static inline __m256i v_round_bf16(vf x) {
    const __m512i bits = _mm512_castps_si512(x), high = _mm512_srli_epi32(bits, 16);
    const __m512i odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
    const __m512i sum = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    const __m512i quiet = _mm512_or_si512(high, _mm512_set1_epi32(0x40));
    const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    return _mm512_cvtepi32_epi16(_mm512_mask_blend_epi32(nan, _mm512_srli_epi32(sum, 16), quiet));
}
#ifdef __AVX512BF16__
/* VCVTNEPS2BF16 takes subnormals for zeros (Intel SDM volume 2C): they are rounded by integers, out of the way but not
 * by a call, which would cost the loop around it its registers. */
enum { SUBNORMAL = 0x20 };
static inline __m256i v_narrow_bf16(vf x) {
    if (__builtin_expect(_mm512_fpclass_ps_mask(x, SUBNORMAL), 0)) return v_round_bf16(x);
    return (__m256i)_mm512_cvtneps_pbh(x);
}
#else
static inline __m256i v_narrow_bf16(vf x) {
    return v_round_bf16(x);
}
#endif
static inline void v_store_bf16(uint16_t *p, vf x) {
    _mm256_storeu_si256((__m256i *)(void *)p, v_narrow_bf16(x));
}
static inline void v_store_bf16_first(uint16_t *p, vf x, int64_t n) {
    _mm256_mask_storeu_epi16(p, (__mmask16)((1u << n) - 1u), v_narrow_bf16(x));
}
static inline void v_load_bf16_pair(const uint16_t *p, vf *even, vf *odd) {
    const __m512i both = _mm512_loadu_si512(p);
    *even = _mm512_castsi512_ps(_mm512_slli_epi32(both, 16));
    *odd = _mm512_castsi512_ps(_mm512_and_si512(both, _mm512_set1_epi32((int32_t)0xffff0000u)));
}
/* The rounded values in the upper halves. */
static inline __m512i v_rounded_bits(vf x) {
    const __m512i bits = _mm512_castps_si512(x);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i sum = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    return _mm512_mask_or_epi32(sum, nan, bits, _mm512_set1_epi32(0x400000));
}
static inline __m512i v_round_bf16_pair(vf even, vf odd) {
    return _mm512_mask_blend_epi16(0xaaaaaaaau, _mm512_srli_epi32(v_rounded_bits(even), 16), v_rounded_bits(odd));
}
static inline void v_store_bf16_pair(uint16_t *p, vf even, vf odd) {
#ifdef __AVX512BF16__
    const __mmask16 a = _mm512_fpclass_ps_mask(even, SUBNORMAL), b = _mm512_fpclass_ps_mask(odd, SUBNORMAL);
    if (__builtin_expect(_kortestz_mask16_u8(a, b), 1)) {
        static const uint16_t interleaved[] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                               8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
        const __m512i order = _mm512_loadu_si512(interleaved);
        const __m512i halves = (__m512i)_mm512_cvtne2ps_pbh(odd, even); /* the even ones, then the odd ones */
        _mm512_storeu_si512(p, _mm512_permutexvar_epi16(order, halves));
        return;
    }
#endif
    _mm512_storeu_si512(p, v_round_bf16_pair(even, odd));
}
static inline __m256i v_upper_halves(vf x) {
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_castps_si512(x), 16));
}
static inline void v_cut_bf16(uint16_t *p, vf x) {
    _mm256_storeu_si256((__m256i *)(void *)p, v_upper_halves(x));
}
static inline void v_cut_bf16_first(uint16_t *p, vf x, int64_t n) {
    _mm256_mask_storeu_epi16(p, v_first(n), v_upper_halves(x));
}
static inline void v_cut_bf16_pair(uint16_t *p, vf even, vf odd) {
    const __m512i low = _mm512_srli_epi32(_mm512_castps_si512(even), 16);
    _mm512_storeu_si512(p, _mm512_mask_blend_epi16(0xaaaaaaaau, low, _mm512_castps_si512(odd)));
}
static inline vf v_load_f16(const uint16_t *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}
static inline vf v_load_f16_first(const uint16_t *p, int64_t n) {
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(v_first(n), p));
}
static inline void v_store_f16(uint16_t *p, vf x) {
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}
static inline void v_store_f16_first(uint16_t *p, vf x, int64_t n) {
    _mm256_mask_storeu_epi16(p, v_first(n), _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}
static inline vf v_fma(vf a, vf b, vf c) {
    return _mm512_fmadd_ps(a, b, c);
}
static inline vf v_max(vf a, vf b) {
    return _mm512_max_ps(a, b);
}
static inline vf v_min(vf a, vf b) {
    return _mm512_min_ps(a, b);
}
static inline vf v_sqrt(vf x) {
    return _mm512_sqrt_ps(x);
}
static inline vf v_floor(vf x) {
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}
static inline vf v_ceil(vf x) {
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC);
}
static inline vf v_trunc(vf x) {
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
}
static inline vf v_round(vf x) {
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
static inline void v_store_mask(uint8_t *p, vm m) {
    _mm_storeu_si128((__m128i *)(void *)p, _mm_maskz_set1_epi8(m, 1));
}
static inline bool v_any(vm m) {
    return m != 0;
}
static inline vi v_bits(vf x) {
    return (vi)_mm512_castps_si512(x);
}
static inline vf v_from_bits(vi x) {
    return _mm512_castsi512_ps((__m512i)x);
}
static inline vf v_from_int(vi x) {
    return _mm512_cvtepi32_ps((__m512i)x);
}
static inline vi v_set1_int(int32_t x) {
    return (vi)_mm512_set1_epi32(x);
}
static inline vu v_lanes(void) {
    return (vu)_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}
static inline vu v_set1_unsigned(uint32_t x) {
    return (vu)_mm512_set1_epi32((int32_t)x);
}
static inline vu v_mul_wide(vu a, vu b, vu *low) {
    const __m512i even = _mm512_mul_epu32((__m512i)a, (__m512i)b);
    const __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64((__m512i)a, 32), _mm512_srli_epi64((__m512i)b, 32));
    *low = (vu)_mm512_mask_shuffle_epi32(even, 0xaaaa, odd, _MM_PERM_CCAA);
    return (vu)_mm512_mask_shuffle_epi32(odd, 0x5555, even, _MM_PERM_DDBB);
}
static inline vm v_le_unsigned(vu a, vu b) {
    return _mm512_cmple_epu32_mask((__m512i)a, (__m512i)b);
}
static inline vf v_abs(vf x) {
    return _mm512_abs_ps(x);
}
static inline vm v_lt(vf a, vf b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
}
static inline vm v_eq(vf a, vf b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ);
}
static inline vm v_unordered(vf a, vf b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q);
}
static inline vf v_select(vm m, vf yes, vf no) {
    return _mm512_mask_blend_ps(m, no, yes);
}
static inline vf v_scale2(vf x, vf n) {
    return _mm512_scalef_ps(x, n);
}
static inline vf v_keep_first(vf x, int64_t n, vf rest) {
    return _mm512_mask_blend_ps(v_first(n), rest, x);
}

/* Lane i with lane i + 8, then + 4, + 2, + 1: the order that every ISA's body documents as "folded by halves". */
static inline float v_sum(vf x) {
    const __m256 h = _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
    const __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    const __m128 d = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(d, _mm_shuffle_ps(d, d, 1)));
}
static inline float v_max_lane(vf x) {
    const __m256 h = _mm256_max_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
    const __m128 q = _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    const __m128 d = _mm_max_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_max_ss(d, _mm_shuffle_ps(d, d, 1)));
}

/* acc[i] += x[i], widened. */
static inline void v_add_to_doubles(double *acc, vf x) {
    const __m512d low = _mm512_cvtps_pd(_mm512_castps512_ps256(x));
    const __m512d high = _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1));
    _mm512_storeu_pd(acc, _mm512_add_pd(_mm512_loadu_pd(acc), low));
    _mm512_storeu_pd(acc + 8, _mm512_add_pd(_mm512_loadu_pd(acc + 8), high));
}

#endif /* AMP_CPU_SIMD_AVX512_H */
