/* The kernels of vector.h with bf16 on both sides, for AVX512_BF16, which rounds by an instruction; see vector_body.h. */
#define VECTOR_BF16
#include "cpu/simd_avx512.h"
#include "cpu/vector_body.h"
