/* diff, trapezoid, nansum, nanmean, cov, corrcoef, kron: made of arithmetic and sums. */
#include <math.h>

#include "ops/math/compose.h"
#include "steps/row_rules.h"
#include "steps/shape_rules.h"

/* ---- diff ------------------------------------------------------------------------------------------------------- */

static amp_tensor *joined(amp_tensor *before, amp_tensor *input, amp_tensor *behind, int d) {
    if (before) input = amp_cat(AMP_LIST(before, input), d);
    return behind && input ? amp_cat(AMP_LIST(input, behind), d) : input;
}

/* One element fewer; bools differ or not. */
static amp_tensor *differences(amp_tensor *t, int d) {
    const int64_t n = t->shape[d];
    amp_tensor *right = amp_narrow(t, d, 1, n - 1), *left = right ? amp_narrow(t, d, 0, n - 1) : NULL;
    return !left ? NULL : t->dtype == AMP_BOOL ? amp_logical_xor(right, left) : amp_sub(right, left);
}

amp_status amp_op_diff(amp_call *call) {
    const amp_diff_args *a = call->args;
    int d;
    if (a->input->rank == 0 || a->n.value < 0) {
        return amp_fail(AMP_ERROR_INVALID,
                        "%s: input is %s and 'n' %lld; expected at least one dimension, and n from 0 up",
                        amp_call_name(call), amp_describe(a->input), (long long)a->n.value);
    }
    AMP_TRY(amp_wrap_dim(call, "dim", a->dim.value, a->input->rank, &d));
    amp_tensor *result = joined(a->prepend, a->input, a->append, d);
    if (result && (a->n.value == 0 || result->shape[d] == 0)) result = amp_clone(result);
    for (int64_t i = 0; result && i < a->n.value && result->shape[d] > 0; i++) result = differences(result, d);
    return amp_return(call, result);
}

/* ---- trapezoid -------------------------------------------------------------------------------------------------- */

static amp_status read_curve(const amp_call *call, const amp_tensor *y, int64_t dim, int *d) {
    AMP_TRY(amp_wrap_dim(call, "dim", dim, y->rank, d));
    if (y->rank > 0 && y->dtype != AMP_BOOL) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: 'y' is %s; expected at least one dimension of numbers", amp_call_name(call),
                    amp_describe(y));
}

/* Of no values: zeros. */
static amp_tensor *integral_of_none(const amp_tensor *y, int d) {
    amp_dims shape = {.set = AMP_PRESENT};
    for (int i = 0; i < y->rank; i++) {
        if (i != d) shape.values[shape.count++] = y->shape[i];
    }
    return amp_zeros(shape, .dtype = y->dtype, .device = (int64_t)y->storage->device);
}

/* Places as a vector, or with as many dimensions as y. */
static amp_status read_places(const amp_call *call, amp_tensor *x, const amp_tensor *y, int d, amp_tensor **places) {
    amp_dims shape = {.set = AMP_PRESENT};
    if (x->rank == 1 && x->shape[0] != y->shape[d]) {
        return amp_fail(AMP_ERROR_INVALID,
                        "%s: 'x' is %s, 'y' is %s; expected a place for each element of dimension %d",
                        amp_call_name(call), amp_describe(x), amp_describe(y), d);
    }
    for (int i = 0; i < y->rank; i++) {
        const int own = i - (y->rank - x->rank);
        shape.values[shape.count++] = x->rank == 1 ? (i == d ? x->shape[0] : 1) : own < 0 ? 1 : x->shape[own];
    }
    *places = x->rank < y->rank || x->rank == 1 ? amp_reshape(x, shape) : x;
    return *places ? AMP_OK : amp_pending_error();
}

