/* avg_pool and adaptive_avg_pool. */
#include <string.h>

#include "amp/ops.h"
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
