/* batch_norm_pointwise: by a device's own step, which takes relu along, or made of batch_norm and the activation. */
#include <math.h>

#include "ops/math/compose.h"
#include "steps/epilogue.h"
#include "steps/row_rules.h"
#include "steps/steps.h"

static amp_status check_arguments(const amp_call *call, const amp_batch_norm_args *a, amp_dtype dtype) {
    AMP_TRY(amp_check_channel_input(call, a->input));
    AMP_TRY(amp_check_channel_numbers(call, a->input, "weight", a->weight));
    AMP_TRY(amp_check_channel_numbers(call, a->input, "bias", a->bias));
    AMP_TRY(amp_check_running(call, a->input, a->running_mean, a->running_var, "training", true));
    if (amp_dtype_is_floating(dtype)) return AMP_OK;
    return amp_fail(AMP_ERROR_DTYPE, "%s: 'dtype' is %s; expected a floating dtype", amp_call_name(call),
                    amp_dtype_name(dtype));
}

/* 16-bit numbers as f32, so that what two ops make is rounded once; where relu is all that follows, it may be rounded
 * before. */
static amp_status run_in_parts(amp_call *call, amp_batch_norm_args *a, const amp_epilogue *e, bool widen,
                               amp_dtype dtype) {
    amp_tensor **const all[] = {&a->input, &a->running_mean, &a->running_var, &a->weight, &a->bias};
    for (int i = 0; i < 5 && widen; i++) *all[i] = amp_wide(*all[i]);
    amp_tensor *y = amp_failed() ? NULL : amp_batch_norm_call(a);
    if (!y || amp_apply_epilogue(y, e)) return amp_pending_error();
    return amp_return(call, y->dtype == dtype ? y : amp_to(y, dtype));
}

amp_status amp_op_batch_norm_pointwise(amp_call *call) {
    const amp_batch_norm_pointwise_args *a = call->args;
    const amp_epilogue_words words = {"attr", a->attr, a->scalars, a->algorithm};
    const amp_dtype own = a->input->dtype, dtype = a->dtype == AMP_DTYPE_NONE ? own : a->dtype;
    amp_batch_norm_args norm = {.struct_size = sizeof norm,
                                .input = a->input,
                                .running_mean = a->running_mean,
                                .running_var = a->running_var,
                                .weight = a->weight,
                                .bias = a->bias,
                                .eps = a->eps};
    amp_epilogue e;
    AMP_TRY(check_arguments(call, &norm, dtype));
    AMP_TRY(amp_read_epilogue(call, &words, own, &e));
    const bool is_exact = e.activation == AMP_GEMM_NONE || e.activation == AMP_GEMM_RELU;
    if (is_exact && own != AMP_F64 && dtype != AMP_F64 && amp_steps_of(call)->batch_norm)
        return amp_steps_of(call)->batch_norm(call, &norm, dtype, e.activation == AMP_GEMM_RELU ? 0.0f : -INFINITY);
    return run_in_parts(call, &norm, &e, !is_exact || dtype != own, dtype);
}
