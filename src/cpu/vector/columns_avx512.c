/* Reductions over an outer dimension: formulas, order of sums and error bounds are in columns_body.h.
 * ISA: AVX512F, BW, DQ, VL. */
#define COLUMNS_ISA avx512
#include "cpu/vector/columns_body.h"
