/* Kernels of distances between points, scalar reference: formulas, order of sums and error bounds are in
 * distance_body.h. */
#include "cpu/simd_ref.h"

#include "cpu/distance_body.h"
