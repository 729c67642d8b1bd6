/* The formulas of two elements in f32. */
#include "cuda/kernels/elementwise.h"

#define KERNEL_2(name) AMP_F32_KERNEL(name, 2)
#define KERNEL_1(name)
#define KERNEL_3(name)
#define F(name, inputs, types, expression) KERNEL_##inputs(name)
#include "cuda/args/formulas.def"
