/* Conv, ConvTranspose, Col2Im. */
#include <string.h>

#include "onnx/ops.h"
#include "onnx/ops/pieces.h"

static amp_tensor *convolve(amp_tensor *x, amp_tensor *weight, amp_tensor *bias, const amp_onnx_window *w,
                            amp_dims padding, int64_t groups) {
    const amp_dims stride = amp_onnx_dims(w->dims, w->stride), dilation = amp_onnx_dims(w->dims, w->dilation);
    switch (w->dims) {
    case 1:
        return amp_conv1d(x, weight, .bias = bias, .stride = stride, .padding = padding, .dilation = dilation,
                          .groups = AMP_SET(groups));
    case 2:
        return amp_conv2d(x, weight, .bias = bias, .stride = stride, .padding = padding, .dilation = dilation,
                          .groups = AMP_SET(groups));
    default:
        return amp_conv3d(x, weight, .bias = bias, .stride = stride, .padding = padding, .dilation = dilation,
                          .groups = AMP_SET(groups));
    }
}

amp_tensor *amp_onnx_convolution(const amp_onnx_step *s, amp_tensor *x, amp_tensor *weight, amp_tensor *bias) {
    amp_onnx_window w;
    if (!x || !weight || amp_onnx_window_of(s, x, weight, &w) != AMP_OK) return NULL;
    amp_dims padding = amp_onnx_dims(w.dims, w.before);
    if (!amp_onnx_window_is_even(&w)) {
        x = amp_onnx_window_pad(&w, x, false, amp_int(0));
        padding = amp_onnx_same_dims(w.dims, 0);
    }
    return convolve(x, weight, bias, &w, padding, amp_onnx_int(s, "group", 1));
}

amp_status onnx_conv(amp_onnx_step *s) {
    amp_tensor *x = amp_onnx_required(s, 0), *weight = amp_onnx_required(s, 1);
    return amp_onnx_set(s, 0, amp_onnx_convolution(s, x, weight, amp_onnx_input(s, 2)));
}

/* ---- ConvTranspose ---------------------------------------------------------------------------------------------- */

typedef struct transposed {
    amp_onnx_window w;
    int64_t extra[AMP_ONNX_MOST_SPATIAL]; /* output_padding */
    int64_t groups;
} transposed;

static amp_tensor *convolve_transposed(amp_tensor *x, amp_tensor *weight, amp_tensor *bias, const transposed *t,
                                       amp_dims padding, amp_dims extra) {
    const amp_onnx_window *w = &t->w;
    const amp_dims stride = amp_onnx_dims(w->dims, w->stride), dilation = amp_onnx_dims(w->dims, w->dilation);
    switch (w->dims) {
    case 1:
        return amp_conv_transpose1d(x, weight, .bias = bias, .stride = stride, .padding = padding,
                                    .output_padding = extra, .groups = AMP_SET(t->groups), .dilation = dilation);
    case 2:
        return amp_conv_transpose2d(x, weight, .bias = bias, .stride = stride, .padding = padding,
                                    .output_padding = extra, .groups = AMP_SET(t->groups), .dilation = dilation);
    default:
        return amp_conv_transpose3d(x, weight, .bias = bias, .stride = stride, .padding = padding,
                                    .output_padding = extra, .groups = AMP_SET(t->groups), .dilation = dilation);
    }
}

/* The padding follows from the extents of the output where those are given, or the same as the input's times stride. */
static amp_status pad_for_output(const amp_onnx_step *s, transposed *t) {
    amp_onnx_window *w = &t->w;
    int count = 0;
    const int64_t *output = amp_onnx_ints(s, "output_shape", &count);
    const char *how = amp_onnx_text(s, "auto_pad", "NOTSET");
    const bool upper = strcmp(how, "SAME_UPPER") == 0, same = upper || strcmp(how, "SAME_LOWER") == 0;
    if (output && count > w->dims) output += count - w->dims, count = w->dims; /* with N and C: some write so */
    if (output && count != w->dims) {
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "attribute 'output_shape' has %d values; expected %d", count,
                             w->dims);
    }
    for (int d = 0; d < w->dims; d++) {
        if (!output && strcmp(how, "VALID") == 0) w->before[d] = w->after[d] = 0;
        if (!output && !same) continue;
        const int64_t wanted = output ? output[d] : w->input[d] * w->stride[d];
        if (wanted < 1 || wanted > INT32_MAX) {
            return amp_onnx_fail(s, AMP_ERROR_INVALID, "an output of %lld elements is asked for", (long long)wanted);
        }
        const int64_t total = w->stride[d] * (w->input[d] - 1) + t->extra[d] + amp_onnx_window_reach(w, d) - wanted;
        w->before[d] = total < 0 ? 0 : upper ? total / 2 : total - total / 2; /* what is missing goes to the end */
        w->after[d] = total - w->before[d];
    }
    return AMP_OK;
}

