/* The kernels of formula.h for avx512. */
#define FORMULA_ISA avx512
#include "cpu/formula_body.h"
