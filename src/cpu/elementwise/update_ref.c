/* Steps of optimizers: formulas are in update_body.h, what holds of them in update_kernels.h.
 * ISA: none. */
#define UPDATE_ISA ref
#include "cpu/elementwise/update_kernels.h"
