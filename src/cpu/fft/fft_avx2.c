/* Fourier transforms: formula and error bound are in fft_body.h. ISA: AVX2, FMA. */
#include <immintrin.h>

#define SIMD_ISA avx2
enum { VD = 4 };
typedef double vd __attribute__((vector_size(32), may_alias));

static inline vd v_fma(vd a, vd b, vd c) {
    return (vd)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
}

#include "cpu/fft/fft_body.h"
