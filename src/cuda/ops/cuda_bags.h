/* Tables of rows on the device, for the op layer that it shares with the CPU. */
#ifndef AMP_CUDA_BAGS_H
#define AMP_CUDA_BAGS_H

#include "amp/ops.h"
#include "call/call.h"

/* max_norm: scales the rows of `weight` that are looked up down to p-norm `limit`, in place. */
amp_status amp_cuda_limit_rows(const amp_call *call, amp_tensor *index, amp_tensor *weight, double p, double limit);

#endif /* AMP_CUDA_BAGS_H */
