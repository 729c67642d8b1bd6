/* Depthwise convolution, AVX2, FMA: formula, order of sums and error bound are in depthwise_body.h. */
#include "cpu/simd/simd_avx2.h"

#include "cpu/conv/depthwise_body.h"
