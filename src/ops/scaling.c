/* foreach_non_finite_check_and_unscale: what may be unscaled. */
#include "call/backend.h"
#include "steps/steps.h"

static amp_status check_number(const amp_call *call, const char *name, const amp_tensor *t) {
    if (t->dtype == AMP_F32 && amp_tensor_elements(t) == 1) return AMP_OK;
    return amp_fail(t->dtype == AMP_F32 ? AMP_ERROR_INVALID : AMP_ERROR_DTYPE,
                    "%s: '%s' is %s; expected one f32 element", amp_call_name(call), name, amp_describe(t));
}

static amp_status check_gradient(const amp_call *call, const amp_tensor *t) {
    if (amp_dtype_is_floating(t->dtype)) return AMP_OK;
    return amp_fail(AMP_ERROR_DTYPE, "%s: a tensor of 'grads' is %s; expected a floating dtype", amp_call_name(call),
                    amp_describe(t));
}

amp_status amp_op_foreach_non_finite_check_and_unscale(amp_call *call) {
    const amp_foreach_non_finite_check_and_unscale_args *a = call->args;
    AMP_TRY(check_number(call, "found_inf", a->found_inf));
    AMP_TRY(check_number(call, "inv_scale", a->inv_scale));
    for (int64_t i = 0; i < a->grads.count; i++) AMP_TRY(check_gradient(call, a->grads.items[i]));
    AMP_TRY(amp_steps_of(call)->unscale(call, &a->grads, a->found_inf, a->inv_scale));
    call->outputs[0] = a->found_inf;
    return AMP_OK;
}
