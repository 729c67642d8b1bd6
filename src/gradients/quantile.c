/* Gradients of quantiles: each is a mixture of two elements of a row in order, which share its gradient. */
#include <string.h>

#include "gradients/pieces.h"

typedef struct quantiles {
    amp_tensor *const *input;
    amp_tensor *const *q; /* NULL: a number */
    double number;
    amp_opt_int dim;
    bool without_nan;
    const char *rule;
} quantiles;

/* Rows as the last dimension: all elements where no dimension is named. */
static amp_tensor *as_rows(amp_tensor *t, const amp_opt_int *dim) {
    const int64_t elements = amp_tensor_elements(t);
    if (!dim->set || t->rank == 0) return amp_reshape(t, AMP_DIMS(elements));
    const int64_t d = dim->value;
    return amp_movedim(t, AMP_DIMS(d), AMP_DIMS(-1));
}

static amp_tensor *from_rows(amp_tensor *rows, const amp_tensor *like, const amp_opt_int *dim) {
    if (!dim->set || like->rank == 0) return amp_reshape(rows, amp_shape_of(like));
    const int64_t d = dim->value;
    return amp_movedim(rows, AMP_DIMS(-1), AMP_DIMS(d));
}

/* (rows…, quantiles): the result's gradient, whose first dimension the quantiles are where there are several. */
static amp_tensor *of_rows(const amp_gradient *g, const quantiles *w, const amp_tensor *rows, int64_t count) {
    const bool listed = w->q && (*w->q)->rank == 1;
    amp_dims shape = amp_shape_of(rows);
    amp_tensor *t = g->of[0];
    shape.values[shape.count - 1] = count;
    if (listed) t = amp_movedim(t, AMP_DIMS(0), AMP_DIMS(-1));
    return amp_reshape(t, shape);
}

/* The number of the last element that counts, by row. */
static amp_tensor *last_of(const quantiles *w, const amp_tensor *rows, amp_tensor *nans, amp_dtype dtype) {
    const int64_t n = rows->shape[rows->rank - 1];
    if (!w->without_nan) return amp_full_like(nans, amp_int(n - 1), .dtype = dtype);
    return amp_to(amp_clamp(amp_add_scalar(amp_neg(nans), amp_int(n - 1)), amp_int(0)), dtype);
}

/* Where each quantile lies in its row, from 0; with a NaN in the row at its end, where the NaNs are. */
static amp_tensor *ranks_of(const quantiles *w, amp_tensor *nans, amp_tensor *last, amp_tensor *q) {
    amp_tensor *ranks = amp_mul(last, q);
    return w->without_nan ? ranks : amp_where(amp_ne_scalar(nans, amp_int(0)), last, ranks);
}

static amp_tensor *by_rule(amp_tensor *ranks, const char *rule) {
    if (!strcmp(rule, "lower")) return amp_floor(ranks);
    if (!strcmp(rule, "higher")) return amp_ceil(ranks);
    return strcmp(rule, "nearest") ? ranks : amp_round(ranks);
}

static void share_out(amp_gradient *g, const quantiles *w) {
    amp_tensor *rows = as_rows(*w->input, &w->dim), *indices = NULL;
    amp_tensor *sorted = rows ? amp_sort(rows, AMP_SET(-1), .stable = true, .indices = &indices) : NULL;
    if (!sorted) return;
    const int64_t count = w->q ? amp_tensor_elements(*w->q) : 1;
    amp_tensor *q = w->q ? amp_reshape(*w->q, AMP_DIMS(count))
                         : amp_full(AMP_DIMS(1), amp_float(w->number), .dtype = rows->dtype, .device = (int)g->device);
    amp_tensor *nans = amp_sum(amp_isnan(rows), .dim = AMP_DIMS(-1), .keepdim = true);
    amp_tensor *last = last_of(w, rows, nans, rows->dtype);
    amp_tensor *of = of_rows(g, w, rows, count), *ranks = by_rule(ranks_of(w, nans, last, q), w->rule);
    amp_tensor *below = amp_floor(ranks);
    amp_tensor *weight = strcmp(w->rule, "midpoint") ? amp_sub(ranks, below)
                                                     : amp_mul_scalar(amp_sub(amp_ceil(ranks), below), amp_float(0.5));
    if (!of || !weight) return;
    amp_tensor *first = amp_expand(amp_to(below, AMP_I64), amp_shape_of(of));
    amp_tensor *second = amp_expand(amp_to(amp_ceil(ranks), AMP_I64), amp_shape_of(of));
    amp_tensor *above = amp_mul(of, weight);
    amp_tensor *sum = amp_scatter_add(amp_zeros_for(g, rows, of->dtype), -1, first, amp_sub(of, above));
    sum = amp_scatter_add(sum, -1, second, above);
    if (amp_gradient_wants(g, w->input)) {
        amp_tensor *back = amp_scatter(amp_zeros_for(g, rows, of->dtype), -1, indices, sum);
        amp_gradient_give(g, w->input, back ? from_rows(back, *w->input, &w->dim) : NULL);
    }
    if (!w->q || !amp_gradient_wants(g, w->q)) return;
    /* Between two elements the quantile moves with q; every other rule has steps. */
    amp_tensor *slope = amp_sub(amp_gather(sorted, -1, second), amp_gather(sorted, -1, first));
    amp_tensor *by_q = amp_mul(amp_mul(of, slope), last);
    if (strcmp(w->rule, "linear")) by_q = amp_zeros_like(of);
    amp_tensor *flat = amp_reshape(by_q, AMP_DIMS(-1, count));
    amp_gradient_give(g, w->q, amp_reshape(amp_sum(flat, .dim = AMP_DIMS(0)), amp_shape_of(*w->q)));
}

/* nanquantile's struct is quantile's. */
static bool leaves_nan_out(const amp_gradient *g) {
    return !strncmp(g->op->name, "nan", 3);
}

void amp_gradient_quantile(amp_gradient *g) {
    const amp_quantile_args *a = g->args;
    share_out(
        g,
        &(const quantiles){
            .input = &a->input, .q = &a->q, .dim = a->dim, .without_nan = leaves_nan_out(g), .rule = a->interpolation});
}

void amp_gradient_quantile_scalar(amp_gradient *g) {
    const amp_quantile_scalar_args *a = g->args;
    share_out(g, &(const quantiles){.input = &a->input,
                                    .number = a->q,
                                    .dim = a->dim,
                                    .without_nan = leaves_nan_out(g),
                                    .rule = a->interpolation});
}
