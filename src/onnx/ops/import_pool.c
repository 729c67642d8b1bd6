/* MaxPool, AveragePool, LpPool, the global pools, MaxUnpool. */
#include <math.h>
#include <string.h>

#include "onnx/ops.h"
#include "onnx/ops/pieces.h"

/* What libamp's pools take as padding: the same on both sides, at most half of the kernel. */
static bool is_direct(const amp_onnx_window *w) {
    bool direct = amp_onnx_window_is_even(w);
    for (int d = 0; d < w->dims; d++) direct = direct && w->before[d] <= w->kernel[d] / 2;
    return direct;
}

static bool has_gaps(const amp_onnx_window *w) {
    bool gaps = false;
    for (int d = 0; d < w->dims; d++) gaps = gaps || w->dilation[d] > 1;
    return gaps;
}

/* ---- MaxPool ---------------------------------------------------------------------------------------------------- */

static amp_tensor *pool_maximum(amp_tensor *x, const amp_onnx_window *w, amp_dims padding, bool up,
                                amp_tensor **indices) {
    const amp_dims kernel = amp_onnx_dims(w->dims, w->kernel), stride = amp_onnx_dims(w->dims, w->stride),
                   dilation = amp_onnx_dims(w->dims, w->dilation);
    const bool wanted = indices != NULL;
    switch (w->dims) {
    case 1:
        return amp_max_pool1d(x, kernel, .stride = stride, .padding = padding, .dilation = dilation, .ceil_mode = up,
                              .return_indices = wanted, .indices = indices);
    case 2:
        return amp_max_pool2d(x, kernel, .stride = stride, .padding = padding, .dilation = dilation, .ceil_mode = up,
                              .return_indices = wanted, .indices = indices);
    default:
        return amp_max_pool3d(x, kernel, .stride = stride, .padding = padding, .dilation = dilation, .ceil_mode = up,
                              .return_indices = wanted, .indices = indices);
    }
}

/* The smallest that a dtype holds. */
static amp_scalar least_of(amp_dtype dtype) {
    if (amp_dtype_is_floating(dtype)) return amp_float(-INFINITY);
    const int bits = 8 * (int)amp_dtype_size(dtype);
    return amp_int(dtype == AMP_U8 || dtype == AMP_BOOL ? 0 : bits == 64 ? INT64_MIN : -(INT64_C(1) << (bits - 1)));
}

/* Places in a plane of the extents `from`, counted row by row and with `before` elements of padding, to places in the
 * whole tensor x; storage_order 1 counts each plane column by column. */
static amp_tensor *count_whole(const amp_onnx_step *s, amp_tensor *rest, const amp_tensor *x, const amp_onnx_window *w,
                               const int64_t *from, const int64_t *before) {
    const bool columns = amp_onnx_int(s, "storage_order", 0) != 0;
    int64_t plane = 1, step[AMP_ONNX_MOST_SPATIAL] = {0};
    for (int i = 0; i < w->dims; i++) {
        const int d = columns ? i : w->dims - 1 - i;
        step[d] = plane;
        plane *= w->input[d];
    }
    amp_tensor *planes = amp_to_device(amp_arange_start(amp_int(0), amp_int(x->shape[0] * x->shape[1] * plane),
                                                        .step = amp_int(plane), .dtype = AMP_I64),
                                       amp_tensor_device(x));
    amp_dims shape = amp_onnx_same_dims(x->rank, 1);
    shape.values[0] = x->shape[0];
    shape.values[1] = x->shape[1];
    amp_tensor *sum = amp_reshape(planes, shape);
    for (int d = w->dims - 1; d >= 0; d--) {
        amp_tensor *at = d > 0 ? amp_remainder_scalar(rest, amp_int(from[d])) : rest;
        sum = amp_add(sum, amp_sub_scalar(at, amp_int(before[d])), .alpha = amp_int(step[d]));
        if (d > 0) rest = amp_floor_divide_scalar(rest, amp_int(from[d]));
    }
    return sum;
}

