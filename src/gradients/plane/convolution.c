/* Gradients of convolutions: conv_input and conv_weight, which are each other's, and the plain convolution's. */
#include "gradients/plane/convolution.h"

#include "gradients/pieces.h"
#include "ops/plane/convolve_nd.h"

amp_tensor *amp_convolution_forward(const amp_convolution *c, amp_dims more) {
    if (c->transposed)
        return amp_convolve_transposed_nd(c->axes, c->input, c->weight, c->stride, c->padding, more, c->dilation,
                                          c->groups);
    return amp_convolve_nd(c->axes, c->input, c->weight, c->stride, c->padding, c->dilation, c->groups);
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

/* ---- Input ----------------------------------------------------------------------------------------------------------- */
static amp_tensor *input_of_transposed(const amp_convolution *c, amp_tensor *of) {
    return amp_convolve_nd(c->axes, of, amp_conjugate(c->weight), c->stride, c->padding, c->dilation, c->groups);
}

/* With what was padded behind: it is cut off. */
static amp_tensor *input_of_plain(const amp_convolution *c, amp_tensor *of) {
    const int first = c->input->rank - c->axes;
    amp_dims size = AMP_DIMS(of->shape[0], c->weight->shape[1] * c->groups);
    for (int i = 0; i < c->axes; i++) size.values[size.count++] = c->input->shape[first + i] + c->behind[i];
    return amp_conv_input(size, amp_conjugate(c->weight), of, c->stride, c->padding, c->dilation, AMP_SET(c->groups));
}

amp_tensor *amp_convolution_input(const amp_convolution *c, amp_tensor *of) {
    of = batched(c, of);
    if (!of) return NULL;
    amp_tensor *t = c->transposed ? input_of_transposed(c, of) : input_of_plain(c, of);
    return batched_like(c, cut(c, t, c->input, c->input->rank - c->axes), c->input);
}

/* ---- Weight ---------------------------------------------------------------------------------------------------------- */
/* Zeros behind each axis, where "same" pads no more in front. */
static amp_tensor *padded_behind(const amp_convolution *c, amp_tensor *t) {
    amp_dims pad = {.set = AMP_PRESENT};
    bool any = false;
    for (int i = c->axes - 1; i >= 0; i--) {
        pad.values[pad.count++] = 0;
        pad.values[pad.count++] = c->behind[i];
        any = any || c->behind[i] > 0;
    }
    return any ? amp_constant_pad_nd(t, pad) : t;
}

/* Of a transposed convolution, which spreads its input, input and result change places. */
amp_tensor *amp_convolution_weight(const amp_convolution *c, amp_tensor *of) {
    amp_tensor *input = batched(c, amp_conjugate(c->input));
    of = batched(c, of);
    amp_tensor *wide = c->transposed ? of : padded_behind(c, input), *narrow = c->transposed ? input : of;
    if (!wide || !narrow) return NULL;
    return amp_conv_weight(wide, amp_shape_of(c->weight), narrow, c->stride, c->padding, c->dilation,
                           AMP_SET(c->groups), .dtype = c->weight_dtype);
}

/* ---- Bias ------------------------------------------------------------------------------------------------------------ */
void amp_convolution_give_channels(amp_gradient *g, amp_tensor *const *argument, const amp_convolution *c,
                                   amp_tensor *of) {
    amp_dims others = {.set = AMP_PRESENT};
    const int channels = of ? of->rank - c->axes - 1 : 0;
    for (int d = 0; of && d < of->rank; d++) {
        if (d != channels) others.values[others.count++] = d;
    }
    amp_give_sums(g, argument, of, others);
}

/* ---- The ops --------------------------------------------------------------------------------------------------------- */
static void give(amp_gradient *g, const amp_convolution *c, amp_tensor *const *input, amp_tensor *const *weight,
                 amp_tensor *const *bias) {
    amp_tensor *of = amp_laid_out_as(g->of[0], c->input);
    if (amp_gradient_wants(g, input)) amp_gradient_give(g, input, amp_convolution_input(c, of));
    if (amp_gradient_wants(g, weight)) {
        amp_convolution w = *c;
        w.weight_dtype = amp_gradient_dtype(g, weight);
        amp_gradient_give(g, weight, amp_convolution_weight(&w, of));
    }
    if (amp_gradient_wants(g, bias)) amp_convolution_give_channels(g, bias, c, of);
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

/* ---- Of the gradients themselves: each is linear in what arrived, and in the input or the weight --------------------- */
static amp_tensor *forward_of(amp_tensor *x, amp_tensor *w, amp_dims stride, amp_dims padding, amp_dims dilation,
                              int64_t groups, const amp_tensor *like) {
    if (!x || !w) return NULL;
    const amp_convolution c = {.axes = w->rank - 2,
                               .input = x,
                               .weight = amp_conjugate(w),
                               .stride = stride,
                               .padding = padding,
                               .dilation = dilation,
                               .groups = groups};
    return cut(&c, amp_convolution_forward(&c, (amp_dims){.count = 0}), like, 2);
}

void amp_gradient_conv_input(amp_gradient *g) {
    const amp_conv_input_args *a = g->args;
    amp_tensor *of = g->of[0];
    if (amp_gradient_wants(g, &a->weight))
        amp_gradient_give(g, &a->weight,
                          amp_conv_weight(of, amp_shape_of(a->weight), amp_conjugate(a->grad_output), a->stride,
                                          a->padding, a->dilation, a->groups,
                                          .dtype = amp_gradient_dtype(g, &a->weight)));
    if (amp_gradient_wants(g, &a->grad_output))
        amp_gradient_give(
            g, &a->grad_output,
            forward_of(of, a->weight, a->stride, a->padding, a->dilation, a->groups.value, a->grad_output));
}

void amp_gradient_conv_weight(amp_gradient *g) {
    const amp_conv_weight_args *a = g->args;
    amp_tensor *of = amp_to(g->of[0], a->input->dtype);
    if (!of) return;
    if (amp_gradient_wants(g, &a->input))
        amp_gradient_give(g, &a->input,
                          amp_conv_input(amp_shape_of(a->input), of, amp_conjugate(a->grad_output), a->stride,
                                         a->padding, a->dilation, a->groups));
    if (amp_gradient_wants(g, &a->grad_output))
        amp_gradient_give(g, &a->grad_output,
                          forward_of(amp_conjugate(a->input), amp_conjugate(of), a->stride, a->padding, a->dilation,
                                     a->groups.value, a->grad_output));
}

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
    if (amp_gradient_wants(g, &a->bias)) amp_convolution_give_channels(g, &a->bias, &c, of);
}
