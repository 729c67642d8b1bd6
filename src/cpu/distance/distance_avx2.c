/* Kernels of distances between points, AVX2 and FMA: formulas, order of sums and error bounds are in
 * distance_body.h. */
#include "cpu/simd/simd_avx2.h"

#include "cpu/distance/distance_body.h"
