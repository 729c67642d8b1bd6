/* Convolutions as matrix products: a row for each output pixel, over the window of the input that it sees. Images lie
 * channels last; what lies otherwise is copied. */
#include <string.h>

#include "core/memory.h"
#include "cpu/conv/conv.h"
#include "cpu/conv/conv_dnnl.h"
#include "cpu/convert/strided_copy.h"
#include "cpu/cpu_steps.h"
#include "cpu/product/matmul.h"
#include "cpu/registry/gemm.h"
#include "policy/cast_cache.h"

enum { RANK = 2 + AMP_CONV_AXES };

typedef amp_conv_plane plane;

static char *address(const amp_tensor *t, int64_t offset) {
    return (char *)amp_tensor_pointer(t) + offset * (int64_t)amp_dtype_size(t->dtype);
}

static amp_status no_memory(const amp_call *call, const char *what) {
    return amp_fail(AMP_ERROR_MEMORY, "%s: no memory for %s", amp_call_name(call), what);
}

/* ---- Images --------------------------------------------------------------------------------------------------- */

static void channels_last_strides(const int64_t extents[AMP_CONV_AXES], int64_t channels, plane *p) {
    p->axis[2] = channels;
    p->axis[1] = p->axis[2] * extents[2];
    p->axis[0] = p->axis[1] * extents[1];
    p->batch = p->axis[0] * extents[0];
}

static int64_t channels_last_elements(const int64_t extents[AMP_CONV_AXES], int64_t batch, int64_t channels) {
    return batch * channels * extents[0] * extents[1] * extents[2];
}

/* Copies between an image of any strides and a plane; dtypes are converted. */
static amp_status copy_image(const amp_conv_image *image, const int64_t extents[AMP_CONV_AXES], int64_t batch,
                             int64_t channels, const plane *p, bool to_plane) {
    const amp_tensor *t = amp_tensor_memory(image->tensor);
    const int64_t shape[RANK] = {batch, extents[0], extents[1], extents[2], channels};
    const int64_t ours[RANK] = {p->batch, p->axis[0], p->axis[1], p->axis[2], 1};
    const int64_t theirs[RANK] = {image->batch, image->axis[0], image->axis[1], image->axis[2], image->channel};
    char *at = address(t, image->offset);
    if (to_plane) return amp_strided_copy(p->data, p->dtype, ours, at, t->dtype, theirs, RANK, shape);
    return amp_strided_copy(at, t->dtype, theirs, p->data, p->dtype, ours, RANK, shape);
}

enum { FEW_CHANNELS = 16 };

/* Products round f32 as they copy lines or windows: each line as often as windows have it, and of few channels a few
 * values at a time. So such an image is rounded first. CPU time on a Zen 4, ms: 3 -> 24, 3 x 3 by 2, at 480 x 736 2.49
 * -> 1.97; 8 -> 24 at 160 x 160 1.02 -> 0.88, 16 -> 24 1.63 -> 1.52, 32 -> 24 3.2 -> 3.1; but 48 -> 24, 3 x 3 by 2, at
 * 240 x 368 10.6 -> 11.2. */
static bool is_rounded_first(const amp_conv *c) {
    return c->in_channels <= FEW_CHANNELS &&
           (c->axis[0].kernel > c->axis[0].stride || c->axis[1].kernel > c->axis[1].stride);
}

static amp_status prepare_input(const amp_call *call, const amp_conv *c, plane *x) {
    const amp_tensor *t = amp_tensor_memory(c->x.tensor);
    const int64_t extents[] = {c->axis[0].in, c->axis[1].in, c->axis[2].in}, channels = c->groups * c->in_channels;
    const bool same = t->dtype == (amp_conv_in_bf16(c) ? AMP_BF16 : AMP_F32);
    const bool readable = same || (t->dtype == AMP_F32 && !amp_conv_is_depthwise(c) && !is_rounded_first(c));
    if (readable && (c->x.channel == 1 || channels == 1)) {
        *x = (plane){.data = address(t, c->x.offset), .dtype = t->dtype, .batch = c->x.batch};
        memcpy(x->axis, c->x.axis, sizeof x->axis);
        return AMP_OK;
    }
    x->dtype = amp_conv_in_bf16(c) ? AMP_BF16 : AMP_F32;
    channels_last_strides(extents, channels, x);
    const int64_t elements = channels_last_elements(extents, c->batch, channels);
    x->data = x->scratch = amp_alloc((size_t)elements * amp_dtype_size(x->dtype));
    if (!x->scratch) return no_memory(call, "the input with its channels last");
    return copy_image(&c->x, extents, c->batch, channels, x, true);
}

