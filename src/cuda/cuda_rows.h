/* Reductions on the device, for the op layer that it shares with the CPU. */
#ifndef AMP_CUDA_ROWS_H
#define AMP_CUDA_ROWS_H

#include "cpu/reduce.h"

/* As amp_cpu_reduce. */
amp_status amp_cuda_reduce_tensor(const amp_reduce_work *work, amp_tensor *out);

#endif /* AMP_CUDA_ROWS_H */
