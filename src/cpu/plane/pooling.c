/* Where the windows of pooling ops lie. */
#include "cpu/plane/pooling.h"

#include "cpu/plane/spatial.h"

int64_t amp_pool_lines(const amp_pool_line *l, const void **lines) {
    const amp_pool *p = l->pool;
    const int64_t bytes = p->s.in[2] * p->s.inner * l->size;
    const char *in = l->in;
    int64_t count = 0;
    for (int64_t a = 0; a < l->d->count; a++) {
        for (int64_t b = 0; b < l->h->count; b++) {
            const int64_t d = l->d->start + a * p->step[0], h = l->h->start + b * p->step[1];
            lines[count++] = in + (d * p->s.in[1] + h) * bytes;
        }
    }
    return count;
}

int64_t amp_pool_pixels(const amp_pool_line *l, const amp_window *w, const void **pixels, int64_t *places) {
    const amp_pool *p = l->pool;
    const int64_t bytes = p->s.inner * l->size, step = p->step[2], columns = w->count;
    int64_t count = 0;
    for (int64_t a = 0; a < l->d->count; a++) {
        for (int64_t b = 0; b < l->h->count; b++) {
            const int64_t d = l->d->start + a * p->step[0], h = l->h->start + b * p->step[1];
            const int64_t first = (d * p->s.in[1] + h) * p->s.in[2] + w->start;
            const char *at = (const char *)l->in + first * bytes;
            for (int64_t c = 0; c < columns; c++, at += step * bytes) {
                if (places) places[count] = first + c * step;
                pixels[count++] = at;
            }
        }
    }
    return count;
}

amp_pool_line amp_pool_line_at(const amp_pool *p, int64_t index, const char *in, char *out, int64_t *indices,
                               int64_t size, void *scratch) {
    const amp_spatial *s = &p->s;
    const amp_spatial_row row = amp_spatial_row_at(s, index);
    const int64_t width = s->out[2] * s->inner, plane = s->in[0] * s->in[1] * s->in[2] * s->inner;
    return (amp_pool_line){.pool = p,
                           .d = &p->windows[0][row.d],
                           .h = &p->windows[1][row.h],
                           .in = in + row.outer * plane * size,
                           .out = out + index * width * size,
                           .indices = indices ? indices + index * width : NULL,
                           .scratch = scratch,
                           .size = size};
}
