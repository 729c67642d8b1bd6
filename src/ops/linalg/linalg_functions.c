/* linalg_lu, linalg_matrix_power, matrix_exp, linalg_pinv, linalg_vander, linalg_norm: made of factors, products and
 * norms. */
#include <float.h>
#include <math.h>

#include "ops/linalg/linalg.h"
#include "ops/math/compose.h"

static amp_status need_square(const amp_call *call, const char *name, const amp_tensor *t) {
    if (t->rank >= 2 && t->shape[t->rank - 2] == t->shape[t->rank - 1]) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: '%s' is %s; expected square matrices", amp_call_name(call), name,
                    amp_describe(t));
}

static amp_status need_matrices(const amp_call *call, const char *name, const amp_tensor *t) {
    if (t->rank >= 2) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: '%s' is %s; expected a matrix or a batch of matrices", amp_call_name(call),
                    name, amp_describe(t));
}

/* An identity for each matrix. */
static amp_tensor *identity_like(const amp_call *call, const amp_tensor *t) {
    amp_tensor *ones = amp_ones(amp_dims_of(t->rank - 1, t->shape), .dtype = t->dtype, .device = (int64_t)call->device);
    return ones ? amp_diag_embed(ones) : NULL;
}

/* ---- linalg_lu -------------------------------------------------------------------------------------------------- */

/* Row i of L U is row order[i] of A: exchanges one after the other. */
static void follow_exchanges(const int32_t *pivots, int64_t k, int64_t m, int64_t *order) {
    for (int64_t i = 0; i < m; i++) order[i] = i;
    for (int64_t i = 0; i < k; i++) {
        const int64_t other = pivots[i] - 1, row = order[i];
        order[i] = order[other];
        order[other] = row;
    }
}

static amp_tensor *permutation_of(const amp_call *call, amp_tensor *pivots, const amp_tensor *a) {
    const int64_t m = a->shape[a->rank - 2], k = pivots->shape[pivots->rank - 1];
    amp_dims shape = amp_dims_of(a->rank - 1, a->shape);
    if (m == 0 || amp_tensor_elements(pivots) == 0) {
        amp_tensor none = *a;
        none.shape[a->rank - 1] = m;
        return identity_like(call, &none);
    }
    amp_tensor *host = amp_to_device(pivots, AMP_DEVICE_CPU), *order = host ? amp_empty(shape, .dtype = AMP_I64) : NULL;
    host = order ? amp_contiguous(host) : NULL;
    if (!host) return NULL;
    const int64_t batch = amp_tensor_elements(order) / m;
    for (int64_t i = 0; i < batch; i++) {
        follow_exchanges((const int32_t *)amp_tensor_pointer(host) + i * k, k, m,
                         (int64_t *)amp_tensor_pointer(order) + i * m);
    }
    if (call->device != AMP_DEVICE_CPU) order = amp_to_device(order, (int64_t)call->device);
    amp_tensor *rows = order ? amp_one_hot(order, AMP_SET(m)) : NULL;
    amp_tensor *columns = rows ? amp_transpose(rows, -2, -1) : NULL;
    return columns ? amp_to(columns, a->dtype) : NULL;
}

amp_status amp_op_linalg_lu(amp_call *call) {
    const amp_linalg_lu_args *args = call->args;
    amp_tensor *a = args->A, *pivots = NULL;
    AMP_TRY(amp_linalg_check(call, "A", a, false));
    const int64_t m = a->shape[a->rank - 2], n = a->shape[a->rank - 1], k = m < n ? m : n;
    amp_tensor *lu =
        amp_lu_with_info(a, .pivot = AMP_SET(args->pivot.value), .check_errors = AMP_SET(false), .pivots = &pivots);
    amp_tensor *lower = lu ? amp_tril(amp_narrow(lu, -1, 0, k), -1) : NULL;
    if (!lower) return amp_pending_error();
    amp_tensor *diagonal = amp_diagonal(lower, 0, -2, AMP_SET(-1));
    if (!diagonal || !amp_fill_(diagonal, amp_int(1))) return amp_pending_error();
    call->outputs[0] = args->pivot.value ? permutation_of(call, pivots, a)
                                         : amp_empty(AMP_DIMS(0), .dtype = a->dtype, .device = (int64_t)call->device);
    call->outputs[1] = lower;
    call->outputs[2] = call->outputs[0] ? amp_triu(amp_narrow(lu, -2, 0, k)) : NULL;
    return call->outputs[2] ? AMP_OK : amp_pending_error();
}

