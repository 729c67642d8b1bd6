/* Kernels of random numbers, AVX-512F, BW, DQ, VL: formulas, error bounds are in random_body.h. */
#include "cpu/simd/simd_avx512.h"

#include "cpu/random/random_body.h"
