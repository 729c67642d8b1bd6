/* conv_input and conv_weight, the gradients of conv1d to conv3d: by the device's own step where it has one for the
 * shape; else made of convolutions and products, which devices have anyway. */
#include "amp/ops.h"
#include "call/backend.h"
#include "core/layout.h"
#include "ops/plane/convolve_nd.h"
#include "steps/steps.h"

/* What both ops have in common. */
typedef struct request {
    const amp_tensor *given;           /* input or weight, whichever is there, and … */
    const char *name;                  /* … what it is called; … */
    amp_tensor *input, *weight, *back; /* … the other is NULL: it is asked for … */
    amp_dims shape;                    /* … and has this one */
    amp_dims stride, padding, dilation;
    int64_t groups;
    amp_dtype dtype; /* of what is asked for */
    int axes;
} request;

static int64_t input_extent(const request *r, int dim) {
    return r->input ? r->input->shape[dim] : r->shape.values[dim];
}
static int64_t weight_extent(const request *r, int dim) {
    return r->weight ? r->weight->shape[dim] : r->shape.values[dim];
}

/* ---- Checks --------------------------------------------------------------------------------------------------------- */
static amp_status check_ranks(const amp_call *call, const request *r) {
    const amp_tensor *given = r->given;
    const char *name = r->name;
    if (r->axes < 1 || r->axes > AMP_CONV_AXES)
        return amp_fail(AMP_ERROR_INVALID, "%s: 'grad_output' is %s; expected 3 to 5 dimensions", amp_call_name(call),
                        amp_describe(r->back));
    if (given->rank != r->back->rank || r->shape.count != r->back->rank)
        return amp_fail(AMP_ERROR_INVALID,
                        "%s: 'grad_output' is %s, '%s' %s, and %d extents are asked for; expected as many of each",
                        amp_call_name(call), amp_describe(r->back), name, amp_describe(given), r->shape.count);
    AMP_TRY(amp_call_check_same_dtype(call, name, given, "grad_output", r->back));
    if (given->dtype != AMP_BOOL) return AMP_OK;
    return amp_fail(AMP_ERROR_DTYPE, "%s: '%s' is %s; there is no convolution of bool", amp_call_name(call), name,
                    amp_describe(given));
}

static amp_status check_numbers(const amp_call *call, const request *r, const char *name, const amp_dims *numbers,
                                int64_t least) {
    bool good = numbers->count == r->axes;
    for (int i = 0; good && i < r->axes; i++) good = numbers->values[i] >= least && numbers->values[i] <= INT32_MAX;
    if (good) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: '%s' is %s; expected %d values of at least %lld", amp_call_name(call), name,
                    amp_describe_shape(numbers->count, numbers->values), r->axes, (long long)least);
}

/* Whether the convolution has room for all that arrived. It may reach less far than its input; than an input that is
 * asked for, by less than a step, as output_padding of a transposed convolution does. */
static bool fits(const request *r) {
    if (r->groups < 1 || weight_extent(r, 0) != r->back->shape[1] || weight_extent(r, 0) % r->groups != 0) return false;
    if (input_extent(r, 0) != r->back->shape[0] || input_extent(r, 1) != weight_extent(r, 1) * r->groups) return false;
    for (int i = 0; i < r->axes; i++) {
        const int64_t kernel = weight_extent(r, 2 + i), in = input_extent(r, 2 + i), out = r->back->shape[2 + i];
        if (kernel < 1 || kernel > INT32_MAX || in < 1 || in > INT32_MAX || out < 1) return false;
        const int64_t reach = (out - 1) * r->stride.values[i] + r->dilation.values[i] * (kernel - 1) + 1;
        const int64_t unreached = in + 2 * r->padding.values[i] - reach, step = r->stride.values[i];
        const int64_t most = step > r->dilation.values[i] ? step : r->dilation.values[i];
        if (unreached < 0 || (r->weight && unreached >= most)) return false;
    }
    return true;
}

