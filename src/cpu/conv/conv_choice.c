/* Whose convolution of bf16 runs: our own, or oneDNN's. Classes of layers, from measurements. */
#include "cpu/conv/conv.h"
#include "cpu/conv/conv_dnnl.h"
#include "cpu/dnnl/dnnl_engine.h"
#include "machine/isa.h"

enum {
    LEAST_BYTES = 256 * 1024, /* read and written, or … */
    LEAST_PRODUCTS = 2000000, /* … of which a layer has one that is worth the way through oneDNN */
    MOST_WIDTH = 2048, /* oneDNN makes code for every few pixels of a row: 215 ms for 51,200 pixels, 105 for 25,600 */
    MB = 1 << 20
};

/* Layers that oneDNN computes faster; a bound of 0 is none. Our speed over oneDNN's, on one core of a Zen 4 with
 * AVX512_BF16, oneDNN 3.2, 329 layers timed three times each (docs/benchmarks.md, "Convolution"); AMX was not
 * measured. */
static const struct layer_class {
    int64_t least_in, most_in, most_out, least_taps, most_taps;
    int64_t most_pixels;               /* of one result's image */
    int64_t most_bytes;                /* of the images read */
    int64_t least_weights;             /* bytes of them */
    enum { ANY, DENSE, GATHERED } way; /* gathered: windows or strides leave gaps between the pixels of a tap */
} classes[] = {
    /* few channels in: 0.48 … 1.22, mean 0.83; from 96 on 1.03 in the mean */
    {.most_in = 80, .most_taps = 1, .way = DENSE},
    /* windows over few channels: 3 × 3 0.46 … 1.10, mean 0.77; 7 × 7 0.56 … 0.93, but of 1 and 3 channels mean 1.03 */
    {.most_in = 16, .least_taps = 2, .most_taps = 9},
    {.least_in = 4, .most_in = 16, .least_taps = 10},
    /* few channels out: 0.74 … 1.04, beyond the caches 1.02 … 1.39 */
    {.most_out = 48, .most_bytes = 8 * MB},
    /* small images under much weight: 0.55 … 0.85; from 100 pixels on 0.93 … 1.03, as dense ones */
    {.most_pixels = 63, .least_weights = MB, .way = GATHERED},
};

static int64_t products_of(const amp_conv *c) {
    return c->batch * c->groups * amp_conv_pixels(c) * c->out_channels * c->in_channels * amp_conv_taps(c);
}

static int64_t bytes_read(const amp_conv *c) {
    return 2 * c->batch * c->groups * c->in_channels * c->axis[1].in * c->axis[2].in;
}

static int64_t bytes_of(const amp_conv *c) {
    return bytes_read(c) + 2 * c->batch * c->groups * c->out_channels * amp_conv_pixels(c);
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
    return c->axis[2].out <= MOST_WIDTH && (c->groups == 1 || (c->in_channels == 1 && c->out_channels == 1)) &&
           depth->in == 1 && depth->kernel == 1 && depth->out == 1 && is_padded(&c->axis[1]) &&
           is_padded(&c->axis[2]) && is_dense(c, o, y) && amp_isa_best() >= AMP_ISA_AVX512BF16 && amp_conv_dnnl_cuts(c);
}

static bool is_within(int64_t value, int64_t least, int64_t most) {
    return value >= least && (most == 0 || value <= most);
}

static bool is_in(const struct layer_class *l, const amp_conv *c) {
    const int64_t taps = amp_conv_taps(c);
    const bool gathered = taps > 1 || c->axis[1].stride > 1 || c->axis[2].stride > 1;
    return is_within(c->in_channels, l->least_in, l->most_in) && is_within(c->out_channels, 0, l->most_out) &&
           is_within(taps, l->least_taps, l->most_taps) && is_within(amp_conv_pixels(c), 0, l->most_pixels) &&
           is_within(bytes_read(c), 0, l->most_bytes) &&
           is_within(2 * c->in_channels * c->out_channels * taps, l->least_weights, 0) &&
           (l->way == ANY || (l->way == GATHERED) == gathered);
}

static bool is_in_a_class(const amp_conv *c) {
    if (c->groups > 1 || (bytes_of(c) < LEAST_BYTES && products_of(c) < LEAST_PRODUCTS)) return false;
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (is_in(&classes[i], c)) return true;
    return false;
}

bool amp_conv_prefers_dnnl(const amp_conv *c, const amp_conv_operands *o, const amp_conv_plane *y) {
    const amp_dnnl_use use = amp_dnnl_use_now();
    return use != AMP_DNNL_NEVER && (use == AMP_DNNL_ALWAYS || is_in_a_class(c)) && is_theirs_too(c, o, y);
}
