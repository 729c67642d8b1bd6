/* Kernels of distances between points, AVX-512F, BW, DQ, VL: formulas, order of sums and error bounds are in
 * distance_body.h. */
#include "cpu/simd/simd_avx512.h"

#include "cpu/distance/distance_body.h"
