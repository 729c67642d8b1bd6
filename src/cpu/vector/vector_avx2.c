/* Dense f32 kernels for AVX2 + FMA: formulas, order of sums and error bounds are in vector_body.h and vmath_body.h. */
#include "cpu/simd/simd_avx2.h"
#include "cpu/vector/vector_body.h"

#include "cpu/vector/softmax_columns_body.h"
