/* Gates of recurrent networks for the scalar reference: formulas in gates.h, errors in gates_body.h. */
#include "cpu/simd/simd_ref.h"

#include "cpu/rnn/gates_body.h"
