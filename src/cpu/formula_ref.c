/* The kernels of formula.h for ref. */
#define FORMULA_ISA ref
#include "cpu/formula_body.h"
