/* Runs of samples of TYPE; NAME(x) makes the functions' names.
 *
 * Formula:     out = Σ weight·in over the taps of a sample (1, 2 or 4 along each dimension); a tap outside of the
 *              image reads 0, its border or its mirror image, as the padding mode says.
 * Accumulator: TYPE (f32, or f64), in the order of taps; places and weights are computed in f64.
 * Error bound: (taps + 2) units of roundoff of Σ|weight·in|.
 * ISA:         through the kernels of pool_resample.h where TYPE is f32.
 * Source:      documentation of torch.nn.functional.grid_sample. */

/* Coordinates along dimension d (of D, H, W; x comes first in the grid), bounded but for cubic taps, which are
 * themselves. */
AMP_ALWAYS_INLINE void NAME(split_coordinates)(const sampler *g, amp_sampling_border border, int64_t n,
                                               const TYPE *grid, int d, split *s) {
    const int64_t extent = g->s->in[d];
    const unit_map m = map_of(g, extent);
    const int dims = g->dims;
    grid += 2 - d;
    for (int64_t i = 0; i < n; i++) {
        split_one(s, i, bounded(g, border, unnormalised(m, (double)grid[i * dims]), extent));
    }
}

AMP_ALWAYS_INLINE void NAME(find_offsets)(const sampler *g, amp_sampling_border border, int64_t n, const split *s,
                                          int tap, int d, int32_t *restrict offset) {
    const int32_t extent = (int32_t)g->s->in[d], step = step_along(g, d);
    for (int64_t i = 0; i < n; i++) {
        int32_t x = s->below[i] + tap;
        if (border == AMP_BORDER_MIRROR) x = (int32_t)bounded(g, AMP_BORDER_MIRROR, (double)x, extent);
        if (border == AMP_BORDER_EDGE) x = clipped_index(x, extent - 1);
        offset[i] = border == AMP_BORDER_ZEROS ? offset_of(x, extent, step) : x * step;
    }
}

AMP_ALWAYS_INLINE void NAME(find_linear)(const sampler *g, amp_sampling_border border, int64_t n, const TYPE *grid,
                                         int d, const axis *to) {
    split s;
    NAME(split_coordinates)(g, border, n, grid, d, &s);
    for (int k = 0; k < 2; k++) NAME(find_offsets)(g, AMP_BORDER_ZEROS, n, &s, k, d, to->offset + k * n);
    for (int64_t i = 0; i < n; i++) to->weight[i] = 1.0 - s.rest[i];
    for (int64_t i = 0; i < n; i++) to->weight[n + i] = s.rest[i];
}

AMP_ALWAYS_INLINE void NAME(find_cubic)(const sampler *g, amp_sampling_border border, int64_t n, const TYPE *grid,
                                        int d, const axis *to) {
    split s;
    double *restrict weight = to->weight;
    NAME(split_coordinates)(g, AMP_BORDER_ZEROS, n, grid, d, &s);
    for (int k = 0; k < 4; k++) NAME(find_offsets)(g, border, n, &s, k - 1, d, to->offset + k * n);
    for (int64_t i = 0; i < n; i++) weight[i] = cubic_far(1.0 + s.rest[i]);
    for (int64_t i = 0; i < n; i++) weight[n + i] = cubic_near(s.rest[i]);
    for (int64_t i = 0; i < n; i++) weight[2 * n + i] = cubic_near(1.0 - s.rest[i]);
    for (int64_t i = 0; i < n; i++) weight[3 * n + i] = cubic_far(2.0 - s.rest[i]);
}

static void NAME(find_nearest)(const sampler *g, int64_t n, const TYPE *grid, int d, const axis *to) {
    const int32_t extent = (int32_t)g->s->in[d], step = step_along(g, d);
    const unit_map m = map_of(g, extent);
    for (int64_t i = 0; i < n; i++) {
        const double x = bounded(g, g->border, unnormalised(m, (double)grid[i * g->dims + 2 - d]), extent);
        to->offset[i] = offset_of((int32_t)nearest_whole(within_reach(x)), extent, step);
        to->weight[i] = 1.0;
    }
}

/* The taps of each of n elements along a dimension. */
static void NAME(find_axis)(const sampler *g, int64_t n, const TYPE *grid, int d, const axis *to) {
    if (g->mode == AMP_SAMPLE_NEAREST)
        NAME(find_nearest)(g, n, grid, d, to);
    else if (g->mode == AMP_SAMPLE_LINEAR && g->border == AMP_BORDER_ZEROS)
        NAME(find_linear)(g, AMP_BORDER_ZEROS, n, grid, d, to);
    else if (g->mode == AMP_SAMPLE_LINEAR && g->border == AMP_BORDER_EDGE)
        NAME(find_linear)(g, AMP_BORDER_EDGE, n, grid, d, to);
    else if (g->mode == AMP_SAMPLE_LINEAR)
        NAME(find_linear)(g, AMP_BORDER_MIRROR, n, grid, d, to);
    else if (g->border == AMP_BORDER_ZEROS)
        NAME(find_cubic)(g, AMP_BORDER_ZEROS, n, grid, d, to);
    else if (g->border == AMP_BORDER_EDGE)
        NAME(find_cubic)(g, AMP_BORDER_EDGE, n, grid, d, to);
    else
        NAME(find_cubic)(g, AMP_BORDER_MIRROR, n, grid, d, to);
}

