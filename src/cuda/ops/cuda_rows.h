/* Reductions on the device, for the op layer that it shares with the CPU. */
#ifndef AMP_CUDA_ROWS_H
#define AMP_CUDA_ROWS_H

#include "call/call.h"
#include "cpu/reduce/reduce.h"

/* The slices of dimension `dim` that a vector of indices names, as a tensor of the call's; NULL with an error. */
amp_tensor *amp_cuda_pick_slices(const amp_call *call, const amp_tensor *in, const amp_tensor *index, int dim);

#endif /* AMP_CUDA_ROWS_H */
