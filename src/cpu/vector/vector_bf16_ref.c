/* The kernels of vector.h with bf16 on both sides: order of sums and error bounds are in vector_body.h.
 * ISA: none. */
#define VECTOR_BF16
#include "cpu/simd/simd_ref.h"
#include "cpu/vector/vector_body.h"

#include "cpu/vector/softmax_columns_body.h"
