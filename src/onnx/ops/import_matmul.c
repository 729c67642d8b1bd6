/* MatMul, Gemm, Einsum, Det. */
#include <stdlib.h>

#include "onnx/ops.h"
#include "onnx/ops/pieces.h"

amp_status onnx_matmul(amp_onnx_step *s) {
    amp_tensor *a = amp_onnx_required(s, 0), *b = amp_onnx_required(s, 1);
    return amp_onnx_set(s, 0, amp_matmul(a, b));
}

/* A bias that linear takes: one number for each column. */
static amp_tensor *column_bias(amp_tensor *c, int64_t columns) {
    if (!c || amp_tensor_elements(c) != columns) return NULL;
    if (c->rank == 1) return c;
    return c->rank == 2 && c->shape[0] == 1 ? amp_reshape(c, AMP_DIMS(columns)) : NULL;
}

amp_status onnx_gemm(amp_onnx_step *s) {
    amp_tensor *a = amp_onnx_required(s, 0), *b = amp_onnx_required(s, 1), *c = amp_onnx_input(s, 2);
    if (!a || !b) return amp_pending_error();
    if (a->rank != 2 || b->rank != 2) {
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "A is %s, B %s; expected matrices", amp_describe(a),
                             amp_describe(b));
    }
    const double alpha = amp_onnx_float(s, "alpha", 1), beta = amp_onnx_float(s, "beta", 1);
    const bool b_is_weight = amp_onnx_int(s, "transB", 0) != 0;
    if (amp_onnx_int(s, "transA", 0)) a = amp_t(a);
    if (beta == 0) c = NULL;
    if (b_is_weight && alpha == 1 && (beta == 1 || !c)) {
        amp_tensor *bias = column_bias(c, b->shape[0]);
        if (!c || bias) return amp_onnx_set(s, 0, amp_linear(a, b, .bias = bias));
    }
    if (b_is_weight) b = amp_t(b);
    const bool whole =
        amp_dtype_is_floating(a ? a->dtype : AMP_F32) == false; /* integers: no factor of theirs is 0.5 */
    const amp_scalar first = whole ? amp_int((int64_t)alpha) : amp_float(alpha);
    const amp_scalar second = whole ? amp_int((int64_t)beta) : amp_float(beta);
    if (c) return amp_onnx_set(s, 0, amp_addmm(c, a, b, .beta = second, .alpha = first));
    amp_tensor *product = amp_mm(a, b);
    return amp_onnx_set(s, 0, alpha == 1 ? product : amp_mul_scalar(product, first));
}

enum { MOST_OPERANDS = 64 };

amp_status onnx_einsum(amp_onnx_step *s) {
    const char *equation = amp_onnx_text(s, "equation", NULL);
    const int count = s->node->input_count;
    amp_tensor *operands[MOST_OPERANDS];
    if (!equation) return amp_onnx_fail(s, AMP_ERROR_INVALID, "attribute 'equation' is missing");
    if (count > MOST_OPERANDS) {
        return amp_onnx_fail(s, AMP_ERROR_NOT_IMPLEMENTED, "%d operands; at most %d are done", count, MOST_OPERANDS);
    }
    for (int i = 0; i < count; i++) {
        if (!(operands[i] = amp_onnx_required(s, i))) return amp_pending_error();
    }
    return amp_onnx_set(s, 0, amp_einsum(equation, ((amp_tensor_list){.items = operands, .count = count})));
}

amp_status onnx_det(amp_onnx_step *s) {
    const amp_argument matrix = {.value = {.kind = AMP_VALUE_TENSOR, .as.tensor = amp_onnx_required(s, 0)}};
    amp_tensor *det = NULL;
    if (!matrix.value.as.tensor) return amp_pending_error();
    AMP_TRY(amp_call_op("linalg_det", &matrix, 1, &det, 1, NULL));
    return amp_onnx_set(s, 0, det);
}
