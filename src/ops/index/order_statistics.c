/* kthvalue, msort, median, nanmedian, aminmax: made of sort, and of what it left in order. */
#include "ops/math/compose.h"
#include "steps/shape_rules.h"

static amp_status check_ordered(const amp_call *call, const amp_tensor *input) {
    if (!amp_dtype_is_complex(input->dtype)) return AMP_OK;
    return amp_fail(AMP_ERROR_DTYPE, "%s: complex numbers have no order (input is %s)", amp_call_name(call),
                    amp_describe(input));
}

/* The dimension d, with an extent; a 0-dim tensor has one of extent 1. */
static amp_status read_dim(const amp_call *call, const amp_tensor *input, int64_t dim, int *d, int64_t *length) {
    AMP_TRY(check_ordered(call, input));
    AMP_TRY(amp_wrap_dim(call, "dim", dim, input->rank, d));
    *length = input->rank ? input->shape[*d] : 1;
    if (*length > 0) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: input is %s, and of no element in dimension %d none can be chosen",
                    amp_call_name(call), amp_describe(input), *d);
}

/* Without the dimension d, of extent 1, unless it is kept. */
static amp_tensor *without(amp_tensor *t, int d, bool keepdim) {
    return !t || keepdim || t->rank == 0 ? t : amp_squeeze(t, AMP_DIMS(d));
}

/* Element number k of each row, with memory of its own. */
static amp_tensor *chosen(amp_tensor *sorted, int d, int64_t k) {
    amp_tensor *view = sorted && sorted->rank > 0 ? amp_narrow(sorted, d, k, 1) : sorted;
    return view ? amp_clone(view) : NULL;
}

amp_status amp_op_msort(amp_call *call) {
    const amp_msort_args *a = call->args;
    AMP_TRY(check_ordered(call, a->input));
    return amp_return(call, amp_sort(a->input, AMP_SET(0)));
}

amp_status amp_op_kthvalue(amp_call *call) {
    const amp_kthvalue_args *a = call->args;
    int d;
    int64_t length;
    AMP_TRY(read_dim(call, a->input, a->dim.value, &d, &length));
    if (a->k < 1 || a->k > length) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'k' is %lld, but dimension %d of input %s has %lld elements",
                        amp_call_name(call), (long long)a->k, d, amp_describe(a->input), (long long)length);
    }
    amp_tensor *indices = NULL, *values = amp_sort(a->input, AMP_SET(d), .stable = true, .indices = &indices);
    values = chosen(values, d, a->k - 1);
    indices = values ? chosen(indices, d, a->k - 1) : NULL;
    return amp_return_both(call, without(values, d, a->keepdim), without(indices, d, a->keepdim));
}

/* ---- Medians ---------------------------------------------------------------------------------------------------- */

/* Where the median stands among values in order, along d, as an index. NaNs are the last ones: with one of them the
 * first of them is the median, or (`without_nan`) they are left out. */
static amp_tensor *middle_of(amp_tensor *sorted, int d, int64_t length, bool without_nan) {
    amp_tensor *nans = amp_sum(amp_isnan(sorted), AMP_DIMS(d), true);
    amp_tensor *numbers = nans ? amp_add_scalar(amp_neg(nans), amp_int(length)) : NULL;
    if (!numbers) return NULL;
    if (!without_nan)
        return amp_where_scalar_other(amp_ne_scalar(nans, amp_int(0)), numbers, amp_int((length - 1) / 2));
    amp_tensor *half = amp_div_scalar(amp_sub_scalar(numbers, amp_int(1)), amp_int(2), .rounding_mode = "floor");
    return half ? amp_clamp(half, amp_int(0)) : NULL; /* of nothing but NaNs the first */
}

static amp_status median_along(amp_call *call, amp_tensor *input, int64_t dim, bool keepdim, bool without_nan) {
    int d;
    int64_t length;
    AMP_TRY(read_dim(call, input, dim, &d, &length));
    amp_tensor *indices = NULL, *values = amp_sort(input, AMP_SET(d), .stable = true, .indices = &indices);
    if (!values) return amp_pending_error();
    if (amp_is_whole(input->dtype)) {
        values = chosen(values, d, (length - 1) / 2);
        indices = values ? chosen(indices, d, (length - 1) / 2) : NULL;
    } else {
        amp_tensor *at = middle_of(values, d, length, without_nan);
        values = at ? amp_gather(values, d, at) : NULL;
        indices = values ? amp_gather(indices, d, at) : NULL;
    }
    return amp_return_both(call, without(values, d, keepdim), without(indices, d, keepdim));
}

/* Of no element NaN, as PyTorch has it, where there is such a thing. */
static amp_status median_of_all(amp_call *call, amp_tensor *input, bool without_nan) {
    if (amp_tensor_elements(input) == 0 && !amp_is_whole(input->dtype)) {
        AMP_TRY(check_ordered(call, input));
        return amp_return(call, amp_full(AMP_NO_DIMS, amp_float(__builtin_nan("")), .dtype = input->dtype,
                                         .device = (int64_t)call->device));
    }
    amp_tensor *flat = amp_flattened(input);
    if (!flat) return amp_pending_error();
    return median_along(call, flat, 0, false, without_nan);
}

#define DEFINE_MEDIAN(op, without_nan)                                                                                 \
    amp_status amp_op_##op(amp_call *call) {                                                                           \
        return median_of_all(call, ((const amp_##op##_args *)call->args)->input, without_nan);                         \
    }                                                                                                                  \
    amp_status amp_op_##op##_dim(amp_call *call) {                                                                     \
        const amp_##op##_dim_args *a = call->args;                                                                     \
        return median_along(call, a->input, a->dim, a->keepdim, without_nan);                                          \
    }
DEFINE_MEDIAN(median, false)
DEFINE_MEDIAN(nanmedian, true)

/* ---- aminmax ---------------------------------------------------------------------------------------------------- */

amp_status amp_op_aminmax(amp_call *call) {
    const amp_aminmax_args *a = call->args;
    amp_tensor *input = a->input;
    amp_dims dims = {.set = 0};
    int d;
    AMP_TRY(check_ordered(call, input));
    if (a->dim.set) {
        AMP_TRY(amp_wrap_dim(call, "dim", a->dim.value, input->rank, &d));
        dims = AMP_DIMS(d);
    }
    if (a->dim.set && input->rank > 0 ? input->shape[d] == 0 : amp_tensor_elements(input) == 0) {
        return amp_fail(AMP_ERROR_INVALID, "%s: input is %s, and of no element there is no smallest and no largest",
                        amp_call_name(call), amp_describe(input));
    }
    amp_tensor *least = amp_amin(input, dims, a->keepdim);
    return amp_return_both(call, least, least ? amp_amax(input, dims, a->keepdim) : NULL);
}
