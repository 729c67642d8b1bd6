/* Gates of recurrent networks for AVX-512F, BW, DQ, VL: formulas in gates.h, errors in gates_body.h. */
#include "cpu/simd/simd_avx512.h"

#include "cpu/rnn/gates_body.h"
