/* Words of 32 bits turned over, whatever they are: to[j][i] = from[i][j], steps in words. Over a simd header. */
#ifndef AMP_CPU_ATTENTION_UNITS_H
#define AMP_CPU_ATTENTION_UNITS_H

#include <stdint.h>

#include "cpu/simd/unroll.h"

#ifdef __AVX512F__
#include "cpu/attention/attention_transpose.h"

static inline void transpose_words(void *to, int64_t to_step, const void *from, int64_t from_step, int64_t rows,
                                   int64_t columns) {
    for (int64_t i = 0; i < rows; i += 16) {
        const __mmask16 lanes = (__mmask16)(rows - i < 16 ? (1u << (rows - i)) - 1u : 0xffffu);
        for (int64_t j = 0; j < columns; j += 16) {
            const int64_t count = columns - j < 16 ? columns - j : 16;
            __m512i turned[16];
            transpose_pairs(turned, (const uint16_t *)from + 2 * (i * from_step + j), 2 * from_step, rows - i,
                            (__mmask16)((1u << count) - 1u));
            for (int64_t k = 0; k < count; k++)
                _mm512_mask_storeu_epi32((uint32_t *)to + (j + k) * to_step + i, lanes, turned[k]);
        }
    }
}
#else
#include "cpu/convert/transpose.h"

static inline void transpose_words(void *to, int64_t to_step, const void *from, int64_t from_step, int64_t rows,
                                   int64_t columns) {
    amp_transpose(to, to_step * 4, from, from_step * 4, rows, columns, 4);
}
#endif

#endif /* AMP_CPU_ATTENTION_UNITS_H */