amp_status amp_op_trapezoid(amp_call *call) {
    const amp_trapezoid_args *a = call->args;
    amp_tensor *x;
    int d, e;
    AMP_TRY(read_curve(call, a->y, a->dim.value, &d));
    if (a->y->shape[d] == 0) return amp_return(call, integral_of_none(a->y, d));
    AMP_TRY(read_places(call, a->x, a->y, d, &x));
    AMP_TRY(amp_wrap_dim(call, "dim", a->dim.value, x->rank, &e));
    const int64_t n = a->y->shape[d];
    amp_tensor *sums = amp_add(amp_narrow(a->y, d, 0, n - 1), amp_narrow(a->y, d, 1, n - 1));
    amp_tensor *widths = sums && x->shape[e] > 0 ? differences(x, e) : NULL;
    if (sums && !widths && !amp_failed()) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'x' is %s, 'y' is %s; there are no places", amp_call_name(call),
                        amp_describe(a->x), amp_describe(a->y));
    }
    amp_tensor *products = widths ? amp_mul(sums, widths) : NULL;
    amp_tensor *sum = products ? amp_sum(products, AMP_DIMS(a->dim.value)) : NULL;
    return amp_return(call, sum ? amp_div_scalar(sum, amp_int(2)) : NULL);
}

amp_status amp_op_trapezoid_dx(amp_call *call) {
    const amp_trapezoid_dx_args *a = call->args;
    amp_tensor *y = a->y;
    int d;
    AMP_TRY(read_curve(call, y, a->dim.value, &d));
    if (y->shape[d] == 0) return amp_return(call, integral_of_none(y, d));
    amp_tensor *ends = amp_add(amp_select(y, d, 0), amp_select(y, d, y->shape[d] - 1));
    amp_tensor *half = ends ? amp_mul_scalar(ends, amp_float(0.5)) : NULL, *sum = half ? amp_sum(y, AMP_DIMS(d)) : NULL;
    amp_tensor *inner = sum ? amp_sub(sum, half) : NULL;
    return amp_return(call, inner ? amp_mul_scalar(inner, a->dx) : NULL);
}

/* ---- nansum, nanmean -------------------------------------------------------------------------------------------- */

static amp_status check_real(const amp_call *call, const amp_tensor *input) {
    if (!amp_dtype_is_complex(input->dtype)) return AMP_OK;
    return amp_fail(AMP_ERROR_DTYPE, "%s: input is %s; expected real numbers", amp_call_name(call),
                    amp_describe(input));
}

static amp_tensor *without_nan(amp_tensor *input) {
    if (amp_is_whole(input->dtype)) return input;
    amp_tensor *nans = amp_isnan(input);
    return nans ? amp_masked_fill(input, nans, amp_int(0)) : NULL;
}

amp_status amp_op_nansum(amp_call *call) {
    const amp_nansum_args *a = call->args;
    AMP_TRY(check_real(call, a->input));
    amp_tensor *numbers = without_nan(a->input);
    return amp_return(call, numbers ? amp_sum(numbers, a->dim, a->keepdim, .dtype = a->dtype) : NULL);
}

/* Sums of 16-bit floats are divided before they are rounded. */
amp_status amp_op_nanmean(amp_call *call) {
    const amp_nanmean_args *a = call->args;
    AMP_TRY(check_real(call, a->input));
    AMP_TRY(amp_check_floating(call, a->input));
    const amp_dtype dtype = a->dtype == AMP_DTYPE_NONE ? a->input->dtype : a->dtype;
    const amp_dtype wide = dtype == AMP_BF16 || dtype == AMP_F16 ? AMP_F32 : dtype;
    amp_tensor *numbers = without_nan(a->input), *nans = numbers ? amp_isnan(a->input) : NULL;
    amp_tensor *sum = nans ? amp_sum(numbers, a->dim, a->keepdim, .dtype = wide) : NULL;
    amp_tensor *count = sum ? amp_sum(amp_logical_not(nans), a->dim, a->keepdim) : NULL;
    amp_tensor *mean = count ? amp_div(sum, count) : NULL;
    return amp_return(call, mean && mean->dtype != dtype && amp_dtype_is_floating(dtype) ? amp_to(mean, dtype) : mean);
}

/* ---- cov, corrcoef ---------------------------------------------------------------------------------------------- */

static amp_tensor *wide_enough(amp_tensor *t) {
    return t->dtype == AMP_BF16 || t->dtype == AMP_F16 ? amp_to(t, AMP_F32) : t;
}

