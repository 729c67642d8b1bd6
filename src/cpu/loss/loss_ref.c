/* Kernels of losses by element, scalar reference: formulas, error bounds are in loss_body.h. */
#include "cpu/simd/simd_ref.h"

#include "cpu/loss/loss_body.h"
