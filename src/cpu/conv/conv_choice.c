/* Whose convolution of bf16 runs: our own, or oneDNN's. Which is faster depends on channels, window and size in ways
 * that no rule holds, so both compute the first layer of each kind, and the table of choices (cpu/registry/choices.h) keeps what
 * the clock said. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "amp/ops.h"
#include "core/parallel.h"
#include "cpu/conv/conv.h"
#include "cpu/conv/conv_dnnl.h"
#include "cpu/registry/choices.h"
#include "machine/isa.h"

enum {
    LEAST_BYTES = 256 * 1024,  /* read and written, or … */
    LEAST_PRODUCTS = 2000000,  /* … of which a layer that is worth a measurement has one */
    MOST_BYTES = 64 << 20,     /* of one that is not too large for it, … */
    MOST_PRODUCTS = 2000000000 /* … for its first caller waits for eight runs */
};

/* A measurement says who computes its layers. */
static __thread enum { EITHER, OURS, THEIRS } forced;

/* Layers that share an answer: images of one power of two of pixels. */
typedef struct kind {
    int32_t in, out, groups, kernel[2], stride[2], dilation[2], size;
} kind;

_Static_assert(sizeof(kind) <= sizeof(((amp_choice_kind *)0)->key), "a kind fits the key");

static int64_t products_of(const amp_conv *c) {
    return c->batch * c->groups * amp_conv_pixels(c) * c->out_channels * c->in_channels * amp_conv_taps(c);
}

static int64_t bytes_of(const amp_conv *c) {
    return 2 * c->batch * c->groups *
           (c->in_channels * c->axis[1].in * c->axis[2].in + c->out_channels * amp_conv_pixels(c));
}

static bool is_dense_output(const amp_conv *c, const amp_conv_plane *y) {
    return y->dtype == AMP_BF16 && y->axis[2] == c->groups * c->out_channels &&
           y->axis[1] == y->axis[2] * c->axis[2].out;
}

static bool is_dense(const amp_conv *c, const amp_conv_operands *o, const amp_conv_plane *y) {
    const amp_conv_axis *h = &c->axis[1], *w = &c->axis[2];
    const amp_conv_plane *x = &o->x;
    return x->dtype == AMP_BF16 && x->axis[2] == c->groups * c->in_channels && x->axis[1] == x->axis[2] * w->in &&
           (c->batch == 1 || x->batch == x->axis[1] * h->in) && is_dense_output(c, y) &&
           (!o->residual.data || is_dense_output(c, &o->residual));
}

/* oneDNN takes no padding that cuts the image, as transposed convolutions have. */
static bool is_padded(const amp_conv_axis *a) {
    const int64_t after = (a->out - 1) * a->stride + (a->kernel - 1) * a->dilation + 1 - a->in - a->pad;
    return a->pad >= 0 && after + a->stride >= 0;
}

static bool is_theirs_too(const amp_conv *c, const amp_conv_operands *o, const amp_conv_plane *y) {
    const amp_conv_axis *depth = &c->axis[0];
    return (c->groups == 1 || (c->in_channels == 1 && c->out_channels == 1)) && depth->in == 1 && depth->kernel == 1 &&
           depth->out == 1 && is_padded(&c->axis[1]) && is_padded(&c->axis[2]) && is_dense(c, o, y) &&
           amp_isa_best() >= AMP_ISA_AVX512BF16 && amp_conv_dnnl_cuts(c);
}

static kind kind_of(const amp_conv *c) {
    kind k = {.in = (int32_t)c->in_channels, .out = (int32_t)c->out_channels, .groups = (int32_t)c->groups};
    for (int i = 0; i < 2; i++) {
        const amp_conv_axis *a = &c->axis[i + 1];
        k.kernel[i] = (int32_t)a->kernel;
        k.stride[i] = (int32_t)a->stride;
        k.dilation[i] = (int32_t)a->dilation;
    }
    for (int64_t pixels = c->batch * amp_conv_pixels(c); pixels > 1; pixels /= 2) k.size++;
    return k;
}

/* ---- Measurement ---------------------------------------------------------------------------------------------- */

