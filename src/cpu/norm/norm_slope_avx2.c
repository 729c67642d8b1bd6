/* Gradients of norms in f32: norm_slope_body.h. ISA: AVX2, FMA. */
#include "cpu/simd/simd_avx2.h"

#include "cpu/norm/norm_slope_body.h"
