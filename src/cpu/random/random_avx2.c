/* Kernels of random numbers, AVX2 and FMA: formulas, error bounds are in random_body.h. */
#include "cpu/simd/simd_avx2.h"

#include "cpu/random/random_body.h"
