/* Kernels of the slopes of activations, AVX-512F, BW, DQ, VL: formulas, error bounds are in slopes_body.h. */
#include "cpu/simd/simd_avx512.h"

#include "cpu/vector/slopes_body.h"
