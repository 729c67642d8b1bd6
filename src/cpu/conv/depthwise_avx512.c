/* Depthwise convolution, AVX-512F, BW, DQ, VL: formula, order of sums and error bound are in depthwise_body.h. */
#include "cpu/simd/simd_avx512.h"

#include "cpu/conv/depthwise_body.h"
