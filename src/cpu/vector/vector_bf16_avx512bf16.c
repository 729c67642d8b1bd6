/* The kernels of vector.h with bf16 on both sides: order of sums and error bounds are in vector_body.h.
 * ISA: AVX512_BF16; AVX512F, BW, DQ, VL, which rounds to bf16 by an instruction. */
#define VECTOR_BF16
#include "cpu/simd/simd_avx512.h"
#include "cpu/vector/vector_body.h"

#include "cpu/vector/softmax_columns_body.h"
