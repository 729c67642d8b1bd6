/* max_pool1d … 3d and the adaptive forms. */
#include <math.h>
#include <string.h>

#include "amp/ops.h"
#include "core/compute_dtype.h"
#include "cpu/cpu_steps.h"
#include "cpu/plane/pooling.h"
#include "cpu/registry/kernels.h"

#define TYPE float
#define IS_NAN(x) isnan(x)
#define LEAST (-INFINITY)
#define NAME(x) x##_f32
#include "cpu/plane/pooling_maximum_body.h"
#define TYPE double
#define IS_NAN(x) isnan(x)
#define LEAST (-INFINITY)
#define NAME(x) x##_f64
#include "cpu/plane/pooling_maximum_body.h"
#define TYPE int64_t
#define IS_NAN(x) false
#define LEAST INT64_MIN
#define NAME(x) x##_i64
#include "cpu/plane/pooling_maximum_body.h"
amp_pool_line_function *amp_pool_maximum(amp_dtype compute) {
    return compute == AMP_F32 ? line_f32 : compute == AMP_F64 ? line_f64 : line_i64;
}

/* ---- f32, through the kernels on lines ------------------------------------------------------------------------ */

typedef struct maximum {
    const amp_pool *pool;
    amp_pool_line_function *function; /* for what follows does not fit */
    amp_lines_function *max;
    amp_argmax_lines_function *argmax;
    bool by_pixels, by_columns;
    const char *in;
    char *out;
    int64_t *indices;
    int64_t size;
} maximum;

/* Channels last: the pixels of a window are lines of channels. */
static int64_t window_elements(const amp_pool *p) {
    return amp_pool_most_lines(p) * p->most[2];
}

static void maximum_pixels(const maximum *m, const amp_pool_line *l) {
    const amp_pool *p = l->pool;
    const int64_t inner = p->s.inner, most = window_elements(p);
    int64_t *places = l->scratch;
    const float **pixels = (const float **)(void *)(places + most);
    float *which = (float *)(void *)(pixels + most);
    for (int64_t i = 0; i < p->s.out[2]; i++) {
        const amp_window *w = &p->windows[2][i];
        float *out = (float *)l->out + i * inner;
        const int64_t count = amp_pool_pixels(l, w, pixels, places);
        if (!l->indices && count) {
            m->max(out, pixels, NULL, count, inner);
            continue;
        }
        if (!count) { /* a window in the padding */
            places[0] = (l->d->start * p->s.in[1] + l->h->start) * p->s.in[2] + w->start;
            for (int64_t c = 0; c < inner; c++) out[c] = -INFINITY;
            for (int64_t c = 0; c < inner; c++) which[c] = 0.0f;
        } else {
            m->argmax(out, which, pixels, count, inner);
        }
        for (int64_t c = 0; l->indices && c < inner; c++) l->indices[i * inner + c] = places[(int64_t)which[c]];
    }
}

enum { MOST_COLUMNS = 64, MOST_STRIDE = 8 };

/* One channel, windows all alike: lines down into one with its padding, then that one shifted by each column of the
 * window against itself. With a stride of s, every s-th element of it, from 0 … s − 1, is a line of its own first. */
static int64_t padded_width(const amp_pool *p) {
    return (p->s.out[2] - 1) * p->stride + p->step[2] * (p->kernel - 1) + 1;
}

static int64_t part_width(const amp_pool *p) {
    return (padded_width(p) + p->stride - 1) / p->stride;
}

static bool suits_columns(const amp_pool *p) {
    if (p->kernel == 0 || p->kernel > MOST_COLUMNS || p->stride > MOST_STRIDE || p->step[2] > MOST_COLUMNS)
        return false;
    return padded_width(p) <= 4 * p->s.in[2] + 256 && amp_pool_most_lines(p) < 1 << 20;
}

static void split(float *parts, const float *line, int64_t width, int64_t stride, int64_t part) {
    if (stride == 2) {
        for (int64_t i = 0; i < width / 2; i++) {
            parts[i] = line[2 * i];
            parts[part + i] = line[2 * i + 1];
        }
        if (width % 2) parts[width / 2] = line[width - 1];
        return;
    }
    for (int64_t r = 0; r < stride; r++) {
        for (int64_t i = 0; r + i * stride < width; i++) parts[r * part + i] = line[r + i * stride];
    }
}

/* What a thread has for that. */
typedef struct columns_scratch {
    const float **lines, **values; /* of the input; their maxima along the row */
    float *line, *parts, *rows, *which;
} columns_scratch;

static columns_scratch divide_scratch(const amp_pool *p, void *scratch) {
    const int64_t most = amp_pool_most_lines(p);
    columns_scratch c = {.lines = scratch};
    c.values = c.lines + most;
    c.line = (float *)(void *)(c.values + most);
    c.parts = c.line + padded_width(p);
    c.which = c.parts + part_width(p) * p->stride; /* one for all lines together, and one each */
    c.rows = c.which + (most + 1) * p->s.out[2];
    return c;
}

static int64_t columns_bytes(const amp_pool *p) {
    const int64_t most = amp_pool_most_lines(p);
    const int64_t floats = padded_width(p) + part_width(p) * p->stride + (2 * most + 1) * p->s.out[2];
    return 2 * most * (int64_t)sizeof(void *) + floats * (int64_t)sizeof(float);
}

static int64_t used_columns(const amp_pool *p) {
    const int64_t room = padded_width(p) - p->padding;
    return room < p->s.in[2] ? room : p->s.in[2];
}

