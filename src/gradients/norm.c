/* Gradients of norms. At 0, where a norm has a kink, 0. */
#include <math.h>
#include <string.h>

#include "gradients/linalg/matrices.h"

/* -1, 0, 1; of complex numbers their direction. */
static amp_tensor *direction(amp_tensor *x, amp_tensor *size) {
    if (!amp_dtype_is_complex(x->dtype)) return amp_sign(x);
    return amp_masked_fill(amp_div(x, size), amp_eq_scalar(size, amp_int(0)), amp_int(0));
}

static amp_tensor *zero_where_zero(amp_tensor *t, amp_tensor *of) {
    return amp_masked_fill(t, amp_eq_scalar(of, amp_int(0)), amp_int(0));
}

/* The largest, or smallest, share. */
static amp_tensor *undo_extreme(amp_tensor *x, amp_tensor *size, amp_tensor *of, amp_tensor *norm, amp_dims dim) {
    amp_tensor *chosen = amp_logical_or(amp_eq(size, norm), amp_isnan(size));
    amp_tensor *count = amp_sum(chosen, .dim = dim, .keepdim = true);
    if (dim.count == 0 && count && x->rank > 0) count = amp_reshape(count, (amp_dims)AMP_NO_DIMS);
    return amp_mul(direction(x, size), amp_where_scalar_other(chosen, amp_div(of, count), amp_int(0)));
}

static amp_tensor *power(amp_tensor *t, double p) {
    return amp_pow_scalar(t, amp_float(p));
}

/* `of` and `norm` broadcast to x. */
static amp_tensor *undo_norm(amp_tensor *x, amp_tensor *of, amp_tensor *norm, double p, amp_dims dim) {
    if (p == 0.0) return amp_zeros_like(x);
    if (p == 2.0) return amp_mul(x, zero_where_zero(amp_div(of, norm), norm));
    amp_tensor *size = amp_abs(x);
    if (p == 1.0) return amp_mul(direction(x, size), of);
    if (isinf(p)) return undo_extreme(x, size, of, norm, dim);
    if (p < 1.0) {
        amp_tensor *slope = zero_where_zero(power(size, p - 1.0), x);
        return amp_mul(amp_mul(amp_mul(direction(x, size), slope), of), power(norm, 1.0 - p));
    }
    amp_tensor *scale = zero_where_zero(amp_div(of, power(norm, p - 1.0)), norm);
    amp_tensor *slope = p < 2.0 ? amp_mul(direction(x, size), power(size, p - 1.0)) : amp_mul(x, power(size, p - 2.0));
    return amp_mul(slope, scale);
}

static void give_norm(amp_gradient *g, double p, amp_dims dim, bool keepdim) {
    amp_tensor *const *input = amp_first_argument(g);
    amp_tensor *x = amp_wide(*input), *of = amp_wide(g->of[0]), *norm = amp_wide(g->results[0]);
    if (!x || !of || !norm) return;
    if (!amp_dtype_is_complex(x->dtype) && x->dtype != norm->dtype) x = amp_to(x, norm->dtype);
    of = amp_unreduced(of, *input, dim, keepdim);
    norm = amp_unreduced(norm, *input, dim, keepdim);
    if (x && of && norm) amp_gradient_give(g, input, undo_norm(x, of, norm, p, dim));
}

static double number_of(amp_scalar s) {
    return s.kind == AMP_SCALAR_NONE ? 2.0 : s.kind == AMP_SCALAR_INT || s.kind == AMP_SCALAR_BOOL ? (double)s.i : s.re;
}

void amp_gradient_norm(amp_gradient *g) {
    const amp_norm_args *a = g->args;
    give_norm(g, number_of(a->p), a->dim, a->keepdim);
}

void amp_gradient_linalg_vector_norm(amp_gradient *g) {
    const amp_linalg_vector_norm_args *a = g->args;
    give_norm(g, number_of(a->ord), a->dim, a->keepdim);
}

void amp_gradient_frobenius_norm(amp_gradient *g) {
    const amp_frobenius_norm_args *a = g->args;
    give_norm(g, 2.0, a->dim, a->keepdim);
}

void amp_gradient_dist(amp_gradient *g) {
    const amp_dist_args *a = g->args;
    amp_tensor *x = amp_sub(amp_wide(a->input), amp_wide(a->other));
    amp_tensor *of = amp_wide(g->of[0]), *norm = amp_wide(g->results[0]);
    if (!x || !of || !norm) return;
    amp_tensor *t = undo_norm(x, of, norm, a->p.value, (amp_dims){.set = 0});
    amp_gradient_give(g, &a->input, t);
    if (amp_gradient_wants(g, &a->other)) amp_gradient_give(g, &a->other, amp_neg(t));
}

