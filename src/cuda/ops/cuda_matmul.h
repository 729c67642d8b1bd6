/* Matrix products on the device, for the op layer that it shares with the CPU. */
#ifndef AMP_CUDA_MATMUL_H
#define AMP_CUDA_MATMUL_H

#include "cpu/product/matmul.h"

/* As amp_cpu_matmul; operands have memory. */
amp_status amp_cuda_matmul(amp_call *call, const amp_matmul *p);

#endif /* AMP_CUDA_MATMUL_H */
