/* sort, topk, quantile, nanquantile. */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "amp/ops.h"
#include "cpu/move/rows.h"
#include "steps/shape_rules.h"
#include "steps/steps.h"

static amp_status check_ordered(const amp_call *call, const amp_tensor *input) {
    if (!amp_dtype_is_complex(input->dtype)) return AMP_OK;
    return amp_fail(AMP_ERROR_DTYPE, "%s: complex numbers have no order (input is %s)", amp_call_name(call),
                    amp_describe(input));
}

static amp_status sort_along(amp_call *call, const amp_tensor *input, int d, int64_t k, bool descending,
                             bool last_first) {
    amp_rows in, values_rows, places_rows;
    const unsigned mask = input->rank ? 1u << d : 0;
    int64_t shape[AMP_MAX_RANK];
    memcpy(shape, input->shape, (size_t)input->rank * sizeof *shape);
    if (input->rank) shape[d] = k;
    AMP_TRY(amp_rows_of(call, input, mask, &in));
    amp_tensor *values = amp_call_output(call, 0, input->dtype, input->rank, shape);
    amp_tensor *indices = values ? amp_call_output(call, 1, AMP_I64, input->rank, shape) : NULL;
    if (!indices) return amp_pending_error();
    AMP_TRY(amp_rows_for(call, values, mask, &values_rows));
    AMP_TRY(amp_rows_for(call, indices, mask, &places_rows));
    AMP_TRY(amp_steps_of(call)->first_of_rows(call, &in, k, descending, last_first, &values_rows, &places_rows));
    AMP_TRY(amp_rows_finish(&values_rows));
    return amp_rows_finish(&places_rows);
}

amp_status cpu_sort(amp_call *call) {
    const amp_sort_args *a = call->args;
    int d;
    AMP_TRY(amp_wrap_dim(call, "dim", a->dim.value, a->input->rank, &d));
    AMP_TRY(check_ordered(call, a->input));
    return sort_along(call, a->input, d, a->input->rank ? a->input->shape[d] : 1, a->descending, false);
}

amp_status cpu_topk(amp_call *call) {
    const amp_topk_args *a = call->args;
    int d;
    AMP_TRY(amp_wrap_dim(call, "dim", a->dim.value, a->input->rank, &d));
    AMP_TRY(check_ordered(call, a->input));
    const int64_t length = a->input->rank ? a->input->shape[d] : 1;
    if (a->k < 0 || a->k > length) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'k' is %lld, but dimension %d of input %s has %lld elements",
                        amp_call_name(call), (long long)a->k, d, amp_describe(a->input), (long long)length);
    }
    if (a->input->rank == 0 && a->k == 0) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'k' is 0, and input %s has no dimension that could be empty",
                        amp_call_name(call), amp_describe(a->input));
    }
    return sort_along(call, a->input, d, a->k, a->largest.value, true); /* as PyTorch leaves equal ones in short rows */
}

amp_status amp_check_quantile(const amp_call *call, int64_t index, double q) {
    if (q >= 0.0 && q <= 1.0) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: number %lld of 'q' is %g; expected 0 to 1", amp_call_name(call),
                    (long long)index, q);
}

static const char *const rules[] = {[AMP_QUANTILE_LINEAR] = "linear",
                                    [AMP_QUANTILE_LOWER] = "lower",
                                    [AMP_QUANTILE_HIGHER] = "higher",
                                    [AMP_QUANTILE_MIDPOINT] = "midpoint",
                                    [AMP_QUANTILE_NEAREST] = "nearest"};

enum { RULES = sizeof rules / sizeof *rules };

static amp_status check_quantiles(const amp_call *call, const amp_tensor *input, const char *rule, amp_quantiles *w) {
    if (input->dtype != AMP_F32 && input->dtype != AMP_F64) {
        return amp_fail(AMP_ERROR_DTYPE, "%s: input is %s; expected f32 or f64", amp_call_name(call),
                        amp_describe(input));
    }
    if (amp_tensor_elements(input) == 0) {
        return amp_fail(AMP_ERROR_INVALID, "%s: input is %s, and of no element there are no quantiles",
                        amp_call_name(call), amp_describe(input));
    }
    if (!w->q) AMP_TRY(amp_check_quantile(call, 0, w->number));
    for (w->rule = 0; w->rule < RULES && strcmp(rule, rules[w->rule]) != 0; w->rule++) {
    }
    if (w->rule < RULES) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID,
                    "%s: 'interpolation' is \"%s\"; expected linear, lower, higher, midpoint or nearest",
                    amp_call_name(call), rule);
}

typedef struct quantile_args {
    amp_tensor *input;
    const amp_opt_int *dim;
    bool keepdim;
    const char *interpolation;
} quantile_args;

/* `listed`: q is a vector, and its dimension comes first in the result. */
static amp_status run_quantiles(amp_call *call, const quantile_args *a, amp_quantiles *w, bool listed) {
    unsigned mask = (1u << a->input->rank) - 1;
    AMP_TRY(check_quantiles(call, a->input, a->interpolation, w));
    if (a->dim->set) {
        int d;
        AMP_TRY(amp_wrap_dim(call, "dim", a->dim->value, a->input->rank, &d));
        mask &= 1u << d;
    }
    int64_t shape[AMP_MAX_RANK + 1] = {w->count};
    const int rank = amp_reduced_shape(a->input, mask, a->keepdim, shape + listed) + listed;
    if (rank > AMP_MAX_RANK) {
        return amp_fail(AMP_ERROR_INVALID, "%s: input is %s; the result would have more than %d dimensions",
                        amp_call_name(call), amp_describe(a->input), AMP_MAX_RANK);
    }
    amp_tensor *out = amp_call_output(call, 0, a->input->dtype, rank, shape);
    if (!out) return amp_pending_error();
    amp_rows in, results;
    AMP_TRY(amp_rows_for(call, out, 0, &results));
    AMP_TRY(amp_rows_of(call, a->input, mask, &in));
    AMP_TRY(amp_steps_of(call)->quantiles(call, &in, w, &results));
    return amp_rows_finish(&results);
}

static amp_status by_tensor(amp_call *call, const quantile_args *a, amp_tensor *q, bool without_nan) {
    AMP_TRY(amp_call_check_same_dtype(call, "input", a->input, "q", q));
    if (q->rank > 1) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'q' is %s; expected a number or a vector", amp_call_name(call),
                        amp_describe(q));
    }
    amp_quantiles w = {.q = q, .count = amp_tensor_elements(q), .without_nan = without_nan};
    return run_quantiles(call, a, &w, q->rank == 1);
}

#define DEFINE_QUANTILE(op, without_nan_)                                                                              \
    amp_status cpu_##op(amp_call *call) {                                                                              \
        const amp_##op##_args *a = call->args;                                                                         \
        const quantile_args q = {a->input, &a->dim, a->keepdim, a->interpolation};                                     \
        return by_tensor(call, &q, a->q, without_nan_);                                                                \
    }                                                                                                                  \
    amp_status cpu_##op##_scalar(amp_call *call) {                                                                     \
        const amp_##op##_scalar_args *a = call->args;                                                                  \
        const quantile_args q = {a->input, &a->dim, a->keepdim, a->interpolation};                                     \
        amp_quantiles w = {.number = a->q, .count = 1, .without_nan = without_nan_};                                   \
        return run_quantiles(call, &q, &w, false);                                                                     \
    }

DEFINE_QUANTILE(quantile, false)

DEFINE_QUANTILE(nanquantile, true)
