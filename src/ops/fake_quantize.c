/* fake_quantize_per_tensor_affine: onto the grid of an integer quantisation and back. */
#include <math.h>

#include "amp/ops.h"
#include "core/compute_dtype.h"
#include "steps/row_rules.h"
#include "steps/steps.h"

static amp_status check(const amp_call *call, const amp_tensor *input, int64_t low, int64_t high) {
    AMP_TRY(amp_check_floating(call, input));
    if (low <= high) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: 'quant_min' is %lld, 'quant_max' is %lld; expected them in this order",
                    amp_call_name(call), (long long)low, (long long)high);
}

/* A place of zero that a tensor has is seen by whoever reads it. */
static amp_status check_zero(const amp_call *call, int64_t zero_point, int64_t low, int64_t high) {
    if (zero_point >= low && zero_point <= high) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID,
                    "%s: 'quant_min' is %lld, 'zero_point' is %lld, 'quant_max' is %lld; expected them in this order",
                    amp_call_name(call), (long long)low, (long long)zero_point, (long long)high);
}

amp_status cpu_fake_quantize_per_tensor_affine(amp_call *call) {
    const amp_fake_quantize_per_tensor_affine_args *a = call->args;
    AMP_TRY(check(call, a->input, a->quant_min, a->quant_max));
    AMP_TRY(check_zero(call, a->zero_point, a->quant_min, a->quant_max));
    amp_tensor *scale = amp_full(AMP_NO_DIMS, amp_float(a->scale), .dtype = AMP_F64, .device = call->device);
    amp_tensor *zero_point = amp_full(AMP_NO_DIMS, amp_int(a->zero_point), .device = call->device);
    if (!scale || !zero_point) return amp_pending_error();
    return amp_steps_of(call)->fake_quantize(call, a->input, scale, zero_point, a->quant_min, a->quant_max);
}

amp_status cpu_fake_quantize_per_tensor_affine_tensor_qparams(amp_call *call) {
    const amp_fake_quantize_per_tensor_affine_tensor_qparams_args *a = call->args;
    const amp_tensor *const numbers[] = {a->scale, a->zero_point};
    for (int i = 0; i < 2; i++) {
        const amp_tensor *t = numbers[i];
        if (amp_tensor_elements(t) == 1 && amp_compute_dtype(t->dtype) != AMP_C128) continue;
        return amp_fail(AMP_ERROR_INVALID, "%s: '%s' is %s; expected one real number", amp_call_name(call),
                        i ? "zero_point" : "scale", amp_describe(t));
    }
    AMP_TRY(check(call, a->input, a->quant_min, a->quant_max));
    return amp_steps_of(call)->fake_quantize(call, a->input, a->scale, a->zero_point, a->quant_min, a->quant_max);
}
