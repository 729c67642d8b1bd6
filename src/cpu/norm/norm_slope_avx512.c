/* Gradients of norms in f32: norm_slope_body.h. ISA: AVX512F, BW, DQ, VL. */
#include "cpu/simd/simd_avx512.h"

#include "cpu/norm/norm_slope_body.h"
