/* Gradients of running sums and products, and of products. */
#include "amp/grad.h"
#include "core/memory.h"
#include "gradients/pieces.h"

/* From the end on: what comes later counts. A number is its own sum. */
static amp_tensor *sums_from_end(amp_tensor *t, int64_t dim) {
    if (!t || t->rank == 0) return t;
    const amp_dims dims = AMP_DIMS(dim);
    return amp_flip(amp_cumsum(amp_flip(t, dims), dim, .dtype = amp_wide_dtype(t->dtype)), dims);
}

void amp_gradient_cumsum(amp_gradient *g) {
    const amp_cumsum_args *a = g->args;
    amp_gradient_give(g, &a->input, sums_from_end(g->of[0], a->dim));
}

static bool has_zero(amp_tensor *t) {
    if (!t || amp_tensor_elements(t) == 0) return false;
    amp_tensor *count = amp_to_device(amp_sum(amp_eq_scalar(t, amp_int(0))), AMP_DEVICE_CPU);
    return count && amp_item(count) > 0;
}

/* ---- prod --------------------------------------------------------------------------------------------------------- */

/* The product of all that come before, 1 at first. */
static amp_tensor *product_before(amp_tensor *t, int dim) {
    amp_dims one = amp_shape_of(t);
    const int64_t extent = t->shape[dim];
    one.values[dim] = 1;
    amp_tensor *parts[] = {amp_ones(one, .dtype = t->dtype, .device = (int)t->storage->device),
                           amp_narrow(t, dim, 0, extent - 1)};
    return amp_cumprod(amp_cat((amp_tensor_list){parts, 2, NULL}, dim), dim);
}

/* The product of all others, whichever are zero. */
static amp_tensor *product_of_others(amp_tensor *t, int dim) {
    const amp_dims dims = AMP_DIMS(dim);
    amp_tensor *behind = amp_flip(product_before(amp_flip(t, dims), dim), dims);
    return amp_mul(product_before(t, dim), behind);
}

void amp_gradient_prod(amp_gradient *g) {
    const amp_prod_args *a = g->args;
    amp_tensor *x = a->input, *of = g->of[0], *result = g->results[0];
    if (x->rank == 0 || amp_tensor_elements(x) == 0) {
        amp_gradient_give(g, &a->input, x->rank == 0 ? of : amp_zeros_for(g, x, of->dtype));
        return;
    }
    int dim = 0;
    if (of->dtype != x->dtype) x = amp_to(x, of->dtype);
    if (a->dim.set) {
        dim = amp_dim_from_front(a->dim.value, a->input->rank);
        const amp_dims dims = AMP_DIMS(dim);
        of = amp_unreduced(of, a->input, dims, a->keepdim);
        result = amp_unreduced(result, a->input, dims, a->keepdim);
    }
    x = amp_wide(x);
    if (!x) return;
    amp_tensor *others;
    if (!has_zero(x))
        others = amp_div(amp_wide(result), x);
    else if (a->dim.set)
        others = product_of_others(x, dim);
    else
        others = amp_reshape(product_of_others(amp_reshape(x, AMP_DIMS(amp_tensor_elements(x))), 0), amp_shape_of(x));
    amp_gradient_give(g, &a->input, amp_mul(of, amp_conjugate(others)));
}

/* ---- cumprod ------------------------------------------------------------------------------------------------------ */

/* The first zero of each row. */
static amp_tensor *first_zeros(amp_tensor *zero, amp_tensor *count) {
    return amp_logical_and(zero, amp_eq_scalar(count, amp_int(1)));
}

/* Before the first zero as without any; there what comes up to the next one; behind it nothing. */
static amp_tensor *undo_with_zeros(amp_tensor *x, amp_tensor *result, amp_tensor *of, int dim) {
    amp_tensor *zero = amp_eq_scalar(x, amp_int(0)), *count = amp_cumsum(zero, dim);
    amp_tensor *first = first_zeros(zero, count), *none = amp_ne_scalar(count, amp_int(0));
    amp_tensor *before = sums_from_end(amp_masked_fill(amp_mul(of, amp_conjugate(result)), none, amp_int(0)), dim);
    before = amp_div(before, amp_conjugate(amp_masked_fill(x, none, amp_int(1))));
    amp_tensor *others = amp_conjugate(amp_cumprod(amp_masked_fill(x, first, amp_int(1)), dim));
    amp_tensor *outside = amp_ne_scalar(count, amp_int(1));
    amp_tensor *there = amp_masked_fill(amp_mul(of, others), outside, amp_int(0));
    there = amp_sum(there, .dim = AMP_DIMS(dim), .keepdim = true);
    return amp_where(first, there, amp_masked_fill(before, none, amp_int(0)));
}