/* Pads and splits c->line, which has its columns already; the taps of every output column. */
static void find_taps(const amp_pool *p, const columns_scratch *c, const float **taps) {
    const int64_t width = padded_width(p), part = part_width(p), stride = p->stride;
    for (int64_t i = 0; i < p->padding; i++) c->line[i] = -INFINITY;
    for (int64_t i = p->padding + used_columns(p); i < width; i++) c->line[i] = -INFINITY;
    if (stride > 1) split(c->parts, c->line, width, stride, part);
    for (int64_t k = 0; k < p->kernel; k++) {
        const int64_t shift = k * p->step[2];
        taps[k] = stride > 1 ? c->parts + shift % stride * part + shift / stride : c->line + shift;
    }
}

static void maximum_columns(const maximum *m, const amp_pool_line *l) {
    const amp_pool *p = l->pool;
    const int64_t columns = used_columns(p);
    const columns_scratch c = divide_scratch(p, l->scratch);
    const float *taps[MOST_COLUMNS];
    float *line = c.line + p->padding;
    const int64_t count = amp_pool_lines(l, c.lines);
    if (count == 0) {
        for (int64_t i = 0; i < columns; i++) line[i] = -INFINITY;
    } else if (count == 1) {
        memcpy(line, c.lines[0], (size_t)columns * sizeof *line);
    } else {
        m->max(line, c.lines, NULL, count, columns);
    }
    find_taps(p, &c, taps);
    m->max(l->out, taps, NULL, p->kernel, p->s.out[2]);
}

/* With places, each line goes along the row first: then the first of equal ones is the first in the order of the
 * plane. */
static void maximum_columns_placed(const maximum *m, const amp_pool_line *l) {
    const amp_pool *p = l->pool;
    const int64_t n = p->s.out[2];
    const columns_scratch c = divide_scratch(p, l->scratch);
    const float *taps[MOST_COLUMNS];
    const int64_t count = amp_pool_lines(l, c.lines);
    for (int64_t k = 0; k < count; k++) {
        memcpy(c.line + p->padding, c.lines[k], (size_t)used_columns(p) * sizeof *c.line);
        find_taps(p, &c, taps);
        m->argmax(c.rows + k * n, c.which + (k + 1) * n, taps, p->kernel, n);
        c.values[k] = c.rows + k * n;
    }
    if (count == 0) { /* windows in the padding */
        m->function(l);
        return;
    }
    m->argmax(l->out, c.which, c.values, count, n);
    for (int64_t i = 0; i < n; i++) {
        const int64_t k = (int64_t)c.which[i], tap = (int64_t)c.which[(k + 1) * n + i];
        const int64_t column = i * p->stride - p->padding + tap * p->step[2], first = p->windows[2][i].start;
        /* in the padding only if everything is −inf */
        l->indices[i] = c.lines[k] - (const float *)l->in + (column < first ? first : column);
    }
}

/* ---- Any type ------------------------------------------------------------------------------------------------- */

static void maximum_rows(void *context, int64_t begin, int64_t end, void *scratch) {
    const maximum *m = context;
    for (int64_t index = begin; index < end; index++) {
        const amp_pool_line line = amp_pool_line_at(m->pool, index, m->in, m->out, m->indices, m->size, scratch);
        if (m->by_pixels)
            maximum_pixels(m, &line);
        else if (m->by_columns)
            (m->indices ? maximum_columns_placed : maximum_columns)(m, &line);
        else
            m->function(&line);
    }
}

/* Chooses the kernels; returns what a thread needs. */
static amp_status find_kernels(amp_call *call, maximum *m, size_t *scratch) {
    const amp_pool *p = m->pool;
    *scratch = 0;
    m->by_pixels = p->s.inner > 1 && window_elements(p) < 1 << 20;
    m->by_columns = p->s.inner == 1 && suits_columns(p);
    if (m->size != sizeof(float) || (!m->by_pixels && !m->by_columns)) {
        m->by_pixels = m->by_columns = false;
        return AMP_OK;
    }
    const amp_kernel *max = amp_kernel_select(AMP_KERNEL_MAX_LINES, AMP_F32, AMP_F32);
    const amp_kernel *argmax = max ? amp_kernel_select(AMP_KERNEL_ARGMAX_LINES, AMP_F32, AMP_F32) : NULL;
    if (!argmax) return amp_pending_error();
    m->max = (amp_lines_function *)max->function;
    m->argmax = (amp_argmax_lines_function *)argmax->function;
    call->note.kernel = m->indices ? argmax->name : max->name;
    const int64_t pixels =
        (window_elements(p) + 1) * (int64_t)(sizeof(int64_t) + sizeof(void *)) + p->s.inner * m->size;
    *scratch = (size_t)(m->by_pixels ? pixels : columns_bytes(p));
    return AMP_OK;
}

amp_status amp_cpu_pool_maximum(amp_call *call, const amp_pool *p, amp_tensor *input, bool return_indices) {
    const amp_dtype compute = amp_compute_dtype(input->dtype);
    amp_spatial_result result, places = {0};
    const void *in;
    AMP_TRY(amp_spatial_write(call, &p->s, 0, input->dtype, compute, &result));
    if (return_indices) AMP_TRY(amp_spatial_write(call, &p->s, 1, AMP_I64, AMP_I64, &places));
    AMP_TRY(amp_spatial_read(call, &p->s, input, compute, &in));
    maximum m = {.pool = p, .function = amp_pool_maximum(compute), .in = in, .out = result.data};
    size_t scratch;
    m.indices = places.data;
    m.size = (int64_t)amp_dtype_size(compute);
    AMP_TRY(find_kernels(call, &m, &scratch));
    const int64_t cost = p->s.out[2] * p->s.inner * (window_elements(p) + 1);
    AMP_TRY(amp_spatial_run(call, amp_spatial_row_count(&p->s), m.by_pixels || m.by_columns ? cost / 4 : cost, scratch,
                            maximum_rows, &m));
    return amp_spatial_finish(&result);
}
