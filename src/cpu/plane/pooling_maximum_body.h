/* Maxima of one output line, for elements of TYPE with the least value LEAST; VALUE(x) is the number that an element
 * is, NAME(x) makes the functions' names.
 *
 * Formula:     the largest element of a window, the first of equal ones; a NaN is larger than all.
 * Accumulator: TYPE; exact.
 * ISA:         what the compiler makes of plain C.
 * Source:      documentation of torch.nn.MaxPool2d and its kin. */

/* inner = 1 */
static void NAME(columns)(const amp_pool_line *l, int64_t size) {
    const amp_pool *p = l->pool;
    const int64_t width = p->s.in[2], height = p->s.in[1], step = p->step[2];
    const TYPE *in = l->in;
    TYPE *out = l->out;
    (void)size;
    for (int64_t i = 0; i < p->s.out[2]; i++) {
        const amp_window *w = &p->windows[2][i];
        int64_t at = (l->d->start * height + l->h->start) * width + w->start;
        TYPE best = LEAST;
        for (int64_t a = 0; a < l->d->count; a++) {
            for (int64_t b = 0; b < l->h->count; b++) {
                const int64_t d = l->d->start + a * p->step[0], h = l->h->start + b * p->step[1];
                const int64_t line = (d * height + h) * width + w->start;
                for (int64_t c = 0; c < w->count; c++) {
                    const TYPE x = in[line + c * step];
                    const bool more = VALUE(x) > VALUE(best) || IS_NAN(VALUE(x));
                    best = more ? x : best;
                    at = more ? line + c * step : at;
                }
            }
        }
        out[i] = best;
        if (l->indices) l->indices[i] = at;
    }
}

/* The channels of one element against the best of those before. */
static void NAME(take)(TYPE *best, int64_t *at, const TYPE *x, int64_t index, int64_t n) {
    if (!at) {
        for (int64_t c = 0; c < n; c++) best[c] = VALUE(x[c]) > VALUE(best[c]) || IS_NAN(VALUE(x[c])) ? x[c] : best[c];
        return;
    }
    for (int64_t c = 0; c < n; c++) {
        const bool more = VALUE(x[c]) > VALUE(best[c]) || IS_NAN(VALUE(x[c]));
        best[c] = more ? x[c] : best[c];
        at[c] = more ? index : at[c];
    }
}

static void NAME(pixels)(const amp_pool_line *l, int64_t inner) {
    const amp_pool *p = l->pool;
    const int64_t width = p->s.in[2], height = p->s.in[1];
    const TYPE *in = l->in;
    for (int64_t i = 0; i < p->s.out[2]; i++) {
        const amp_window *w = &p->windows[2][i];
        TYPE *best = (TYPE *)l->out + i * inner;
        int64_t *at = l->indices ? l->indices + i * inner : NULL;
        const int64_t first = (l->d->start * height + l->h->start) * width + w->start;
        for (int64_t c = 0; c < inner; c++) best[c] = LEAST;
        for (int64_t c = 0; at && c < inner; c++) at[c] = first;
        for (int64_t a = 0; a < l->d->count; a++) {
            for (int64_t b = 0; b < l->h->count; b++) {
                const int64_t d = l->d->start + a * p->step[0], h = l->h->start + b * p->step[1];
                for (int64_t c = 0; c < w->count; c++) {
                    const int64_t index = (d * height + h) * width + w->start + c * p->step[2];
                    NAME(take)(best, at, in + index * inner, index, inner);
                }
            }
        }
    }
}

static void NAME(line)(const amp_pool_line *l) {
    (l->pool->s.inner == 1 ? NAME(columns) : NAME(pixels))(l, l->pool->s.inner);
}

#undef IS_NAN
#undef TYPE
#undef VALUE
#undef LEAST
#undef NAME
