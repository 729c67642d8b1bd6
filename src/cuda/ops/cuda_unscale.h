/* Unscaling of gradients on the device. */
#ifndef AMP_CUDA_UNSCALE_H
#define AMP_CUDA_UNSCALE_H

#include "core/tensor_impl.h"

/* As amp_backend.unscale. */
amp_status amp_cuda_unscale(const char *op, amp_tensor *const *grads, int64_t count, amp_tensor *found,
                            const amp_tensor *factor);

#endif /* AMP_CUDA_UNSCALE_H */