/* Padding that conv_transpose takes: as much as `before` on both sides, and what that is too much behind as
 * output_padding. */
static bool is_direct(const transposed *t, amp_dims *extra) {
    const amp_onnx_window *w = &t->w;
    bool direct = true;
    for (int d = 0; d < w->dims; d++) {
        const int64_t step = w->stride[d] > w->dilation[d] ? w->stride[d] : w->dilation[d];
        extra->values[d] = t->extra[d] + w->before[d] - w->after[d];
        direct =
            direct && w->before[d] >= 0 && extra->values[d] >= 0 && (extra->values[d] == 0 || extra->values[d] < step);
    }
    return direct;
}

/* The whole product, cropped (or padded with zeros, as nothing reaches there) afterwards, then the bias. */
static amp_tensor *crop_transposed(amp_tensor *x, amp_tensor *weight, amp_tensor *bias, const transposed *t) {
    const int dims = t->w.dims;
    amp_tensor *y = convolve_transposed(x, weight, NULL, t, amp_onnx_same_dims(dims, 0), amp_onnx_same_dims(dims, 0));
    amp_dims pad = amp_onnx_same_dims(2 * dims, 0);
    for (int d = 0; d < dims; d++) {
        pad.values[2 * (dims - 1 - d)] = -t->w.before[d];
        pad.values[2 * (dims - 1 - d) + 1] = t->extra[d] - t->w.after[d];
    }
    y = amp_constant_pad_nd(y, pad);
    return bias && y ? amp_add(y, amp_onnx_along(bias, 1, y->rank)) : y;
}

amp_status onnx_conv_transpose(amp_onnx_step *s) {
    amp_tensor *x = amp_onnx_required(s, 0), *weight = amp_onnx_required(s, 1), *bias = amp_onnx_input(s, 2);
    if (!x || !weight) return amp_pending_error();
    if (x->rank != weight->rank) {
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "the input is %s, the weight %s: expected as many dimensions",
                             amp_describe(x), amp_describe(weight));
    }
    transposed t = {.groups = amp_onnx_int(s, "group", 1)};
    AMP_TRY(amp_onnx_window_read(s, x->rank - 2, weight->shape + 2, &t.w));
    memcpy(t.w.input, x->shape + 2, (size_t)t.w.dims * sizeof *t.w.input);
    int count = 0;
    const int64_t *extra = amp_onnx_ints(s, "output_padding", &count);
    if (extra && count != t.w.dims) {
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "attribute 'output_padding' has %d values; expected %d", count,
                             t.w.dims);
    }
    for (int d = 0; d < t.w.dims; d++) t.extra[d] = extra ? extra[d] : 0;
    AMP_TRY(pad_for_output(s, &t));
    amp_dims behind = amp_onnx_same_dims(t.w.dims, 0);
    if (!is_direct(&t, &behind)) return amp_onnx_set(s, 0, crop_transposed(x, weight, bias, &t));
    return amp_onnx_set(s, 0, convolve_transposed(x, weight, bias, &t, amp_onnx_dims(t.w.dims, t.w.before), behind));
}

/* ---- Col2Im --------------------------------------------------------------------------------------------------- */

/* Where each element of the columns (kernel …, position …) lands in the padded image, row by row. */
static void find_places(const amp_onnx_window *w, const int64_t *padded, int64_t count, int64_t *places) {
    for (int64_t i = 0; i < count; i++) {
        int64_t rest = i, at = 0, step = 1, position[AMP_ONNX_MOST_SPATIAL];
        for (int d = w->dims - 1; d >= 0; d--) position[d] = rest % w->output[d], rest /= w->output[d];
        for (int d = w->dims - 1; d >= 0; d--) {
            at += (position[d] * w->stride[d] + rest % w->kernel[d] * w->dilation[d]) * step;
            rest /= w->kernel[d];
            step *= padded[d];
        }
        places[i] = at;
    }
}

