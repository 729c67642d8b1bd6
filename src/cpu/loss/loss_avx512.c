/* Kernels of losses by element, AVX-512F, BW, DQ, VL: formulas, error bounds are in loss_body.h. */
#include "cpu/simd/simd_avx512.h"

#include "cpu/loss/loss_body.h"