static amp_status check(const amp_call *call, const request *r) {
    AMP_TRY(check_ranks(call, r));
    AMP_TRY(check_numbers(call, r, "stride", &r->stride, 1));
    AMP_TRY(check_numbers(call, r, "padding", &r->padding, 0));
    AMP_TRY(check_numbers(call, r, "dilation", &r->dilation, 1));
    if (fits(r)) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID,
                    "%s: 'grad_output' is %s, '%s' %s, %s %s, groups %lld: no convolution of these has such a result",
                    amp_call_name(call), amp_describe(r->back), r->name, amp_describe(r->given),
                    r->input ? "weight_size" : "input_size", amp_describe_shape(r->shape.count, r->shape.values),
                    (long long)r->groups);
}

/* ---- The device's own --------------------------------------------------------------------------------------------------- */
static amp_conv_back problem_of(const request *r, amp_tensor *result) {
    amp_conv_back c = {.x = r->input ? r->input : result,
                       .w = r->weight ? r->weight : result,
                       .y = r->back,
                       .writes_weight = !r->weight,
                       .groups = r->groups,
                       .axes = r->axes,
                       .axis = {{1, 1, 1, 1, 0, 1}, {1, 1, 1, 1, 0, 1}, {1, 1, 1, 1, 0, 1}}};
    for (int i = 0; i < r->axes; i++)
        c.axis[AMP_CONV_AXES - r->axes + i] = (amp_conv_axis){.in = input_extent(r, 2 + i),
                                                              .out = r->back->shape[2 + i],
                                                              .kernel = weight_extent(r, 2 + i),
                                                              .stride = r->stride.values[i],
                                                              .pad = r->padding.values[i],
                                                              .dilation = r->dilation.values[i]};
    return c;
}

/* Into a tensor of its own: the op has no out= form. */
static amp_status run_own(amp_call *call, const request *r, bool *served) {
    const amp_steps *steps = amp_steps_of(call);
    *served = false;
    if (!steps->convolve_back) return AMP_OK;
    amp_conv_back c = problem_of(r, NULL);
    if (!steps->has_convolve_back(&c, r->dtype)) return AMP_OK;
    amp_tensor *result = amp_backend_tensor(call->device, call->op->name, r->dtype, r->shape.count, r->shape.values);
    if (!result) return amp_pending_error();
    if (!r->input) amp_channels_last_strides(result->rank, result->shape, result->strides);
    c = problem_of(r, result);
    AMP_TRY(steps->convolve_back(call, &c, served));
    if (*served) call->outputs[0] = result;
    return AMP_OK;
}

/* ---- A kernel of one element over images channels last: products of rows, as they lie -------------------------------------- */
static bool is_pointwise(const request *r) {
    if (r->groups != 1 || r->axes != 2 || !amp_is_channels_last(r->back)) return false;
    if (r->input && !amp_is_channels_last(r->input)) return false;
    for (int i = 0; i < r->axes; i++) {
        if (weight_extent(r, 2 + i) != 1 || r->stride.values[i] != 1 || r->padding.values[i] != 0) return false;
        if (input_extent(r, 2 + i) != r->back->shape[2 + i]) return false; /* of a transposed one with output_padding */
    }
    return true;
}

/* (N, C, H, W) as (N · H · W, C) */
static amp_tensor *pixels(amp_tensor *t) {
    return amp_flatten(amp_permute(t, AMP_DIMS(0, 2, 3, 1)), .end_dim = AMP_SET(2));
}

static amp_tensor *input_of_pixels(const request *r) {
    const int64_t *s = r->shape.values;
    amp_tensor *weight = amp_reshape(r->weight, AMP_DIMS(r->weight->shape[0], r->weight->shape[1]));
    amp_tensor *t = amp_mm(pixels(r->back), weight);
    return amp_permute(amp_reshape(t, AMP_DIMS(s[0], s[2], s[3], s[1])), AMP_DIMS(0, 3, 1, 2));
}

static amp_tensor *weight_of_pixels(const request *r) {
    return amp_reshape(amp_mm_dtype(amp_t(pixels(r->back)), pixels(r->input), r->dtype), r->shape);
}

