/* Gradients of norms in f32: norm_slope_body.h. ISA: none. */
#include "cpu/simd/simd_ref.h"

#include "cpu/norm/norm_slope_body.h"
