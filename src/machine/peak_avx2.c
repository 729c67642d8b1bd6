/* Probes: 8-lane f32 FMA, and reading memory. ISA: AVX2, FMA. */
#include <immintrin.h>

#include "machine/peak.h"

double amp_probe_fma_avx2(int64_t n, float *sink) {
    __m256 sums[12], a = _mm256_set1_ps(0.7071f), b = _mm256_set1_ps(0.3333f);
#pragma GCC unroll 12
    for (int i = 0; i < 12; i++) sums[i] = _mm256_set1_ps((float)i);
    for (int64_t i = 0; i < n; i++) {
        __asm__ volatile("" : "+x"(a), "+x"(b)); /* or all rounds would be one */
#pragma GCC unroll 12
        for (int j = 0; j < 12; j++) sums[j] = _mm256_fmadd_ps(a, b, sums[j]);
    }
#pragma GCC unroll 12
    for (int i = 1; i < 12; i++) sums[0] = _mm256_add_ps(sums[0], sums[i]);
    float lanes[8];
    _mm256_storeu_ps(lanes, sums[0]);
    *sink = lanes[0] + lanes[5];
    return (double)n * 12 * 16;
}

double amp_probe_read_avx2(const void *data, size_t bytes) {
    enum { PLACES = 8 };
    const size_t part = bytes / PLACES / 32;
    const __m256i *p = data;
    __m256i all[PLACES];
#pragma GCC unroll 8
    for (int i = 0; i < PLACES; i++) all[i] = _mm256_setzero_si256();
    for (size_t line = 0; line < part; line++) {
#pragma GCC unroll 8
        for (size_t i = 0; i < PLACES; i++) all[i] = _mm256_xor_si256(all[i], _mm256_load_si256(p + i * part + line));
    }
#pragma GCC unroll 8
    for (int i = 1; i < PLACES; i++) all[0] = _mm256_xor_si256(all[0], all[i]);
    return (double)(_mm256_extract_epi32(all[0], 0) ^ _mm256_extract_epi32(all[0], 5));
}