/* ---- The input: a transposed convolution ------------------------------------------------------------------------------------ */
/* Elements that no window reaches: the transposed convolution must make them nevertheless. */
static amp_dims unreached(const request *r) {
    amp_dims more = {.count = r->axes, .set = AMP_PRESENT};
    for (int i = 0; i < r->axes; i++) {
        const int64_t reach = r->dilation.values[i] * (r->weight->shape[2 + i] - 1) + 1;
        const int64_t made = (r->back->shape[2 + i] - 1) * r->stride.values[i] - 2 * r->padding.values[i] + reach;
        more.values[i] = r->shape.values[2 + i] - made;
    }
    return more;
}

static amp_tensor *compose_input(amp_call *call, const request *r) {
    if (!is_pointwise(r))
        return amp_convolve_transposed_nd(r->axes, r->back, r->weight, r->stride, r->padding, unreached(r), r->dilation,
                                          r->groups);
    return amp_call_materialize(call, r->weight) == AMP_OK ? input_of_pixels(r) : NULL;
}

amp_status amp_op_conv_input(amp_call *call) {
    const amp_conv_input_args *a = call->args;
    const request r = {.given = a->weight,
                       .name = "weight",
                       .weight = a->weight,
                       .back = a->grad_output,
                       .shape = a->input_size,
                       .stride = a->stride,
                       .padding = a->padding,
                       .dilation = a->dilation,
                       .groups = a->groups.value,
                       .dtype = a->grad_output->dtype,
                       .axes = a->grad_output->rank - 2};
    bool served = false;
    AMP_TRY(check(call, &r));
    AMP_TRY(amp_call_materialize(call, r.back));
    if (!is_pointwise(&r)) AMP_TRY(run_own(call, &r, &served));
    if (!served) call->outputs[0] = compose_input(call, &r);
    return call->outputs[0] ? AMP_OK : amp_pending_error();
}

/* ---- The weight: a convolution of the input with what arrived, where batch and channels change places ------------------- */
/* (N, G·C, …) → (C, G·N, …) */
static amp_tensor *channels_first(amp_tensor *t, int64_t groups) {
    if (!t || groups == 1) return t ? amp_transpose(t, 0, 1) : NULL;
    amp_dims split = {.set = AMP_PRESENT}, order = AMP_DIMS(2, 1, 0), joined = AMP_DIMS(0, 0);
    split.values[split.count++] = t->shape[0];
    split.values[split.count++] = groups;
    split.values[split.count++] = t->shape[1] / groups;
    joined.values[0] = t->shape[1] / groups;
    joined.values[1] = groups * t->shape[0];
    for (int d = 2; d < t->rank; d++) {
        order.values[order.count++] = split.count;
        split.values[split.count++] = joined.values[joined.count++] = t->shape[d];
    }
    return amp_reshape(amp_permute(amp_reshape(t, split), order), joined);
}

/* Zeros around each axis. */
static amp_tensor *padded(const request *r) {
    amp_dims pad = {.set = AMP_PRESENT};
    bool any = false;
    for (int i = r->axes - 1; i >= 0; i--) {
        pad.values[pad.count++] = r->padding.values[i];
        pad.values[pad.count++] = r->padding.values[i];
        any = any || r->padding.values[i] > 0;
    }
    return any ? amp_constant_pad_nd(r->input, pad) : r->input;
}

static int64_t kernel_elements(const request *r) {
    int64_t elements = 1;
    for (int i = 0; i < r->axes; i++) elements *= r->shape.values[2 + i];
    return elements;
}

/* Where products are faster than a convolution whose kernel is as large as the image. In 16 bits only where that one is
 * slow: with strides, which become dilations there, and of few windows. */
static bool is_by_products(const request *r) {
    const int64_t taps = kernel_elements(r);
    if (r->groups > 1 || taps > AMP_CONV_FEW_TAPS) return false;
    if (taps == 1) return true;
    if (r->shape.values[0] < AMP_CONV_MANY_CHANNELS || r->shape.values[1] < AMP_CONV_MANY_CHANNELS) return false;
    int64_t count = 1, steps = 1;
    for (int i = 0; i < r->axes; i++) {
        count *= r->back->shape[2 + i];
        steps *= r->stride.values[i];
    }
    return amp_dtype_size(r->back->dtype) > 2 || steps > 1 || count <= AMP_CONV_FEW_WINDOWS;
}

