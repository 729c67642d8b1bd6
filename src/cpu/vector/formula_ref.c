/* Functions computed in f64 lanes: formulas, order of sums and error bounds are in formula_body.h.
 * ISA: none. */
#define FORMULA_ISA ref
#include "cpu/vector/formula_body.h"
