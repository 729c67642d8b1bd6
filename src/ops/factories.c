/* clone, contiguous, to, fill, and the ops that make tensors from numbers. */
#include <math.h>

#include "amp/ops.h"
#include "call/backend.h"
#include "core/layout.h"
#include "steps/constants.h"
#include "steps/steps.h"

/* ---- Copies --------------------------------------------------------------------------------------------------- */

/* `like`: whose layout the copy has; NULL: contiguous. */
static amp_status return_copy(amp_call *call, const amp_tensor *input, amp_dtype dtype, const amp_tensor *like) {
    amp_tensor *out = amp_call_output_like(call, 0, dtype, input->rank, input->shape, like);
    return out ? amp_copy_tensor(out, input) : amp_pending_error();
}

amp_status amp_op_clone(amp_call *call) {
    const amp_clone_args *a = call->args;
    return return_copy(call, a->input, a->input->dtype, a->input);
}

amp_status amp_op_detach(amp_call *call) {
    const amp_detach_args *a = call->args;
    call->outputs[0] = a->input;
    return AMP_OK;
}

amp_status amp_op_contiguous(amp_call *call) {
    const amp_contiguous_args *a = call->args;
    if (!amp_tensor_is_dense(a->input)) return return_copy(call, a->input, a->input->dtype, NULL);
    call->outputs[0] = a->input;
    return AMP_OK;
}

amp_status amp_op_to(amp_call *call) {
    const amp_to_args *a = call->args;
    const amp_dtype dtype = a->dtype == AMP_DTYPE_NONE ? a->input->dtype : a->dtype;
    if (dtype != a->input->dtype || a->copy) return return_copy(call, a->input, dtype, a->input);
    call->outputs[0] = a->input;
    return AMP_OK;
}

static amp_status return_filled(amp_call *call, const char *argument, amp_dtype dtype, int rank, const int64_t *shape,
                                const amp_tensor *like, amp_scalar value) {
    AMP_TRY(amp_check_element(call, argument, &value, dtype));
    amp_tensor *out = amp_call_output_like(call, 0, dtype, rank, shape, like);
    if (!out) return amp_pending_error();
    return amp_fill_tensor_with(out, &value);
}

amp_status amp_op_fill(amp_call *call) {
    const amp_fill_args *a = call->args;
    return return_filled(call, "value", a->input->dtype, a->input->rank, a->input->shape, a->input, a->value);
}

amp_status amp_op_fill_tensor(amp_call *call) {
    const amp_fill_tensor_args *a = call->args;
    if (a->value->rank > 0) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'value' is %s; expected a 0-dim tensor", amp_call_name(call),
                        amp_describe(a->value));
    }
    const amp_tensor *like = a->input;
    amp_tensor *out = amp_call_output_like(call, 0, like->dtype, like->rank, like->shape, like);
    return out ? amp_copy_tensor(out, a->value) : amp_pending_error();
}

amp_status amp_op_copy(amp_call *call) {
    const amp_copy_args *a = call->args;
    const amp_tensor *like = a->input, *src = a->src;
    int rank;
    int64_t shape[AMP_MAX_RANK];
    if (!amp_broadcast_shapes(like->rank, like->shape, src->rank, src->shape, &rank, shape) ||
        !amp_has_shape(like, rank, shape)) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'src' is %s, which does not broadcast to the shape of input %s",
                        amp_call_name(call), amp_describe(src), amp_describe(like));
    }
    amp_tensor *out = amp_call_output_like(call, 0, like->dtype, like->rank, like->shape, like);
    return out ? amp_copy_tensor(out, src) : amp_pending_error();
}

/* ---- Tensors from numbers ------------------------------------------------------------------------------------- */

static amp_status check_size(const amp_call *call, const amp_dims *size) {
    if (size->count <= AMP_MAX_RANK) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: 'size' has %d extents, at most %d are possible", amp_call_name(call),
                    size->count, AMP_MAX_RANK);
}

static amp_dtype or_else(amp_dtype dtype, amp_dtype otherwise) {
    return dtype == AMP_DTYPE_NONE ? otherwise : dtype;
}

static amp_dtype dtype_of_number(const amp_scalar *number) {
    switch (number->kind) {
    case AMP_SCALAR_BOOL: return AMP_BOOL;
    case AMP_SCALAR_INT: return AMP_I64;
    case AMP_SCALAR_COMPLEX: return AMP_C64;
    default: return AMP_F32;
    }
}

