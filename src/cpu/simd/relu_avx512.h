/* relu of results that were just stored, in place. Only for files that are compiled for AVX-512.
 *
 * Formula: x > 0 ? x : 0; NaN and −0 stay, as v_relu leaves them. Exact, so a result rounded before is the same.
 * ISA:     AVX512F, AVX512BW. */
#ifndef AMP_CPU_RELU_AVX512_H
#define AMP_CPU_RELU_AVX512_H

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>

/* The bits of a negative bf16 that is no NaN, and not −0, are 0x8001 … 0xff80. */
static inline __m512i relu_halves(__m512i x) {
    const __m512i above = _mm512_sub_epi16(x, _mm512_set1_epi16((short)0x8001));
    const __mmask32 negative = _mm512_cmple_epu16_mask(above, _mm512_set1_epi16(0xff80 - 0x8001));
    return _mm512_mask_mov_epi16(x, negative, _mm512_setzero_si512());
}

/* `columns` values, bf16 or f32. */
static inline void relu_row(char *c, int64_t columns, const bool bf16) {
    const __m512 zero = _mm512_setzero_ps();
    const int lanes = bf16 ? 32 : 16;
    int64_t i = 0;
    for (; i + lanes <= columns; i += lanes, c += 64) {
        if (bf16)
            _mm512_storeu_si512(c, relu_halves(_mm512_loadu_si512(c)));
        else
            _mm512_storeu_ps(c, _mm512_max_ps(zero, _mm512_loadu_ps(c))); /* the second, if it is NaN */
    }
    if (i == columns) return;
    const uint32_t mask = (uint32_t)((UINT64_C(1) << (columns - i)) - 1);
    if (bf16)
        _mm512_mask_storeu_epi16(c, mask, relu_halves(_mm512_maskz_loadu_epi16(mask, c)));
    else
        _mm512_mask_storeu_ps(c, (__mmask16)mask, _mm512_max_ps(zero, _mm512_maskz_loadu_ps((__mmask16)mask, c)));
}

/* Rows that begin `stride` bytes apart; those without gaps are one. */
static inline void relu_rows(char *c, int64_t rows, int64_t columns, int64_t stride, const bool bf16) {
    if (stride == columns * (bf16 ? 2 : 4)) {
        relu_row(c, rows * columns, bf16);
        return;
    }
    for (int64_t i = 0; i < rows; i++, c += stride) relu_row(c, columns, bf16);
}

#endif /* AMP_CPU_RELU_AVX512_H */
