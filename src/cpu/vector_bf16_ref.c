/* The kernels of vector.h with bf16 on both sides, for the scalar reference; see vector_body.h. */
#define VECTOR_BF16
#include "cpu/simd_ref.h"
#include "cpu/vector_body.h"
