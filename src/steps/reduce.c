/* What is left of a shape, and which reduction a norm is. */
#include "steps/reduce.h"

#include <math.h>
#include <omp.h>
#include <string.h>

int64_t amp_reduced_elements(const amp_tensor *input, unsigned mask) {
    int64_t n = 1;
    for (int d = 0; d < input->rank; d++) n *= mask & 1u << d ? input->shape[d] : 1;
    return n;
}

int amp_reduced_shape(const amp_tensor *input, unsigned mask, bool keepdim, int64_t *shape) {
    int rank = 0;
    for (int d = 0; d < input->rank; d++) {
        if (!(mask & 1u << d))
            shape[rank++] = input->shape[d];
        else if (keepdim)
            shape[rank++] = 1;
    }
    return rank;
}

amp_reduction amp_norm_reduction(double p) {
    if (p == 0.0) return AMP_REDUCE_COUNT;
    if (p == 1.0) return AMP_REDUCE_SUM_ABS;
    if (p == 2.0) return AMP_REDUCE_SUM_SQUARES;
    if (isinf(p)) return p > 0 ? AMP_REDUCE_MAX_ABS : AMP_REDUCE_MIN_ABS;
    return AMP_REDUCE_SUM_POWERS;
}
