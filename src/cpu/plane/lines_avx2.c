/* Kernels on lines for AVX2 + FMA; formulas and order of sums are in lines.h and lines_body.h. f32 sums: errors of at
 * most count ulp of the sum of magnitudes. */
#include "cpu/simd/simd_avx2.h"

#include "cpu/plane/lines_body.h"
