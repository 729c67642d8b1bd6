/* Batches of matrices on the device, for the op layer that it shares with the CPU. */
#ifndef AMP_CUDA_LINALG_H
#define AMP_CUDA_LINALG_H

#include "cpu/linalg/linalg.h"

/* As amp_linalg_run, by loop->kernel. */
amp_status amp_cuda_linalg_run(amp_call *call, const amp_linalg_loop *loop);

/* Of f32, f64, c64 and c128, in tables. */
int amp_cuda_lapack_number(amp_dtype dtype);

/* Every element of a dense, complex tensor becomes its conjugate. */
amp_status amp_cuda_conjugate(amp_tensor *t);

#endif /* AMP_CUDA_LINALG_H */
