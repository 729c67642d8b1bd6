/* embedding_dense_backward where the device has no way of its own: rows added up by index. */
#include "ops/math/compose.h"
#include "steps/row_rules.h"

/* How often each row is looked up, by index. */
static amp_tensor *frequencies(const amp_call *call, amp_tensor *index, int64_t rows, amp_dtype dtype) {
    amp_tensor *none = amp_zeros(AMP_DIMS(rows), .dtype = dtype, .device = (int64_t)call->device);
    amp_tensor *ones = none ? amp_ones_like(index, .dtype = dtype) : NULL;
    amp_tensor *counts = ones ? amp_index_add(none, 0, index, ones) : NULL;
    return counts ? amp_index_select(counts, 0, index) : NULL;
}

amp_status amp_op_embedding_dense_backward(amp_call *call) {
    const amp_embedding_dense_backward_args *a = call->args;
    const amp_dtype dtype = a->grad_output->dtype, wide = dtype == AMP_BF16 || dtype == AMP_F16 ? AMP_F32 : dtype;
    AMP_TRY(amp_check_embedding_backward(call, a));
    const int64_t width = a->grad_output->shape[a->grad_output->rank - 1];
    amp_tensor *index = amp_flattened(amp_to(a->indices, AMP_I64));
    amp_tensor *rows = index ? amp_reshape(a->grad_output, AMP_DIMS(index->shape[0], width)) : NULL;
    if (rows && a->padding_idx >= 0) {
        amp_tensor *padding = amp_unsqueeze(amp_eq_scalar(index, amp_int(a->padding_idx)), 1);
        rows = padding ? amp_masked_fill(rows, padding, amp_int(0)) : NULL;
    }
    rows = rows && wide != dtype ? amp_to(rows, wide) : rows;
    if (rows && a->scale_grad_by_freq) {
        amp_tensor *counts = frequencies(call, index, a->num_weights, wide);
        rows = counts ? amp_div(rows, amp_unsqueeze(counts, 1)) : NULL;
    }
    amp_tensor *table =
        rows ? amp_zeros(AMP_DIMS(a->num_weights, width), .dtype = wide, .device = (int64_t)call->device) : NULL;
    amp_tensor *sum = table ? amp_index_add(table, 0, index, rows) : NULL;
    return amp_return(call, sum && wide != dtype ? amp_to(sum, dtype) : sum);
}
