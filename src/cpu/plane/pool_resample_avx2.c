/* Kernels of pooling, interpolation and grid sampling for AVX2 + FMA; formulas and order of sums are in pool_resample.h
 * and pool_resample_body.h. f32 sums: errors of at most count ulp of the sum of magnitudes. */
#include "cpu/simd/simd_avx2.h"

#include "cpu/plane/pool_resample_body.h"
