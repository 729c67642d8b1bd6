/* Reductions over an outer dimension: formulas, order of sums and error bounds are in columns_body.h.
 * ISA: none. */
#define COLUMNS_ISA ref
#include "cpu/vector/columns_body.h"