/* ---- linalg_matrix_power ---------------------------------------------------------------------------------------- */

/* By squares: those whose bits n has are multiplied. */
static amp_tensor *power_of(amp_tensor *base, uint64_t n) {
    if (n == 1) return amp_clone(base);
    amp_tensor *square = base, *result = NULL;
    while (square) {
        if (n & 1) result = result ? amp_matmul(result, square) : square;
        n >>= 1;
        if (n == 0) return result;
        square = amp_matmul(square, square);
    }
    return NULL;
}

amp_status amp_op_linalg_matrix_power(amp_call *call) {
    const amp_linalg_matrix_power_args *args = call->args;
    amp_tensor *base = args->input;
    AMP_TRY(need_square(call, "input", base));
    if (args->n == 0) return amp_return(call, identity_like(call, base));
    if (args->n < 0) base = amp_linalg_inv(base);
    const uint64_t n = args->n < 0 ? 0 - (uint64_t)args->n : (uint64_t)args->n;
    return amp_return(call, base ? power_of(base, n) : NULL);
}

/* ---- matrix_exp ------------------------------------------------------------------------------------------------- */

/* Σ Aⁱ/i! for i = 0 … 16, of norms up to ½, where the rest is below 2⁻⁶⁴: four terms at a time, from the last ones on
 * (Paterson and Stockmeyer, 1973). */
static amp_tensor *taylor(const amp_call *call, amp_tensor *a) {
    enum { TERMS = 4 };
    static const double factorials[] = {1.0,
                                        1.0,
                                        2.0,
                                        6.0,
                                        24.0,
                                        120.0,
                                        720.0,
                                        5040.0,
                                        40320.0,
                                        362880.0,
                                        3628800.0,
                                        39916800.0,
                                        479001600.0,
                                        6227020800.0,
                                        87178291200.0,
                                        1307674368000.0,
                                        20922789888000.0};
    amp_tensor *powers[TERMS + 1] = {identity_like(call, a), a}, *sum = NULL;
    for (int i = 2; i <= TERMS; i++) {
        powers[i] = powers[i - 1] ? amp_matmul(powers[i - 1], a) : NULL;
        if (!powers[i]) return NULL;
    }
    for (int first = 16; first >= 0; first -= TERMS) {
        if (sum) sum = amp_matmul(sum, powers[TERMS]);
        for (int i = 0; i < TERMS && first + i <= 16; i++) {
            const amp_scalar factor = amp_float(1.0 / factorials[first + i]);
            sum = sum ? amp_add(sum, powers[i], .alpha = factor) : amp_mul_scalar(powers[i], factor);
            if (!sum) return NULL;
        }
    }
    return sum;
}

/* How often each matrix is halved until the sum of magnitudes of a column is ½ at most, as (batch…, 1, 1); how often
 * the one that takes most. */
static amp_status halvings(amp_tensor *a, amp_tensor **times, int *most) {
    amp_tensor *sizes = amp_abs(a), *columns = sizes ? amp_sum(sizes, AMP_DIMS(-2), true) : NULL;
    amp_tensor *norm = columns ? amp_amax(columns, AMP_DIMS(-1), true) : NULL;
    amp_tensor *logarithm = norm ? amp_log2(norm) : NULL;
    amp_tensor *raised = logarithm ? amp_add_scalar(amp_ceil(logarithm), amp_int(1)) : NULL;
    amp_tensor *finite = raised ? amp_nan_to_num(raised, 0.0) : NULL;
    *times = finite ? amp_clamp(finite, amp_int(0), amp_int(1100)) : NULL;
    *most = *times ? (int)amp_number_of(amp_amax(*times)) : 0;
    return *times && !amp_failed() ? AMP_OK : amp_pending_error();
}

/* e^A = (e^(A/2ˢ))^(2ˢ), in double precision, each matrix with an s of its own. */
static amp_tensor *exponential(const amp_call *call, amp_tensor *a) {
    amp_tensor *times;
    int most;
    if (halvings(a, &times, &most) != AMP_OK) return NULL;
    amp_tensor *scale = amp_pow_scalar_base(amp_float(2.0), amp_neg(times)), *small = scale ? amp_mul(a, scale) : NULL;
    amp_tensor *result = small ? taylor(call, small) : NULL;
    for (int i = 0; i < most && result; i++) {
        amp_tensor *more = amp_gt_scalar(times, amp_int(i)), *square = more ? amp_matmul(result, result) : NULL;
        result = square ? amp_where(more, square, result) : NULL;
    }
    return result;
}