amp_status onnx_max_pool(amp_onnx_step *s) {
    amp_tensor *x = amp_onnx_required(s, 0), *indices = NULL;
    amp_onnx_window w;
    if (!x) return amp_pending_error();
    AMP_TRY(amp_onnx_window_of(s, x, NULL, &w));
    const bool wanted = amp_onnx_wants(s, 1), direct = is_direct(&w);
    const int64_t none[AMP_ONNX_MOST_SPATIAL] = {0};
    amp_tensor *padded = direct ? x : amp_onnx_window_pad(&w, x, true, least_of(x->dtype));
    const amp_dims padding = direct ? amp_onnx_dims(w.dims, w.before) : amp_onnx_same_dims(w.dims, 0);
    const bool up = direct && amp_onnx_int(s, "ceil_mode", 0) != 0;
    AMP_TRY(amp_onnx_set(s, 0, pool_maximum(padded, &w, padding, up, wanted ? &indices : NULL)));
    if (!wanted) return AMP_OK;
    return amp_onnx_set(s, 1, count_whole(s, indices, x, &w, padded->shape + 2, direct ? none : w.before));
}

/* ---- AveragePool ------------------------------------------------------------------------------------------------ */

static amp_tensor *pool_average(amp_tensor *x, const amp_onnx_window *w, amp_dims padding, bool up,
                                bool count_padding) {
    const amp_dims kernel = amp_onnx_dims(w->dims, w->kernel), stride = amp_onnx_dims(w->dims, w->stride);
    const amp_opt_bool count = AMP_SET(count_padding);
    switch (w->dims) {
    case 1:
        return amp_avg_pool1d(x, kernel, .stride = stride, .padding = padding, .ceil_mode = up,
                              .count_include_pad = count);
    case 2:
        return amp_avg_pool2d(x, kernel, .stride = stride, .padding = padding, .ceil_mode = up,
                              .count_include_pad = count);
    default:
        return amp_avg_pool3d(x, kernel, .stride = stride, .padding = padding, .ceil_mode = up,
                              .count_include_pad = count);
    }
}

/* How many of a window's elements count along d, over the kernel: by that an average of all is too small. */
static amp_tensor *counted_share(const amp_onnx_step *s, const amp_onnx_window *w, int d, bool count_padding) {
    const int64_t first = count_padding ? -w->before[d] : 0;
    const int64_t end = w->input[d] + (count_padding ? w->after[d] : 0);
    double *share = amp_onnx_memory(AMP_F64, w->output[d]);
    bool all = true;
    for (int64_t o = 0; share && o < w->output[d]; o++) {
        int64_t count = 0;
        for (int64_t k = 0; k < w->kernel[d]; k++) {
            const int64_t at = o * w->stride[d] - w->before[d] + k * w->dilation[d];
            count += at >= first && at < end;
        }
        share[o] = (double)count / (double)w->kernel[d];
        all = all && count == w->kernel[d];
    }
    return share && !all ? amp_onnx_from_host(s, AMP_F64, 1, &w->output[d], share) : NULL;
}

static amp_tensor *average_anyhow(const amp_onnx_step *s, amp_tensor *x, const amp_onnx_window *w, bool count_padding) {
    const amp_dtype dtype = x->dtype;
    const int rank = x->rank;
    x = amp_onnx_window_pad(w, x, true, amp_float(0));
    amp_tensor *y = has_gaps(w)
                        ? amp_mean(amp_onnx_window_view(w, x), .dim = amp_onnx_dims_between(rank, rank + w->dims))
                        : pool_average(x, w, amp_onnx_same_dims(w->dims, 0), false, true);
    for (int d = 0; y && d < w->dims; d++) {
        amp_tensor *share = counted_share(s, w, d, count_padding);
        if (share) y = amp_div(y, amp_onnx_along(amp_to(share, dtype), d + 2, rank));
    }
    return y;
}

amp_status onnx_average_pool(amp_onnx_step *s) {
    amp_tensor *x = amp_onnx_required(s, 0);
    amp_onnx_window w;
    if (!x) return amp_pending_error();
    AMP_TRY(amp_onnx_window_of(s, x, NULL, &w));
    const bool count_padding = amp_onnx_int(s, "count_include_pad", 0) != 0;
    if (!is_direct(&w) || has_gaps(&w)) return amp_onnx_set(s, 0, average_anyhow(s, x, &w, count_padding));
    const bool up = amp_onnx_int(s, "ceil_mode", 0) != 0;
    return amp_onnx_set(s, 0, pool_average(x, &w, amp_onnx_dims(w.dims, w.before), up, count_padding));
}

