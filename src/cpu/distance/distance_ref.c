/* Kernels of distances between points, scalar reference: formulas, order of sums and error bounds are in
 * distance_body.h. */
#include "cpu/simd/simd_ref.h"

#include "cpu/distance/distance_body.h"