/* ± 0.125 … 0.5 */
static amp_tensor *random_tensor(int rank, const int64_t *shape) {
    amp_tensor *t = amp_tensor_new("conv", AMP_BF16, rank, shape);
    if (!t) return NULL;
    uint16_t *values = amp_tensor_pointer(t);
    uint32_t random = 1;
    for (int64_t i = 0, n = amp_tensor_elements(t); i < n; i++) {
        random = random * 1664525u + 1013904223u;
        values[i] = (uint16_t)((random >> 16 & 0x80ffu) | 0x3e00u);
    }
    return t;
}

/* A layer to be timed, and the operands made for it. */
typedef struct trial {
    const amp_conv *conv;
    amp_tensor *x, *w;
} trial;

static double seconds_of(const void *context, bool ours) {
    const trial *t = context;
    const amp_conv *c = t->conv;
    const amp_conv_axis *h = &c->axis[1], *v = &c->axis[2];
    forced = ours ? OURS : THEIRS;
    const double start = amp_choice_seconds();
    amp_tensor *y =
        amp_conv2d(t->x, t->w, NULL, .stride = AMP_DIMS(h->stride, v->stride), .padding = AMP_DIMS(h->pad, v->pad),
                   .dilation = AMP_DIMS(h->dilation, v->dilation), .groups = AMP_SET(c->groups));
    const double spent = amp_choice_seconds() - start;
    forced = EITHER;
    if (!y) return -1.0;
    amp_tensor_drop(y);
    return spent;
}

/* On one thread, by its own clock: other programs of the machine disturb a team more. No result depends on how many run
 * meanwhile. */
static void measure(const void *context, double *ours, double *theirs) {
    const amp_conv *c = context;
    const int64_t in = c->groups * c->in_channels, height = c->axis[1].in, width = c->axis[2].in;
    const int64_t image[] = {c->batch, in, height, width}, lines = width * in;
    const int64_t weights[] = {c->groups * c->out_channels, c->in_channels, c->axis[1].kernel, c->axis[2].kernel};
    amp_tensor *base = random_tensor(4, image), *w = base ? random_tensor(4, weights) : NULL;
    amp_tensor *x =
        w ? amp_tensor_view("conv", base, 4, image, (const int64_t[]){height * lines, 1, lines, in}, 0) : NULL;
    const int limit = amp_parallel_limit(1);
    if (x) {
        atomic_store(&w->storage->parameter, true); /* so that its packed forms are kept */
        const trial t = {c, x, w};
        amp_choice_time(seconds_of, &t, 2.0 * (double)products_of(c), ours, theirs);
        amp_tensor_drop(x);
    }
    amp_parallel_limit(limit);
    if (w) amp_tensor_drop(w);
    if (base) amp_tensor_drop(base);
}

/* "24_48_1x1_2^14": groups, strides and dilations where there are any. */
static void name_kind(const int32_t *key, char *name, size_t size) {
    const kind *k = (const kind *)(const void *)key;
    char more[48] = "";
    int n = 0;
    if (k->groups > 1) n += snprintf(more + n, sizeof more - (size_t)n, "_groups%d", k->groups);
    if (k->stride[0] != 1 || k->stride[1] != 1)
        n += snprintf(more + n, sizeof more - (size_t)n, "_by%dx%d", k->stride[0], k->stride[1]);
    if (k->dilation[0] != 1 || k->dilation[1] != 1)
        snprintf(more + n, sizeof more - (size_t)n, "_apart%dx%d", k->dilation[0], k->dilation[1]);
    snprintf(name, size, "%d_%d_%dx%d%s_2^%d", k->in, k->out, k->kernel[0], k->kernel[1], more, k->size);
}

bool amp_conv_prefers_dnnl(const amp_conv *c, const amp_conv_operands *o, const amp_conv_plane *y) {
    if (forced == OURS || !is_theirs_too(c, o, y)) return false;
    if (forced == THEIRS) return true;
    if ((bytes_of(c) < LEAST_BYTES && products_of(c) < LEAST_PRODUCTS) || bytes_of(c) > MOST_BYTES ||
        products_of(c) > MOST_PRODUCTS)
        return false;
    const kind k = kind_of(c);
    amp_choice_kind choice = {.family = AMP_CHOICE_CONV, .name = name_kind, .measure = measure, .context = c};
    memcpy(choice.key, &k, sizeof k);
    return !amp_choose_kind(&choice);
}
