/* Numbers that sum up a vector or a matrix: norm, linalg_vector_norm, linalg_matrix_norm, frobenius_norm, nuclear_norm,
 * trace. */
#include <math.h>
#include <string.h>

#include "amp/ops.h"
#include "core/compute_dtype.h"
#include "ops/linalg/linalg.h"
#include "policy/promotion.h"
#include "steps/shape_rules.h"
#include "steps/steps.h"

/* ---- What all norms check --------------------------------------------------------------------------------------- */

static bool is_floating(amp_dtype dtype) {
    return amp_dtype_is_floating(dtype) || amp_dtype_is_complex(dtype);
}

static amp_dtype real_dtype(amp_dtype dtype) {
    return dtype == AMP_C64 ? AMP_F32 : dtype == AMP_C128 ? AMP_F64 : dtype;
}

/* The input is floating, and so is the dtype to compute in, which loses nothing. */
static amp_status check_dtypes(const amp_call *call, const amp_tensor *input, amp_dtype dtype) {
    if (!is_floating(input->dtype)) {
        return amp_fail(AMP_ERROR_DTYPE, "%s: 'input' is %s; expected a floating or complex dtype", amp_call_name(call),
                        amp_describe(input));
    }
    if (dtype == AMP_DTYPE_NONE) return AMP_OK;
    const bool same_kind = amp_dtype_is_complex(dtype) == amp_dtype_is_complex(input->dtype);
    if (is_floating(dtype) && same_kind && amp_promote(dtype, input->dtype) == dtype) return AMP_OK;
    return amp_fail(AMP_ERROR_DTYPE, "%s: 'dtype' is %s and 'input' is %s; expected a dtype of its kind, not narrower",
                    amp_call_name(call), amp_dtype_name(dtype), amp_describe(input));
}

static double number_of(amp_scalar s, double absent) {
    return s.kind == AMP_SCALAR_NONE                                    ? absent
           : s.kind == AMP_SCALAR_FLOAT || s.kind == AMP_SCALAR_COMPLEX ? s.re
                                                                        : (double)s.i;
}

static amp_status return_tensor(amp_call *call, amp_tensor *t) {
    call->outputs[0] = t;
    return t ? AMP_OK : amp_pending_error();
}

/* ---- Norms of vectors ------------------------------------------------------------------------------------------- */

/* Of no element there is no largest or smallest, nor a sum whose root of negative degree is a number. */
static amp_status check_elements(const amp_call *call, const amp_tensor *input, unsigned mask, double p) {
    if (amp_reduced_elements(input, mask) > 0 || (p >= 0 && !isinf(p))) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: 'input' is %s, and of no element there is no norm of order %g",
                    amp_call_name(call), amp_describe(input), p);
}

static amp_status vector_norm(amp_call *call, amp_tensor *input, double p, unsigned mask, bool keepdim,
                              amp_dtype dtype) {
    AMP_TRY(check_dtypes(call, input, dtype));
    AMP_TRY(check_elements(call, input, mask, p));
    const amp_dtype result = real_dtype(dtype == AMP_DTYPE_NONE ? input->dtype : dtype);
    if (amp_dtype_is_complex(input->dtype)) {
        input = amp_abs(input);
        if (!input) return amp_pending_error();
    }
    const amp_reduce_work work = {.kind = amp_norm_reduction(p),
                                  .input = input,
                                  .mask = mask,
                                  .compute = amp_compute_dtype(result),
                                  .power = p,
                                  .scale = 1.0,
                                  .root = p == 0.0 || isinf(p) ? 1.0 : 1.0 / p};
    int64_t shape[AMP_MAX_RANK];
    const int rank = amp_reduced_shape(input, mask, keepdim, shape);
    amp_tensor *out = amp_call_output(call, 0, result, rank, shape);
    return out ? amp_reduce(&work, out) : amp_pending_error();
}

static amp_status norm_over(amp_call *call, amp_tensor *input, double p, const amp_dims *dim, bool keepdim,
                            amp_dtype dtype) {
    unsigned mask;
    AMP_TRY(amp_wrap_dims(call, "dim", dim, true, input->rank, &mask));
    return vector_norm(call, input, p, mask, keepdim, dtype);
}

