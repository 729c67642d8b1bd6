/* Kernels of losses by element, AVX2 and FMA: formulas, error bounds are in loss_body.h. */
#include "cpu/simd/simd_avx2.h"

#include "cpu/loss/loss_body.h"
