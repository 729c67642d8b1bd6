/* Gradients of norms in bf16: norm_slope_body.h. ISA: AVX512_BF16; AVX512F, BW, DQ, VL, which rounds to bf16 by an
 * instruction. */
#define NORM_BF16
#include "cpu/simd/simd_avx512.h"

#include "cpu/norm/norm_slope_body.h"
