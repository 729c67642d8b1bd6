/* Gradients of convolutions: those of the input are convolutions the other way, those of the weight convolutions of the input
 * with what arrived, where batch and channels change places. */
#include "gradients/plane/convolution.h"

#include "gradients/pieces.h"

/* ---- In 1, 2 or 3 dimensions ----------------------------------------------------------------------------------------- */
static amp_tensor *correlate(int axes, amp_tensor *x, amp_tensor *w, amp_dims stride, amp_dims padding,
                             amp_dims dilation, int64_t groups) {
    const amp_opt_int sets = AMP_SET(groups);
    if (axes == 1) return amp_conv1d(x, w, .stride = stride, .padding = padding, .dilation = dilation, .groups = sets);
    if (axes == 2) return amp_conv2d(x, w, .stride = stride, .padding = padding, .dilation = dilation, .groups = sets);
    return amp_conv3d(x, w, .stride = stride, .padding = padding, .dilation = dilation, .groups = sets);
}

static amp_tensor *spread(const amp_convolution *c, amp_tensor *x, amp_tensor *w, amp_dims more) {
    const amp_opt_int sets = AMP_SET(c->groups);
    if (c->axes == 1)
        return amp_conv_transpose1d(x, w, .stride = c->stride, .padding = c->padding, .output_padding = more,
                                    .dilation = c->dilation, .groups = sets);
    if (c->axes == 2)
        return amp_conv_transpose2d(x, w, .stride = c->stride, .padding = c->padding, .output_padding = more,
                                    .dilation = c->dilation, .groups = sets);
    return amp_conv_transpose3d(x, w, .stride = c->stride, .padding = c->padding, .output_padding = more,
                                .dilation = c->dilation, .groups = sets);
}

amp_tensor *amp_convolution_forward(const amp_convolution *c, amp_dims more) {
    return c->transposed ? spread(c, c->input, c->weight, more)
                         : correlate(c->axes, c->input, c->weight, c->stride, c->padding, c->dilation, c->groups);
}

/* The extents behind batch and channels cut to those of `like`, from its dimension `first`. */
static amp_tensor *cut(const amp_convolution *c, amp_tensor *t, const amp_tensor *like, int first) {
    for (int i = 0; t && i < c->axes; i++) {
        if (t->shape[2 + i] > like->shape[first + i]) t = amp_narrow(t, 2 + i, 0, like->shape[first + i]);
    }
    return t;
}

static amp_tensor *batched(const amp_convolution *c, amp_tensor *t) {
    return t && t->rank == c->axes + 1 ? amp_unsqueeze(t, 0) : t;
}

static amp_tensor *batched_like(const amp_convolution *c, amp_tensor *t, const amp_tensor *like) {
    return t && like->rank == c->axes + 1 ? amp_squeeze(t, AMP_DIMS(0)) : t;
}

/* ---- Geometry -------------------------------------------------------------------------------------------------------- */
/* "same": as much in front as behind, but one more behind where that is odd, which `behind` says. */
static void pad_same(amp_convolution *c) {
    for (int i = 0; i < c->axes; i++) {
        const int64_t total = c->dilation.values[i] * (c->weight->shape[2 + i] - 1);
        c->padding.values[i] = total / 2;
        c->behind[i] = total % 2;
    }
}

/* Elements of the input that no window reaches: the transposed convolution must make them nevertheless. */
static amp_dims unreached(const amp_convolution *c, const amp_tensor *of) {
    amp_dims more = {.count = c->axes, .set = AMP_PRESENT};
    for (int i = 0; i < c->axes; i++) {
        const int64_t reach = c->dilation.values[i] * (c->weight->shape[2 + i] - 1) + 1;
        const int64_t made = (of->shape[2 + i] - 1) * c->stride.values[i] - 2 * c->padding.values[i] + reach;
        const int64_t wanted = c->input->shape[c->input->rank - c->axes + i] + c->behind[i];
        more.values[i] = wanted > made ? wanted - made : 0;
    }
    return more;
}

/* ---- Input ----------------------------------------------------------------------------------------------------------- */
static amp_tensor *input_of_transposed(const amp_convolution *c, amp_tensor *of) {
    amp_tensor *t = correlate(c->axes, of, amp_conjugate(c->weight), c->stride, c->padding, c->dilation, c->groups);
    return cut(c, t, c->input, c->input->rank - c->axes);
}

