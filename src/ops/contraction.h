/* Products of several tensors whose dimensions carry labels, summed over the labels that the result lacks. */
#ifndef AMP_CPU_CONTRACTION_H
#define AMP_CPU_CONTRACTION_H

#include "core/tensor_impl.h"

enum { AMP_LABELS = 64 };

/* A factor: dimension d of the tensor carries labels[d], 0 … 63, each at most once. */
typedef struct amp_term {
    amp_tensor *tensor;
    int labels[AMP_MAX_RANK];
} amp_term;

/* The product of `count` ≥ 1 terms of one dtype; changes them. Dimensions that carry one label have its extent, or 1,
 * which is broadcast; a label of `result` is carried by a term. Pairs are taken in the order that costs least at each
 * step, as batched matrix products. The result may be a view of a term. NULL with an error that begins with `op`. */
amp_tensor *amp_cpu_contract(const char *op, amp_term *terms, int count, const int64_t extents[AMP_LABELS], int rank,
                             const int *result);

#endif /* AMP_CPU_CONTRACTION_H */
