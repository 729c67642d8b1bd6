/* Transposed convolutions. Where an output meets one tap alone (the stride is the kernel's extent) it is a product of
 * every input pixel with the weights of all taps: the outputs of a line of taps lie together. Else each place of an
 * output between two inputs is a convolution of its own. */
#include "core/memory.h"
#include "cpu/conv/conv.h"
#include "cpu/convert/strided_copy.h"

typedef amp_conv_plane plane;

/* ---- Outputs that meet one tap -------------------------------------------------------------------------------- */

static bool is_blocks(const amp_conv *c) {
    for (int i = 0; i < AMP_CONV_AXES; i++) {
        const amp_conv_axis *a = &c->axis[i];
        if (a->stride != a->kernel || a->pad != 0 || a->out != a->in * a->kernel) return false;
    }
    return c->groups == 1 && c->in_channels > 0 && c->axis[0].kernel == 1 && amp_conv_taps(c) > 1;
}

/* Values of a pixel; bf16 in pairs. */
static int64_t depth_of(const amp_conv *c) {
    return c->in_channels + (amp_conv_in_bf16(c) ? c->in_channels % 2 : 0);
}

static int64_t columns_of(const amp_conv *c) {
    return c->axis[2].kernel * c->out_channels;
}

static size_t packed_bytes(const amp_conv *c) {
    return amp_conv_in_bf16(c) ? amp_gemm_packed_bytes(columns_of(c), depth_of(c))
                               : amp_gemm_f32_packed_bytes(columns_of(c), depth_of(c));
}

/* For each line of taps a matrix [taps of the line, outputs][channels]. */
static amp_status pack(const amp_conv *c, const amp_cast_key *key, char *dense, char *to) {
    const amp_dtype dtype = key->dtype;
    const int64_t k = depth_of(c), n = columns_of(c), lines = c->axis[1].kernel;
    const int64_t shape[] = {lines, c->axis[2].kernel, c->out_channels, c->in_channels};
    const int64_t from[] = {key->strides[3], key->strides[4], key->strides[1], key->strides[5]};
    const int64_t strides[] = {n * k, c->out_channels * k, k, 1};
    AMP_TRY(
        amp_strided_copy_anywhere(dense, dtype, strides, amp_cast_key_pointer(key), key->source_dtype, from, 4, shape));
    for (int64_t i = 0; i < lines; i++, to += packed_bytes(c)) {
        const void *at = dense + (size_t)(i * n * k) * amp_dtype_size(dtype);
        AMP_TRY(dtype == AMP_F32 ? amp_gemm_f32_pack((float *)to, at, n, k, k, 1)
                                 : amp_gemm_pack(to, at, dtype, n, k, k, 1));
    }
    return AMP_OK;
}

static amp_tensor *build_packed(const amp_cast_key *key, void *context) {
    const amp_conv *c = context;
    const int64_t lines = c->axis[1].kernel, bytes = lines * (int64_t)packed_bytes(c);
    amp_tensor *made = amp_tensor_new("conv: packed weights", AMP_U8, 1, &bytes);
    if (!made) return NULL;
    char *dense = amp_alloc_zeroed((size_t)(lines * columns_of(c) * depth_of(c)) * amp_dtype_size(key->dtype));
    const amp_status status = dense ? pack(c, key, dense, made->storage->data)
                                    : amp_fail(AMP_ERROR_MEMORY, "conv: no memory to pack weights");
    amp_free(dense);
    if (status == AMP_OK) return made;
    amp_tensor_drop(made);
    return NULL;
}

/* One matrix of a batch for each line of taps: they read the same pixels, and write lines of the output of their
 * own. */
static amp_status multiply(amp_call *call, const amp_conv *c, const plane *x, const void *weights, const float *bias,
                           const float *scale, const plane *y) {
    const amp_gemm_window window = {
        .out = {c->axis[0].in, c->axis[1].in, c->axis[2].in},
        .in = {c->axis[0].in, c->axis[1].in, c->axis[2].in},
        .taps = {1, 1, 1},
        .stride = {1, 1, 1},
        .dilation = {1, 1, 1},
        .channels = c->in_channels,
        .run_taps = 1,
        .run_padding = depth_of(c) - c->in_channels,
        .image_stride = x->batch,
        .step = {x->axis[0], x->axis[1], x->axis[2]},
    };
    const amp_gemm g = {
        .m = c->batch * c->axis[0].in * c->axis[1].in * c->axis[2].in,
        .n = columns_of(c),
        .k = depth_of(c),
        .batch = c->axis[1].kernel,
        .a = x->data,
        .a_dtype = x->dtype,
        .a_row_stride = x->axis[2],
        .a_column_stride = 1,
        .window = &window,
        .b = weights,
        .b_batch_stride = (int64_t)packed_bytes(c),
        .c = y->data,
        .c_dtype = y->dtype,
        .c_row_stride = columns_of(c),
        .c_line_stride = y->axis[1] * c->axis[1].kernel,
        .c_batch_stride = y->axis[1],
        .alpha = 1,
        .scale = scale,
        .bias = bias,
        .bias_dtype = AMP_F32,
        .activation = c->epilogue.activation,
        .activation_numbers = {(float)c->epilogue.numbers[0], (float)c->epilogue.numbers[1]},
    };
    return amp_conv_in_bf16(c) ? amp_gemm_bf16(&g, &call->note.kernel) : amp_gemm_f32(&g, &call->note.kernel);
}