/* The distance of all lines, of all images, if they lie evenly: 0 where there is one; -1 where they do not. */
static int64_t line_distance(const amp_conv *c, const amp_conv_image *y) {
    const int64_t extents[] = {c->axis[1].out, c->axis[0].out, c->batch};
    const int64_t strides[] = {y->axis[1], y->axis[0], y->batch};
    int64_t distance = 0, expected = 0;
    for (int i = 0; i < 3; i++) {
        if (extents[i] == 1) continue;
        if (strides[i] == 0) return -1;                      /* broadcast */
        if (expected == 0) distance = expected = strides[i]; /* the first that steps at all */
        if (strides[i] != expected) return -1;
        expected *= extents[i];
    }
    return distance;
}

/* The result or the residual where it lies, if that will do; else a plane of its own for it. */
static amp_status locate_output(const amp_call *call, const amp_conv *c, const amp_conv_image *image, bool dense,
                                plane *y) {
    const amp_tensor *t = image->tensor;
    const int64_t extents[] = {c->axis[0].out, c->axis[1].out, c->axis[2].out};
    const int64_t channels = c->groups * c->out_channels, line = line_distance(c, image);
    *y = (plane){.data = address(t, image->offset), .dtype = t->dtype, .axis = {0, line, image->axis[2]}};
    if (extents[2] == 1) y->axis[2] = channels;
    if (line == 0) y->axis[1] = y->axis[2] * extents[2];
    if ((image->channel == 1 || channels == 1) && (t->dtype == AMP_F32 || t->dtype == AMP_BF16) && line >= 0 &&
        (dense ? y->axis[2] == channels : y->axis[2] >= channels))
        return AMP_OK;
    y->dtype = t->dtype == AMP_F16 ? AMP_F32 : t->dtype;
    channels_last_strides(extents, channels, y);
    const int64_t elements = channels_last_elements(extents, c->batch, channels);
    y->data = y->scratch = amp_alloc((size_t)elements * amp_dtype_size(y->dtype));
    return y->scratch ? AMP_OK : no_memory(call, "an image with its channels last");
}

amp_status amp_conv_prepare_output(const amp_call *call, const amp_conv *c, bool dense, plane *y) {
    return locate_output(call, c, &c->y, dense, y);
}

static amp_status prepare_residual(const amp_call *call, const amp_conv *c, plane *r) {
    const int64_t extents[] = {c->axis[0].out, c->axis[1].out, c->axis[2].out};
    if (!c->residual.tensor) return AMP_OK;
    AMP_TRY(locate_output(call, c, &c->residual, false, r));
    return r->scratch ? copy_image(&c->residual, extents, c->batch, c->groups * c->out_channels, r, true) : AMP_OK;
}

amp_status amp_conv_finish_output(const amp_conv *c, const plane *y) {
    const int64_t extents[] = {c->axis[0].out, c->axis[1].out, c->axis[2].out};
    return y->scratch ? copy_image(&c->y, extents, c->batch, c->groups * c->out_channels, y, false) : AMP_OK;
}

/* The bias or the scale: f32, or `half` if it may stay bf16. */
static amp_status prepare_channels(const amp_call *call, const amp_tensor *t, bool half, plane *p) {
    if (!t) return AMP_OK;
    *p = (plane){.data = address(t, 0), .dtype = t->dtype};
    const bool dense = t->strides[0] == 1 || t->shape[0] == 1;
    if (dense && (t->dtype == AMP_F32 || (t->dtype == AMP_BF16 && half))) return AMP_OK;
    p->dtype = AMP_F32;
    p->data = p->scratch = amp_alloc((size_t)t->shape[0] * sizeof(float));
    if (!p->scratch) return no_memory(call, "one number for each channel");
    return amp_strided_copy(p->data, AMP_F32, (const int64_t[]){1}, amp_tensor_pointer(t), t->dtype, t->strides, 1,
                            t->shape);
}

/* ---- Weights -------------------------------------------------------------------------------------------------- */

/* Taps that a window's run has, and zeros behind it: pairs of bf16 do not straddle runs. */
static int64_t run_taps(const amp_conv *c) {
    return c->axis[2].dilation == 1 && c->groups == 1 ? c->axis[2].kernel : 1;
}
static int64_t run_padding(const amp_conv *c) {
    return amp_conv_in_bf16(c) ? run_taps(c) * c->in_channels % 2 : 0;
}

