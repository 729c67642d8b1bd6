/* max_pool and adaptive_max_pool. */
#include <math.h>
#include <string.h>

#include "amp/ops.h"
#include "steps/steps.h"

static amp_status check_dtype(const amp_call *call, const amp_tensor *input, bool adaptive) {
    const bool whole = !amp_dtype_is_complex(input->dtype) && input->dtype != AMP_BOOL && !adaptive;
    if (amp_dtype_is_floating(input->dtype) || whole) return AMP_OK;
    return amp_fail(AMP_ERROR_DTYPE, "%s: input is %s; expected a floating%s dtype", amp_call_name(call),
                    amp_describe(input), adaptive ? "" : " or integer");
}

static amp_status maximum_windows(amp_call *call, amp_tensor *input, int dims, const amp_pool_options *options,
                                  bool return_indices) {
    amp_pool p;
    AMP_TRY(check_dtype(call, input, false));
    AMP_TRY(amp_pool_start(call, &p, input, dims, options));
    return amp_steps_of(call)->pool_maximum(call, &p, input, return_indices);
}

#define DEFINE(op, dims)                                                                                               \
    amp_status amp_op_##op(amp_call *call) {                                                                           \
        const amp_##op##_args *a = call->args;                                                                         \
        const amp_pool_options options = {&a->kernel_size, &a->stride, &a->padding, &a->dilation, a->ceil_mode};       \
        return maximum_windows(call, a->input, dims, &options, amp_wants_indices(call, a->return_indices));            \
    }

DEFINE(max_pool1d, 1)

DEFINE(max_pool2d, 2)

DEFINE(max_pool3d, 3)

#define DEFINE_ADAPTIVE(op, dims)                                                                                      \
    amp_status amp_op_##op(amp_call *call) {                                                                           \
        const amp_##op##_args *a = call->args;                                                                         \
        amp_pool p;                                                                                                    \
        AMP_TRY(check_dtype(call, a->input, true));                                                                    \
        AMP_TRY(amp_pool_start_adaptive(call, &p, a->input, dims, &a->output_size));                                   \
        return amp_steps_of(call)->pool_maximum(call, &p, a->input, amp_wants_indices(call, a->return_indices));       \
    }

DEFINE_ADAPTIVE(adaptive_max_pool2d, 2)

DEFINE_ADAPTIVE(adaptive_max_pool3d, 3)