amp_status amp_op_matrix_exp(amp_call *call) {
    const amp_matrix_exp_args *args = call->args;
    amp_tensor *a = args->input;
    AMP_TRY(need_square(call, "input", a));
    if (amp_is_whole(a->dtype)) {
        return amp_fail(AMP_ERROR_DTYPE, "%s: 'input' is %s; expected a floating or complex dtype", amp_call_name(call),
                        amp_describe(a));
    }
    if (amp_tensor_elements(a) == 0) return amp_return(call, amp_clone(a));
    const amp_dtype wide = amp_dtype_is_complex(a->dtype) ? AMP_C128 : AMP_F64;
    amp_tensor *exact = wide == a->dtype ? a : amp_to(a, wide), *result = exact ? exponential(call, exact) : NULL;
    return amp_return(call, result && wide != a->dtype ? amp_to(result, a->dtype) : result);
}

/* ---- linalg_pinv ------------------------------------------------------------------------------------------------ */

/* Tolerances as numbers, or (batch…) tensors. */
typedef struct tolerances {
    amp_opt_float atol, rtol;
    amp_tensor *atols, *rtols;
} tolerances;

/* Below or at which of `values` (batch…, k) nothing counts, from the largest (batch…, 1). */
static amp_tensor *threshold_of(const tolerances *t, amp_tensor *largest, double usual) {
    const double atol = t->atol.set ? t->atol.value : 0.0;
    const bool has_atol = t->atols || atol > 0.0;
    amp_tensor *relative = t->rtols ? amp_mul(amp_unsqueeze(t->rtols, -1), largest)
                                    : amp_mul_scalar(largest, amp_float(t->rtol.set ? t->rtol.value
                                                                        : has_atol  ? 0.0
                                                                                    : usual));
    if (!relative || !t->atols) return relative ? amp_clamp(relative, amp_float(atol)) : NULL;
    return amp_maximum(relative, amp_unsqueeze(t->atols, -1));
}

/* 1/x of what counts, 0 of the rest; `sizes` are the absolute values. */
static amp_tensor *inverted(const tolerances *t, amp_tensor *values, amp_tensor *sizes, double usual) {
    amp_tensor *largest = sizes ? amp_amax(sizes, AMP_DIMS(-1), true) : NULL;
    amp_tensor *threshold = largest ? threshold_of(t, largest, usual) : NULL;
    amp_tensor *counts = threshold ? amp_gt(sizes, threshold) : NULL;
    amp_tensor *inverse = counts ? amp_reciprocal(values) : NULL;
    return inverse ? amp_where_scalar_other(counts, inverse, amp_int(0)) : NULL;
}

static amp_tensor *adjoint(amp_tensor *t) {
    return amp_dtype_is_complex(t->dtype) ? amp_linalg_adjoint(t) : amp_transpose(t, -2, -1);
}

static double epsilon_of(amp_dtype dtype) {
    return dtype == AMP_F64 || dtype == AMP_C128 ? DBL_EPSILON : (double)FLT_EPSILON;
}

static amp_status pseudo_inverse(amp_call *call, amp_tensor *a, const tolerances *t, bool hermitian) {
    AMP_TRY(hermitian ? need_square(call, "input", a) : need_matrices(call, "input", a));
    const int64_t m = a->shape[a->rank - 2], n = a->shape[a->rank - 1];
    const double usual = epsilon_of(a->dtype) * (double)(m > n ? m : n);
    if (amp_tensor_elements(a) == 0) {
        amp_dims shape = amp_shape_of(a);
        shape.values[a->rank - 2] = n;
        shape.values[a->rank - 1] = m;
        return amp_return(call, amp_zeros(shape, .dtype = a->dtype, .device = (int64_t)call->device));
    }
    amp_tensor *s = NULL, *vh = NULL, *u = NULL, *left, *inverse;
    if (hermitian) {
        s = amp_linalg_eigh(a, .eigenvectors = &u);
        inverse = s ? inverted(t, s, amp_abs(s), usual) : NULL;
        left = u;
    } else {
        u = amp_linalg_svd(a, AMP_SET(false), .S = &s, .Vh = &vh);
        inverse = u ? inverted(t, s, s, usual) : NULL;
        left = inverse ? adjoint(vh) : NULL;
    }
    amp_tensor *scaled = inverse && left ? amp_mul(left, amp_unsqueeze(inverse, -2)) : NULL;
    amp_tensor *right = scaled ? adjoint(u) : NULL;
    return amp_return(call, right ? amp_matmul(scaled, right) : NULL);
}

