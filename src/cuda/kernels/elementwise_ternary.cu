/* The formulas of three elements in f32. */
#include "cuda/kernels/elementwise.h"

#define KERNEL_3(name) AMP_F32_KERNEL(name, 3)
#define KERNEL_1(name)
#define KERNEL_2(name)
#define F(name, inputs, types, expression) KERNEL_##inputs(name)
#include "cuda/args/formulas.def"
