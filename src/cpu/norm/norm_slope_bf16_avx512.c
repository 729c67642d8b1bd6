/* Gradients of norms in bf16: norm_slope_body.h. ISA: AVX512F, BW, DQ, VL. */
#define NORM_BF16
#include "cpu/simd/simd_avx512.h"

#include "cpu/norm/norm_slope_body.h"
