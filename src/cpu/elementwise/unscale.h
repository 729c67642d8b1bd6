/* Unscaling of gradients on the CPU. */
#ifndef AMP_CPU_UNSCALE_H
#define AMP_CPU_UNSCALE_H

#include "core/tensor_impl.h"

/* As amp_backend.unscale. */
amp_status amp_cpu_unscale(const char *op, amp_tensor *const *grads, int64_t count, amp_tensor *found,
                           const amp_tensor *factor);

#endif /* AMP_CPU_UNSCALE_H */
