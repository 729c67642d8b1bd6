/* renorm and local_response_norm. */
#include "cuda/args/index_args.h"
#include "cuda/cuda_steps.h"
#include "cuda/ops/cuda_elementwise.h"

amp_status amp_cuda_scale_slices(amp_call *call, amp_tensor *input, amp_tensor *norms, double limit) {
    amp_tensor *above = amp_gt_scalar(norms, amp_float(limit)),
               *sum = above ? amp_add_scalar(norms, amp_float(1e-7)) : NULL;
    amp_tensor *inverse = sum ? amp_reciprocal(sum) : NULL;
    amp_tensor *scale = inverse ? amp_mul_scalar(inverse, amp_float(limit)) : NULL;
    scale = scale ? amp_where_scalar_other(above, scale, amp_float(1.0)) : NULL;
    if (!scale) return amp_pending_error();
    const amp_operand v[2] = {amp_tensor_operand("input", input), amp_tensor_operand("scale", scale)};
    return amp_cuda_elementwise_op(call, AMP_FORMULA_mul, v, 2, input->dtype, (amp_formula_numbers){0});
}

amp_status amp_cuda_respond(amp_call *call, const amp_local_response_norm_args *args, int64_t inner) {
    const char *op = call->op->name;
    const amp_tensor *x = args->input;
    const amp_dtype dtype = x->dtype == AMP_I64 ? AMP_F32 : x->dtype;
    const amp_tensor *out = amp_call_dense_output(call, dtype, x->rank, x->shape);
    const amp_tensor *dense = out ? amp_cuda_dense(args->input) : NULL;
    if (!dense || amp_tensor_elements(out) == 0) return dense ? AMP_OK : amp_pending_error();
    const amp_cuda_response a = {.in = amp_cuda_address(op, dense),
                                 .out = amp_cuda_address(op, out),
                                 .in_dtype = x->dtype,
                                 .out_dtype = dtype,
                                 .count = amp_tensor_elements(out),
                                 .channels = x->shape[1],
                                 .inner = inner,
                                 .size = args->size,
                                 .alpha = args->alpha.value,
                                 .beta = args->beta.value,
                                 .k = args->k.value};
    if (!a.in || !a.out) return amp_pending_error();
    return amp_cuda_launch_over(op, "response", &a, amp_cuda_blocks(a.count));
}
