/* 16 × 16 numbers of 32 bits, or pairs of 16, turned over. AVX512F. */
#ifndef AMP_CPU_ATTENTION_TRANSPOSE_H
#define AMP_CPU_ATTENTION_TRANSPOSE_H

#include <immintrin.h>
#include <stdint.h>

#include "cpu/simd/unroll.h"

/* 16 rows of 16 pairs each, turned into columns: out[i] holds pair i of every row. */
AMP_ALWAYS_INLINE void transpose_pairs(__m512i out[16], const uint16_t *from, int64_t step, int64_t rows,
                                       __mmask16 pairs) {
    __m512i a[16], b[16];
    AMP_UNROLL
    for (int i = 0; i < 16; i++) {
        a[i] = i < rows ? _mm512_maskz_loadu_epi32(pairs, from + i * step) : _mm512_setzero_si512();
    }
    AMP_UNROLL
    for (int i = 0; i < 16; i += 2) {
        b[i] = _mm512_unpacklo_epi32(a[i], a[i + 1]);
        b[i + 1] = _mm512_unpackhi_epi32(a[i], a[i + 1]);
    }
    AMP_UNROLL
    for (int i = 0; i < 16; i += 4) {
        a[i] = _mm512_unpacklo_epi64(b[i], b[i + 2]);
        a[i + 1] = _mm512_unpackhi_epi64(b[i], b[i + 2]);
        a[i + 2] = _mm512_unpacklo_epi64(b[i + 1], b[i + 3]);
        a[i + 3] = _mm512_unpackhi_epi64(b[i + 1], b[i + 3]);
    }
    AMP_UNROLL
    for (int i = 0; i < 4; i++) { /* 128-bit lanes: a[4g + i] holds pairs i, 4+i, 8+i, 12+i of rows 4g … 4g + 3 */
        const __m512i low01 = _mm512_shuffle_i32x4(a[i], a[4 + i], 0x88),
                      high01 = _mm512_shuffle_i32x4(a[i], a[4 + i], 0xdd);
        const __m512i low23 = _mm512_shuffle_i32x4(a[8 + i], a[12 + i], 0x88);
        const __m512i high23 = _mm512_shuffle_i32x4(a[8 + i], a[12 + i], 0xdd);
        out[i] = _mm512_shuffle_i32x4(low01, low23, 0x88);
        out[8 + i] = _mm512_shuffle_i32x4(low01, low23, 0xdd);
        out[4 + i] = _mm512_shuffle_i32x4(high01, high23, 0x88);
        out[12 + i] = _mm512_shuffle_i32x4(high01, high23, 0xdd);
    }
}

#endif /* AMP_CPU_ATTENTION_TRANSPOSE_H */
