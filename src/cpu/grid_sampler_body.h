/* Lines of samples of TYPE; NAME(x) makes the functions' names. */

/* The taps of output line `row` (of batch, D', H'), W' elements. */
static void NAME(find_taps)(const sampler *g, int64_t row, const line_taps *t) {
    const int64_t *in = g->s->in, n = g->s->out[2];
    const TYPE *grid = (const TYPE *)g->grid + row * n * g->dims;
    const int each = taps_along(g), each_deep = g->dims == 3 ? each : 1;
    for (int64_t i = 0; i < n; i++) {
        const TYPE *at = grid + i * g->dims; /* x, y, z */
        const place x = find_place(g, (double)at[0], in[2]), y = find_place(g, (double)at[1], in[1]);
        const place z = g->dims == 3 ? find_place(g, (double)at[2], in[0]) : (place){{0}, {1.0}};
        int32_t *index = t->index + i;
        TYPE *weight = (TYPE *)t->weight + i;
        for (int a = 0; a < each_deep; a++) {
            for (int b = 0; b < each; b++) {
                for (int c = 0; c < each; c++, index += n, weight += n) {
                    const bool inside = z.index[a] >= 0 && y.index[b] >= 0 && x.index[c] >= 0;
                    *index = inside ? (int32_t)((z.index[a] * in[1] + y.index[b]) * in[2] + x.index[c]) : -1;
                    *weight = inside || g->dims == 2 ? (TYPE)(z.weight[a] * y.weight[b] * x.weight[c]) : (TYPE)0;
                }
            }
        }
    }
}

/* Channel by channel. What lies outside adds 0 times its weight: in two dimensions, as in PyTorch, NaN coordinates leave
 * that NaN. */
static void NAME(sample_planes)(const sampler *g, const line_taps *t, int64_t batch, int64_t line) {
    const amp_spatial *s = g->s;
    const int64_t lines = s->out[0] * s->out[1], plane = s->in[0] * s->in[1] * s->in[2];
    for (int64_t c = 0; c < s->channels; c++) {
        const int64_t outer = batch * s->channels + c;
        NAME(gather)(g, (TYPE *)g->out + (outer * lines + line) * s->out[2], (const TYPE *)g->in + outer * plane, t);
    }
}

/* Pixel by pixel, channels last. */
static void NAME(sample_pixels)(const sampler *g, const line_taps *t, int64_t batch, int64_t line) {
    const amp_spatial *s = g->s;
    const int64_t n = s->out[2], lines = s->out[0] * s->out[1];
    const TYPE *in = (const TYPE *)g->in + batch * s->in[0] * s->in[1] * s->in[2] * s->inner;
    TYPE *out = (TYPE *)g->out + (batch * lines + line) * n * s->inner;
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
    const amp_spatial *s = g->s;
    const int64_t lines = s->out[0] * s->out[1];
    const line_taps t = {scratch, (int32_t *)(void *)((double *)scratch + g->taps * s->out[2])};
    for (int64_t row = begin; row < end; row++) {
        NAME(find_taps)(g, row, &t);
        (s->channels_last ? NAME(sample_pixels) : NAME(sample_planes))(g, &t, row / lines, row % lines);
    }
}

#undef TYPE
#undef NAME
