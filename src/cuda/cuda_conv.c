/* Convolutions as products: the elements that each output meets are laid out as a row, and multiplied with the weight. */
#include "cuda/cuda_conv.h"

#include <string.h>

#include "cuda/cuda_elementwise.h"
#include "cuda/cuda_matmul.h"

/* (groups, batch · pixels, channels · taps) */
static amp_tensor *unfold(amp_call *call, const amp_conv *c) {
    const int64_t shape[3] = {c->groups, c->batch * amp_conv_pixels(c), c->in_channels * amp_conv_taps(c)};
    amp_tensor *columns = amp_cuda_temporary(call, c->x.tensor->dtype, 3, shape);
    if (!columns) return NULL;
    amp_cuda_unfold a = {.size = (int)amp_dtype_size(columns->dtype),
                         .transposed = c->transposed,
                         .count = amp_tensor_elements(columns),
                         .batch = c->batch,
                         .channels = c->in_channels,
                         .batch_step = c->x.batch,
                         .channel_step = c->x.channel};
    for (int d = 0; d < AMP_CONV_AXES; d++) {
        const amp_conv_axis *axis = &c->axis[d];
        a.axis[d] =
            (amp_cuda_axis){axis->in, axis->out, axis->kernel, axis->stride, axis->pad, axis->dilation, c->x.axis[d]};
    }
    const char *op = call->op->name;
    const char *in = amp_cuda_address(op, c->x.tensor);
    a.out = in ? amp_cuda_address(op, columns) : NULL;
    if (!a.out) return NULL;
    a.in = in + c->x.offset * a.size;
    return amp_cuda_launch_over(op, "unfold", &a, amp_cuda_blocks(a.count)) == AMP_OK ? columns : NULL;
}

/* A tensor with the given dimensions over a tensor's memory. */
static amp_tensor view_of(const amp_tensor *t, int64_t offset, int rank, const int64_t *shape, const int64_t *strides) {
    amp_tensor v = *t;
    v.rank = rank;
    v.offset += offset;
    memcpy(v.shape, shape, (size_t)rank * sizeof *shape);
    memcpy(v.strides, strides, (size_t)rank * sizeof *strides);
    return v;
}

/* (groups, out channels, in channels · taps) */
static amp_tensor *dense_weight(amp_call *call, const amp_conv *c) {
    const amp_conv_weight *w = &c->w;
    const int64_t shape[6] = {c->groups,         c->out_channels,   c->in_channels,
                              c->axis[0].kernel, c->axis[1].kernel, c->axis[2].kernel};
    const int64_t strides[6] = {w->group, w->out, w->in, w->axis[0], w->axis[1], w->axis[2]};
    const amp_tensor view = view_of(w->tensor, w->offset, 6, shape, strides);
    amp_tensor *dense = amp_cuda_temporary(call, w->tensor->dtype, 6, shape);
    return dense && amp_cuda_copy_tensor(dense, &view) == AMP_OK ? dense : NULL;
}

/* products (groups, batch · pixels, out channels), and the bias, into y. */
static amp_status write_result(amp_call *call, const amp_conv *c, const amp_tensor *products, int64_t pixels) {
    const int64_t o = c->out_channels, *p = (const int64_t[]){c->axis[0].out, c->axis[1].out, c->axis[2].out};
    const int64_t shape[6] = {c->groups, c->batch, p[0], p[1], p[2], o};
    const int64_t strides[6] = {c->y.channel * o, c->y.batch, c->y.axis[0], c->y.axis[1], c->y.axis[2], c->y.channel};
    amp_tensor to = view_of(c->y.tensor, c->y.offset, 6, shape, strides);
    const int64_t dense[6] = {c->batch * pixels * o, pixels * o, p[1] * p[2] * o, p[2] * o, o, 1};
    amp_tensor from = view_of(products, 0, 6, shape, dense);
    if (!c->bias) return amp_cuda_copy_tensor(&to, &from);
    const int64_t step = c->bias->strides[0], steps[6] = {o * step, 0, 0, 0, 0, step};
    amp_tensor bias = view_of(c->bias, 0, 6, shape, steps);
    const amp_operand v[2] = {amp_tensor_operand("products", &from), amp_tensor_operand("bias", &bias)};
    return amp_cuda_compute(call, AMP_FORMULA_add, v, 2, to.dtype == AMP_F64 ? AMP_F64 : AMP_F32,
                            (amp_formula_numbers){.p = 1.0, .whole = 1}, &to);
}

amp_status amp_cuda_conv(amp_call *call, const amp_conv *c) {
    const int64_t rows = c->batch * amp_conv_pixels(c), inner = c->in_channels * amp_conv_taps(c);
    const int64_t o = c->out_channels, shape[3] = {c->groups, rows, o};
    const amp_dtype dtype = c->x.tensor->dtype;
    if (!amp_dtype_is_floating(dtype)) {
        return amp_fail(AMP_ERROR_NOT_IMPLEMENTED, "%s: there are no products of %s on cuda yet", amp_call_name(call),
                        amp_dtype_name(dtype));
    }
    amp_tensor *columns = unfold(call, c), *weight = columns ? dense_weight(call, c) : NULL;
    amp_tensor *products = weight ? amp_cuda_temporary(call, dtype, 3, shape) : NULL;
    if (!products) return amp_pending_error();
    const amp_matmul p = {.m = rows,
                          .n = o,
                          .k = inner,
                          .batch_rank = 1,
                          .batch_shape = {c->groups},
                          .a = {.tensor = columns, .row = inner, .column = 1, .batch = {rows * inner}},
                          .b = {.tensor = weight, .row = 1, .column = inner, .batch = {o * inner}},
                          .c = {.tensor = products, .row = o, .column = 1, .batch = {rows * o}},
                          .alpha = 1};
    AMP_TRY(amp_cuda_matmul(call, &p));
    AMP_TRY(write_result(call, c, products, amp_conv_pixels(c)));
    call->note.kernel = "unfold + cublaslt";
    return AMP_OK;
}