amp_status amp_op_linalg_pinv(amp_call *call) {
    const amp_linalg_pinv_args *args = call->args;
    const tolerances t = {.atol = args->atol, .rtol = args->rtol};
    return pseudo_inverse(call, args->input, &t, args->hermitian);
}

amp_status amp_op_linalg_pinv_tensor(amp_call *call) {
    const amp_linalg_pinv_tensor_args *args = call->args;
    const tolerances t = {.atols = args->atol, .rtols = args->rtol};
    return pseudo_inverse(call, args->input, &t, args->hermitian);
}

amp_status amp_op_linalg_pinv_singular(amp_call *call) {
    const amp_linalg_pinv_singular_args *args = call->args;
    static const tolerances usual;
    AMP_TRY(need_matrices(call, "a", args->a));
    AMP_TRY(need_matrices(call, "b", args->b));
    amp_tensor *product = amp_matmul(args->a, amp_transpose(args->b, -2, -1));
    return product ? pseudo_inverse(call, product, &usual, false) : amp_pending_error();
}

/* ---- linalg_vander ---------------------------------------------------------------------------------------------- */

amp_status amp_op_linalg_vander(amp_call *call) {
    const amp_linalg_vander_args *args = call->args;
    amp_tensor *x = args->x;
    if (x->dtype == AMP_BOOL || x->rank == AMP_MAX_RANK) {
        return amp_fail(x->dtype == AMP_BOOL ? AMP_ERROR_DTYPE : AMP_ERROR_INVALID,
                        "%s: 'x' is %s; expected numbers, of at most %d dimensions", amp_call_name(call),
                        amp_describe(x), AMP_MAX_RANK - 1);
    }
    if (x->rank == 0) x = amp_unsqueeze(x, 0);
    if (!x) return amp_pending_error();
    const int64_t powers = args->N.set ? args->N.value : x->shape[x->rank - 1];
    if (powers < (args->N.set ? 2 : 0)) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'N' is %lld; expected at least 2", amp_call_name(call),
                        (long long)powers);
    }
    amp_dims shape = amp_shape_of(x);
    amp_tensor *column = amp_unsqueeze(x, -1);
    shape.values[shape.count++] = powers > 1 ? powers - 1 : 0;
    amp_tensor *repeated = column ? amp_expand(column, shape) : NULL;
    amp_tensor *products = repeated ? amp_cumprod(repeated, -1) : NULL;
    if (!products) return amp_pending_error();
    shape.values[shape.count - 1] = powers > 0;
    amp_tensor *ones = amp_ones(shape, .dtype = products->dtype, .device = (int64_t)call->device);
    return amp_return(call, ones ? amp_cat(AMP_LIST(ones, products), -1) : NULL);
}

/* ---- linalg_norm ------------------------------------------------------------------------------------------------ */

static amp_status need_dims(const amp_call *call, const amp_tensor *input, const amp_dims *dim, bool has_order) {
    if (dim->set && dim->count != 1 && dim->count != 2) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'dim' names %d dimensions; expected one or two", amp_call_name(call),
                        dim->count);
    }
    if (dim->set || !has_order || input->rank == 1 || input->rank == 2) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: 'ord' is given and input is %s; name one or two dimensions in 'dim'",
                    amp_call_name(call), amp_describe(input));
}

amp_status amp_op_linalg_norm(amp_call *call) {
    const amp_linalg_norm_args *args = call->args;
    const bool has_order = args->ord.kind != AMP_SCALAR_NONE;
    AMP_TRY(need_dims(call, args->input, &args->dim, has_order));
    if (has_order && (args->dim.set ? args->dim.count : args->input->rank) == 2)
        return amp_return(
            call, amp_linalg_matrix_norm(args->input, args->ord, args->dim, args->keepdim, .dtype = args->dtype));
    return amp_return(call, amp_linalg_vector_norm(args->input, has_order ? args->ord : amp_int(2), args->dim,
                                                   args->keepdim, .dtype = args->dtype));
}

amp_status amp_op_linalg_norm_str(amp_call *call) {
    const amp_linalg_norm_str_args *args = call->args;
    if (!args->dim.set && args->input->rank != 2) {
        return amp_fail(AMP_ERROR_INVALID, "%s: input is %s; name the two dimensions of its matrices in 'dim'",
                        amp_call_name(call), amp_describe(args->input));
    }
    return amp_return(call, amp_linalg_matrix_norm_str(args->input, .ord = args->ord, .dim = args->dim,
                                                       .keepdim = args->keepdim, .dtype = args->dtype));
}
