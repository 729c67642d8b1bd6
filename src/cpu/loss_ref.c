/* Kernels of losses by element, scalar reference: formulas, error bounds are in loss_body.h. */
#include "cpu/simd_ref.h"

#include "cpu/loss_body.h"