amp_status amp_op_linalg_vector_norm(amp_call *call) {
    const amp_linalg_vector_norm_args *a = call->args;
    return norm_over(call, a->input, number_of(a->ord, 2.0), &a->dim, a->keepdim, a->dtype);
}

amp_status amp_op_norm(amp_call *call) {
    const amp_norm_args *a = call->args;
    return norm_over(call, a->input, number_of(a->p, 2.0), &a->dim, a->keepdim, a->dtype);
}

amp_status amp_op_frobenius_norm(amp_call *call) {
    const amp_frobenius_norm_args *a = call->args;
    return norm_over(call, a->input, 2.0, &a->dim, a->keepdim, AMP_DTYPE_NONE);
}

/* ---- Norms of matrices ------------------------------------------------------------------------------------------ */

/* The two dimensions of each matrix. */
typedef struct matrix_dims {
    int row, column;
} matrix_dims;

static amp_status find_matrix(const amp_call *call, const amp_dims *dim, const amp_tensor *input, matrix_dims *found) {
    const amp_dims dims = dim->set ? *dim : AMP_DIMS(-2, -1);
    if (dims.count != 2) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'dim' names %d dimensions; a matrix has two", amp_call_name(call),
                        dims.count);
    }
    if (input->rank < 2) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'input' is %s; expected a matrix or a batch of matrices",
                        amp_call_name(call), amp_describe(input));
    }
    AMP_TRY(amp_wrap_dim(call, "dim", dims.values[0], input->rank, &found->row));
    AMP_TRY(amp_wrap_dim(call, "dim", dims.values[1], input->rank, &found->column));
    if (found->row != found->column) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: 'dim' names dimension %d twice; a matrix has two", amp_call_name(call),
                    found->row);
}

static amp_tensor with_dims_at_end(const amp_tensor *t, matrix_dims d) {
    amp_tensor view = *t;
    int at = 0;
    for (int i = 0; i < t->rank; i++) {
        const int to = i == d.row ? t->rank - 2 : i == d.column ? t->rank - 1 : at++;
        view.shape[to] = t->shape[i];
        view.strides[to] = t->strides[i];
    }
    return view;
}

/* (batch…), or with an extent of 1 at both dimensions of the matrix. */
static amp_tensor *place_dims(amp_tensor *t, matrix_dims d, bool keepdim) {
    if (!t || !keepdim) return t;
    const int first = d.row < d.column ? d.row : d.column, second = d.row < d.column ? d.column : d.row;
    return amp_unsqueeze(amp_unsqueeze(t, first), second);
}

typedef enum value_rule { SUM_OF_VALUES, LARGEST_VALUE, SMALLEST_VALUE } value_rule;

static amp_tensor *apply_rule(amp_tensor *values, value_rule rule) {
    const bool none = values->shape[values->rank - 1] == 0;
    if (rule == SMALLEST_VALUE) return amp_amin(values, AMP_DIMS(-1));
    return rule == SUM_OF_VALUES || none ? amp_sum(values, AMP_DIMS(-1)) : amp_amax(values, AMP_DIMS(-1));
}

static amp_status norm_of_values(amp_call *call, amp_tensor *input, matrix_dims d, bool keepdim, value_rule rule) {
    const amp_tensor matrices = with_dims_at_end(input, d);
    amp_tensor *values;
    AMP_TRY(amp_linalg_singular_values(call, "input", &matrices, &values));
    if (rule == SMALLEST_VALUE && values->shape[values->rank - 1] == 0) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'input' is %s, which has no smallest singular value",
                        amp_call_name(call), amp_describe(input));
    }
    return return_tensor(call, place_dims(apply_rule(values, rule), d, keepdim));
}

/* The largest or smallest sum of magnitudes along `summed`, over the indices of `chosen`. */
static amp_status norm_of_sums(amp_call *call, amp_tensor *input, int summed, int chosen, bool smallest, bool keepdim) {
    amp_call step = amp_call_step(call);
    if (smallest && input->shape[chosen] == 0) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'input' is %s, and of no sum there is no smallest", amp_call_name(call),
                        amp_describe(input));
    }
    AMP_TRY(vector_norm(&step, input, 1.0, 1u << summed, true, AMP_DTYPE_NONE));
    amp_linalg_step_done(call, &step);
    amp_tensor *sums = step.outputs[0];
    const amp_dims one = AMP_DIMS(chosen);
    amp_tensor *result = smallest                   ? amp_amin(sums, one, true)
                         : input->shape[chosen] > 0 ? amp_amax(sums, one, true)
                                                    : amp_sum(sums, one, true);
    return return_tensor(call, !result || keepdim ? result : amp_squeeze(result, AMP_DIMS(summed, chosen)));
}

