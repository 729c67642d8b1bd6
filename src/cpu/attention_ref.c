/* Attention in f32: formula, order of sums and error bound are in attention_body.h. ISA: none. */
#include "cpu/simd_ref.h"

#include <math.h>

#include "cpu/vmath_body.h"

#include "cpu/attention_body.h"