/* ---- The others ------------------------------------------------------------------------------------------------- */

amp_status onnx_lp_pool(amp_onnx_step *s) {
    amp_tensor *x = amp_onnx_required(s, 0);
    amp_onnx_window w;
    if (!x) return amp_pending_error();
    AMP_TRY(amp_onnx_window_of(s, x, NULL, &w));
    amp_tensor *seen = amp_onnx_window_view(&w, amp_onnx_window_pad(&w, x, true, amp_float(0)));
    const amp_scalar p = amp_float((double)amp_onnx_int(s, "p", 2));
    return amp_onnx_set(
        s, 0, amp_linalg_vector_norm(seen, .ord = p, .dim = amp_onnx_dims_between(x->rank, x->rank + w.dims)));
}

amp_status onnx_global_pool(amp_onnx_step *s) {
    amp_tensor *x = amp_onnx_required(s, 0);
    if (!x) return amp_pending_error();
    if (x->rank < 3) return amp_onnx_fail(s, AMP_ERROR_INVALID, "the input is %s; expected (N, C, …)", amp_describe(x));
    const amp_dims dims = amp_onnx_dims_between(2, x->rank);
    switch (*s->node->op->to) {
    case 'm':
        if (strcmp(s->node->op->to, "mean") == 0) return amp_onnx_set(s, 0, amp_mean(x, .dim = dims, .keepdim = true));
        return amp_onnx_set(s, 0, amp_amax(x, .dim = dims, .keepdim = true));
    default:
        return amp_onnx_set(
            s, 0,
            amp_linalg_vector_norm(x, .ord = amp_float((double)amp_onnx_int(s, "p", 2)), .dim = dims, .keepdim = true));
    }
}

/* The indices count in the extents that follow from the attributes; output_shape adds zeros behind those. */
amp_status onnx_max_unpool(amp_onnx_step *s) {
    amp_tensor *x = amp_onnx_required(s, 0), *indices = amp_onnx_required(s, 1), *output = amp_onnx_input(s, 2);
    if (!x || !indices) return amp_pending_error();
    amp_onnx_window w;
    int64_t shape[AMP_MAX_RANK], wanted[AMP_MAX_RANK], count = x->shape[0] * x->shape[1];
    AMP_TRY(amp_onnx_window_read(s, x->rank - 2, NULL, &w));
    memcpy(shape, x->shape, sizeof shape);
    for (int d = 0; d < w.dims; d++) {
        shape[d + 2] = (x->shape[d + 2] - 1) * w.stride[d] - w.before[d] - w.after[d] + w.kernel[d];
        if (shape[d + 2] < 1) return amp_onnx_fail(s, AMP_ERROR_INVALID, "the padding leaves nothing");
        count *= shape[d + 2];
    }
    const int64_t given = output ? amp_onnx_read_ints(s, output, wanted, AMP_MAX_RANK) : 0;
    if (given < 0) return amp_pending_error();
    if (output && given != x->rank)
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "output_shape has %lld values", (long long)given);
    amp_tensor *zeros = amp_zeros(AMP_DIMS(count), .dtype = x->dtype, .device = (int)amp_tensor_device(x));
    amp_tensor *y = amp_scatter(zeros, 0, amp_reshape(indices, AMP_DIMS(-1)), amp_reshape(x, AMP_DIMS(-1)));
    y = amp_onnx_reshaped(y, x->rank, shape);
    if (!output) return amp_onnx_set(s, 0, y);
    amp_dims pad = amp_onnx_same_dims(2 * w.dims, 0);
    for (int d = 0; d < w.dims; d++) pad.values[2 * (w.dims - 1 - d) + 1] = wanted[d + 2] - shape[d + 2];
    return amp_onnx_set(s, 0, amp_constant_pad_nd(y, pad));
}