static amp_status widen(const amp_call *call, amp_tensor **input, amp_dtype dtype) {
    AMP_TRY(check_dtypes(call, *input, dtype));
    if (dtype != AMP_DTYPE_NONE) *input = amp_to(*input, dtype);
    return *input ? AMP_OK : amp_pending_error();
}

amp_status amp_op_linalg_matrix_norm(amp_call *call) {
    const amp_linalg_matrix_norm_args *a = call->args;
    const double p = number_of(a->ord, 2.0), order = fabs(p);
    amp_tensor *input = a->input;
    matrix_dims d;
    AMP_TRY(find_matrix(call, &a->dim, input, &d));
    AMP_TRY(widen(call, &input, a->dtype));
    if (order == 2.0) return norm_of_values(call, input, d, a->keepdim, p > 0 ? LARGEST_VALUE : SMALLEST_VALUE);
    if (order == 1.0) return norm_of_sums(call, input, d.row, d.column, p < 0, a->keepdim);
    if (isinf(p)) return norm_of_sums(call, input, d.column, d.row, p < 0, a->keepdim);
    return amp_fail(AMP_ERROR_INVALID, "%s: 'ord' is %g; expected 1, -1, 2, -2, inf or -inf", amp_call_name(call), p);
}

static amp_status refuse_word(const amp_call *call, const char *argument, const char *word) {
    return amp_fail(AMP_ERROR_INVALID, "%s: '%s' is \"%s\"; expected \"fro\" or \"nuc\"", amp_call_name(call), argument,
                    word);
}

static amp_status nuclear_norm(amp_call *call, amp_tensor *input, const amp_dims *dim, bool keepdim, amp_dtype dtype) {
    matrix_dims d;
    AMP_TRY(find_matrix(call, dim, input, &d));
    AMP_TRY(widen(call, &input, dtype));
    return norm_of_values(call, input, d, keepdim, SUM_OF_VALUES);
}

amp_status amp_op_nuclear_norm(amp_call *call) {
    const amp_nuclear_norm_args *a = call->args;
    return nuclear_norm(call, a->input, &a->dim, a->keepdim, AMP_DTYPE_NONE);
}

amp_status amp_op_linalg_matrix_norm_str(amp_call *call) {
    const amp_linalg_matrix_norm_str_args *a = call->args;
    matrix_dims d;
    if (!strcmp(a->ord, "nuc")) return nuclear_norm(call, a->input, &a->dim, a->keepdim, a->dtype);
    if (strcmp(a->ord, "fro")) return refuse_word(call, "ord", a->ord);
    AMP_TRY(find_matrix(call, &a->dim, a->input, &d));
    return vector_norm(call, a->input, 2.0, 1u << d.row | 1u << d.column, a->keepdim, a->dtype);
}

/* Without dimensions "nuc" takes the input for one matrix. */
amp_status amp_op_norm_str(amp_call *call) {
    const amp_norm_str_args *a = call->args;
    if (!strcmp(a->p, "fro")) return norm_over(call, a->input, 2.0, &a->dim, a->keepdim, a->dtype);
    if (strcmp(a->p, "nuc")) return refuse_word(call, "p", a->p);
    if (!a->dim.set && a->input->rank != 2) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'input' is %s; name the two dimensions of its matrices in 'dim'",
                        amp_call_name(call), amp_describe(a->input));
    }
    return nuclear_norm(call, a->input, &a->dim, a->keepdim, a->dtype);
}

/* ---- trace ------------------------------------------------------------------------------------------------------ */

amp_status amp_op_trace(amp_call *call) {
    const amp_trace_args *a = call->args;
    if (a->input->rank != 2 || a->input->dtype == AMP_BOOL) {
        return amp_fail(a->input->rank == 2 ? AMP_ERROR_DTYPE : AMP_ERROR_INVALID,
                        "%s: 'input' is %s; expected a matrix of numbers", amp_call_name(call), amp_describe(a->input));
    }
    return return_tensor(call, amp_sum(amp_diagonal(a->input)));
}