/* Weights of observations: a vector with none below 0. */
static amp_status check_weights(const amp_call *call, const char *name, amp_tensor *weights, int64_t observations,
                                bool whole) {
    const bool fits = weights->rank <= 1 && amp_tensor_elements(weights) == observations;
    const bool right =
        whole ? amp_is_whole(weights->dtype) && weights->dtype != AMP_BOOL : amp_dtype_is_floating(weights->dtype);
    if (!fits || !right) {
        return amp_fail(right ? AMP_ERROR_INVALID : AMP_ERROR_DTYPE, "%s: '%s' is %s; expected %lld %s",
                        amp_call_name(call), name, amp_describe(weights), (long long)observations,
                        whole ? "integers" : "floats");
    }
    const double least = observations ? amp_number_of(amp_amin(weights)) : 0.0;
    if (amp_failed()) return amp_pending_error();
    if (!(least < 0.0)) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: '%s' holds %g; expected numbers from 0 up", amp_call_name(call), name,
                    least);
}

/* The product of both kinds; NULL without an error: every observation counts 1. */
static amp_status read_weights(const amp_call *call, const amp_cov_args *a, int64_t observations,
                               amp_tensor **weights) {
    *weights = a->fweights;
    if (a->fweights) AMP_TRY(check_weights(call, "fweights", a->fweights, observations, true));
    if (!a->aweights) return AMP_OK;
    AMP_TRY(check_weights(call, "aweights", a->aweights, observations, false));
    *weights = a->fweights ? amp_mul(a->fweights, a->aweights) : a->aweights;
    return *weights ? AMP_OK : amp_pending_error();
}

/* What sums over observations are divided by, for the mean and for products (at least 0): f64, and tensors where there
 * are weights, which have gradients. */
typedef struct divisors {
    double observations;
    amp_tensor *sum, *rest; /* NULL: there are no weights */
} divisors;

static amp_status find_divisors(const amp_call *call, const amp_cov_args *a, amp_tensor *weights, divisors *d) {
    if (!weights) return AMP_OK;
    const double correction = (double)a->correction.value;
    d->sum = amp_sum(amp_to(weights, AMP_F64));
    if (d->sum && amp_number_of(d->sum) == 0.0 && !amp_failed())
        return amp_fail(AMP_ERROR_INVALID, "%s: the weights sum up to 0", amp_call_name(call));
    amp_tensor *taken = NULL; /* correction · Σ w·a / Σ w */
    if (a->aweights && correction != 0.0)
        taken = amp_div(amp_sum(amp_mul(amp_to(weights, AMP_F64), a->aweights)), d->sum);
    d->rest = taken ? amp_sub(d->sum, amp_mul_scalar(taken, amp_float(correction)))
                    : amp_sub_scalar(d->sum, amp_float(a->aweights ? 0.0 : correction));
    d->rest = amp_clamp(d->rest, .min = amp_float(0.0));
    return amp_pending_error();
}

static amp_tensor *divided(amp_tensor *t, amp_tensor *divisor, double number) {
    if (!t) return NULL;
    return divisor ? amp_div(t, divisor) : amp_div_scalar(t, amp_float(number > 0.0 ? number : 0.0));
}

static amp_status check_variables(const amp_call *call, const amp_tensor *input) {
    if (input->rank <= 2 && input->dtype != AMP_BOOL) return AMP_OK;
    return amp_fail(input->rank <= 2 ? AMP_ERROR_DTYPE : AMP_ERROR_INVALID,
                    "%s: input is %s; expected a matrix of numbers, a row of observations for each variable",
                    amp_call_name(call), amp_describe(input));
}

/* The variables' own dtype is kept: integers have become floats. */
static amp_status covariance(const amp_call *call, const amp_cov_args *a, amp_tensor **result) {
    amp_tensor *rows = wide_enough(a->input), *weights;
    if (rows && rows->rank < 2) rows = amp_reshape(rows, AMP_DIMS(1, amp_tensor_elements(rows)));
    if (!rows) return amp_pending_error();
    divisors d = {.observations = (double)rows->shape[1]};
    AMP_TRY(read_weights(call, a, rows->shape[1], &weights));
    AMP_TRY(find_divisors(call, a, weights, &d));
    amp_tensor *weighted = weights ? amp_mul(rows, weights) : rows;
    amp_tensor *total = weighted ? amp_sum(weighted, AMP_DIMS(1), true) : NULL;
    amp_tensor *mean = divided(total, d.sum, d.observations);
    amp_tensor *centred = mean ? amp_sub(rows, mean) : NULL;
    weighted = centred && weights ? amp_mul(centred, weights) : centred;
    amp_tensor *turned = weighted ? amp_t(weighted) : NULL;
    if (turned && amp_dtype_is_complex(turned->dtype)) {
        amp_tensor *imaginary = amp_clone(turned);
        if (!imaginary || !amp_neg_(amp_imag(imaginary))) return amp_pending_error();
        turned = imaginary;
    }
    amp_tensor *products = turned ? amp_mm(centred, turned) : NULL;
    amp_tensor *quotient = divided(products, d.rest, d.observations - (double)a->correction.value);
    *result = quotient ? amp_squeeze(quotient) : NULL;
    return *result ? AMP_OK : amp_pending_error();
}

