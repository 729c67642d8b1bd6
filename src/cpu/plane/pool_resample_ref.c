/* Kernels of pooling, interpolation and grid sampling in plain C: the definition of what is right; formulas and order
 * of sums are in pool_resample.h and pool_resample_body.h. f32 sums: errors of at most count ulp of the sum of
 * magnitudes. */
#include "cpu/simd/simd_ref.h"

#include "cpu/plane/pool_resample_body.h"
