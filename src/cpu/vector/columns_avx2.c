/* Reductions over an outer dimension: formulas, order of sums and error bounds are in columns_body.h.
 * ISA: AVX2, FMA. */
#define COLUMNS_ISA avx2
#include "cpu/vector/columns_body.h"
