/* Gradients of attention in f32: formula, order of sums and error bound are in attention_backward_body.h.
 * ISA: AVX2, FMA. */
#include "cpu/simd/simd_avx2.h"

#include <math.h>

#include "cpu/simd/vmath_body.h"

#include "cpu/attention/attention_units_f32.h"

#include "cpu/attention/attention_backward_body.h"
