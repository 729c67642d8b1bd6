/* Kernels of norms over channels, scalar reference: formulas, order of sums and error bounds are in channel_body.h. */
#include "cpu/simd/simd_ref.h"

#include "cpu/norm/channel_body.h"
