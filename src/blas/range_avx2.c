/* The extremes of f32 elements by their bits (range_ref.c), eight at a time: exact. */
#include <immintrin.h>

#include "blas/range.h"

static uint32_t least_of(__m256i x) {
    __m128i y = _mm_min_epu32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    y = _mm_min_epu32(y, _mm_shuffle_epi32(y, 0x4e));
    y = _mm_min_epu32(y, _mm_shuffle_epi32(y, 0xb1));
    return (uint32_t)_mm_cvtsi128_si32(y);
}

void amp_blas_bits_avx2(const float *x, int64_t count, amp_blas_bits *bits) {
    const __m256i mask = _mm256_set1_epi32(0x7fffffff), one = _mm256_set1_epi32(1);
    __m256i least[2], most[2];
    for (int v = 0; v < 2; v++) {
        least[v] = _mm256_set1_epi32((int)bits->least);
        most[v] = _mm256_set1_epi32((int)bits->most);
    }
    int64_t i = 0;
    for (; i + 16 <= count; i += 16) {
        for (int v = 0; v < 2; v++) {
            const __m256i u =
                _mm256_and_si256(_mm256_loadu_si256((const __m256i *)(const void *)(x + i + 8 * v)), mask);
            least[v] = _mm256_min_epu32(least[v], _mm256_sub_epi32(u, one));
            most[v] = _mm256_max_epu32(most[v], u);
        }
    }
    const __m256i ones = _mm256_set1_epi32(-1); /* the largest is the smallest of the complements */
    bits->least = least_of(_mm256_min_epu32(least[0], least[1]));
    bits->most = ~least_of(_mm256_xor_si256(_mm256_max_epu32(most[0], most[1]), ones));
    amp_blas_bits_ref(x + i, count - i, bits);
}
