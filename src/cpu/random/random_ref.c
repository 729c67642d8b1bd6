/* Kernels of random numbers, scalar reference: formulas, error bounds are in random_body.h. */
#include "cpu/simd/simd_ref.h"

#include "cpu/random/random_body.h"