/* U Vᴴ of each matrix. */
static void give_nuclear(amp_gradient *g, amp_dims dim, bool keepdim) {
    amp_tensor *const *input = amp_first_argument(g);
    amp_tensor *vh = NULL, *s = NULL;
    const amp_dims dims = dim.set && dim.count == 2 ? dim : AMP_DIMS(-2, -1), last = AMP_DIMS(-2, -1);
    amp_tensor *matrices = amp_movedim(amp_wide(*input), dims, last);
    amp_tensor *u = amp_linalg_svd(matrices, .full_matrices = AMP_SET(false), .S = &s, .Vh = &vh);
    amp_tensor *directions = u ? amp_movedim(amp_matmul(u, vh), last, dims) : NULL;
    if (directions) amp_gradient_give(g, input, amp_mul(directions, amp_unreduced(g->of[0], *input, dims, keepdim)));
}

void amp_gradient_nuclear_norm(amp_gradient *g) {
    const amp_nuclear_norm_args *a = g->args;
    give_nuclear(g, a->dim, a->keepdim);
}

/* ---- Norms of matrices --------------------------------------------------------------------------------------------- */

/* Of the largest, or smallest, of numbers along `dim`: equal ones share. */
static amp_tensor *undo_choice(amp_tensor *values, int64_t dim, bool smallest, amp_tensor *of) {
    const amp_dims dims = AMP_DIMS(dim);
    amp_tensor *chosen = amp_eq(values, smallest ? amp_amin(values, dims, true) : amp_amax(values, dims, true));
    return amp_where_scalar_other(chosen, amp_div(of, amp_sum(chosen, .dim = dims, .keepdim = true)), amp_int(0));
}

/* The largest or smallest singular value of each matrix. */
static amp_tensor *undo_spectral(amp_tensor *x, amp_tensor *of, amp_dims dims, bool smallest) {
    const amp_dims last = AMP_DIMS(-2, -1);
    amp_tensor *s = NULL, *vh = NULL, *matrices = amp_movedim(x, dims, last);
    amp_tensor *u = amp_linalg_svd(matrices, .full_matrices = AMP_SET(false), .S = &s, .Vh = &vh);
    of = amp_squeeze(amp_movedim(of, dims, last), .dim = AMP_DIMS(-1));
    if (!u || !of) return NULL;
    return amp_movedim(amp_undo_svd(u, s, vh, NULL, undo_choice(s, -1, smallest, of), NULL), last, dims);
}

void amp_gradient_linalg_matrix_norm(amp_gradient *g) {
    const amp_linalg_matrix_norm_args *a = g->args;
    const double p = number_of(a->ord);
    const amp_dims dims = a->dim.set ? a->dim : AMP_DIMS(-2, -1);
    amp_tensor *x = amp_wide(a->input), *of = amp_unreduced(amp_wide(g->of[0]), a->input, dims, a->keepdim);
    if (a->dtype != AMP_DTYPE_NONE) x = amp_to(x, amp_wide_dtype(a->dtype));
    if (!x || !of) return;
    if (amp_tensor_elements(x) == 0) {
        amp_gradient_give(g, &a->input, amp_zeros_like(a->input));
    } else if (fabs(p) == 2.0) {
        amp_gradient_give(g, &a->input, undo_spectral(x, of, dims, p < 0));
    } else {
        const int summed = fabs(p) == 1.0 ? 0 : 1;
        amp_tensor *size = amp_abs(x), *sums = amp_sum(size, .dim = AMP_DIMS(dims.values[summed]), .keepdim = true);
        amp_gradient_give(g, &a->input,
                          amp_mul(direction(x, size), undo_choice(sums, dims.values[1 - summed], p < 0, of)));
    }
}

void amp_gradient_linalg_matrix_norm_str(amp_gradient *g) {
    const amp_linalg_matrix_norm_str_args *a = g->args;
    const amp_dims dims = a->dim.set ? a->dim : AMP_DIMS(-2, -1);
    if (!strcmp(a->ord, "nuc"))
        give_nuclear(g, dims, a->keepdim);
    else
        give_norm(g, 2.0, dims, a->keepdim);
}

void amp_gradient_norm_str(amp_gradient *g) {
    const amp_norm_str_args *a = g->args;
    if (!strcmp(a->p, "nuc"))
        give_nuclear(g, a->dim, a->keepdim);
    else
        give_norm(g, 2.0, a->dim, a->keepdim);
}
