/* Copies between tensors of any strides and dtypes, and constants. */
#ifndef AMP_CPU_COPY_H
#define AMP_CPU_COPY_H

#include "call/call.h"

/* Copies `source`, which broadcasts to the shape of `destination`, converting the dtype. */
amp_status amp_cpu_copy(amp_tensor *destination, const amp_tensor *source);

/* The tensor itself if it has the dtype, and its dimensions from `first` on are dense, row-major; else a dense copy,
 * which belongs to the call. NULL with an error. `op` names the op in messages. */
const amp_tensor *amp_cpu_dense(const char *op, const amp_tensor *tensor, amp_dtype dtype, int first);

/* Sets every element. */
void amp_cpu_fill(amp_tensor *tensor, const amp_scalar *value);

/* start + i·step for every element i of a dense vector. */
amp_status amp_cpu_write_range(amp_tensor *out, const amp_scalar *start, const amp_scalar *step);

#endif /* AMP_CPU_COPY_H */
