/* Attention of few rows over a part of the keys, for the scalar reference: see attention_part_body.h. */
#include "cpu/simd_ref.h"

#include "cpu/attention_part_body.h"
