/* Kernels of the slopes of activations, AVX2 and FMA: formulas, error bounds are in slopes_body.h. */
#include "cpu/simd/simd_avx2.h"

#include "cpu/vector/slopes_body.h"
