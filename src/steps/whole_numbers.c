/* hardtanh and threshold of integers. */
#include "steps/whole_numbers.h"

#include "amp/ops.h"
#include "core/compute_dtype.h"
#include "steps/constants.h"
#include "steps/operands.h"

bool amp_holds_whole_numbers(const amp_tensor *t) {
    return amp_compute_dtype(t->dtype) == AMP_I64;
}

/* The number cut to a whole one, for a tensor of integers. */
static amp_status cut(const amp_call *call, const char *name, const amp_tensor *input, amp_scalar *number) {
    if (input->dtype == AMP_BOOL) {
        return amp_fail(AMP_ERROR_DTYPE, "%s: input is %s; expected numbers, not bool", amp_call_name(call),
                        amp_describe(input));
    }
    if (number->kind == AMP_SCALAR_FLOAT) {
        if (!(number->re > -0x1p63 && number->re < 0x1p63)) {
            return amp_fail(AMP_ERROR_INVALID, "%s: '%s' is %g, input %s; expected a number that i64 can hold",
                            amp_call_name(call), name, number->re, amp_describe(input));
        }
        *number = amp_int((int64_t)number->re);
    }
    return amp_check_element(call, name, number, input->dtype);
}

amp_status amp_whole_hardtanh(amp_call *call) {
    const amp_hardtanh_args *a = call->args;
    amp_scalar low = a->min_val, high = a->max_val;
    AMP_TRY(cut(call, "min_val", a->input, &low));
    AMP_TRY(cut(call, "max_val", a->input, &high));
    call->outputs[0] = amp_clamp(a->input, .min = low, .max = high);
    return call->outputs[0] ? AMP_OK : amp_pending_error();
}

amp_status amp_whole_threshold(amp_call *call) {
    const amp_threshold_args *a = call->args;
    amp_scalar bound = a->threshold, value = a->value;
    AMP_TRY(cut(call, "threshold", a->input, &bound));
    AMP_TRY(cut(call, "value", a->input, &value));
    call->outputs[0] = amp_where_scalar_other(amp_gt_scalar(a->input, bound), a->input, value);
    return call->outputs[0] ? AMP_OK : amp_pending_error();
}
