/* Gates of recurrent networks for AVX2 and FMA: formulas in gates.h, errors in gates_body.h. */
#include "cpu/simd/simd_avx2.h"

#include "cpu/rnn/gates_body.h"
