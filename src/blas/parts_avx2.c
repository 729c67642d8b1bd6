/* parts_ref.c, eight elements at a time: the same bits of finite numbers. */
#include <immintrin.h>

#include "blas/parts.h"

/* bf16 in the upper halves, to nearest, ties to even. */
static __m256i rounded(__m256 x) {
    const __m256i u = _mm256_castps_si256(x), odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    const __m256i sum = _mm256_add_epi32(u, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    return _mm256_and_si256(sum, _mm256_set1_epi32((int)0xffff0000));
}

static void store(uint16_t *to, __m256i halves) {
    const __m256i low = _mm256_srli_epi32(halves, 16);
    const __m128i all = _mm_packus_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1));
    _mm_storeu_si128((__m128i *)(void *)to, all);
}

void amp_blas_parts_avx2(const float *x, int64_t count, uint16_t *const parts[AMP_BLAS_MAX_PARTS]) {
    int64_t i = 0;
    for (; i + 8 <= count; i += 8) {
        __m256 left = _mm256_loadu_ps(x + i);
        for (int p = 0; p < AMP_BLAS_MAX_PARTS; p++) {
            const __m256i part = rounded(left);
            store(parts[p] + i, part);
            left = _mm256_sub_ps(left, _mm256_castsi256_ps(part));
        }
    }
    uint16_t *rest[AMP_BLAS_MAX_PARTS];
    for (int p = 0; p < AMP_BLAS_MAX_PARTS; p++) rest[p] = parts[p] + i;
    amp_blas_parts_ref(x + i, count - i, rest);
}
