/* Functions computed in f64 lanes: formulas, order of sums and error bounds are in formula_body.h.
 * ISA: AVX512F, BW, DQ, VL. */
#define FORMULA_ISA avx512
#include "cpu/vector/formula_body.h"
