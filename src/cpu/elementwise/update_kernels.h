/* The kernels of update.h, compiled once per ISA; no include guard: one file, one ISA.
 *
 * Formula:     PyTorch's documentation of torch.optim; steps/kinds.h says what the numbers are.
 * Accumulator: none; in the type of the elements, each operation rounded.
 * Error bound: the bits are those of the reference.
 * Denormals:   kept.
 * ISA:         that which UPDATE_ISA names: plain C without branches, which the compiler turns into vectors.
 * Source:      none beyond the definitions. */
#include <math.h>
#include <stdbool.h>
#include <stddef.h>

#include "cpu/registry/kernels.h"

#define PASTE_(dtype, isa) amp_update_##dtype##_##isa
#define PASTE(dtype, isa) PASTE_(dtype, isa)

#define REAL float
#define ROOT sqrtf
#define ABSOLUTE fabsf
#define NAME(name) name##_f32
#define ENTRY PASTE(f32, UPDATE_ISA)
#include "cpu/elementwise/update_body.h"
#undef REAL
#undef ROOT
#undef ABSOLUTE
#undef NAME
#undef ENTRY

#define REAL double
#define ROOT sqrt
#define ABSOLUTE fabs
#define NAME(name) name##_f64
#define ENTRY PASTE(f64, UPDATE_ISA)
#include "cpu/elementwise/update_body.h"
