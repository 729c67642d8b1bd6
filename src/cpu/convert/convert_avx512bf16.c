/* f32 to bf16 with VCVTNE2PS2BF16, 32 elements a step.
 *
 * Formula:     that of convert_ref.c, and its bits.
 * Accumulator: none.
 * Error bound: half an ulp of the result.
 * Denormals:   kept. The instruction rounds to nearest even whatever MXCSR says, and treats NaN as we want it, but
 *              takes subnormals for zeros. In bf16 a value is subnormal exactly where it is in f32, so a step that
 *              meets one is rounded by integers instead: a branch that real data hardly ever takes. Where the program
 *              has set DAZ, which VFPCLASSPS heeds, they are zeros.
 * ISA:         AVX512_BF16; AVX512F, BW, DQ.
 * Source:      Intel SDM volume 2C, VCVTNE2PS2BF16. */
#include <immintrin.h>

#include "cpu/registry/kernels.h"

enum { SUBNORMAL = 0x20 }; /* of VFPCLASSPS */

/* bf16 of 16 values, in the low half of each word; never NaN here where it matters, but right for it too. */
static __m512i round_by_integers(__m512 value) {
    const __m512i bits = _mm512_castps_si512(value);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i sum = _mm512_add_epi32(_mm512_add_epi32(bits, odd), _mm512_set1_epi32(0x7fff));
    const __mmask16 nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
    return _mm512_srli_epi32(_mm512_mask_or_epi32(sum, nan, bits, _mm512_set1_epi32(0x400000)), 16);
}

__attribute__((noinline, cold)) static __m512i round_with_subnormals(__m512 low, __m512 high) {
    const __m256i a = _mm512_cvtepi32_epi16(round_by_integers(low));
    const __m256i b = _mm512_cvtepi32_epi16(round_by_integers(high));
    return _mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1);
}

static inline __m512i round_32(__m512 low, __m512 high) {
    const __mmask16 a = _mm512_fpclass_ps_mask(low, SUBNORMAL), b = _mm512_fpclass_ps_mask(high, SUBNORMAL);
    if (__builtin_expect(!_kortestz_mask16_u8(a, b), 0)) return round_with_subnormals(low, high);
    return (__m512i)_mm512_cvtne2ps_pbh(high, low);
}

void amp_convert_f32_bf16_avx512bf16(void *dst, const void *src, int64_t n) {
    int64_t i = 0;
    for (; i + 32 <= n; i += 32) {
        const __m512 low = _mm512_loadu_ps((const char *)src + 4 * i),
                     high = _mm512_loadu_ps((const char *)src + 4 * i + 64);
        _mm512_storeu_si512((char *)dst + 2 * i, round_32(low, high));
    }
    if (i == n) return;
    const __mmask32 mask = (__mmask32)((UINT64_C(1) << (n - i)) - 1);
    const __m512 low = _mm512_maskz_loadu_ps((__mmask16)mask, (const char *)src + 4 * i);
    const __m512 high = _mm512_maskz_loadu_ps((__mmask16)(mask >> 16), (const char *)src + 4 * i + 64);
    _mm512_mask_storeu_epi16((char *)dst + 2 * i, mask, round_32(low, high));
}
