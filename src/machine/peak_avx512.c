/* Probes: 16-lane f32 FMA, and reading memory. ISA: AVX512F. */
#include <immintrin.h>

#include "machine/peak.h"

double amp_probe_fma_avx512(int64_t n, float *sink) {
    __m512 sums[14], a = _mm512_set1_ps(0.7071f), b = _mm512_set1_ps(0.3333f);
#pragma GCC unroll 14
    for (int i = 0; i < 14; i++) sums[i] = _mm512_set1_ps((float)i);
    for (int64_t i = 0; i < n; i++) {
        __asm__ volatile("" : "+v"(a), "+v"(b)); /* or all rounds would be one */
#pragma GCC unroll 14
        for (int j = 0; j < 14; j++) sums[j] = _mm512_fmadd_ps(a, b, sums[j]);
    }
#pragma GCC unroll 14
    for (int i = 1; i < 14; i++) sums[0] = _mm512_add_ps(sums[0], sums[i]);
    *sink = _mm512_reduce_add_ps(sums[0]);
    return (double)n * 14 * 32;
}

double amp_probe_read_avx512(const void *data, size_t bytes) {
    enum { PLACES = 8 };
    const size_t part = bytes / PLACES / 64;
    const __m512i *p = data;
    __m512i all[PLACES];
#pragma GCC unroll 8
    for (int i = 0; i < PLACES; i++) all[i] = _mm512_setzero_si512();
    for (size_t line = 0; line < part; line++) {
#pragma GCC unroll 8
        for (size_t i = 0; i < PLACES; i++) all[i] = _mm512_xor_si512(all[i], _mm512_load_si512(p + i * part + line));
    }
#pragma GCC unroll 8
    for (int i = 1; i < PLACES; i++) all[0] = _mm512_xor_si512(all[0], all[i]);
    return (double)_mm512_reduce_add_epi32(all[0]);
}