/* One tap of each dimension, for all n elements. A negative offset, which has all bits set, makes a negative index. */
static void NAME(join_taps)(int64_t n, bool deep, const int32_t *restrict z, const int32_t *restrict y,
                            const int32_t *restrict x, int32_t *restrict index) {
    if (deep) {
        for (int64_t i = 0; i < n; i++) index[i] = (z[i] | y[i] | x[i]) >> 31 | (z[i] + y[i] + x[i]);
    } else {
        for (int64_t i = 0; i < n; i++) index[i] = (y[i] | x[i]) >> 31 | (y[i] + x[i]);
    }
}

static void NAME(join_weights)(int64_t n, bool deep, const double *restrict z, const double *restrict y,
                               const double *restrict x, const int32_t *restrict index, TYPE *restrict weight) {
    if (deep) {
        for (int64_t i = 0; i < n; i++) weight[i] = (TYPE)(z[i] * y[i] * x[i]);
        for (int64_t i = 0; i < n; i++) weight[i] = index[i] < 0 ? (TYPE)0 : weight[i];
    } else {
        for (int64_t i = 0; i < n; i++) weight[i] = (TYPE)(y[i] * x[i]);
    }
}

static void NAME(find_taps)(const sampler *g, const run_taps *t) {
    const int64_t n = t->n;
    const TYPE *grid = (const TYPE *)g->grid + (t->batch * g->samples + t->first) * g->dims;
    const int each = taps_along(g);
    const bool deep = g->dims == 3;
    const axis *z = &t->axes[0], *y = &t->axes[1], *x = &t->axes[2];
    int32_t *index = t->index;
    TYPE *weight = t->weight;
    for (int d = deep ? 0 : 1; d < 3; d++) NAME(find_axis)(g, n, grid, d, &t->axes[d]);
    for (int k = 0; k < g->taps; k++, index += n, weight += n) {
        const int64_t a = k / each / each * n, b = k / each % each * n, c = k % each * n;
        NAME(join_taps)(n, deep, z->offset + a, y->offset + b, x->offset + c, index);
        NAME(join_weights)(n, deep, z->weight + a, y->weight + b, x->weight + c, index, weight);
    }
}

/* Channel by channel. What lies outside adds 0 times its weight: in two dimensions, as in PyTorch, NaN coordinates
 * leave that NaN. */
static void NAME(sample_planes)(const sampler *g, const run_taps *t) {
    const amp_spatial *s = g->s;
    const int64_t plane = s->in[0] * s->in[1] * s->in[2];
    for (int64_t c = 0; c < s->channels; c++) {
        const int64_t outer = t->batch * s->channels + c;
        NAME(gather)(g, (TYPE *)g->out + outer * g->samples + t->first, (const TYPE *)g->in + outer * plane, t);
    }
}

/* Pixel by pixel, channels last. */
static void NAME(sample_pixels)(const sampler *g, const run_taps *t) {
    const amp_spatial *s = g->s;
    const int64_t n = t->n;
    const TYPE *in = (const TYPE *)g->in + t->batch * s->in[0] * s->in[1] * s->in[2] * s->inner;
    TYPE *out = (TYPE *)g->out + (t->batch * g->samples + t->first) * s->inner;
    for (int64_t i = 0; i < n; i++) {
        const TYPE *pixels[MOST_TAPS];
        TYPE weights[MOST_TAPS];
        for (int k = 0; k < g->taps; k++) {
            const int32_t index = t->index[k * n + i];
            pixels[k] = index < 0 ? g->zeros : in + index * s->inner;
            weights[k] = ((const TYPE *)t->weight)[k * n + i];
        }
        NAME(combine)(g, out + i * s->inner, pixels, weights);
    }
}

static void NAME(sample_rows)(void *context, int64_t begin, int64_t end, void *scratch) {
    const sampler *g = context;
    for (int64_t row = begin; row < end; row++) {
        const run_taps t = lay_out_taps(g, row, scratch);
        NAME(find_taps)(g, &t);
        (g->s->channels_last ? NAME(sample_pixels) : NAME(sample_planes))(g, &t);
    }
}

#undef TYPE
#undef NAME
