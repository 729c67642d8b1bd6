/* Sums over pairs of elements of two tensors that broadcast: what distances and cosines are made of. Results have the
 * broadcast shape without the reduced dimensions, belong to the call, and are f64, so that they are rounded once. */
#ifndef AMP_CPU_PAIR_SUMS_H
#define AMP_CPU_PAIR_SUMS_H

#include "steps/operands.h"

/* The p-norms of a − b + eps along the last dimension, or over all of them. `compute`: f32, f64 or c128. NULL with an
 * error. */
amp_tensor *amp_difference_norms(const amp_call *call, const amp_operand pair[2], amp_dtype compute, double eps,
                                 double p, bool all);

/* Σ x·y, Σ x² and Σ y² along a dimension of the broadcast shape; the last two may have extents of 1 that broadcast. */
typedef struct amp_cosine_sums {
    amp_tensor *product, *first, *second;
} amp_cosine_sums;
amp_status amp_cosine_sums_of(const amp_call *call, const amp_operand pair[2], amp_dtype compute, int64_t dim,
                              amp_cosine_sums *sums);

#endif /* AMP_CPU_PAIR_SUMS_H */
