/* Tables of rows on the device, for the op layer that it shares with the CPU. */
#ifndef AMP_CUDA_BAGS_H
#define AMP_CUDA_BAGS_H

#include "amp/ops.h"
#include "call/call.h"

/* embedding_bag, whose arguments have been checked but for their elements: what is wrong with these is told of later.
 * mode: sum, mean, max; padding: the row that does not count, −1: none. */
amp_status amp_cuda_embedding_bag(amp_call *call, const amp_embedding_bag_args *args, int mode, int64_t padding);

/* max_norm: scales the rows of `weight` that are looked up down to p-norm `limit`, in place. */
amp_status amp_cuda_limit_rows(const amp_call *call, amp_tensor *index, amp_tensor *weight, double p, double limit);

#endif /* AMP_CUDA_BAGS_H */
