/* Tensors over device memory that someone else owns. */
#ifndef AMP_CUDA_LENT_H
#define AMP_CUDA_LENT_H

#include "core/tensor_impl.h"

typedef struct amp_cuda_lent {
    void *data; /* of element [0, …, 0] */
    int device;
    void (*deleter)(void *context); /* called once, when the last tensor over the memory is released */
    void *context;
} amp_cuda_lent;

/* As amp_from_memory. What the owner enqueued on the legacy default stream is waited for, in stream order. */
amp_tensor *amp_cuda_from_memory(const char *op, const amp_cuda_lent *lent, amp_dtype dtype, int rank,
                                 const int64_t *shape, const int64_t *strides);

#endif /* AMP_CUDA_LENT_H */
