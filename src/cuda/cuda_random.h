/* Random elements on the device. */
#ifndef AMP_CUDA_RANDOM_H
#define AMP_CUDA_RANDOM_H

#include "core/tensor_impl.h"
#include "cpu/random/random_task.h"

/* As amp_cpu_random, of dense tensors in the place of the task's pointers; `in` may be NULL. */
amp_status amp_cuda_random_elements(const char *op, const amp_random_task *task, const amp_tensor *out,
                                    const amp_tensor *in);

#endif /* AMP_CUDA_RANDOM_H */
