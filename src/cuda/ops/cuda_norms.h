/* renorm and local_response_norm on the device, whose arguments have been checked. */
#ifndef AMP_CUDA_NORMS_H
#define AMP_CUDA_NORMS_H

#include "amp/ops.h"
#include "call/call.h"

/* Output 0: input, its slices scaled down to `limit` where their norms, f64, are above it. */
amp_status amp_cuda_scale_slices(amp_call *call, amp_tensor *input, amp_tensor *norms, double limit);

/* Output 0 of local_response_norm; `inner`: elements behind the channel. */
amp_status amp_cuda_respond(amp_call *call, const amp_local_response_norm_args *args, int64_t inner);

#endif /* AMP_CUDA_NORMS_H */
