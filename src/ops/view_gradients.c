/* slice_backward, diagonal_backward, unfold_backward: where views took their elements from. */
#include "call/backend.h"
#include "ops/math/compose.h"
#include "steps/shape_rules.h"

/* Windows that overlap are added up in a dtype that loses nothing. */
static amp_tensor *zeros(const amp_call *call, const amp_dims *sizes, amp_dtype dtype) {
    if (amp_check_dims(call, "input_sizes", sizes) != AMP_OK) return NULL;
    return amp_zeros(*sizes, .dtype = dtype, .device = (int64_t)call->device);
}

static amp_status check_part(const amp_call *call, const char *name, const amp_tensor *given, const amp_tensor *part) {
    if (amp_same_shape(given, part)) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: '%s' is %s; expected shape %s, as the view has it", amp_call_name(call),
                    name, amp_describe(given), amp_describe_shape(part->rank, part->shape));
}

/* `whole` with the gradient in the place of `part`, a view of it. */
static amp_status return_placed(amp_call *call, amp_tensor *whole, amp_tensor *part, amp_tensor *gradient) {
    if (!part) return amp_pending_error();
    AMP_TRY(check_part(call, "grad_output", gradient, part));
    AMP_TRY(amp_copy_tensor(part, gradient));
    return amp_return(call, whole);
}

amp_status amp_op_slice_backward(amp_call *call) {
    const amp_slice_backward_args *a = call->args;
    amp_tensor *whole = zeros(call, &a->input_sizes, a->grad_output->dtype);
    amp_tensor *part =
        whole ? amp_slice(whole, a->dim, .start = AMP_SET(a->start), .end = AMP_SET(a->end), .step = AMP_SET(a->step))
              : NULL;
    return return_placed(call, whole, part, a->grad_output);
}

amp_status amp_op_diagonal_backward(amp_call *call) {
    const amp_diagonal_backward_args *a = call->args;
    amp_tensor *whole = zeros(call, &a->input_sizes, a->grad_output->dtype);
    amp_tensor *part = whole ? amp_diagonal(whole, a->offset, a->dim1, AMP_SET(a->dim2)) : NULL;
    return return_placed(call, whole, part, a->grad_output);
}

/* Element i of every window at once, or window after window, whichever is fewer. */
static amp_status add_windows(amp_tensor *whole, const amp_unfold_backward_args *a, int dim, int64_t count) {
    const bool by_window = count < a->size;
    for (int64_t i = 0; i < (by_window ? count : a->size); i++) {
        amp_tensor *part = by_window
                               ? amp_narrow(whole, dim, i * a->step, a->size)
                               : amp_slice(whole, dim, .start = AMP_SET(i),
                                           .end = AMP_SET(i + (count - 1) * a->step + 1), .step = AMP_SET(a->step));
        amp_tensor *piece = amp_select(a->grad_in, by_window ? dim : -1, i);
        if (piece && by_window) piece = amp_movedim(piece, AMP_DIMS(-1), AMP_DIMS(dim));
        if (!piece || !part || !amp_add_(part, piece)) return amp_pending_error();
    }
    return AMP_OK;
}

amp_status amp_op_unfold_backward(amp_call *call) {
    const amp_unfold_backward_args *a = call->args;
    const amp_dtype dtype = a->grad_in->dtype, wide = dtype == AMP_BF16 || dtype == AMP_F16 ? AMP_F32 : dtype;
    const bool overlap = a->step < a->size;
    int dim = 0;
    AMP_TRY(amp_wrap_dim(call, "dim", a->dim, a->input_sizes.count, &dim));
    amp_tensor *whole = zeros(call, &a->input_sizes, overlap ? wide : dtype);
    amp_tensor *windows = whole ? amp_unfold(whole, dim, a->size, a->step) : NULL;
    if (!windows) return amp_pending_error();
    AMP_TRY(check_part(call, "grad_in", a->grad_in, windows));
    if (!overlap) return return_placed(call, whole, windows, a->grad_in);
    AMP_TRY(add_windows(whole, a, dim, a->grad_in->shape[dim]));
    return amp_return(call, wide == dtype ? whole : amp_to(whole, dtype));
}