/* K of the product. */
static int64_t depth_of(const amp_conv *c) {
    const int64_t terms = c->in_channels * amp_conv_taps(c);
    return terms == 0 ? 0 : terms + amp_conv_taps(c) / run_taps(c) * run_padding(c);
}

/* The weights' own geometry, groups apart: (groups, outputs, taps…, channels). */
static void set_key(const amp_conv *c, amp_dtype dtype, amp_layout layout, size_t bytes, amp_cast_key *key) {
    const int64_t shape[] = {c->groups,         c->out_channels,   c->axis[0].kernel,
                             c->axis[1].kernel, c->axis[2].kernel, c->in_channels};
    const int64_t strides[] = {c->w.group, c->w.out, c->w.axis[0], c->w.axis[1], c->w.axis[2], c->w.in};
    amp_cast_key_start(key, amp_tensor_memory(c->w.tensor));
    key->offset += c->w.offset;
    key->dtype = dtype;
    key->layout = layout;
    key->reads_anywhere = true;
    key->bytes = bytes;
    key->rank = 3 + AMP_CONV_AXES;
    memcpy(key->shape, shape, sizeof shape);
    memcpy(key->strides, strides, sizeof strides);
}

/* A matrix of n rows of so many numbers. */
static amp_status pack_matrix(const amp_conv *c, const void *from, amp_dtype dtype, int64_t n, char *to) {
    const int64_t k = depth_of(c);
    return amp_conv_in_bf16(c) ? amp_gemm_pack(to, from, dtype, n, k, k, 1)
                               : amp_gemm_f32_pack((float *)(void *)to, from, n, k, k, 1);
}

static size_t packed_bytes(const amp_conv *c) {
    return amp_conv_in_bf16(c) ? amp_gemm_packed_bytes(c->out_channels, depth_of(c))
                               : amp_gemm_f32_packed_bytes(c->out_channels, depth_of(c));
}

/* The source is what the copy of it would be, but for the rounding, which packing does too. */
static bool lies_so(const amp_cast_key *key, const int64_t *strides) {
    if (key->source_dtype != key->dtype && key->source_dtype != AMP_F32) return false;
    for (int d = 0; d < key->rank; d++) {
        if (key->shape[d] != 1 && key->strides[d] != strides[d]) return false;
    }
    return true;
}

static const char *weights_at(const amp_cast_key *key, int64_t group, int64_t output) {
    const int64_t offset = group * key->strides[0] + output * key->strides[1];
    return (const char *)amp_cast_key_pointer(key) + offset * (int64_t)amp_dtype_size(key->source_dtype);
}

enum {
    COPY_BYTES = 512 * 1024, /* of outputs that are copied and packed at a time: they stay in L2; whole panels … */
    PANEL = 32               /* … of so many */
};

static int64_t rows_at_a_time(const amp_conv *c, size_t row_bytes) {
    const int64_t panels = COPY_BYTES / (int64_t)row_bytes / PANEL, rows = (panels + 1) * PANEL;
    return rows < c->out_channels ? rows : c->out_channels;
}

/* One group, by way of copies of some outputs, whose padding is zero. */
static amp_status pack_copies(const amp_conv *c, const amp_cast_key *key, const int64_t *strides, int64_t group,
                              char *to) {
    const size_t row = (size_t)depth_of(c) * amp_dtype_size(key->dtype);
    const int64_t most = rows_at_a_time(c, row);
    char *dense = run_padding(c) == 0 ? amp_alloc((size_t)most * row) : amp_alloc_zeroed((size_t)most * row);
    if (!dense) return amp_fail(AMP_ERROR_MEMORY, "conv: no memory to pack weights");
    amp_status status = AMP_OK;
    int64_t shape[AMP_MAX_RANK] = {1};
    memcpy(shape + 1, key->shape + 1, (size_t)(key->rank - 1) * sizeof *shape);
    for (int64_t at = 0, rows; at < c->out_channels && status == AMP_OK; at += rows) {
        rows = shape[1] = c->out_channels - at < most ? c->out_channels - at : most;
        status = amp_strided_copy_anywhere(dense, key->dtype, strides, weights_at(key, group, at), key->source_dtype,
                                           key->strides, key->rank, shape);
        const size_t before =
            amp_conv_in_bf16(c) ? amp_gemm_packed_bytes(at, depth_of(c)) : amp_gemm_f32_packed_bytes(at, depth_of(c));
        if (status == AMP_OK) status = pack_matrix(c, dense, key->dtype, rows, to + before);
    }
    amp_free(dense);
    return status;
}

