/* Depthwise convolution, plain C: formula, order of sums and error bound are in depthwise_body.h. */
#include "cpu/simd_ref.h"

#include "cpu/depthwise_body.h"
