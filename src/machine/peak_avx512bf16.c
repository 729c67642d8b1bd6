/* Probe: vdpbf16ps, two products a lane. ISA: AVX512_BF16. */
#include <immintrin.h>

#include "machine/peak.h"

double amp_probe_dot_avx512bf16(int64_t n, float *sink) {
    __m512 sums[14];
    __m512i a = _mm512_set1_epi32(0x3f353eab), b = _mm512_set1_epi32(0x3e9a3f4d); /* pairs of values below 1 */
#pragma GCC unroll 14
    for (int i = 0; i < 14; i++) sums[i] = _mm512_set1_ps((float)i);
    for (int64_t i = 0; i < n; i++) {
        __asm__ volatile("" : "+v"(a), "+v"(b)); /* or all rounds would be one */
#pragma GCC unroll 14
        for (int j = 0; j < 14; j++) sums[j] = _mm512_dpbf16_ps(sums[j], (__m512bh)a, (__m512bh)b);
    }
#pragma GCC unroll 14
    for (int i = 1; i < 14; i++) sums[0] = _mm512_add_ps(sums[0], sums[i]);
    *sink = _mm512_reduce_add_ps(sums[0]);
    return (double)n * 14 * 64;
}
