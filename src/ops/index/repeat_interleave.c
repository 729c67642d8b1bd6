/* repeat_interleave: slices repeated by one number, or each by its own. */
#include "ops/math/compose.h"
#include "steps/shape_rules.h"

/* The dimension, and the input that has it: flattened where none is named. */
static amp_status read_dim(const amp_call *call, amp_tensor *given, const amp_opt_int *dim, amp_tensor **input,
                           int *d) {
    *d = 0;
    if (dim->set) AMP_TRY(amp_wrap_dim(call, "dim", dim->value, given->rank, d));
    *input = dim->set && given->rank > 0 ? given : amp_flattened(given);
    return *input ? AMP_OK : amp_pending_error();
}

amp_status amp_op_repeat_interleave(amp_call *call) {
    const amp_repeat_interleave_args *a = call->args;
    amp_tensor *input;
    int d;
    int64_t total;
    AMP_TRY(read_dim(call, a->input, &a->dim, &input, &d));
    if (a->repeats < 0 || __builtin_mul_overflow(input->shape[d], a->repeats, &total)) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'repeats' is %lld; expected a number from 0 up that fits memory",
                        amp_call_name(call), (long long)a->repeats);
    }
    amp_dims wide = amp_dims_of(d + 1, input->shape), shape = amp_shape_of(input);
    shape.values[d] = total;
    if (input->rank == AMP_MAX_RANK) { /* no room for one more dimension */
        amp_tensor *counts = amp_full(AMP_DIMS(1), amp_int(a->repeats), .device = (int64_t)call->device);
        return amp_return(call, counts ? amp_repeat_interleave_tensor(input, counts, AMP_SET(d)) : NULL);
    }
    wide.values[wide.count++] = a->repeats;
    for (int i = d + 1; i < input->rank; i++) wide.values[wide.count++] = input->shape[i];
    amp_tensor *view = amp_unsqueeze(input, d + 1), *spread = view ? amp_expand(view, wide) : NULL;
    amp_tensor *copy = spread ? amp_clone(spread) : NULL;
    return amp_return(call, copy ? amp_reshape(copy, shape) : NULL);
}

/* A count for each slice: integers from 0 up. */
static amp_status check_counts(const amp_call *call, amp_tensor *given, const amp_tensor *input, int d) {
    const int64_t count = amp_tensor_elements(given), slices = input->shape[d];
    const bool fits = given->rank == 0 || (given->rank == 1 && (count == 1 || count == slices));
    if ((given->dtype != AMP_I64 && given->dtype != AMP_I32) || !fits) {
        return amp_fail(AMP_ERROR_INVALID,
                        "%s: 'repeats' is %s; expected i64 or i32, one number or one for each of the %lld slices",
                        amp_call_name(call), amp_describe(given), (long long)slices);
    }
    if (count == 0) return AMP_OK;
    const double least = amp_number_of(amp_amin(given));
    if (amp_failed()) return amp_pending_error();
    if (least >= 0.0) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: 'repeats' holds %lld; expected numbers from 0 up", amp_call_name(call),
                    (long long)least);
}

/* How many slices the result has: what the counts sum up to, or what the caller says. */
static amp_status read_total(const amp_call *call, amp_tensor *running, const amp_opt_int *given, int64_t *total) {
    const int64_t n = running->shape[0];
    if (given->set && given->value >= 0 && call->device != AMP_DEVICE_CPU) {
        *total = given->value;
        return AMP_OK;
    }
    *total = n > 0 ? (int64_t)amp_number_of(amp_narrow(running, 0, n - 1, 1)) : 0;
    if (amp_failed()) return amp_pending_error();
    if (!given->set || given->value == *total) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: 'output_size' is %lld, but 'repeats' sums up to %lld", amp_call_name(call),
                    (long long)given->value, (long long)*total);
}

/* Result slice number i is the first slice behind whose repetitions it does not lie. */
amp_status amp_op_repeat_interleave_tensor(amp_call *call) {
    const amp_repeat_interleave_tensor_args *a = call->args;
    amp_tensor *input;
    int d;
    int64_t total;
    AMP_TRY(read_dim(call, a->input, &a->dim, &input, &d));
    AMP_TRY(check_counts(call, a->repeats, input, d));
    amp_tensor *counts = amp_flattened(amp_to(a->repeats, AMP_I64));
    if (counts && counts->shape[0] != input->shape[d]) counts = amp_expand(counts, AMP_DIMS(input->shape[d]));
    amp_tensor *running = counts ? amp_cumsum(counts, 0) : NULL;
    if (!running) return amp_pending_error();
    AMP_TRY(read_total(call, running, &a->output_size, &total));
    amp_tensor *numbers = amp_arange(amp_int(total), .dtype = AMP_I64, .device = (int64_t)call->device);
    amp_tensor *from = numbers ? amp_searchsorted(running, numbers, .right = true) : NULL;
    return amp_return(call, from ? amp_index_select(input, d, from) : NULL);
}
