/* Attention of few rows over a part of the keys, for the scalar reference: see attention_part_body.h. */
#include "cpu/simd/simd_ref.h"

#include "cpu/attention/attention_part_body.h"