/* Columns (N, C · kernel, positions) added into the image (N · C, elements of the padded image). */
static amp_tensor *add_columns(const amp_onnx_step *s, amp_tensor *x, const amp_onnx_window *w, const int64_t *padded) {
    const int64_t kernel = amp_onnx_product(s, w->dims, w->kernel, AMP_ONNX_MOST_MADE),
                  positions = amp_onnx_product(s, w->dims, w->output, AMP_ONNX_MOST_MADE),
                  image = amp_onnx_product(s, w->dims, padded, AMP_ONNX_MOST_MADE);
    if (kernel < 0 || positions < 0 || image < 0) return NULL;
    if (x->rank != 3 || x->shape[1] % kernel != 0 || x->shape[2] != positions) {
        amp_onnx_fail(s, AMP_ERROR_INVALID, "the columns are %s; expected (N, C · %lld, %lld)", amp_describe(x),
                      (long long)kernel, (long long)positions);
        return NULL;
    }
    const int64_t planes = x->shape[0] * (x->shape[1] / kernel), count = kernel * positions;
    int64_t *places = amp_onnx_memory(AMP_I64, count);
    if (!places) return NULL;
    find_places(w, padded, count, places);
    amp_tensor *zeros = amp_zeros(AMP_DIMS(planes, image), .dtype = x->dtype, .device = (int)amp_tensor_device(x));
    return amp_index_add(zeros, 1, amp_onnx_from_host(s, AMP_I64, 1, &count, places),
                         amp_reshape(x, AMP_DIMS(planes, count)));
}

amp_status onnx_col2im(amp_onnx_step *s) {
    amp_tensor *x = amp_onnx_required(s, 0), *shape = amp_onnx_required(s, 1), *block = amp_onnx_required(s, 2);
    if (!x || !shape || !block) return amp_pending_error();
    amp_onnx_window w;
    int64_t kernel[AMP_ONNX_MOST_SPATIAL], padded[AMP_ONNX_MOST_SPATIAL], result[AMP_MAX_RANK];
    const int64_t dims = amp_onnx_read_ints(s, shape, w.input, AMP_ONNX_MOST_SPATIAL);
    const int64_t blocks = amp_onnx_read_ints(s, block, kernel, AMP_ONNX_MOST_SPATIAL);
    if (dims < 0 || blocks < 0) return amp_pending_error();
    if (dims != blocks || dims < 1) {
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "an image of %lld dimensions, blocks of %lld", (long long)dims,
                             (long long)blocks);
    }
    AMP_TRY(amp_onnx_window_read(s, (int)dims, kernel, &w));
    amp_dims crop = amp_onnx_same_dims(2 * w.dims, 0);
    for (int d = 0; d < w.dims; d++) {
        if (kernel[d] < 1 || kernel[d] > INT32_MAX || w.input[d] < 1 || w.input[d] > INT32_MAX) {
            return amp_onnx_fail(s, AMP_ERROR_INVALID, "an extent below 1 or above %d", INT32_MAX);
        }
        padded[d] = w.input[d] + w.before[d] + w.after[d];
        w.output[d] = (padded[d] - amp_onnx_window_reach(&w, d)) / w.stride[d] + 1;
        if (padded[d] < amp_onnx_window_reach(&w, d)) {
            return amp_onnx_fail(s, AMP_ERROR_INVALID, "a block is larger than the padded image");
        }
        crop.values[2 * (w.dims - 1 - d)] = -w.before[d];
        crop.values[2 * (w.dims - 1 - d) + 1] = -w.after[d];
    }
    amp_tensor *image = add_columns(s, x, &w, padded);
    if (!image) return amp_pending_error();
    result[0] = x->shape[0];
    result[1] = x->shape[0] ? image->shape[0] / x->shape[0] : 0;
    memcpy(result + 2, padded, (size_t)w.dims * sizeof *padded);
    return amp_onnx_set(s, 0, amp_constant_pad_nd(amp_onnx_reshaped(image, w.dims + 2, result), crop));
}
