#include "cpu/rnn/rnn_weight.h"

amp_matmul amp_rnn_product(const amp_tensor *weight, bool transposed, const amp_packed_b *packed) {
    const int k = transposed ? 1 : 0, n = 1 - k;
    return (amp_matmul){
        .n = weight->shape[n],
        .k = weight->shape[k],
        .b = {.tensor = (amp_tensor *)(uintptr_t)weight, .row = weight->strides[k], .column = weight->strides[n]},
        .alpha = 1,
        .b_is_weight = true,
        .packed = packed};
}

amp_status amp_rnn_pack(amp_call *call, amp_tensor *weight, bool transposed, amp_packed_b *packed) {
    if (!weight) return AMP_OK;
    AMP_TRY(amp_cpu_matmul_operand(call, weight, true));
    const amp_matmul p = amp_rnn_product(weight, transposed, NULL);
    return amp_cpu_matmul_pack(call, &p, packed);
}
