/* The windows of convolutions and pools: attributes, padding, and a view of what each window sees. */
#include <string.h>

#include "onnx/ops/pieces.h"

/* A list of integers of which one stands for each dimension; `least` is the smallest that makes sense. */
static amp_status read_list(const amp_onnx_step *s, const char *name, int expected, int64_t least, int64_t otherwise,
                            int64_t *to) {
    int count = 0;
    const int64_t *list = amp_onnx_ints(s, name, &count);
    if (list && count != expected) {
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "attribute '%s' has %d values; expected %d", name, count, expected);
    }
    for (int i = 0; i < expected; i++) {
        to[i] = list ? list[i] : otherwise;
        if (to[i] < least || to[i] > INT32_MAX) {
            return amp_onnx_fail(s, AMP_ERROR_INVALID, "attribute '%s' holds %lld", name, (long long)to[i]);
        }
    }
    return AMP_OK;
}

amp_status amp_onnx_window_read(const amp_onnx_step *s, int dims, const int64_t *kernel, amp_onnx_window *w) {
    if (dims < 1 || dims > AMP_ONNX_MOST_SPATIAL) {
        return amp_onnx_fail(s, AMP_ERROR_NOT_IMPLEMENTED, "windows over %d dimensions; at most %d are done", dims,
                             AMP_ONNX_MOST_SPATIAL);
    }
    int64_t pads[2 * AMP_ONNX_MOST_SPATIAL];
    w->dims = dims;
    if (!kernel && !amp_onnx_has(s, "kernel_shape")) {
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "attribute 'kernel_shape' is missing");
    }
    AMP_TRY(read_list(s, "kernel_shape", dims, 1, 1, w->kernel));
    if (kernel && amp_onnx_has(s, "kernel_shape") && memcmp(kernel, w->kernel, (size_t)dims * sizeof *kernel) != 0) {
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "attribute 'kernel_shape' is %s, the weight's kernel %s",
                             amp_describe_shape(dims, w->kernel), amp_describe_shape(dims, kernel));
    }
    if (kernel) memcpy(w->kernel, kernel, (size_t)dims * sizeof *kernel);
    AMP_TRY(read_list(s, "strides", dims, 1, 1, w->stride));
    AMP_TRY(read_list(s, "dilations", dims, 1, 1, w->dilation));
    AMP_TRY(read_list(s, "pads", 2 * dims, 0, 0, pads));
    memcpy(w->before, pads, (size_t)dims * sizeof *pads);
    memcpy(w->after, pads + dims, (size_t)dims * sizeof *pads);
    return AMP_OK;
}

int64_t amp_onnx_window_reach(const amp_onnx_window *w, int d) {
    return (w->kernel[d] - 1) * w->dilation[d] + 1;
}

/* The paddings that auto_pad stands for; of an odd number the larger half goes behind for SAME_UPPER. */
static amp_status pad_automatically(const amp_onnx_step *s, amp_onnx_window *w) {
    const char *how = amp_onnx_text(s, "auto_pad", "NOTSET");
    if (strcmp(how, "NOTSET") == 0 || strcmp(how, "") == 0) return AMP_OK;
    const bool upper = strcmp(how, "SAME_UPPER") == 0, lower = strcmp(how, "SAME_LOWER") == 0;
    if (!upper && !lower && strcmp(how, "VALID") != 0) {
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "attribute 'auto_pad' is '%s'", how);
    }
    for (int d = 0; d < w->dims; d++) {
        const int64_t outputs = (w->input[d] + w->stride[d] - 1) / w->stride[d];
        int64_t missing = (outputs - 1) * w->stride[d] + amp_onnx_window_reach(w, d) - w->input[d];
        if (missing < 0 || (!upper && !lower)) missing = 0;
        w->before[d] = upper ? missing / 2 : missing - missing / 2;
        w->after[d] = missing - w->before[d];
    }
    return AMP_OK;
}

/* A window that would begin behind the input and the padding before it is none, also where extents round up. */
static amp_status count_outputs(const amp_onnx_step *s, amp_onnx_window *w) {
    const bool up = amp_onnx_int(s, "ceil_mode", 0) != 0;
    for (int d = 0; d < w->dims; d++) {
        const int64_t reach = amp_onnx_window_reach(w, d), extent = w->input[d] + w->before[d] + w->after[d];
        const int64_t room = extent - reach + (up ? w->stride[d] - 1 : 0);
        if (room < 0) {
            return amp_onnx_fail(s, AMP_ERROR_INVALID,
                                 "a window reaches over %lld elements, the padded input has %lld there",
                                 (long long)reach, (long long)extent);
        }
        w->output[d] = room / w->stride[d] + 1;
        if (up && (w->output[d] - 1) * w->stride[d] >= w->input[d] + w->before[d]) w->output[d]--;
    }
    return AMP_OK;
}

amp_status amp_onnx_window_of(const amp_onnx_step *s, const amp_tensor *x, const amp_tensor *weight,
                              amp_onnx_window *w) {
    const int dims = x->rank - 2;
    if (weight && weight->rank != x->rank) {
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "the input is %s, the weight %s: expected as many dimensions",
                             amp_describe(x), amp_describe(weight));
    }
    AMP_TRY(amp_onnx_window_read(s, dims, weight ? weight->shape + 2 : NULL, w));
    memcpy(w->input, x->shape + 2, (size_t)dims * sizeof *w->input);
    AMP_TRY(pad_automatically(s, w));
    return count_outputs(s, w);
}

bool amp_onnx_window_is_even(const amp_onnx_window *w) {
    return memcmp(w->before, w->after, (size_t)w->dims * sizeof *w->before) == 0;
}

amp_tensor *amp_onnx_window_pad(const amp_onnx_window *w, amp_tensor *x, bool reached, amp_scalar value) {
    amp_dims pad = amp_onnx_same_dims(2 * w->dims, 0);
    bool none = true;
    for (int d = 0; d < w->dims; d++) {
        const int64_t end = (w->output[d] - 1) * w->stride[d] + amp_onnx_window_reach(w, d);
        int64_t after = reached ? end - w->input[d] - w->before[d] : w->after[d];
        if (after < 0) after = 0;
        pad.values[2 * (w->dims - 1 - d)] = w->before[d];
        pad.values[2 * (w->dims - 1 - d) + 1] = after;
        none = none && w->before[d] == 0 && after == 0;
    }
    return none ? x : amp_constant_pad_nd(x, pad, .value = value);
}

amp_tensor *amp_onnx_window_view(const amp_onnx_window *w, amp_tensor *x) {
    for (int d = 0; d < w->dims; d++) {
        x = amp_narrow(x, d + 2, 0, (w->output[d] - 1) * w->stride[d] + amp_onnx_window_reach(w, d));
        x = amp_unfold(x, d + 2, amp_onnx_window_reach(w, d), w->stride[d]);
        if (w->dilation[d] > 1) x = amp_slice(x, .dim = -1, .step = AMP_SET(w->dilation[d]));
    }
    return x;
}