static amp_tensor *build_packed(const amp_cast_key *key, void *context) {
    const amp_conv *c = context;
    const size_t bytes = packed_bytes(c);
    const int64_t shape[] = {c->groups, (int64_t)bytes};
    const int64_t k = depth_of(c), tap = c->in_channels + (run_taps(c) == 1 ? run_padding(c) : 0);
    const int64_t line = tap * c->axis[2].kernel + (run_taps(c) == 1 ? 0 : run_padding(c));
    const int64_t strides[] = {c->out_channels * k, k, line * c->axis[1].kernel, line, tap, 1};
    amp_tensor *made = amp_tensor_new("conv: packed weights", AMP_U8, 2, shape);
    if (!made) return NULL;
    const bool needs_no_copy = run_padding(c) == 0 && lies_so(key, strides); /* windows of one element, mostly */
    amp_status status = AMP_OK;
    for (int64_t i = 0; i < c->groups && status == AMP_OK; i++) {
        char *to = (char *)made->storage->data + (size_t)i * bytes;
        status = needs_no_copy ? pack_matrix(c, weights_at(key, i, 0), key->source_dtype, c->out_channels, to)
                               : pack_copies(c, key, strides, i, to);
    }
    if (status == AMP_OK) return made;
    amp_tensor_drop(made);
    return NULL;
}

amp_status amp_conv_obtain_weights(amp_call *call, const amp_conv *c, amp_dtype dtype, amp_layout layout, size_t bytes,
                                   amp_cast_builder build, amp_cast **cast) {
    bool cached = false;
    amp_cast_key key;
    set_key(c, dtype, layout, bytes, &key);
    *cast = amp_cast_obtain(&key, amp_cpu_weight_life(call, c->w.tensor, true), build, (void *)c, &cached);
    if (!*cast) return amp_pending_error();
    call->note.casts_cached += cached;
    call->note.casts_made += !cached;
    return AMP_OK;
}

/* ---- Products ------------------------------------------------------------------------------------------------- */

/* Rows of the product are the input's pixels as they lie, and the output's. */
static bool is_plain(const amp_conv *c, const plane *x, const plane *r, const plane *y) {
    int64_t expected = x->axis[2];
    if (y->axis[1] != y->axis[2] * c->axis[2].out || (r->data && r->axis[1] != r->axis[2] * c->axis[2].out))
        return false;
    for (int i = AMP_CONV_AXES - 1; i >= 0; i--) {
        const amp_conv_axis *a = &c->axis[i];
        if (a->kernel != 1 || a->stride != 1 || a->pad != 0 || a->in != a->out) return false;
        if (a->in != 1 && x->axis[i] != expected) return false;
        expected *= a->in;
    }
    return c->batch == 1 || x->batch == expected;
}

amp_gemm_window amp_conv_window(const amp_conv *c, const amp_conv_operands *o, const plane *y) {
    const plane *x = &o->x;
    const int64_t m = c->batch * amp_conv_pixels(c);
    if (is_plain(c, x, &o->residual, y)) /* one line of pixels */
        return (amp_gemm_window){.out = {1, 1, m},
                                 .in = {1, 1, m},
                                 .taps = {1, 1, 1},
                                 .stride = {1, 1, 1},
                                 .dilation = {1, 1, 1},
                                 .channels = c->in_channels,
                                 .run_taps = 1,
                                 .run_padding = run_padding(c),
                                 .step = {0, 0, x->axis[2]}};
    amp_gemm_window w = {.channels = c->in_channels, .image_stride = x->batch};
    w.run_taps = run_taps(c);
    w.run_padding = run_padding(c);
    for (int i = 0; i < AMP_CONV_AXES; i++) {
        const amp_conv_axis *a = &c->axis[i];
        w.out[i] = a->out;
        w.in[i] = a->in;
        w.taps[i] = a->kernel;
        w.stride[i] = a->stride;
        w.pad[i] = a->pad;
        w.dilation[i] = a->dilation;
        w.step[i] = x->axis[i];
    }
    return w;
}

