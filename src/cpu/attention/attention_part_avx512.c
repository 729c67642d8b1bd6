/* Attention of few rows over a part of the keys, for AVX-512F, BW, DQ, VL: see attention_part_body.h. */
#include "cpu/simd/simd_avx512.h"

#include "cpu/attention/attention_part_body.h"
