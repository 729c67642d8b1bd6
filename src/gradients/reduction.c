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

/* ---- Extremes ----------------------------------------------------------------------------------------------------- */

/* Elements that equal the result share its gradient; of none that does (NaN) it is NaN. */
static amp_tensor *shared(amp_tensor *of, amp_tensor *input, amp_tensor *result, amp_dims dim, bool keepdim) {
    amp_tensor *chosen = amp_eq(input, amp_unreduced(result, input, dim, keepdim));
    amp_tensor *count = amp_sum(chosen, .dim = dim, .keepdim = true);
    amp_tensor *kept = amp_where_scalar_other(chosen, amp_wide(amp_unreduced(of, input, dim, keepdim)), amp_int(0));
    if (dim.count == 0 && count && input->rank > 0) count = amp_reshape(count, (amp_dims)AMP_NO_DIMS);
    return amp_div(kept, count);
}

void amp_gradient_amax(amp_gradient *g) {
    const amp_amax_args *a = g->args;
    amp_gradient_give(g, &a->input, shared(g->of[0], a->input, g->results[0], a->dim, a->keepdim));
}

void amp_gradient_aminmax(amp_gradient *g) {
    const amp_aminmax_args *a = g->args;
    const int64_t dim = a->dim.value;
    const amp_dims dims = a->dim.set ? AMP_DIMS(dim) : (amp_dims){.set = 0};
    for (int i = 0; i < 2; i++) {
        if (g->of[i]) amp_gradient_give(g, &a->input, shared(g->of[i], a->input, g->results[i], dims, a->keepdim));
    }
}

/* The larger one's; half each where both are equal. `loses`: where an argument gets none. */
static amp_tensor *won(const amp_gradient *g, amp_tensor *same, amp_tensor *loses) {
    amp_tensor *half = amp_mul_scalar(g->of[0], amp_float(0.5));
    return amp_masked_fill(amp_where(same, half, g->of[0]), loses, amp_int(0));
}

void amp_gradient_max_other(amp_gradient *g) {
    const amp_max_other_args *a = g->args;
    amp_tensor *same = amp_eq(a->input, a->other);
    if (amp_gradient_wants(g, &a->input)) amp_gradient_give(g, &a->input, won(g, same, amp_lt(a->input, a->other)));
    if (amp_gradient_wants(g, &a->other)) amp_gradient_give(g, &a->other, won(g, same, amp_gt(a->input, a->other)));
}

void amp_gradient_min_other(amp_gradient *g) {
    const amp_min_other_args *a = g->args;
    amp_tensor *same = amp_eq(a->input, a->other);
    if (amp_gradient_wants(g, &a->input)) amp_gradient_give(g, &a->input, won(g, same, amp_gt(a->input, a->other)));
    if (amp_gradient_wants(g, &a->other)) amp_gradient_give(g, &a->other, won(g, same, amp_lt(a->input, a->other)));
}

/* ---- Variances ---------------------------------------------------------------------------------------------------- */

typedef struct variance {
    amp_tensor *input;
    amp_dims dim;
    bool keepdim;
    double freedom; /* N - correction */
} variance;

static variance variance_of(amp_tensor *input, amp_dims dim, amp_opt_bool unbiased, bool keepdim,
                            amp_scalar correction) {
    double less = unbiased.set && !unbiased.value ? 0.0 : 1.0;
    if (correction.kind != AMP_SCALAR_NONE)
        less = correction.kind == AMP_SCALAR_FLOAT ? correction.re : (double)correction.i;
    const double freedom = (double)amp_reduced_count(input, dim) - less;
    return (variance){input, dim, keepdim, freedom > 0.0 ? freedom : 0.0};
}
#define VARIANCE_OF(a) variance_of((a)->input, (a)->dim, (a)->unbiased, (a)->keepdim, (a)->correction)