/* In the dtype of the input; in a region the product's, as it is there. */
static amp_tensor *narrowed(const amp_tensor *input, amp_tensor *t) {
    return t && (input->dtype == AMP_BF16 || input->dtype == AMP_F16) ? amp_to(t, input->dtype) : t;
}

amp_status amp_op_cov(amp_call *call) {
    const amp_cov_args *a = call->args;
    amp_tensor *result;
    AMP_TRY(check_variables(call, a->input));
    AMP_TRY(covariance(call, a, &result));
    return amp_return(call, narrowed(a->input, result));
}

static amp_tensor *clamped(amp_tensor *t) {
    if (!amp_dtype_is_complex(t->dtype)) return amp_clamp(t, amp_float(-1.0), amp_float(1.0));
    amp_tensor *parts = amp_view_as_real(t), *kept = parts ? amp_clamp(parts, amp_float(-1.0), amp_float(1.0)) : NULL;
    return kept ? amp_view_as_complex(kept) : NULL;
}

amp_status amp_op_corrcoef(amp_call *call) {
    const amp_corrcoef_args *a = call->args;
    const amp_cov_args whole = {.struct_size = sizeof whole, .input = a->input, .correction = AMP_SET(1)};
    amp_tensor *c;
    AMP_TRY(check_variables(call, a->input));
    AMP_TRY(covariance(call, &whole, &c));
    if (c->rank == 0) return amp_return(call, narrowed(a->input, amp_div(c, c)));
    amp_tensor *variances = amp_real(amp_diagonal(c)), *deviations = variances ? amp_sqrt(variances) : NULL;
    amp_tensor *rows = deviations ? amp_div(c, amp_unsqueeze(deviations, 1)) : NULL;
    amp_tensor *both = rows ? amp_div(rows, amp_unsqueeze(deviations, 0)) : NULL;
    return amp_return(call, both ? narrowed(a->input, clamped(both)) : NULL);
}

/* ---- kron ------------------------------------------------------------------------------------------------------- */

/* Dimension d of the result is made of both: x's are spread out before y's. */
amp_status amp_op_kron(amp_call *call) {
    const amp_kron_args *a = call->args;
    const amp_tensor *x = a->input, *y = a->other;
    const int rank = x->rank > y->rank ? x->rank : y->rank;
    amp_dims wide = {.set = AMP_PRESENT}, narrow = {.set = AMP_PRESENT}, shape = {.set = AMP_PRESENT};
    if (2 * rank > AMP_MAX_RANK) {
        return amp_fail(AMP_ERROR_INVALID, "%s: input is %s, 'other' is %s; expected at most %d dimensions",
                        amp_call_name(call), amp_describe(x), amp_describe(y), AMP_MAX_RANK / 2);
    }
    for (int d = 0; d < rank; d++) {
        const int dx = d - (rank - x->rank), dy = d - (rank - y->rank);
        const int64_t m = dx < 0 ? 1 : x->shape[dx], n = dy < 0 ? 1 : y->shape[dy];
        wide.values[wide.count++] = m;
        wide.values[wide.count++] = 1;
        narrow.values[narrow.count++] = 1;
        narrow.values[narrow.count++] = n;
        if (__builtin_mul_overflow(m, n, &shape.values[shape.count++])) {
            return amp_fail(AMP_ERROR_INVALID, "%s: input is %s, 'other' is %s; their product does not fit memory",
                            amp_call_name(call), amp_describe(x), amp_describe(y));
        }
    }
    amp_tensor *left = amp_reshape(a->input, wide), *right = left ? amp_reshape(a->other, narrow) : NULL;
    amp_tensor *product = right ? amp_mul(left, right) : NULL;
    return amp_return(call, product ? amp_reshape(product, shape) : NULL);
}
