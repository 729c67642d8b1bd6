/* Kernels of the slopes of activations, scalar reference: formulas, error bounds are in slopes_body.h. */
#include "cpu/simd/simd_ref.h"

#include "cpu/vector/slopes_body.h"
