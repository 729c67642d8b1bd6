/* Steps of optimizers: formulas are in update_body.h, what holds of them in update_kernels.h.
 * ISA: AVX512F, BW, DQ, VL. */
#define UPDATE_ISA avx512
#include "cpu/elementwise/update_kernels.h"
