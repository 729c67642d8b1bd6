/* The kernels of formula.h for avx2. */
#define FORMULA_ISA avx2
#include "cpu/formula_body.h"
