/* Gradients of norms in bf16: norm_slope_body.h. ISA: AVX2, FMA. */
#define NORM_BF16
#include "cpu/simd/simd_avx2.h"

#include "cpu/norm/norm_slope_body.h"