/* s[k] = gradient[k] + x[k + 1] · s[k + 1], times what comes before k: exact at zeros in every order, one slice after
 * the other. */
static amp_tensor *undo_by_slices(amp_tensor *x, amp_tensor *of, int dim) {
    const int64_t n = x->shape[dim];
    amp_tensor **parts = amp_alloc((size_t)n * sizeof(amp_tensor *)), *sum = NULL;
    if (!parts) {
        amp_fail(AMP_ERROR_MEMORY, "cumprod: no memory for %lld gradients", (long long)n);
        return NULL;
    }
    for (int64_t k = n - 1; k >= 0; k--) {
        amp_tensor *own = amp_narrow(of, dim, k, 1);
        sum = sum ? amp_add(own, amp_mul(sum, amp_conjugate(amp_narrow(x, dim, k + 1, 1)))) : own;
        parts[k] = sum;
    }
    amp_tensor *sums = amp_cat((amp_tensor_list){parts, n, NULL}, dim);
    amp_free(parts);
    return amp_mul(sums, amp_conjugate(product_before(x, dim)));
}

void amp_gradient_cumprod(amp_gradient *g) {
    const amp_cumprod_args *a = g->args;
    amp_tensor *x = a->input, *of = amp_wide(g->of[0]);
    if (x->rank == 0 || x->shape[amp_dim_from_front(a->dim, x->rank)] <= 1 || amp_tensor_elements(x) == 0) {
        amp_gradient_give(g, &a->input, of); /* of one element the element */
        return;
    }
    const int dim = amp_dim_from_front(a->dim, x->rank);
    if (of && of->dtype != x->dtype) x = amp_to(x, of->dtype);
    amp_tensor *result = amp_wide(g->results[0]);
    if (!x || !of || !result) return;
    amp_tensor *t;
    if (!has_zero(x))
        t = amp_div(sums_from_end(amp_mul(of, amp_conjugate(result)), dim), amp_conjugate(x));
    else
        t = amp_grad_is_enabled() ? undo_by_slices(x, of, dim) : undo_with_zeros(x, result, of, dim);
    amp_gradient_give(g, &a->input, t);
}

/* ---- logcumsumexp ------------------------------------------------------------------------------------------------- */

/* exp(x) · Σ of what comes later of |gradient| · exp(-result), in logarithms; without a gradient -inf. */
static amp_tensor *part_of_sign(amp_tensor *x, amp_tensor *result, amp_tensor *magnitude, amp_tensor *counts,
                                int64_t dim) {
    amp_tensor *log = amp_where_scalar_other(counts, amp_log(magnitude), amp_float(-__builtin_inf()));
    const amp_dims dims = AMP_DIMS(dim);
    amp_tensor *sums = amp_flip(amp_logcumsumexp(amp_flip(amp_sub(log, result), dims), dim), dims);
    return amp_exp(amp_add(sums, x));
}

void amp_gradient_logcumsumexp(amp_gradient *g) {
    const amp_logcumsumexp_args *a = g->args;
    amp_tensor *x = amp_wide(a->input), *of = amp_wide(g->of[0]), *result = amp_wide(g->results[0]);
    if (!x || x->rank == 0 || amp_tensor_elements(x) == 0) {
        amp_gradient_give(g, &a->input, of);
        return;
    }
    amp_tensor *size = amp_abs(of);
    amp_tensor *more = part_of_sign(x, result, size, amp_gt_scalar(of, amp_int(0)), a->dim);
    amp_tensor *less = part_of_sign(x, result, size, amp_lt_scalar(of, amp_int(0)), a->dim);
    amp_gradient_give(g, &a->input, amp_sub(more, less));
}
