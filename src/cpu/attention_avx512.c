/* Attention in f32: see attention_body.h. */
#include "cpu/simd_avx512.h"

#include <math.h>

#include "cpu/vmath_body.h"

#include "cpu/attention_body.h"
