/* Fourier transforms: formula and error bound are in fft_body.h. ISA: AVX512F, BW, DQ, VL. */
#include <immintrin.h>

#define SIMD_ISA avx512
enum { VD = 8 };
typedef double vd __attribute__((vector_size(64), may_alias));

static inline vd v_fma(vd a, vd b, vd c) {
    return (vd)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
}

#include "cpu/fft/fft_body.h"
