/* Fourier transforms: formula and error bound are in fft_body.h. A fused multiply-add would be a call of the C library
 * for each number here, so this one rounds twice. ISA: none. */
#define SIMD_ISA ref
enum { VD = 1 };
typedef double vd __attribute__((vector_size(8), may_alias));

static inline vd v_fma(vd a, vd b, vd c) {
    return a * b + c;
}

#include "cpu/fft/fft_body.h"