static amp_status run_gemm(amp_call *call, const amp_conv *c, const amp_conv_operands *o, const plane *y,
                           const void *weights) {
    const plane *x = &o->x, *r = &o->residual;
    const amp_gemm_window window = amp_conv_window(c, o, y);
    const amp_gemm g = {
        .m = c->batch * amp_conv_pixels(c),
        .n = c->out_channels,
        .k = depth_of(c),
        .batch = c->groups,
        .a = x->data,
        .a_dtype = x->dtype,
        .a_row_stride = x->axis[2],
        .a_column_stride = 1,
        .a_batch_stride = c->in_channels,
        .window = &window,
        .b = weights,
        .b_batch_stride = (int64_t)packed_bytes(c),
        .c = y->data,
        .c_dtype = y->dtype,
        .c_row_stride = y->axis[2],
        .c_line_stride = y->axis[1],
        .c_batch_stride = c->out_channels,
        .alpha = 1,
        .beta = 1,
        .residual = r->data,
        .residual_dtype = r->dtype,
        .residual_row_stride = r->axis[2],
        .residual_column_stride = 1,
        .residual_batch_stride = c->out_channels,
        .residual_line_stride = r->axis[1],
        .scale = (const float *)o->scale.data,
        .scale_batch_stride = c->out_channels,
        .bias = o->bias.data,
        .bias_dtype = o->bias.dtype,
        .bias_batch_stride = c->out_channels,
        .activation = c->epilogue.activation,
        .activation_numbers = {(float)c->epilogue.numbers[0], (float)c->epilogue.numbers[1]},
    };
    return amp_conv_in_bf16(c) ? amp_gemm_bf16(&g, &call->note.kernel) : amp_gemm_f32(&g, &call->note.kernel);
}

static amp_status multiply(amp_call *call, const amp_conv *c, const amp_conv_operands *o, const plane *y) {
    amp_cast *weights = NULL;
    const amp_dtype dtype = amp_conv_in_bf16(c) ? AMP_BF16 : AMP_F32;
    const amp_layout_kind in_bf16 =
        run_taps(c) > 1 ? AMP_LAYOUT_CONV_RUNS : AMP_LAYOUT_CONV; /* zeros behind each, or not */
    const amp_layout layout = {amp_conv_in_bf16(c) ? in_bf16 : AMP_LAYOUT_CONV_F32, 0};
    const size_t bytes = (size_t)c->groups * packed_bytes(c);
    if (depth_of(c) > 0) AMP_TRY(amp_conv_obtain_weights(call, c, dtype, layout, bytes, build_packed, &weights));
    const amp_status status = run_gemm(call, c, o, y, weights ? weights->memory->data : NULL);
    amp_cast_release(weights);
    return status;
}

static amp_status convolve_to(amp_call *call, const amp_conv *c, const amp_conv_operands *o, const plane *y) {
    if (depth_of(c) == 0) return multiply(call, c, o, y);
    bool served = false;
    AMP_TRY(amp_conv_dnnl(call, c, o, y, &served));
    return served ? AMP_OK : (amp_conv_is_depthwise(c) ? amp_conv_depthwise : multiply)(call, c, o, y);
}

amp_status amp_conv_convolve(amp_call *call, const amp_conv *c, const amp_conv_operands *o) {
    plane y = {0};
    amp_status status = amp_conv_prepare_output(call, c, false, &y);
    if (status == AMP_OK) status = convolve_to(call, c, o, &y);
    if (status == AMP_OK) status = amp_conv_finish_output(c, &y);
    amp_free(y.scratch);
    return status;
}

amp_status amp_conv_gemm(amp_call *call, const amp_conv *c) {
    amp_conv_operands o = {0};
    call->note.casts_fused += c->x.tensor->storage == NULL;
    amp_status status = prepare_input(call, c, &o.x);
    if (status == AMP_OK) status = prepare_channels(call, c->bias, !amp_conv_is_depthwise(c), &o.bias);
    if (status == AMP_OK) status = prepare_channels(call, c->scale, false, &o.scale);
    if (status == AMP_OK) status = prepare_residual(call, c, &o.residual);
    if (status == AMP_OK) status = (c->transposed ? amp_conv_transposed : amp_conv_convolve)(call, c, &o);
    amp_free(o.residual.scratch);
    amp_free(o.scale.scratch);
    amp_free(o.bias.scratch);
    amp_free(o.x.scratch);
    return status;
}

amp_status amp_cpu_convolve(amp_call *call, const amp_conv *c, bool loops) {
    if (!loops) return amp_conv_gemm(call, c);
    call->note.kernel = "loops";
    const amp_tensor *w = amp_tensor_memory(c->w.tensor);
    if (amp_tensor_lies_unaligned(w)) AMP_TRY(amp_storage_align(w->storage));
    return amp_conv_loops(call, c);
}