/* 2/(N - c) · (x - mean) · gradient; without any freedom infinite, NaN at the mean. */
static amp_tensor *undo_var(const variance *v, amp_tensor *of) {
    amp_tensor *x = amp_wide(v->input), *mean = amp_mean(x, .dim = v->dim, .keepdim = true);
    if (v->dim.count == 0 && mean) mean = amp_reshape(mean, (amp_dims)AMP_NO_DIMS);
    amp_tensor *centred = amp_sub(x, mean), *wide = amp_wide(amp_unreduced(of, v->input, v->dim, v->keepdim));
    if (v->freedom == 0.0) {
        amp_tensor *at_mean = amp_eq_scalar(centred, amp_int(0));
        return amp_mul(wide, amp_where_scalar(at_mean, amp_float(__builtin_nan("")), amp_float(__builtin_inf())));
    }
    return amp_mul(amp_mul_scalar(wide, amp_float(2.0 / v->freedom)), centred);
}

static amp_tensor *undo_std(const variance *v, amp_tensor *of, amp_tensor *result) {
    amp_tensor *half = amp_div(amp_wide(of), amp_mul_scalar(amp_wide(result), amp_float(2.0)));
    return undo_var(v, amp_masked_fill(half, amp_eq_scalar(result, amp_int(0)), amp_int(0)));
}

static amp_tensor *undo_mean(const variance *v, amp_tensor *of) {
    amp_tensor *t = amp_expand(amp_unreduced(of, v->input, v->dim, v->keepdim), amp_shape_of(v->input));
    return amp_div_scalar(t, amp_int(amp_reduced_count(v->input, v->dim)));
}

void amp_gradient_var(amp_gradient *g) {
    const amp_var_args *a = g->args;
    const variance v = VARIANCE_OF(a);
    amp_gradient_give(g, &a->input, undo_var(&v, g->of[0]));
}

void amp_gradient_std(amp_gradient *g) {
    const amp_std_args *a = g->args;
    const variance v = VARIANCE_OF(a);
    amp_gradient_give(g, &a->input, undo_std(&v, g->of[0], g->results[0]));
}

void amp_gradient_var_mean(amp_gradient *g) {
    const amp_var_mean_args *a = g->args;
    const variance v = VARIANCE_OF(a);
    if (g->of[0]) amp_gradient_give(g, &a->input, undo_var(&v, g->of[0]));
    if (g->of[1]) amp_gradient_give(g, &a->input, undo_mean(&v, g->of[1]));
}

void amp_gradient_std_mean(amp_gradient *g) {
    const amp_std_mean_args *a = g->args;
    const variance v = VARIANCE_OF(a);
    if (g->of[0]) amp_gradient_give(g, &a->input, undo_std(&v, g->of[0], g->results[0]));
    if (g->of[1]) amp_gradient_give(g, &a->input, undo_mean(&v, g->of[1]));
}

/* ---- Sums of other kinds ------------------------------------------------------------------------------------------ */

void amp_gradient_logsumexp(amp_gradient *g) {
    const amp_logsumexp_args *a = g->args;
    amp_tensor *result = amp_wide(amp_unreduced(g->results[0], a->input, a->dim, a->keepdim));
    amp_tensor *shares = amp_exp(amp_sub(amp_wide(a->input), result));
    amp_gradient_give(g, &a->input,
                      amp_mul(amp_unreduced(g->of[0], a->input, a->dim, a->keepdim), amp_conjugate(shares)));
}

void amp_gradient_nansum(amp_gradient *g) {
    const amp_nansum_args *a = g->args;
    amp_tensor *t = spread(g, a->input, a->dim, a->keepdim);
    amp_gradient_give(g, &a->input, amp_masked_fill(t, amp_isnan(a->input), amp_int(0)));
}

void amp_gradient_nanmean(amp_gradient *g) {
    const amp_nanmean_args *a = g->args;
    amp_tensor *nans = amp_isnan(a->input);
    amp_tensor *count = amp_sum(amp_logical_not(nans), .dim = a->dim, .keepdim = a->keepdim);
    amp_tensor *quotient = amp_unreduced(amp_div(amp_wide(g->of[0]), count), a->input, a->dim, a->keepdim);
    amp_gradient_give(g, &a->input, amp_where_scalar_self(nans, amp_int(0), quotient));
}

void amp_gradient_trace(amp_gradient *g) {
    const amp_trace_args *a = g->args;
    const int64_t rows = a->input->shape[0], columns = a->input->shape[1], least = rows < columns ? rows : columns;
    amp_gradient_give(g, &a->input,
                      amp_diagonal_backward(amp_expand(g->of[0], AMP_DIMS(least)), amp_shape_of(a->input), 0, 0, 1));
}
