/* Gradients of attention in f32: formula, order of sums and error bound are in attention_backward_body.h.
 * ISA: none. */
#include "cpu/simd/simd_ref.h"

#include <math.h>

#include "cpu/simd/vmath_body.h"

#include "cpu/attention/attention_units_f32.h"

#include "cpu/attention/attention_backward_body.h"
