/* The kernels of vector.h with bf16 on both sides, for AVX-512F, BW, DQ, VL; see vector_body.h. */
#define VECTOR_BF16
#include "cpu/simd_avx512.h"
#include "cpu/vector_body.h"
