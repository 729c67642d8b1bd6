/* Ops that compute every element of the result from those at its place. */
#include <string.h>

#include "onnx/ops.h"

/* libamp's op of the same meaning, its arguments the node's inputs in their order. */
amp_status onnx_same(amp_onnx_step *s) {
    enum { MOST = 8 }; /* of such ops */
    amp_argument arguments[MOST];
    amp_tensor *result = NULL;
    int count = 0;
    memset(arguments, 0, sizeof arguments);
    for (int i = 0; i < s->node->input_count && i < MOST; i++) {
        arguments[count].value.kind = AMP_VALUE_TENSOR;
        arguments[count++].value.as.tensor = amp_onnx_required(s, i);
    }
    if (amp_failed()) return amp_pending_error();
    AMP_TRY(amp_call_op(s->node->op->to, arguments, count, &result, 1, NULL));
    return amp_onnx_set(s, 0, result);
}
