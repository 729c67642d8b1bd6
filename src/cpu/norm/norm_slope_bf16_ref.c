/* Gradients of norms in bf16: norm_slope_body.h. ISA: none. */
#define NORM_BF16
#include "cpu/simd/simd_ref.h"

#include "cpu/norm/norm_slope_body.h"
