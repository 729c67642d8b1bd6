/* Resampling of rows of TYPE; NAME(x) makes the functions' names.
 *
 * Formula:     out = Σ weight·in over the taps of an output pixel, the taps of width apart from those of height and
 *              depth; weights as resample.c finds them.
 * Accumulator: TYPE (f32, or f64); one rounding for each tap.
 * Error bound: (taps of width + taps of height · depth + 1) units of roundoff of Σ|weight·in|.
 * ISA:         through the kernels of pool_resample.h where TYPE is f32.
 * Source:      documentation of torch.nn.functional.interpolate. */

/* A line of W pixels to one of W' pixels. */
static void NAME(along)(const resample *r, const workspace *w, TYPE *out, const TYPE *in) {
    const amp_taps *t = &r->taps[2];
    const int64_t inner = r->s->inner;
    if (inner == 1) {
        NAME(gather)(r, out, in);
        return;
    }
    for (int64_t i = 0; i < r->s->out[2]; i++) {
        for (int64_t k = 0; k < t->counts[i]; k++) w->pixels[k] = in + t->index[i * t->most + k] * inner;
        NAME(combine)(r, out + i * inner, w->pixels, (const TYPE *)r->weights[2] + i * t->most, t->counts[i], inner);
    }
}

/* The lines under one output line, with the products of their weights. */
static int64_t NAME(collect)(const resample *r, amp_spatial_row row, const workspace *w) {
    const amp_taps *d = &r->taps[0], *h = &r->taps[1];
    const int64_t *di = d->index + row.d * d->most, *hi = h->index + row.h * h->most;
    const TYPE *dw = (const TYPE *)r->weights[0] + row.d * d->most;
    const TYPE *hw = (const TYPE *)r->weights[1] + row.h * h->most;
    TYPE *weights = w->weights;
    int64_t count = 0;
    for (int64_t a = 0; a < d->counts[row.d]; a++) {
        for (int64_t b = 0; b < h->counts[row.h]; b++) {
            w->lines[count] = (row.outer * r->s->in[0] + di[a]) * r->s->in[1] + hi[b];
            weights[count++] = dw[a] * hw[b];
        }
    }
    return count;
}

static void NAME(round)(TYPE *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) x[i] = (TYPE)rounded_byte((double)x[i]);
}

/* Lines of the input first into one, and that along the row … */
static void NAME(down_first)(const resample *r, amp_spatial_row row, const workspace *w, TYPE *out) {
    const int64_t n = r->s->in[2] * r->s->inner, count = NAME(collect)(r, row, w);
    const TYPE *sum = (const TYPE *)r->in + w->lines[0] * n;
    if (count > 1 || ((const TYPE *)w->weights)[0] != (TYPE)1) {
        for (int64_t k = 0; k < count; k++) w->pointers[k] = (const TYPE *)r->in + w->lines[k] * n;
        NAME(combine)(r, w->rows, w->pointers, w->weights, count, n);
        sum = w->rows;
    }
    NAME(along)(r, w, out, sum);
}

/* … or every line along the row first, kept for the output lines that follow. Lines that are needed together are
 * neighbours, so each finds a place of its own. */
static void NAME(along_first)(const resample *r, amp_spatial_row row, const workspace *w, TYPE *out) {
    const int64_t in = r->s->in[2] * r->s->inner, n = r->s->out[2] * r->s->inner;
    const int64_t count = NAME(collect)(r, row, w), height = r->s->in[1];
    for (int64_t k = 0; k < count; k++) {
        const int64_t line = w->lines[k];
        const int64_t place = line / height % r->taps[0].most * r->taps[1].most + line % height % r->taps[1].most;
        TYPE *kept = (TYPE *)w->rows + place * n;
        w->pointers[k] = kept;
        if (w->kept[place] == line) continue;
        w->kept[place] = line;
        NAME(along)(r, w, kept, (const TYPE *)r->in + line * in);
        if (r->round) NAME(round)(kept, n);
    }
    NAME(combine)(r, out, w->pointers, w->weights, count, n);
}

static void NAME(rows)(void *context, int64_t begin, int64_t end, void *scratch) {
    const resample *r = context;
    const int64_t n = r->s->out[2] * r->s->inner;
    const workspace w = divide_scratch(r, scratch);
    for (int64_t index = begin; index < end; index++) {
        TYPE *out = (TYPE *)r->out + index * n;
        (r->down_first ? NAME(down_first) : NAME(along_first))(r, amp_spatial_row_at(r->s, index), &w, out);
        if (r->round) NAME(round)(out, n);
    }
}

#undef TYPE
#undef NAME
