/* Dense f32 kernels for the scalar reference: formulas, order of sums and error bounds are in vector_body.h and
 * vmath_body.h. */
#include "cpu/simd/simd_ref.h"
#include "cpu/vector/vector_body.h"

#include "cpu/vector/softmax_columns_body.h"
