/* A reduction over any set of dimensions as devices take it. */
#ifndef AMP_STEPS_REDUCE_H
#define AMP_STEPS_REDUCE_H

#include "core/tensor_impl.h"
#include "steps/reduce_kinds.h"

typedef struct amp_reduce_work {
    amp_reduction kind;
    const amp_tensor *input;
    unsigned mask;     /* bit d: dimension d is reduced */
    amp_dtype compute; /* f32 or f64: real; i64: whole; c128: complex, sums and products only */
    double power;
    double scale; /* the result is multiplied by it: 1/n for a mean */
    double root;  /* … and taken to this power, where it is not 1: 1/p for a norm */
} amp_reduce_work;

/* How many elements go into one result. */
int64_t amp_reduced_elements(const amp_tensor *input, unsigned mask);

/* The shape that is left. */
int amp_reduced_shape(const amp_tensor *input, unsigned mask, bool keepdim, int64_t *shape);

/* Results in place of the elements of each row along `mask`: x/max(norm, eps), norm = (Σ|x|^p)^(1/p). */
amp_reduction amp_norm_reduction(double p);

#endif /* AMP_STEPS_REDUCE_H */
