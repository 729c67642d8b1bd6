/* Ops that convert elements. What `saturate` and `round_mode` say is of types that libamp lacks. */
#include "onnx/ops.h"
#include "onnx/ops/compose.h"

amp_status onnx_cast(amp_onnx_step *s) {
    const amp_dtype dtype = amp_onnx_dtype(s, amp_onnx_int(s, "to", 0));
    amp_tensor *x = amp_onnx_required(s, 0);
    return dtype == AMP_DTYPE_NONE ? amp_pending_error() : amp_onnx_set(s, 0, amp_onnx_as(x, dtype));
}

amp_status onnx_cast_like(amp_onnx_step *s) {
    amp_tensor *x = amp_onnx_required(s, 0);
    const amp_tensor *like = amp_onnx_required(s, 1);
    return like ? amp_onnx_set(s, 0, amp_onnx_as(x, like->dtype)) : amp_pending_error();
}
