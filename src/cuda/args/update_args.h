/* Arguments of the steps of optimizers: up to AMP_CUDA_UPDATED parameters in one launch, in pieces of AMP_CUDA_PIECE
 * elements, of which parameter i has those from first_piece[i] on. */
#ifndef AMP_CUDA_UPDATE_ARGS_H
#define AMP_CUDA_UPDATE_ARGS_H

#include "cuda/args/kernel_args.h"

enum { AMP_CUDA_UPDATED = 44, AMP_CUDA_UPDATE_STATES = 3, AMP_CUDA_UPDATE_NUMBERS = 8 };
typedef struct amp_cuda_update {
    void *parameters[AMP_CUDA_UPDATED], *copies[AMP_CUDA_UPDATED]; /* copies: NULL where there is none */
    void *states[AMP_CUDA_UPDATE_STATES][AMP_CUDA_UPDATED];        /* of the parameter's dtype */
    const void *gradients[AMP_CUDA_UPDATED];
    int64_t counts[AMP_CUDA_UPDATED], first_piece[AMP_CUDA_UPDATED + 1];
    amp_dtype dtypes[AMP_CUDA_UPDATED], copy_dtypes[AMP_CUDA_UPDATED], gradient_dtypes[AMP_CUDA_UPDATED];
    double numbers[AMP_CUDA_UPDATE_NUMBERS]; /* steps/steps.h */
    int tensors, state_count;
} amp_cuda_update;

#endif /* AMP_CUDA_UPDATE_ARGS_H */
