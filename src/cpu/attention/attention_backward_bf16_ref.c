/* Gradients of attention in bf16: formula, order of sums and error bound are in attention_backward_body.h.
 * ISA: none. */
#include "cpu/simd/simd_ref.h"

#include <math.h>

#define VECTOR_BF16
#include "cpu/simd/vmath_body.h"

#include "cpu/attention/attention_units_bf16.h"

#include "cpu/attention/attention_backward_body.h"
