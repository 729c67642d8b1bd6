/* The argument struct of the CUDA kernels of random numbers. */
#ifndef AMP_CUDA_RANDOM_ARGS_H
#define AMP_CUDA_RANDOM_ARGS_H

#include "cpu/random/random_task.h"

/* Addresses in the task are of the device; random_f32 or random_wide, as amp_random_is_wide says. */
typedef struct amp_cuda_random {
    amp_random_task task;
    int64_t per_group;
} amp_cuda_random;

#endif /* AMP_CUDA_RANDOM_ARGS_H */
