/* Kernels of norms over channels, AVX-512F, BW, DQ, VL: formulas, order of sums and error bounds are in
 * channel_body.h. */
#include "cpu/simd/simd_avx512.h"

#include "cpu/norm/channel_body.h"
