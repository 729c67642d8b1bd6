/* Tensors of indices, for ops that read and write where they say. */
#ifndef AMP_STEPS_INDICES_H
#define AMP_STEPS_INDICES_H

#include "call/call.h"

/* A tensor of integers as i64: itself, or a copy that belongs to the call. NULL with an error: it holds no integers. */
amp_tensor *amp_index_tensor(const amp_call *call, const char *argument, amp_tensor *index);

/* A 0-dim tensor as a vector of one element; any other as it is. */
amp_tensor amp_index_at_least_vector(const amp_tensor *tensor);

/* A vector of indices as if it were repeated along all dimensions of `shape` but `dim`. */
amp_tensor amp_index_along(const amp_tensor *vector, int dim, int rank, const int64_t *shape);

#endif /* AMP_STEPS_INDICES_H */
