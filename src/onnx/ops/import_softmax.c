/* Softmax, LogSoftmax, Hardmax. */
#include <string.h>

#include "onnx/ops.h"
#include "onnx/ops/pieces.h"

static amp_tensor *along(const char *op, amp_tensor *x, int64_t axis) {
    if (strcmp(op, "softmax") == 0) return amp_softmax(x, axis);
    if (strcmp(op, "log_softmax") == 0) return amp_log_softmax(x, axis);
    amp_tensor *first = amp_argmax(x, .dim = AMP_SET(axis), .keepdim = true); /* hardmax */
    return amp_scatter_value(amp_zeros_like(x), axis, first, amp_float(1));
}

amp_status onnx_softmax(amp_onnx_step *s) {
    amp_tensor *x = amp_onnx_required(s, 0);
    if (!x) return amp_pending_error();
    const int64_t axis = amp_onnx_axis(s, amp_onnx_int(s, "axis", -1), x->rank);
    return axis < 0 ? amp_pending_error() : amp_onnx_set(s, 0, along(s->node->op->to, x, axis));
}

/* Before opset 13: over all dimensions from the axis on at once. */
amp_status onnx_softmax_flat(amp_onnx_step *s) {
    amp_tensor *x = amp_onnx_required(s, 0);
    if (!x) return amp_pending_error();
    const int64_t named = amp_onnx_int(s, "axis", 1),
                  axis = named == x->rank ? named : amp_onnx_axis(s, named, x->rank);
    if (axis < 0) return amp_pending_error();
    if (axis == x->rank - 1) return amp_onnx_set(s, 0, along(s->node->op->to, x, axis));
    int64_t rows = 1, columns = 1;
    for (int d = 0; d < x->rank; d++) *(d < axis ? &rows : &columns) *= x->shape[d];
    amp_tensor *y = along(s->node->op->to, amp_reshape(x, AMP_DIMS(rows, columns)), 1);
    return amp_onnx_set(s, 0, amp_onnx_reshaped(y, x->rank, x->shape));
}
