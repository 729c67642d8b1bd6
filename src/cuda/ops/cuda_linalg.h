/* Batches of matrices on the device, for the op layer that it shares with the CPU. */
#ifndef AMP_CUDA_LINALG_H
#define AMP_CUDA_LINALG_H

#include "amp/types.h"

/* Of f32, f64, c64 and c128, in tables. */
int amp_cuda_lapack_number(amp_dtype dtype);

#endif /* AMP_CUDA_LINALG_H */