/* The bias, or scale, of each tap of a line. */
static amp_status repeat(const amp_conv *c, const plane *channels, float **repeated) {
    if (!channels->data) return AMP_OK;
    const int64_t shape[] = {c->axis[2].kernel, c->out_channels}, from[] = {0, 1}, to[] = {c->out_channels, 1};
    *repeated = amp_alloc((size_t)columns_of(c) * sizeof(float));
    if (!*repeated) return amp_fail(AMP_ERROR_MEMORY, "conv: no memory for the bias of all taps");
    return amp_strided_copy(*repeated, AMP_F32, to, channels->data, channels->dtype, from, 2, shape);
}

static amp_status convolve_blocks(amp_call *call, const amp_conv *c, const amp_conv_operands *o) {
    const amp_dtype dtype = amp_conv_in_bf16(c) ? AMP_BF16 : AMP_F32;
    amp_cast *weights = NULL;
    float *bias = NULL, *scale = NULL;
    plane y = {0};
    const size_t bytes = (size_t)c->axis[1].kernel * packed_bytes(c);
    AMP_TRY(amp_conv_obtain_weights(call, c, dtype, (amp_layout){AMP_LAYOUT_CONV_BLOCKS, 0}, bytes, build_packed,
                                    &weights));
    amp_status status = repeat(c, &o->bias, &bias);
    if (status == AMP_OK) status = repeat(c, &o->scale, &scale);
    if (status == AMP_OK) status = amp_conv_prepare_output(call, c, true, &y);
    if (status == AMP_OK) status = multiply(call, c, &o->x, weights->memory->data, bias, scale, &y);
    if (status == AMP_OK) status = amp_conv_finish_output(c, &y);
    amp_free(y.scratch);
    amp_free(scale);
    amp_free(bias);
    amp_cast_release(weights);
    return status;
}

/* ---- Phases --------------------------------------------------------------------------------------------------- */

/* Taps of an axis that meet different outputs: as many as there are phases, whose outputs are a stride apart, that meet
 * any. */
static int64_t phases_of(const amp_conv_axis *a) {
    const int64_t step = a->stride / amp_conv_divisor(a->stride, a->dilation);
    return a->kernel < step ? a->kernel : step;
}

/* Outputs that meet tap `first`, one in each stride, meet every step-th tap from there and no other, and those at
 * successive inputs: they are a convolution of stride 1 with these taps, last to first. False where there is no such
 * output. */
static bool take_phase(amp_conv *c, int i, int64_t first) {
    const amp_conv_axis a = c->axis[i];
    const int64_t divisor = amp_conv_divisor(a.stride, a.dilation), step = a.stride / divisor;
    const int64_t rest = (first * a.dilation - a.pad) % a.stride, phase = rest < 0 ? rest + a.stride : rest;
    if (phase >= a.out) return false;
    const int64_t taps = (a.kernel - 1 - first) / step + 1;
    const int64_t nearest = (phase + a.pad - first * a.dilation) / a.stride, dilation = a.dilation / divisor;
    c->axis[i] = (amp_conv_axis){
        .in = a.in,
        .out = (a.out - phase - 1) / a.stride + 1,
        .kernel = taps,
        .stride = 1,
        .pad = (taps - 1) * dilation - nearest,
        .dilation = dilation,
    };
    c->w.offset += (first + (taps - 1) * step) * c->w.axis[i];
    c->w.axis[i] *= -step;
    c->y.offset += phase * c->y.axis[i];
    c->y.axis[i] *= a.stride;
    return true;
}

/* A convolution without taps. */
static amp_status fill_with_bias(amp_call *call, const amp_conv *c, const amp_conv_operands *o) {
    amp_conv part = *c;
    part.transposed = false;
    for (int i = 0; i < AMP_CONV_AXES; i++)
        part.axis[i] = (amp_conv_axis){.in = c->axis[i].in, .out = c->axis[i].out, .stride = 1, .dilation = 1};
    return amp_conv_convolve(call, &part, o);
}

static amp_status convolve_phases(amp_call *call, const amp_conv *c, const amp_conv_operands *o) {
    int64_t n[AMP_CONV_AXES];
    bool every = true; /* output meets a tap */
    for (int i = 0; i < AMP_CONV_AXES; i++) {
        n[i] = phases_of(&c->axis[i]);
        every = every && n[i] == c->axis[i].stride;
    }
    if (!every) AMP_TRY(fill_with_bias(call, c, o));
    for (int64_t phase = 0; phase < n[0] * n[1] * n[2]; phase++) {
        amp_conv part = *c;
        part.transposed = false;
        if (take_phase(&part, 0, phase / n[2] / n[1]) && take_phase(&part, 1, phase / n[2] % n[1]) &&
            take_phase(&part, 2, phase % n[2]))
            AMP_TRY(amp_conv_convolve(call, &part, o));
    }
    return AMP_OK;
}

amp_status amp_conv_transposed(amp_call *call, const amp_conv *c, const amp_conv_operands *o) {
    return is_blocks(c) ? convolve_blocks(call, c, o) : convolve_phases(call, c, o);
}