amp_tensor *amp_convolution_input(const amp_convolution *c, amp_tensor *of) {
    of = batched(c, of);
    if (!of) return NULL;
    amp_tensor *t = c->transposed ? input_of_transposed(c, of)
                                  : cut(c, spread(c, of, amp_conjugate(c->weight), unreached(c, of)), c->input,
                                        c->input->rank - c->axes);
    return batched_like(c, t, c->input);
}

/* ---- Weight ---------------------------------------------------------------------------------------------------------- */
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

/* Zeros around each axis; `in_front` says whether the padding stands there too, or only what is behind alone. */
static amp_tensor *padded(const amp_convolution *c, amp_tensor *t, bool in_front) {
    amp_dims pad = {.set = AMP_PRESENT};
    bool any = false;
    for (int i = c->axes - 1; i >= 0; i--) {
        const int64_t both = in_front ? c->padding.values[i] : 0;
        pad.values[pad.count++] = both;
        pad.values[pad.count++] = both + c->behind[i];
        any = any || both + c->behind[i] > 0;
    }
    return any ? amp_constant_pad_nd(t, pad) : t;
}

static int64_t kernel_elements(const amp_convolution *c) {
    int64_t elements = 1;
    for (int i = 0; i < c->axes; i++) elements *= c->weight->shape[2 + i];
    return elements;
}

enum { MOST_TAPS = 27, FEW_CHANNELS = 32, FEW_WINDOWS = 64 };

/* Where products are faster than a convolution whose kernel is as large as the image. In 16 bits only where that one is slow: with
 * strides, which become dilations there, and of few windows. */
static bool is_by_products(const amp_convolution *c, const amp_tensor *windows) {
    const int64_t taps = kernel_elements(c);
    if (c->groups > 1 || taps > MOST_TAPS) return false;
    if (taps == 1) return true;
    if (c->weight->shape[0] < FEW_CHANNELS || c->weight->shape[1] < FEW_CHANNELS) return false;
    int64_t count = 1, steps = 1;
    for (int i = 0; i < c->axes; i++) {
        count *= windows->shape[2 + i];
        steps *= c->stride.values[i];
    }
    return amp_dtype_size(windows->dtype) > 2 || steps > 1 || count <= FEW_WINDOWS;
}

