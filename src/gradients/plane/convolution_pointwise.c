/* Gradients of convolutions with what they do to their results before they store them. */
#include "gradients/pieces.h"
#include "gradients/plane/convolution.h"

/* What the overloads have in common: attr(scale · conv(input, weight) + bias + terms). */
typedef struct fused {
    amp_tensor *const *input, *const *weight, *const *bias, *const *scale;
    amp_tensor *const *shift; /* for each channel */
    amp_tensor *const *term;  /* of the result's shape: residual, other */
    amp_dims stride, padding, dilation, output_padding;
    int64_t groups;
    const char *attr, *algorithm;
    amp_floats scalars;
    bool transposed;
} fused;

/* ---- Activations, by what they were of -------------------------------------------------------------------------------- */
static double number(const fused *f, int i, double otherwise) {
    return f->scalars.set && f->scalars.count > i ? f->scalars.values[i] : otherwise;
}

static amp_tensor *none(const fused *f, amp_tensor *of, amp_tensor *x) {
    return (void)f, (void)x, of;
}
static amp_tensor *relu(const fused *f, amp_tensor *of, amp_tensor *x) {
    return (void)f, amp_threshold_backward(of, x, amp_int(0));
}
static amp_tensor *sigmoid(const fused *f, amp_tensor *of, amp_tensor *x) {
    return (void)f, amp_sigmoid_backward(of, amp_sigmoid(x));
}
static amp_tensor *hyperbolic(const fused *f, amp_tensor *of, amp_tensor *x) {
    return (void)f, amp_tanh_backward(of, amp_tanh(x));
}
static amp_tensor *swish(const fused *f, amp_tensor *of, amp_tensor *x) {
    return (void)f, amp_silu_backward(of, x);
}
static amp_tensor *hardswish(const fused *f, amp_tensor *of, amp_tensor *x) {
    return (void)f, amp_hardswish_backward(of, x);
}
static amp_tensor *leaky_relu(const fused *f, amp_tensor *of, amp_tensor *x) {
    return amp_leaky_relu_backward(of, x, number(f, 0, 0.01));
}
static amp_tensor *hardtanh(const fused *f, amp_tensor *of, amp_tensor *x) {
    return amp_hardtanh_backward(of, x, amp_float(number(f, 0, -1)), amp_float(number(f, 1, 1)));
}
static amp_tensor *gelu(const fused *f, amp_tensor *of, amp_tensor *x) {
    return amp_gelu_backward(of, x, .approximate = f->algorithm);
}

static const struct activation {
    const char *name;
    amp_tensor *(*back)(const fused *f, amp_tensor *of, amp_tensor *x);
} activations[] = {
    {"none", none},   {"relu", relu},           {"sigmoid", sigmoid},       {"tanh", hyperbolic},
    {"swish", swish}, {"hardswish", hardswish}, {"leaky_relu", leaky_relu}, {"hardtanh", hardtanh},
    {"gelu", gelu},
};

static const struct activation *find(const char *name) {
    const struct activation *a = activations;
    while (strcmp(a->name, name) != 0) a++;
    return a;
}

/* ---- Parts ------------------------------------------------------------------------------------------------------------ */
static amp_dims for_axes(amp_dims given, int axes, int64_t otherwise) {
    if (given.count > 1) return given;
    amp_dims all = {.count = axes, .set = AMP_PRESENT};
    for (int i = 0; i < axes; i++) all.values[i] = given.count ? given.values[0] : otherwise;
    return all;
}

static amp_convolution convolution_of(const fused *f, amp_tensor *input, amp_tensor *weight) {
    const int axes = weight->rank - 2;
    return (amp_convolution){.axes = axes,
                             .transposed = f->transposed,
                             .input = input,
                             .weight = weight,
                             .stride = for_axes(f->stride, axes, 1),
                             .padding = for_axes(f->padding, axes, 0),
                             .dilation = for_axes(f->dilation, axes, 1),
                             .groups = f->groups};
}

/* Numbers for each channel, as they broadcast to the result. */
static amp_tensor *by_channel(amp_tensor *t, int axes) {
    amp_dims shape = {.count = axes + 1, .set = AMP_PRESENT};
    for (int i = 0; i <= axes; i++) shape.values[i] = i == 0 ? -1 : 1;
    return amp_reshape(amp_wide(t), shape);
}

static amp_tensor *plus(amp_tensor *sum, amp_tensor *term) {
    return term ? amp_add(sum, term) : sum;
}

/* What the activation was of. */
static amp_tensor *before_activation(const fused *f, amp_tensor *product, int axes) {
    amp_tensor *sum = *f->scale ? amp_mul(product, by_channel(*f->scale, axes)) : product;
    if (*f->bias) sum = plus(sum, by_channel(*f->bias, axes));
    if (f->shift && *f->shift) sum = plus(sum, by_channel(*f->shift, axes));
    return f->term && *f->term ? plus(sum, amp_wide(*f->term)) : sum;
}

static void give_channels(amp_gradient *g, amp_tensor *const *field, const amp_convolution *c, amp_tensor *of) {
    if (field && amp_gradient_wants(g, field)) amp_convolution_give_channels(g, field, c, of);
}

static void convolve_back(amp_gradient *g, const fused *f) {
    const struct activation *a = find(f->attr);
    amp_tensor *of = amp_wide(g->of[0]), *product = NULL;
    const amp_convolution c = convolution_of(f, *f->input, *f->weight);
    if (a->back != none || amp_gradient_wants(g, f->scale)) {
        const amp_convolution wide = convolution_of(f, amp_wide(*f->input), amp_wide(*f->weight));
        product = amp_convolution_forward(&wide, for_axes(f->output_padding, c.axes, 0));
        of = a->back(f, of, a->back == none ? NULL : before_activation(f, product, c.axes));
    }
    give_channels(g, f->bias, &c, of);
    give_channels(g, f->shift, &c, of);
    if (f->term && amp_gradient_wants(g, f->term)) amp_gradient_give(g, f->term, of);
    if (amp_gradient_wants(g, f->scale)) give_channels(g, f->scale, &c, amp_mul(of, product));
    if (*f->scale) of = amp_mul(of, by_channel(*f->scale, c.axes));
    of = of ? amp_to(of, (*f->weight)->dtype) : NULL;
    if (amp_gradient_wants(g, f->input)) amp_gradient_give(g, f->input, amp_convolution_input(&c, of));
    if (amp_gradient_wants(g, f->weight)) amp_gradient_give(g, f->weight, amp_convolution_weight(&c, of));
}

#define FUSED(a)                                                                                                       \
    .input = &(a)->input, .weight = &(a)->weight, .bias = &(a)->bias, .scale = &(a)->scale, .stride = (a)->stride,     \
    .padding = (a)->padding, .dilation = (a)->dilation, .groups = (a)->groups.value, .attr = (a)->attr,                \
    .algorithm = (a)->algorithm, .scalars = (a)->scalars

void amp_gradient_convolution_pointwise(amp_gradient *g) {
    const amp_convolution_pointwise_args *a = g->args;
    convolve_back(g, &(fused){FUSED(a), .shift = &a->shift, .term = &a->residual});
}

void amp_gradient_convolution_pointwise_binary(amp_gradient *g) {
    const amp_convolution_pointwise_binary_args *a = g->args;
    convolve_back(g, &(fused){FUSED(a), .term = &a->other});
}

void amp_gradient_convolution_transpose_pointwise(amp_gradient *g) {
    const amp_convolution_transpose_pointwise_args *a = g->args;
    convolve_back(g, &(fused){FUSED(a), .output_padding = a->output_padding, .transposed = true});
}
