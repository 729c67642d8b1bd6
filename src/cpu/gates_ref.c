/* Gates of recurrent networks for the scalar reference: formulas in gates.h, errors in gates_body.h. */
#include "cpu/simd_ref.h"

#include "cpu/gates_body.h"
