/* Operands of elementwise ops. */
#include "steps/operands.h"

#include "amp/ops.h"
#include "core/layout.h"
#include "generated/op_ids.h"
#include "policy/promotion.h"
#include "steps/constants.h"

amp_dtype amp_operands_dtype(const amp_operand *values, int count) {
    amp_tensor *tensors[AMP_MOST_OPERANDS];
    amp_scalar numbers[AMP_MOST_OPERANDS];
    int tensor_count = 0, number_count = 0;
    for (int i = 0; i < count; i++) {
        if (values[i].tensor)
            tensors[tensor_count++] = values[i].tensor;
        else
            numbers[number_count++] = values[i].number;
    }
    return amp_result_type(tensors, tensor_count, numbers, number_count);
}

amp_dtype amp_operands_expanded_dtype(const amp_operand *values, int count) {
    amp_dtype dtype = AMP_DTYPE_NONE;
    for (int i = 0; i < count; i++) dtype = amp_promote(dtype, values[i].tensor->dtype);
    return dtype;
}

amp_status amp_operands_shape(const amp_call *call, const amp_operand *values, int count, int *rank, int64_t *shape) {
    const amp_operand *first = values; /* of the largest rank so far, to name it */
    *rank = 0;
    for (int i = 0; i < count; i++) {
        const amp_tensor *t = values[i].tensor;
        if (!t) continue;
        if (!amp_broadcast_shapes(*rank, shape, t->rank, t->shape, rank, shape)) {
            return amp_fail(AMP_ERROR_INVALID, "%s: '%s' is %s, '%s' is %s; their shapes do not broadcast",
                            amp_call_name(call), first->name, amp_describe(first->tensor), values[i].name,
                            amp_describe(t));
        }
        if (!first->tensor || t->rank > first->tensor->rank) first = &values[i];
    }
    return AMP_OK;
}

/* The tensor whose layout the result has: the first that is not broadcast, masks last. NULL: none. */
static const amp_tensor *whole_operand(const amp_operand *values, int count, int rank, const int64_t *shape) {
    const amp_tensor *mask = NULL;
    for (int i = 0; i < count; i++) {
        const amp_tensor *t = values[i].tensor;
        if (!t || !amp_has_shape(t, rank, shape)) continue;
        if (t->dtype != AMP_BOOL) return t;
        if (!mask) mask = t;
    }
    return mask;
}

amp_tensor *amp_operands_output(amp_call *call, const amp_operand *values, int count, amp_dtype dtype) {
    int rank;
    int64_t shape[AMP_MAX_RANK];
    if (amp_operands_shape(call, values, count, &rank, shape) != AMP_OK) return NULL;
    return amp_call_output_like(call, 0, dtype, rank, shape, whole_operand(values, count, rank, shape));
}

static amp_status check_clamp(const amp_call *call, amp_clamp *clamp) {
    clamp->dtype = amp_operands_dtype(clamp->v, clamp->count);
    if (amp_dtype_is_complex(clamp->dtype)) {
        return amp_fail(AMP_ERROR_DTYPE, "%s: complex numbers have no order (input is %s)", amp_call_name(call),
                        amp_describe(clamp->v[0].tensor));
    }
    for (int i = 1; i < clamp->count && !amp_dtype_is_floating(clamp->dtype); i++) {
        const amp_operand *bound = &clamp->v[i];
        if (!bound->tensor) AMP_TRY(amp_check_element(call, bound->name, &bound->number, clamp->dtype));
    }
    return AMP_OK;
}

amp_status amp_clamp_read(const amp_call *call, amp_clamp *clamp) {
    amp_operand low, high;
    bool has_low, has_high;
    *clamp = (amp_clamp){.count = 1};
    if (call->op->id == AMP_OP_ID_clamp) {
        const amp_clamp_args *a = call->args;
        clamp->v[0] = amp_tensor_operand("input", a->input);
        low = amp_number_operand("min", a->min), has_low = a->min.kind;
        high = amp_number_operand("max", a->max), has_high = a->max.kind;
    } else {
        const amp_clamp_tensor_args *a = call->args;
        clamp->v[0] = amp_tensor_operand("input", a->input);
        low = amp_tensor_operand("min", a->min), has_low = a->min;
        high = amp_tensor_operand("max", a->max), has_high = a->max;
    }
    if (has_low) clamp->v[clamp->low = clamp->count++] = low;
    if (has_high) clamp->v[clamp->high = clamp->count++] = high;
    if (clamp->count == 1) {
        return amp_fail(AMP_ERROR_INVALID, "%s: at least one of 'min' and 'max' must be given", amp_call_name(call));
    }
    return check_clamp(call, clamp);
}
