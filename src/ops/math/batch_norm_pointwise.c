/* batch_norm_pointwise: by a device's own step, which takes relu along, or made of batch_norm and the activation. */
#include <math.h>

#include "ops/math/compose.h"
#include "steps/epilogue.h"
#include "steps/steps.h"

static bool has_step(const amp_call *call, const amp_epilogue *e, amp_dtype from, amp_dtype to) {
    const bool is_taken = e->activation == AMP_GEMM_NONE || e->activation == AMP_GEMM_RELU;
    return is_taken && from != AMP_F64 && to != AMP_F64 && amp_steps_of(call)->batch_norm;
}

static amp_status check_dtype(const amp_call *call, const char *name, amp_dtype dtype) {
    if (amp_dtype_is_floating(dtype)) return AMP_OK;
    return amp_fail(AMP_ERROR_DTYPE, "%s: '%s' is %s; expected a floating dtype", amp_call_name(call), name,
                    amp_dtype_name(dtype));
}

amp_status amp_op_batch_norm_pointwise(amp_call *call) {
    const amp_batch_norm_pointwise_args *a = call->args;
    const amp_epilogue_words words = {"attr", a->attr, a->scalars, a->algorithm};
    const amp_dtype own = a->input->dtype, dtype = a->dtype == AMP_DTYPE_NONE ? own : a->dtype;
    amp_epilogue e;
    AMP_TRY(check_dtype(call, "input", own));
    AMP_TRY(check_dtype(call, "dtype", dtype));
    AMP_TRY(amp_read_epilogue(call, &words, own, &e));
    amp_batch_norm_args norm = {.struct_size = sizeof norm,
                                .input = a->input,
                                .running_mean = a->running_mean,
                                .running_var = a->running_var,
                                .weight = a->weight,
                                .bias = a->bias,
                                .eps = a->eps};
    if (has_step(call, &e, own, dtype)) {
        const float least = e.activation == AMP_GEMM_RELU ? 0.0f : -INFINITY;
        return amp_steps_of(call)->batch_norm(call, &norm, dtype, least);
    }
    amp_tensor **const all[] = {&norm.input, &norm.running_mean, &norm.running_var, &norm.weight, &norm.bias};
    for (int i = 0; i < 5; i++) *all[i] = amp_wide(*all[i]);
    amp_tensor *y = amp_failed() ? NULL : amp_batch_norm_call(&norm);
    if (!y || amp_apply_epilogue(y, &e)) return amp_pending_error();
    return amp_return(call, y->dtype == dtype ? y : amp_to(y, dtype));
}