#define MAKE_FROM_SIZE(op, value)                                                                                      \
    amp_status amp_op_##op(amp_call *call) {                                                                           \
        const amp_##op##_args *a = call->args;                                                                         \
        AMP_TRY(check_size(call, &a->size));                                                                           \
        return return_filled(call, "value", or_else(a->dtype, AMP_F32), a->size.count, a->size.values, NULL, value);   \
    }
#define MAKE_LIKE(op, number)                                                                                          \
    amp_status amp_op_##op(amp_call *call) {                                                                           \
        const amp_##op##_args *a = call->args;                                                                         \
        const amp_tensor *like = a->input;                                                                             \
        return return_filled(call, "fill_value", or_else(a->dtype, like->dtype), like->rank, like->shape, like,        \
                             number);                                                                                  \
    }
MAKE_FROM_SIZE(zeros, amp_int(0))
MAKE_FROM_SIZE(ones, amp_int(1))
MAKE_LIKE(zeros_like, amp_int(0))
MAKE_LIKE(ones_like, amp_int(1))
MAKE_LIKE(full_like, a->fill_value)

amp_status amp_op_full(amp_call *call) {
    const amp_full_args *a = call->args;
    AMP_TRY(check_size(call, &a->size));
    return return_filled(call, "fill_value", or_else(a->dtype, dtype_of_number(&a->fill_value)), a->size.count,
                         a->size.values, NULL, a->fill_value);
}

amp_status amp_op_empty(amp_call *call) {
    const amp_empty_args *a = call->args;
    AMP_TRY(check_size(call, &a->size));
    const bool made = amp_call_output(call, 0, or_else(a->dtype, AMP_F32), a->size.count, a->size.values);
    return made ? AMP_OK : amp_pending_error();
}

amp_status amp_op_empty_like(amp_call *call) {
    const amp_empty_like_args *a = call->args;
    const amp_tensor *like = a->input;
    const bool made = amp_call_output_like(call, 0, or_else(a->dtype, like->dtype), like->rank, like->shape, like);
    return made ? AMP_OK : amp_pending_error();
}

/* ⌈(end − start)/step⌉, exactly for whole numbers. */
static double range_length(const amp_scalar *start, const amp_scalar *end, const amp_scalar *step, bool whole) {
    if (!whole || step->i == 0) return ceil((amp_real_part(end) - amp_real_part(start)) / amp_real_part(step));
    int64_t span;
    if (__builtin_sub_overflow(end->i, start->i, &span) || span == INT64_MIN) return INFINITY;
    if (span != 0 && (span < 0) != (step->i < 0)) return -1.0;
    const int64_t length = span / step->i + (span % step->i != 0);
    return (double)length;
}

static amp_status return_range(amp_call *call, const amp_scalar *start, const amp_scalar *end, const amp_scalar *step,
                               amp_dtype dtype) {
    const double from = amp_real_part(start), to = amp_real_part(end), by = amp_real_part(step);
    const bool whole = start->kind == AMP_SCALAR_INT && end->kind == AMP_SCALAR_INT && step->kind == AMP_SCALAR_INT;
    const double length = range_length(start, end, step, whole);
    if (!(by != 0.0 && isfinite(from) && isfinite(to) && isfinite(length) && length >= 0.0 && length < 0x1p53)) {
        return amp_fail(AMP_ERROR_INVALID, "arange: there is no finite range from %g to %g in steps of %g", from, to,
                        by);
    }
    const int64_t shape[1] = {(int64_t)length};
    amp_tensor *out = amp_call_dense_output(call, or_else(dtype, whole ? AMP_I64 : AMP_F32), 1, shape);
    return out ? amp_steps_on(out->storage->device)->write_range(out, start, step) : amp_pending_error();
}

amp_status amp_op_arange(amp_call *call) {
    const amp_arange_args *a = call->args;
    const amp_scalar zero = amp_int(0), one = amp_int(1);
    return return_range(call, &zero, &a->end, &one, a->dtype);
}

amp_status amp_op_arange_start(amp_call *call) {
    const amp_arange_start_args *a = call->args;
    return return_range(call, &a->start, &a->end, &a->step, a->dtype);
}
