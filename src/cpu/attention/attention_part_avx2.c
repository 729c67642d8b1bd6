/* Attention of few rows over a part of the keys, for AVX2 and FMA: see attention_part_body.h. */
#include "cpu/simd/simd_avx2.h"

#include "cpu/attention/attention_part_body.h"
