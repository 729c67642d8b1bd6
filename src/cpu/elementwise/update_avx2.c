/* Steps of optimizers: formulas are in update_body.h, what holds of them in update_kernels.h.
 * ISA: AVX2. */
#define UPDATE_ISA avx2
#include "cpu/elementwise/update_kernels.h"
