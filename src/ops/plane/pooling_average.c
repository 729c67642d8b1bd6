/* avg_pool and adaptive_avg_pool. */
#include <string.h>

#include "amp/ops.h"
#include "ops/plane/resample_back.h"
#include "steps/steps.h"

/* PyTorch averages integers of 64 bits, but not over adaptive windows. */
static amp_status check_dtype(const amp_call *call, const amp_tensor *input, bool adaptive) {
    if (amp_dtype_is_floating(input->dtype) || (input->dtype == AMP_I64 && !adaptive)) return AMP_OK;
    return amp_fail(AMP_ERROR_DTYPE, "%s: input is %s; expected a floating dtype%s", amp_call_name(call),
                    amp_describe(input), adaptive ? "" : ", or i64");
}

static amp_status average_windows(amp_call *call, amp_tensor *input, int dims, const amp_pool_options *options,
                                  bool count_padding, const amp_opt_int *divisor) {
    amp_pool p;
    AMP_TRY(check_dtype(call, input, false));
    AMP_TRY(amp_pool_start(call, &p, input, dims, options));
    const bool given = divisor && divisor->set;
    if (given && divisor->value == 0) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'divisor_override' is 0", amp_call_name(call));
    }
    return amp_steps_of(call)->pool_average(call, &p, input, count_padding, given ? &divisor->value : NULL);
}

#define DEFINE(op, dims, divisor)                                                                                      \
    amp_status amp_op_##op(amp_call *call) {                                                                           \
        const amp_##op##_args *a = call->args;                                                                         \
        const amp_pool_options options = {&a->kernel_size, &a->stride, &a->padding, NULL, a->ceil_mode};               \
        return average_windows(call, a->input, dims, &options, a->count_include_pad.value, divisor);                   \
    }

DEFINE(avg_pool1d, 1, NULL)

DEFINE(avg_pool2d, 2, &a->divisor_override)

DEFINE(avg_pool3d, 3, &a->divisor_override)

/* One window for all: a mean, which in PyTorch takes complex numbers too. */
static bool is_mean(const amp_tensor *input, int dims, const amp_dims *size) {
    bool one = input->rank == dims + 1 || input->rank == dims + 2;
    for (int d = 0; d < size->count; d++) one = one && size->values[d] == 1;
    return one && size->count > 0;
}

static amp_status average_adaptively(amp_call *call, amp_tensor *input, int dims, const amp_dims *size) {
    amp_pool p;
    if (amp_dtype_is_complex(input->dtype) && is_mean(input, dims, size)) {
        amp_dims last = {.count = dims, .set = AMP_PRESENT};
        for (int d = 0; d < dims; d++) last.values[d] = -1 - d;
        call->outputs[0] = amp_mean(input, last, .keepdim = true);
        return call->outputs[0] ? AMP_OK : amp_pending_error();
    }
    AMP_TRY(check_dtype(call, input, true));
    AMP_TRY(amp_pool_start_adaptive(call, &p, input, dims, size));
    return amp_steps_of(call)->pool_average(call, &p, input, false, NULL);
}

#define DEFINE_ADAPTIVE(op, dims)                                                                                      \
    amp_status amp_op_##op(amp_call *call) {                                                                           \
        const amp_##op##_args *a = call->args;                                                                         \
        return average_adaptively(call, a->input, dims, &a->output_size);                                              \
    }

DEFINE_ADAPTIVE(adaptive_avg_pool1d, 1)

DEFINE_ADAPTIVE(adaptive_avg_pool2d, 2)

DEFINE_ADAPTIVE(adaptive_avg_pool3d, 3)

/* ---- Backward -------------------------------------------------------------------------------------------------- */

/* What each window gives its elements along a dimension. */
static amp_status share(const amp_call *call, const amp_pool *p, int k, bool count_padding, bool whole,
                        amp_taps *taps) {
    AMP_TRY(amp_taps_make(call, p->s.out[k], p->most[k] > 0 ? p->most[k] : 1, taps));
    for (int64_t i = 0; i < p->s.out[k]; i++) {
        const amp_window *w = &p->windows[k][i];
        const int64_t parts = whole ? 1 : count_padding ? w->padded : w->count;
        taps->counts[i] = w->count;
        for (int64_t t = 0; t < w->count; t++) {
            taps->index[i * taps->most + t] = w->start + t;
            taps->weights[i * taps->most + t] = 1.0 / (double)parts;
        }
    }
    return AMP_OK;
}

static amp_status give_back(amp_call *call, const amp_pool *p, amp_tensor *grad, bool count_padding,
                            const int64_t *divisor) {
    amp_taps taps[AMP_SPATIAL_DIMS];
    AMP_TRY(amp_check_extents(call, grad, &p->s));
    for (int k = 0; k < AMP_SPATIAL_DIMS; k++) AMP_TRY(share(call, p, k, count_padding, divisor != NULL, &taps[k]));
    for (int64_t i = 0; divisor && i < p->s.out[2] * taps[2].most; i++) taps[2].weights[i] /= (double)*divisor;
    return amp_resample_back(call, &p->s, grad, taps);
}

amp_status amp_op_avg_pool_backward(amp_call *call) {
    const amp_avg_pool_backward_args *a = call->args;
    amp_tensor input;
    amp_pool p;
    amp_dims none = {.count = a->kernel_size.count, .set = AMP_PRESENT};
    const amp_dims *padding = a->padding.set ? &a->padding : &none;
    const amp_pool_options options = {&a->kernel_size, &a->stride, padding, NULL, a->ceil_mode};
    AMP_TRY(amp_input_of(call, a->grad_output, &a->input_size, &input));
    AMP_TRY(amp_pool_start(call, &p, &input, a->input_size.count, &options));
    const amp_opt_int *divisor = &a->divisor_override;
    if (divisor->set && divisor->value == 0)
        return amp_fail(AMP_ERROR_INVALID, "avg_pool_backward: 'divisor_override' is 0");
    return give_back(call, &p, a->grad_output, a->count_include_pad.value, divisor->set ? &divisor->value : NULL);
}

amp_status amp_op_adaptive_avg_pool_backward(amp_call *call) {
    const amp_adaptive_avg_pool_backward_args *a = call->args;
    amp_tensor input;
    amp_pool p;
    AMP_TRY(amp_input_of(call, a->grad_output, &a->input_size, &input));
    amp_dims size = {.count = a->input_size.count, .set = AMP_PRESENT};
    for (int d = 0; d < size.count; d++) size.values[d] = a->grad_output->shape[a->grad_output->rank - size.count + d];
    AMP_TRY(amp_pool_start_adaptive(call, &p, &input, size.count, &size));
    return give_back(call, &p, a->grad_output, false, NULL);
}
