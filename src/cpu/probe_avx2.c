/* Probe: 8-lane f32 FMA. ISA: AVX2, FMA. */
#include <immintrin.h>

#include "cpu/probe.h"

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
