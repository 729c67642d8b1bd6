/* Depthwise convolution, plain C: formula, order of sums and error bound are in depthwise_body.h. */
#include "cpu/simd/simd_ref.h"

#include "cpu/conv/depthwise_body.h"
