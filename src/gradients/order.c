/* Gradients of what chooses elements by their order: they go to where the chosen ones stood. */
#include "gradients/pieces.h"

#include <string.h>

/* The dimension that a call of (input, …, dim, …) names, from its struct; a number has number 0. */
static int dim_of(const amp_gradient *g, int rank) {
    for (int i = 1; i < g->op->arg_count; i++) {
        const amp_arg_info *arg = &g->op->args[i];
        if (strcmp(arg->name, "dim") != 0) continue;
        return rank == 0 ? 0 : amp_dim_from_front(*(const int64_t *)((const char *)g->args + arg->offset), rank);
    }
    return 0;
}

/* sort, topk, kthvalue, median, max, min along a dimension: results (values, indices). */
void amp_gradient_selected(amp_gradient *g) {
    const amp_tensor *input = *amp_first_argument(g);
    amp_tensor *of = g->of[0], *indices = g->results[1];
    if (!of) return;
    const int dim = dim_of(g, input->rank);
    if (of->rank < input->rank) {
        of = amp_unsqueeze(of, dim);
        indices = amp_unsqueeze(indices, dim);
    }
    amp_gradient_give(g, amp_first_argument(g),
                      amp_scatter(amp_zeros_for(g, input, g->of[0]->dtype), dim, indices, of));
}

void amp_gradient_cumulative_extreme(amp_gradient *g) {
    const amp_tensor *input = *amp_first_argument(g);
    if (!g->of[0]) return;
    amp_tensor *zeros = amp_zeros_for(g, input, g->of[0]->dtype);
    amp_gradient_give(g, amp_first_argument(g),
                      amp_scatter_add(zeros, dim_of(g, input->rank), g->results[1], g->of[0]));
}

/* max, min, median, nanmedian of all: elements that equal the result, or are NaN as it is, share. */
void amp_gradient_extreme(amp_gradient *g) {
    amp_tensor *input = *amp_first_argument(g), *result = g->results[0];
    amp_tensor *nans = amp_logical_and(amp_isnan(input), amp_isnan(result));
    amp_tensor *chosen = amp_logical_or(amp_eq(input, result), nans);
    amp_tensor *share = amp_div(amp_wide(g->of[0]), amp_sum(chosen));
    amp_gradient_give(g, amp_first_argument(g), amp_where_scalar_other(chosen, share, amp_int(0)));
}