/* Element `tap` of every window, the elements of the kernel being counted through all axes. */
static amp_tensor *elements_of_windows(const request *r, amp_tensor *wide, int64_t tap) {
    for (int i = r->axes - 1; wide && i >= 0; i--) {
        const int64_t kernel = r->shape.values[2 + i], step = r->stride.values[i];
        const int64_t start = tap % kernel * r->dilation.values[i],
                      end = start + (r->back->shape[2 + i] - 1) * step + 1;
        tap /= kernel;
        if (start == 0 && step == 1 && end == wide->shape[2 + i]) continue;
        wide = amp_slice(wide, 2 + i, .start = AMP_SET(start), .end = AMP_SET(end), .step = AMP_SET(step));
    }
    return wide;
}

/* (N, C, …) → (C, N · …) */
static amp_tensor *channel_rows(amp_tensor *t) {
    return t ? amp_flatten(amp_transpose(t, 0, 1), 1) : NULL;
}

/* For each element of the kernel the product of what arrived with what it was multiplied by. */
static amp_tensor *weight_by_products(const request *r) {
    amp_tensor *parts[AMP_CONV_FEW_TAPS], *rows = channel_rows(r->back), *wide = padded(r);
    const int taps = (int)kernel_elements(r);
    for (int k = 0; k < taps; k++) {
        amp_tensor *inputs = channel_rows(elements_of_windows(r, wide, k));
        parts[k] = inputs ? amp_mm_dtype(rows, amp_transpose(inputs, 0, 1), r->dtype) : NULL;
        if (!parts[k]) return NULL;
    }
    return amp_reshape(amp_stack((amp_tensor_list){parts, taps, NULL}, -1), r->shape);
}

/* The extents behind batch and channels cut to those of the weight: elements of the input that no window reaches make
 * more. */
static amp_tensor *cut(const request *r, amp_tensor *t) {
    for (int i = 0; t && i < r->axes; i++)
        if (t->shape[2 + i] > r->shape.values[2 + i]) t = amp_narrow(t, 2 + i, 0, r->shape.values[2 + i]);
    return t;
}

/* Windows begin at every `dilation`, and their elements lie `stride` apart: one for each element of the kernel. */
static amp_tensor *weight_by_convolution(const request *r) {
    amp_tensor *t = amp_convolve_nd(r->axes, channels_first(r->input, r->groups), amp_transpose(r->back, 0, 1),
                                    r->dilation, r->padding, r->stride, r->groups);
    t = cut(r, t);
    return t ? amp_transpose(t, 0, 1) : NULL;
}

static amp_tensor *compose_weight(const request *r) {
    if (r->input->shape[0] == 0)
        return amp_zeros(r->shape, .dtype = r->dtype, .device = (int)r->input->storage->device);
    if (is_pointwise(r)) return weight_of_pixels(r);
    amp_tensor *t = is_by_products(r) ? weight_by_products(r) : weight_by_convolution(r);
    return t && t->dtype != r->dtype ? amp_to(t, r->dtype) : t;
}

amp_status amp_op_conv_weight(amp_call *call) {
    const amp_conv_weight_args *a = call->args;
    const request r = {.given = a->input,
                       .name = "input",
                       .input = a->input,
                       .back = a->grad_output,
                       .shape = a->weight_size,
                       .stride = a->stride,
                       .padding = a->padding,
                       .dilation = a->dilation,
                       .groups = a->groups.value,
                       .dtype = a->dtype == AMP_DTYPE_NONE ? a->input->dtype : a->dtype,
                       .axes = a->grad_output->rank - 2};
    bool served = false;
    AMP_TRY(check(call, &r));
    AMP_TRY(amp_call_materialize(call, r.input));
    AMP_TRY(amp_call_materialize(call, r.back));
    AMP_TRY(run_own(call, &r, &served));
    if (!served) call->outputs[0] = compose_weight(&r);
    return call->outputs[0] ? AMP_OK : amp_pending_error();
}
