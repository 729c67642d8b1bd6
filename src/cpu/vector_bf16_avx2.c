/* The kernels of vector.h with bf16 on both sides, for AVX2 + FMA; see vector_body.h. */
#define VECTOR_BF16
#include "cpu/simd_avx2.h"
#include "cpu/vector_body.h"
