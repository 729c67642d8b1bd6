/* embedding_bag, and what max_norm does to a table. A thread goes through one column of a bag, in order. */
#include "cuda/ops/cuda_bags.h"

#include "cuda/args/index_args.h"
#include "cuda/cuda_backend.h"
#include "cuda/cuda_steps.h"

/* The dense tensor's memory and dtype; nothing of NULL. */
static amp_status set_dense(const amp_call *call, amp_tensor *t, const void **data, amp_dtype *dtype) {
    if (!t || amp_tensor_elements(t) == 0) return AMP_OK;
    const amp_tensor *dense = amp_cuda_dense(t);
    *data = dense ? amp_cuda_address(call->op->name, dense) : NULL;
    *dtype = t->dtype;
    return *data ? AMP_OK : amp_pending_error();
}

amp_status amp_cuda_limit_rows(const amp_call *call, amp_tensor *index, amp_tensor *weight, double p, double limit) {
    const char *op = call->op->name;
    const amp_scalar none = amp_int(0);
    amp_cuda_limit a = {.dtype = weight->dtype,
                        .indices = amp_tensor_elements(index),
                        .rows = weight->shape[0],
                        .width = weight->shape[1],
                        .row_stride = weight->strides[0],
                        .column_stride = weight->strides[1],
                        .p = p,
                        .limit = limit};
    AMP_TRY(amp_tensor_check_writable(amp_call_name(call), "weight", weight));
    if (a.indices == 0 || a.rows == 0 || a.width == 0) return AMP_OK;
    amp_tensor *seen = amp_cuda_temporary(call, AMP_U8, 1, &a.rows);
    if (!seen) return amp_pending_error();
    AMP_TRY(amp_fill_tensor_with(seen, &none));
    AMP_TRY(set_dense(call, index, &a.index, &a.index_dtype));
    a.seen = amp_cuda_address(op, seen);
    a.table = a.seen ? amp_cuda_address(op, weight) : NULL;
    if (!a.table) return amp_pending_error();
    AMP_TRY(amp_cuda_report_of(op, &a.report));
    AMP_TRY(amp_cuda_launch_over(op, "mark_rows", &a, amp_cuda_blocks(a.indices)));
    AMP_TRY(amp_cuda_launch_over(op, "limit_rows", &a, amp_cuda_blocks(a.rows)));
    amp_tensor_written(weight);
    return AMP_OK;
}

amp_status amp_cuda_embedding_bag(amp_call *call, const amp_embedding_bag_args *args, amp_bag_mode mode,
                                  int64_t padding) {
    const char *op = call->op->name;
    const amp_tensor *table = args->weight, *index = args->input, *offsets = args->offsets;
    amp_cuda_bags a = {.dtype = table->dtype,
                       .bags = offsets ? offsets->shape[0] - args->include_last_offset : index->shape[0],
                       .width = table->shape[1],
                       .rows = table->shape[0],
                       .row_stride = table->strides[0],
                       .column_stride = table->strides[1],
                       .indices = amp_tensor_elements(index),
                       .each = offsets ? 0 : index->shape[1],
                       .padding = padding,
                       .last = offsets ? offsets->shape[0] : 0,
                       .mode = mode};
    const double p = args->norm_type.value;
    if (args->max_norm.set) AMP_TRY(amp_cuda_limit_rows(call, args->input, args->weight, p, args->max_norm.value));
    const int64_t shape[2] = {a.bags, a.width};
    const amp_tensor *out = amp_call_dense_output(call, table->dtype, 2, shape);
    if (!out || a.bags * a.width == 0) return out ? AMP_OK : amp_pending_error();
    AMP_TRY(set_dense(call, args->input, &a.index, &a.index_dtype));
    AMP_TRY(set_dense(call, args->offsets, &a.offsets, &a.offsets_dtype));
    AMP_TRY(set_dense(call, args->per_sample_weights, &a.scales, &a.scales_dtype));
    AMP_TRY(amp_cuda_report_of(op, &a.report));
    a.table = amp_cuda_address(op, table);
    a.out = amp_cuda_address(op, out);
    if (!a.table || !a.out) return amp_pending_error();
    return amp_cuda_launch_over(op, table->dtype == AMP_F64 ? "bags_f64" : "bags_f32", &a,
                                amp_cuda_blocks(a.bags * a.width * 4)); /* each is a loop */
}
