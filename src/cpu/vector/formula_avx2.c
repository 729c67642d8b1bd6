/* Functions computed in f64 lanes: formulas, order of sums and error bounds are in formula_body.h.
 * ISA: AVX2, FMA. */
#define FORMULA_ISA avx2
#include "cpu/vector/formula_body.h"
