/* Gradients of reductions. */
#include "gradients/pieces.h"

static amp_tensor *spread(const amp_gradient *g, const amp_tensor *like, amp_dims dim, bool keepdim) {
    amp_tensor *t = amp_unreduced(g->of[0], like, dim, keepdim);
    return t ? amp_expand(t, amp_shape_of(like)) : NULL;
}

void amp_gradient_sum(amp_gradient *g) {
    const amp_sum_args *a = g->args;
    amp_gradient_give(g, &a->input, spread(g, a->input, a->dim, a->keepdim));
}

void amp_gradient_mean(amp_gradient *g) {
    const amp_mean_args *a = g->args;
    amp_tensor *sum = spread(g, a->input, a->dim, a->keepdim);
    const int64_t count = amp_reduced_count(a->input, a->dim);
    amp_gradient_give(g, &a->input, amp_div_scalar(sum, amp_int(count)));
}
