/* embedding_bag: rows of a table that integer indices name, put together in bags. */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "amp/ops.h"
#include "steps/row_rules.h"
#include "steps/steps.h"

static amp_status check_offsets(const amp_call *call, const amp_embedding_bag_args *a) {
    const amp_tensor *offsets = a->offsets;
    if (a->input->rank == 2 && !offsets) return AMP_OK;
    if (a->input->rank != 1 || !offsets || offsets->rank != 1 ||
        (offsets->dtype != AMP_I64 && offsets->dtype != AMP_I32)) {
        return amp_fail(
            AMP_ERROR_INVALID,
            "%s: input is %s, 'offsets' is %s; expected a matrix of indices, or a vector and integer offsets",
            amp_call_name(call), amp_describe(a->input), offsets ? amp_describe(offsets) : "missing");
    }
    if (!a->include_last_offset || offsets->shape[0] > 0) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: 'offsets' is %s; expected at least the last offset", amp_call_name(call),
                    amp_describe(offsets));
}

static amp_status check_scales(const amp_call *call, const amp_embedding_bag_args *a, amp_bag_mode mode) {
    const amp_tensor *scales = a->per_sample_weights;
    if (!scales) return AMP_OK;
    if (mode != AMP_BAG_SUM) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'per_sample_weights' is given and 'mode' is \"%s\"; expected \"sum\"",
                        amp_call_name(call), a->mode);
    }
    AMP_TRY(amp_call_check_same_dtype(call, "weight", a->weight, "per_sample_weights", scales));
    if (amp_same_shape(scales, a->input)) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: 'per_sample_weights' is %s, input is %s; expected equal shapes",
                    amp_call_name(call), amp_describe(scales), amp_describe(a->input));
}

static amp_status read_options(const amp_call *call, const amp_embedding_bag_args *a, amp_bag_mode *chosen,
                               int64_t *skipped) {
    static const char *const modes[] = {[AMP_BAG_SUM] = "sum", [AMP_BAG_MEAN] = "mean", [AMP_BAG_MAX] = "max"};
    int mode = 0;
    while (mode < 3 && strcmp(a->mode, modes[mode]) != 0) mode++;
    if (mode == 3) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'mode' is \"%s\"; expected \"sum\", \"mean\" or \"max\"",
                        amp_call_name(call), a->mode);
    }
    *chosen = (amp_bag_mode)mode;
    if (!amp_dtype_is_floating(a->weight->dtype)) {
        return amp_fail(AMP_ERROR_DTYPE, "%s: 'weight' is %s; expected a floating dtype", amp_call_name(call),
                        amp_describe(a->weight));
    }
    const int64_t rows = a->weight->shape[0], padding = a->padding_idx.value;
    if (a->padding_idx.set && (padding < -rows || padding >= rows)) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'padding_idx' is %lld, 'weight' is %s; expected one of its rows",
                        amp_call_name(call), (long long)padding, amp_describe(a->weight));
    }
    *skipped = !a->padding_idx.set ? -1 : padding < 0 ? padding + rows : padding;
    return AMP_OK;
}

amp_status amp_op_embedding_bag(amp_call *call) {
    const amp_embedding_bag_args *a = call->args;
    amp_bag_mode mode = (amp_bag_mode)0;
    int64_t padding = -1;
    AMP_TRY(amp_check_table(call, a->input, a->weight));
    AMP_TRY(read_options(call, a, &mode, &padding));
    AMP_TRY(check_offsets(call, a));
    AMP_TRY(check_scales(call, a, mode));
    return amp_steps_of(call)->embedding_bag(call, a, mode, padding);
}