/* Element `tap` of every window, the elements of the kernel being counted through all axes. */
static amp_tensor *elements_of_windows(const amp_convolution *c, amp_tensor *wide, int64_t tap,
                                       const amp_tensor *windows) {
    for (int i = c->axes - 1; wide && i >= 0; i--) {
        const int64_t kernel = c->weight->shape[2 + i], step = c->stride.values[i];
        const int64_t start = tap % kernel * c->dilation.values[i],
                      end = start + (windows->shape[2 + i] - 1) * step + 1;
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
static amp_tensor *weight_by_products(const amp_convolution *c, amp_tensor *wide, amp_tensor *narrow) {
    amp_tensor *parts[MOST_TAPS], *rows = channel_rows(narrow);
    const int taps = (int)kernel_elements(c);
    wide = padded(c, wide, true);
    for (int k = 0; k < taps; k++) {
        amp_tensor *inputs = channel_rows(elements_of_windows(c, wide, k, narrow));
        parts[k] = inputs ? amp_matmul(rows, amp_transpose(inputs, 0, 1)) : NULL;
        if (!parts[k]) return NULL;
    }
    return amp_reshape(amp_stack((amp_tensor_list){parts, taps, NULL}, -1), amp_shape_of(c->weight));
}

/* Windows begin at every `dilation`, and their elements lie `stride` apart: one for each element of the kernel. */
amp_tensor *amp_convolution_weight(const amp_convolution *c, amp_tensor *of) {
    amp_tensor *input = batched(c, amp_conjugate(c->input));
    of = batched(c, of);
    amp_tensor *wide = c->transposed ? of : padded(c, input, false), *narrow = c->transposed ? input : of;
    if (!wide || !narrow) return NULL;
    if (wide->shape[0] == 0) return amp_zeros_like(c->weight);
    if (is_by_products(c, narrow)) return weight_by_products(c, wide, narrow);
    amp_tensor *t = correlate(c->axes, channels_first(wide, c->groups), amp_transpose(narrow, 0, 1), c->dilation,
                              c->padding, c->stride, c->groups);
    t = cut(c, t, c->weight, 2);
    return t ? amp_transpose(t, 0, 1) : NULL;
}

/* ---- Bias ------------------------------------------------------------------------------------------------------------ */
amp_tensor *amp_convolution_channels(const amp_convolution *c, amp_tensor *of) {
    amp_dims others = {.set = AMP_PRESENT};
    const int channels = of ? of->rank - c->axes - 1 : 0;
    for (int d = 0; of && d < of->rank; d++) {
        if (d != channels) others.values[others.count++] = d;
    }
    return of ? amp_sum(of, .dim = others) : NULL;
}

/* ---- The ops --------------------------------------------------------------------------------------------------------- */
static void give(amp_gradient *g, const amp_convolution *c, amp_tensor *const *input, amp_tensor *const *weight,
                 amp_tensor *const *bias) {
    if (amp_gradient_wants(g, input)) amp_gradient_give(g, input, amp_convolution_input(c, g->of[0]));
    if (amp_gradient_wants(g, weight)) amp_gradient_give(g, weight, amp_convolution_weight(c, g->of[0]));
    if (amp_gradient_wants(g, bias)) amp_gradient_give(g, bias, amp_convolution_channels(c, g->of[0]));
}

#define COMMON(a, n)                                                                                                   \
    .axes = (n), .input = (a)->input, .weight = (a)->weight, .stride = (a)->stride, .dilation = (a)->dilation,         \
    .groups = (a)->groups.value

#define DEFINE(op, n)                                                                                                  \
    void amp_gradient_conv##op(amp_gradient *g) {                                                                      \
        const amp_conv##op##_args *a = g->args;                                                                        \
        const amp_convolution c = {COMMON(a, n), .padding = a->padding};                                               \
        give(g, &c, &a->input, &a->weight, &a->bias);                                                                  \
    }
DEFINE(1d, 1)
DEFINE(2d, 2)
DEFINE(3d, 3)

#define DEFINE_PADDED(op, n)                                                                                           \
    void amp_gradient_conv##op##_padding(amp_gradient *g) {                                                            \
        const amp_conv##op##_padding_args *a = g->args;                                                                \
        amp_convolution c = {COMMON(a, n), .padding = {.count = (n), .set = AMP_PRESENT}};                             \
        if (strcmp(a->padding, "same") == 0) pad_same(&c);                                                             \
        give(g, &c, &a->input, &a->weight, &a->bias);                                                                  \
    }
DEFINE_PADDED(1d, 1)
DEFINE_PADDED(2d, 2)
DEFINE_PADDED(3d, 3)

#define DEFINE_TRANSPOSED(op, n)                                                                                       \
    void amp_gradient_conv_transpose##op(amp_gradient *g) {                                                            \
        const amp_conv_transpose##op##_args *a = g->args;                                                              \
        const amp_convolution c = {COMMON(a, n), .padding = a->padding, .transposed = true};                           \
        give(g, &c, &a->input, &a->weight, &a->bias);                                                                  \
    }
DEFINE_TRANSPOSED(1d, 1)
DEFINE_TRANSPOSED(2d, 2)
DEFINE_TRANSPOSED(3d, 3)

/* (T, B, C) and (K, C, O) as conv1d has them. */
void amp_gradient_conv_tbc(amp_gradient *g) {
    const amp_conv_tbc_args *a = g->args;
    const amp_dims by_batch = AMP_DIMS(1, 2, 0), by_time = AMP_DIMS(2, 0, 1), turned = AMP_DIMS(2, 1, 0);
    const amp_convolution c = {.axes = 1,
                               .input = amp_permute(a->input, by_batch),
                               .weight = amp_permute(a->weight, turned),
                               .stride = AMP_DIMS(1),
                               .padding = AMP_DIMS(a->pad),
                               .dilation = AMP_DIMS(1),
                               .groups = 1};
    amp_tensor *of = amp_permute(g->of[0], by_batch);
    if (!c.input || !c.weight || !of) return;
    if (amp_gradient_wants(g, &a->input))
        amp_gradient_give(g, &a->input, amp_permute(amp_convolution_input(&c, of), by_time));
    if (amp_gradient_wants(g, &a->weight))
        amp_gradient_give(g, &a->weight, amp_permute(amp_convolution_weight(&c, of), turned));
    if (amp_gradient_wants(g, &a->bias)) amp_gradient_give(g, &a->bias, amp_convolution_channels(&c, of));
}
