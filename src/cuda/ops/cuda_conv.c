/* Convolutions by cuDNN, or as products: the elements that each output meets are laid out as a row, and multiplied with
 * the weight. */
#include <string.h>

#include "cuda/cuda_backend.h"
#include "cuda/cuda_steps.h"
#include "cuda/ops/cuda_conv_library.h"
#include "cuda/ops/cuda_epilogue.h"

/* (groups, batch · pixels, channels · taps) */
static amp_tensor *unfold(amp_call *call, const amp_conv *c) {
    const int64_t shape[3] = {c->groups, c->batch * amp_conv_pixels(c), c->in_channels * amp_conv_taps(c)};
    amp_tensor *columns = amp_cuda_temporary(call, c->x.tensor->dtype, 3, shape);
    if (!columns) return NULL;
    amp_cuda_unfold a = {.size = (int)amp_dtype_size(columns->dtype),
                         .transposed = c->transposed,
                         .count = amp_tensor_elements(columns),
                         .batch = amp_cuda_divide_by(c->batch),
                         .channels = amp_cuda_divide_by(c->in_channels),
                         .batch_step = c->x.batch,
                         .channel_step = c->x.channel};
    for (int d = 0; d < AMP_CONV_AXES; d++) {
        const amp_conv_axis *axis = &c->axis[d];
        a.axis[d] =
            (amp_cuda_axis){axis->in, axis->out, axis->kernel, axis->stride, axis->pad, axis->dilation, c->x.axis[d]};
        a.by_out[d] = amp_cuda_divide_by(axis->out);
        a.by_kernel[d] = amp_cuda_divide_by(axis->kernel);
        a.by_stride[d] = amp_cuda_divide_by(axis->stride);
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

enum { VIEW_RANK = 6 }; /* (groups, batch, depth, height, width, channels of a group) */

amp_tensor *amp_cuda_conv_view(const amp_conv *c, const amp_conv_image *image, amp_tensor *view) {
    const int64_t o = c->out_channels, *a = image->axis;
    const int64_t shape[VIEW_RANK] = {c->groups, c->batch, c->axis[0].out, c->axis[1].out, c->axis[2].out, o};
    const int64_t strides[VIEW_RANK] = {image->channel * o, image->batch, a[0], a[1], a[2], image->channel};
    if (!image->tensor) return NULL;
    *view = view_of(image->tensor, image->offset, VIEW_RANK, shape, strides);
    return view;
}

/* One number for each channel of the result, likewise. */
static amp_tensor *channel_view(const amp_conv *c, amp_tensor *numbers, amp_tensor *view) {
    const amp_conv_image image = {.tensor = numbers, .channel = numbers ? numbers->strides[0] : 0};
    return amp_cuda_conv_view(c, &image, view);
}

bool amp_cuda_conv_has_epilogue(const amp_conv *c) {
    return c->bias || amp_conv_is_fused(c);
}

amp_status amp_cuda_conv_finish(amp_call *call, const amp_conv *c, amp_tensor *sums) {
    amp_tensor to, bias, scale, residual;
    (void)amp_cuda_conv_view(c, &c->y, &to);
    if (!amp_cuda_conv_has_epilogue(c)) return amp_cuda_copy_tensor(&to, sums);
    const amp_cuda_sums all = {.sums = sums,
                               .scale = channel_view(c, c->scale, &scale),
                               .bias = channel_view(c, c->bias, &bias),
                               .residual = amp_cuda_conv_view(c, &c->residual, &residual),
                               .epilogue = &c->epilogue};
    return amp_cuda_finish_sums(call, &all, &to);
}

/* products (groups, batch · pixels, out channels), and the epilogue, into y. */
static amp_status write_result(amp_call *call, const amp_conv *c, const amp_tensor *products) {
    const int64_t o = c->out_channels, *p = (const int64_t[]){c->axis[0].out, c->axis[1].out, c->axis[2].out};
    const int64_t pixels = amp_conv_pixels(c), shape[VIEW_RANK] = {c->groups, c->batch, p[0], p[1], p[2], o};
    const int64_t dense[VIEW_RANK] = {c->batch * pixels * o, pixels * o, p[1] * p[2] * o, p[2] * o, o, 1};
    amp_tensor sums = view_of(products, 0, VIEW_RANK, shape, dense);
    return amp_cuda_conv_finish(call, c, &sums);
}

static amp_status by_products(amp_call *call, const amp_conv *c) {
    const int64_t rows = c->batch * amp_conv_pixels(c), inner = c->in_channels * amp_conv_taps(c);
    const int64_t o = c->out_channels, shape[3] = {c->groups, rows, o};
    const amp_dtype dtype = c->x.tensor->dtype, wide = amp_dtype_size(dtype) == 2 ? AMP_F32 : dtype;
    amp_tensor *columns = unfold(call, c), *weight = columns ? dense_weight(call, c) : NULL;
    amp_tensor *products = NULL; /* an epilogue rounds once */
    if (weight) products = amp_cuda_temporary(call, amp_cuda_conv_has_epilogue(c) ? wide : dtype, 3, shape);
    if (!products) return amp_pending_error();
    amp_matmul p = {.m = rows,
                    .n = o,
                    .k = inner,
                    .batch_rank = 1,
                    .batch_shape = {c->groups},
                    .a = {.tensor = columns, .row = inner, .column = 1, .batch = {rows * inner}},
                    .b = {.tensor = weight, .row = 1, .column = inner, .batch = {o * inner}},
                    .c = {.tensor = products, .row = o, .column = 1, .batch = {rows * o}},
                    .alpha = 1};
    AMP_TRY(amp_cuda_matmul(call, &p));
    return write_result(call, c, products);
}

amp_status amp_cuda_convolve(amp_call *call, const amp_conv *c, bool loops) {
    (void)loops;
    const amp_dtype dtype = c->x.tensor->dtype;
    const char *kernel = NULL;
    if (!amp_dtype_is_floating(dtype)) {
        return amp_fail(AMP_ERROR_NOT_IMPLEMENTED, "%s: there are no products of %s on cuda yet", amp_call_name(call),
                        amp_dtype_name(dtype));
    }
    bool done = false;
    AMP_TRY(amp_cuda_conv_by_library(call, c, &done, &kernel));
    if (!done) AMP_TRY(by_products(call, c));
    call->note.kernel = kernel;
    return AMP_OK;
}
