/* Kernels of norms over channels, AVX2 and FMA: formulas, order of sums and error bounds are in channel_body.h. */
#include "cpu/simd/simd_avx2.h"

#include "cpu/norm/channel_body.h"
