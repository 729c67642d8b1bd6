/* max_pool1d … 3d and the adaptive forms. */
#include <math.h>
#include <string.h>

#include "amp/ops.h"
#include "core/compute_dtype.h"
#include "core/half.h"
#include "cpu/convert/element.h"
#include "cpu/cpu_steps.h"
#include "cpu/plane/pooling.h"
#include "cpu/registry/kernels.h"

enum { LEAST_BF16 = 0xff80, LEAST_F16 = 0xfc00 }; /* −∞ */

#define TYPE float
#define VALUE(x) (x)
#define IS_NAN(x) isnan(x)
#define LEAST (-INFINITY)
#define NAME(x) x##_f32
#include "cpu/plane/pooling_maximum_body.h"
#define TYPE uint16_t
#define VALUE(x) amp_f32_from_bf16(x)
#define IS_NAN(x) isnan(x)
#define LEAST LEAST_BF16
#define NAME(x) x##_bf16
#include "cpu/plane/pooling_maximum_body.h"
#define TYPE uint16_t
#define VALUE(x) amp_f32_from_f16(x)
#define IS_NAN(x) isnan(x)
#define LEAST LEAST_F16
#define NAME(x) x##_f16
#include "cpu/plane/pooling_maximum_body.h"
#define TYPE double
#define VALUE(x) (x)
#define IS_NAN(x) isnan(x)
#define LEAST (-INFINITY)
#define NAME(x) x##_f64
#include "cpu/plane/pooling_maximum_body.h"
#define TYPE int64_t
#define VALUE(x) (x)
#define IS_NAN(x) false
#define LEAST INT64_MIN
#define NAME(x) x##_i64
#include "cpu/plane/pooling_maximum_body.h"

/* A maximum of 16-bit floats is one of them. */
static amp_dtype maximum_dtype(amp_dtype dtype) {
    return dtype == AMP_BF16 || dtype == AMP_F16 ? dtype : amp_compute_dtype(dtype);
}

amp_pool_line_function *amp_pool_maximum(amp_dtype dtype) {
    switch (dtype) {
    case AMP_F32: return line_f32;
    case AMP_BF16: return line_bf16;
    case AMP_F16: return line_f16;
    case AMP_F64: return line_f64;
    default: return line_i64;
    }
}

/* ---- Floats of 16 and 32 bits, through the kernels on lines --------------------------------------------------- */

enum { MOST_COLUMNS = 64, MOST_STRIDE = 8 };

typedef struct maximum maximum;
typedef void row_function(const maximum *m, const amp_pool_line *l);

struct maximum {
    const amp_pool *pool;
    row_function *row;
    amp_pool_line_function *function; /* element by element */
    amp_max_lines_function *max;
    amp_argmax_lines_function *argmax;
    const char *in;
    char *out;
    int64_t *indices;
    amp_dtype dtype;
    int64_t size;
    int64_t width, part, taps[MOST_COLUMNS]; /* by columns: the padded line, a stride's part of it, in elements */
};

/* n elements of −∞. */
static void fill_least(const maximum *m, void *to, int64_t n) {
    if (m->dtype == AMP_F32) {
        for (int64_t i = 0; i < n; i++) ((float *)to)[i] = -INFINITY;
    } else {
        const uint16_t least = m->dtype == AMP_BF16 ? LEAST_BF16 : LEAST_F16;
        for (int64_t i = 0; i < n; i++) ((uint16_t *)to)[i] = least;
    }
}

/* Channels last: the pixels of a window are lines of channels. */
static int64_t window_elements(const amp_pool *p) {
    return amp_pool_most_lines(p) * p->most[2];
}

static bool suits_pixels(const amp_pool *p) {
    return p->s.inner > 1 && window_elements(p) < 1 << 20;
}

static int64_t prepare_pixels(maximum *m) {
    const amp_pool *p = m->pool;
    return (window_elements(p) + 1) * (int64_t)(sizeof(int64_t) + sizeof(void *)) + p->s.inner * (int64_t)sizeof(float);
}

/* Windows from the i-th on of which each is the one before a pixel further: their pixels are lines of many pixels. */
static int64_t windows_alike(const amp_pool *p, int64_t i) {
    const amp_window *w = &p->windows[2][i];
    int64_t n = 1;
    while (i + n < p->s.out[2] && w[n].count == w->count && w[n].start == w->start + n) n++;
    return n;
}

static void maximum_pixels(const maximum *m, const amp_pool_line *l) {
    const amp_pool *p = l->pool;
    const int64_t inner = p->s.inner, most = window_elements(p);
    int64_t *places = l->scratch;
    const void **pixels = (const void **)(void *)(places + most + 1);
    float *which = (float *)(void *)(pixels + most + 1);
    for (int64_t i = 0, windows; i < p->s.out[2]; i += windows) {
        const amp_window *w = &p->windows[2][i];
        char *out = (char *)l->out + i * inner * m->size;
        const int64_t count = amp_pool_pixels(l, w, pixels, l->indices ? places : NULL);
        windows = l->indices || !count ? 1 : windows_alike(p, i);
        if (!l->indices && count) {
            m->max(out, pixels, count, windows * inner);
            continue;
        }
        if (!count) { /* a window in the padding */
            places[0] = (l->d->start * p->s.in[1] + l->h->start) * p->s.in[2] + w->start;
            fill_least(m, out, inner);
            for (int64_t c = 0; c < inner; c++) which[c] = 0.0f;
        } else {
            m->argmax(out, which, pixels, count, inner);
        }
        for (int64_t c = 0; l->indices && c < inner; c++) l->indices[i * inner + c] = places[(int64_t)which[c]];
    }
}

/* One channel, windows all alike: lines down into one with its padding, then that one shifted by each column of the
 * window against itself. With a stride of s, every s-th element of it, from 0 … s − 1, is a line of its own first. */
static int64_t padded_width(const amp_pool *p) {
    return (p->s.out[2] - 1) * p->stride + p->step[2] * (p->kernel - 1) + 1;
}

static int64_t part_width(const amp_pool *p) {
    return (padded_width(p) + p->stride - 1) / p->stride;
}

static bool suits_columns(const amp_pool *p) {
    if (p->s.inner > 1 || p->kernel == 0 || p->kernel > MOST_COLUMNS) return false;
    if (p->stride > MOST_STRIDE || p->step[2] > MOST_COLUMNS) return false;
    return padded_width(p) <= 4 * p->s.in[2] + 256 && amp_pool_most_lines(p) < 1 << 20;
}

/* Pairs of 16 bits are taken apart in registers, which is quicker than element by element. */
static void halve_16(uint16_t *parts, const uint16_t *line, int64_t width, int64_t part) {
    typedef uint32_t pair __attribute__((aligned(2), may_alias));
    const pair *pairs = (const pair *)line;
    for (int64_t i = 0; i < width / 2; i++) {
        parts[i] = (uint16_t)pairs[i];
        parts[part + i] = (uint16_t)(pairs[i] >> 16);
    }
    if (width % 2) parts[width / 2] = line[width - 1];
}

static void halve_32(uint32_t *parts, const uint32_t *line, int64_t width, int64_t part) {
    for (int64_t i = 0; i < width / 2; i++) {
        parts[i] = line[2 * i];
        parts[part + i] = line[2 * i + 1];
    }
    if (width % 2) parts[width / 2] = line[width - 1];
}

#define DEFINE_SPLIT(bits)                                                                                             \
    static void split_##bits(void *to, const void *from, int64_t width, int64_t stride, int64_t part) {                \
        uint##bits##_t *parts = to;                                                                                    \
        const uint##bits##_t *line = from;                                                                             \
        if (stride == 2) {                                                                                             \
            halve_##bits(parts, line, width, part);                                                                    \
            return;                                                                                                    \
        }                                                                                                              \
        for (int64_t r = 0; r < stride; r++) {                                                                         \
            for (int64_t i = 0; r + i * stride < width; i++) parts[r * part + i] = line[r + i * stride];               \
        }                                                                                                              \
    }
DEFINE_SPLIT(32)
DEFINE_SPLIT(16)

/* What a thread has for that. */
typedef struct columns_scratch {
    const void **lines, **values; /* of the input; their maxima along the row */
    float *which;                 /* one for all lines together, and one each */
    char *line, *parts, *rows;    /* of elements */
} columns_scratch;

static columns_scratch divide_scratch(const maximum *m, void *scratch) {
    const amp_pool *p = m->pool;
    const int64_t most = amp_pool_most_lines(p);
    columns_scratch c = {.lines = scratch};
    c.values = c.lines + most;
    c.which = (float *)(void *)(c.values + most);
    c.line = (char *)(c.which + (most + 1) * p->s.out[2]);
    c.parts = c.line + m->width * m->size;
    c.rows = c.parts + m->part * p->stride * m->size;
    return c;
}

static int64_t used_columns(const maximum *m) {
    const amp_pool *p = m->pool;
    const int64_t room = m->width - p->padding;
    return room < p->s.in[2] ? room : p->s.in[2];
}

/* Where in the line, or in its parts one behind the other, each column of the windows begins. */
static void place_taps(maximum *m) {
    const amp_pool *p = m->pool;
    m->width = padded_width(p);
    m->part = part_width(p);
    for (int64_t k = 0; k < p->kernel; k++) {
        const int64_t shift = k * p->step[2];
        m->taps[k] = shift % p->stride * m->part + shift / p->stride;
    }
}

static int64_t prepare_columns(maximum *m) {
    const amp_pool *p = m->pool;
    place_taps(m);
    const int64_t most = amp_pool_most_lines(p);
    const int64_t elements = m->width + m->part * p->stride + most * p->s.out[2];
    return 2 * most * (int64_t)sizeof(void *) + (most + 1) * p->s.out[2] * (int64_t)sizeof(float) + elements * m->size;
}

/* Pads and splits c->line, which has its columns already; the taps of every output column. */
static void find_taps(const maximum *m, const columns_scratch *c, const void **taps) {
    const amp_pool *p = m->pool;
    const int64_t end = p->padding + used_columns(m);
    const char *from = p->stride > 1 ? c->parts : c->line;
    if (p->padding) fill_least(m, c->line, p->padding);
    if (end < m->width) fill_least(m, c->line + end * m->size, m->width - end);
    if (p->stride > 1 && m->dtype == AMP_F32)
        split_32(c->parts, c->line, m->width, p->stride, m->part);
    else if (p->stride > 1)
        split_16(c->parts, c->line, m->width, p->stride, m->part);
    for (int64_t k = 0; k < p->kernel; k++) taps[k] = from + m->taps[k] * m->size;
}

static void maximum_columns(const maximum *m, const amp_pool_line *l) {
    const amp_pool *p = l->pool;
    const int64_t columns = used_columns(m);
    const columns_scratch c = divide_scratch(m, l->scratch);
    const void *taps[MOST_COLUMNS];
    char *line = c.line + p->padding * m->size;
    const int64_t count = amp_pool_lines(l, c.lines);
    if (count == 0)
        fill_least(m, line, columns);
    else if (count == 1)
        memcpy(line, c.lines[0], (size_t)(columns * m->size));
    else
        m->max(line, c.lines, count, columns);
    find_taps(m, &c, taps);
    m->max(l->out, taps, p->kernel, p->s.out[2]);
}

/* With places, each line goes along the row first: then the first of equal ones is the first in the order of the
 * plane. */
static void maximum_columns_placed(const maximum *m, const amp_pool_line *l) {
    const amp_pool *p = l->pool;
    const int64_t n = p->s.out[2];
    const columns_scratch c = divide_scratch(m, l->scratch);
    const void *taps[MOST_COLUMNS];
    const int64_t count = amp_pool_lines(l, c.lines);
    for (int64_t k = 0; k < count; k++) {
        memcpy(c.line + p->padding * m->size, c.lines[k], (size_t)(used_columns(m) * m->size));
        find_taps(m, &c, taps);
        c.values[k] = c.rows + k * n * m->size;
        m->argmax(c.rows + k * n * m->size, c.which + (k + 1) * n, taps, p->kernel, n);
    }
    if (count == 0) { /* windows in the padding */
        m->function(l);
        return;
    }
    m->argmax(l->out, c.which, c.values, count, n);
    for (int64_t i = 0; i < n; i++) {
        const int64_t k = (int64_t)c.which[i], tap = (int64_t)c.which[(k + 1) * n + i];
        const int64_t column = i * p->stride - p->padding + tap * p->step[2], first = p->windows[2][i].start;
        const int64_t line = ((const char *)c.lines[k] - (const char *)l->in) / m->size;
        /* in the padding only if everything is −inf */
        l->indices[i] = line + (column < first ? first : column);
    }
}

/* ---- One channel, windows that differ ------------------------------------------------------------------------- */

/* Not where the windows leave out most of a line. */
static bool suits_lines(const amp_pool *p) {
    return p->s.inner == 1 && amp_pool_most_lines(p) < 1 << 20 && p->s.out[2] * p->most[2] >= p->s.in[2] / 4;
}

/* Lines down into one, in which each window is a run: the elements of one are taken one by one, but only there. */
typedef struct lines_scratch {
    const void **lines;
    float *which, *numbers, *results; /* numbers: the maxima of the columns, results: those of the windows, in f32 */
    void *line;                       /* in the dtype */
} lines_scratch;

static lines_scratch divide_lines(const maximum *m, void *scratch) {
    const amp_pool *p = m->pool;
    lines_scratch s = {.lines = scratch};
    s.which = (float *)(void *)(s.lines + amp_pool_most_lines(p));
    s.numbers = s.which + p->s.in[2];
    s.results = s.numbers + p->s.in[2];
    s.line = s.results + p->s.out[2];
    return s;
}

static int64_t prepare_lines(maximum *m) {
    const amp_pool *p = m->pool;
    return amp_pool_most_lines(p) * (int64_t)sizeof(void *) + (2 * p->s.in[2] + p->s.out[2]) * (int64_t)sizeof(float) +
           p->s.in[2] * m->size;
}

static float window_maximum(const float *x, const amp_window *w, int64_t step) {
    float best = -INFINITY;
    for (int64_t c = 0; c < w->count; c++, x += step) best = *x > best || isnan(*x) ? *x : best;
    return best;
}

/* The first of equal ones, the last NaN, in the order of the plane. */
static float window_place(const maximum *m, const amp_pool_line *l, const lines_scratch *s, const amp_window *w,
                          int64_t *place) {
    const int64_t step = m->pool->step[2];
    float best = -INFINITY;
    *place = ((const char *)s->lines[0] - (const char *)l->in) / m->size + w->start;
    for (int64_t c = w->start, end = w->start + w->count * step; c < end; c += step) {
        const float x = s->numbers[c];
        const int64_t at = ((const char *)s->lines[(int64_t)s->which[c]] - (const char *)l->in) / m->size + c;
        const bool equal = x == best || (isnan(x) && isnan(best)), later = isnan(x) ? at > *place : at < *place;
        if (!(equal ? later : x > best || isnan(x))) continue;
        best = x;
        *place = at;
    }
    return best;
}

static void maximum_lines(const maximum *m, const amp_pool_line *l) {
    const amp_pool *p = l->pool;
    const lines_scratch s = divide_lines(m, l->scratch);
    const int64_t width = p->s.in[2], n = p->s.out[2];
    const int64_t count = amp_pool_lines(l, s.lines);
    if (count == 0) { /* windows in the padding */
        m->function(l);
        return;
    }
    if (l->indices)
        m->argmax(s.line, s.which, s.lines, count, width);
    else
        m->max(s.line, s.lines, count, width);
    amp_block_load(AMP_F32, s.numbers, m->dtype, s.line, m->size, width);
    for (int64_t i = 0; i < n; i++) {
        const amp_window *w = &p->windows[2][i];
        if (l->indices)
            s.results[i] = window_place(m, l, &s, w, &l->indices[i]);
        else
            s.results[i] = window_maximum(s.numbers + w->start, w, p->step[2]);
    }
    amp_block_store(AMP_F32, s.results, m->dtype, l->out, m->size, n);
}

/* ---- Any type ------------------------------------------------------------------------------------------------- */

static void maximum_elements(const maximum *m, const amp_pool_line *l) {
    m->function(l);
}

/* The first that suits. */
typedef struct road {
    bool (*suits)(const amp_pool *p);
    int64_t (*prepare)(maximum *m); /* returns the bytes of scratch that a thread needs */
    row_function *row, *placed;     /* placed: with indices */
    int64_t together;               /* elements that take as long as one does by itself */
} road;

static const road roads[] = {{suits_pixels, prepare_pixels, maximum_pixels, maximum_pixels, 4},
                             {suits_columns, prepare_columns, maximum_columns, maximum_columns_placed, 4},
                             {suits_lines, prepare_lines, maximum_lines, maximum_lines, 1}};

/* NULL: element by element. */
static const road *find_road(const maximum *m) {
    if (amp_compute_dtype(m->dtype) != AMP_F32) return NULL;
    for (size_t i = 0; i < sizeof roads / sizeof *roads; i++) {
        if (roads[i].suits(m->pool)) return &roads[i];
    }
    return NULL;
}

static amp_status find_kernels(amp_call *call, maximum *m) {
    amp_block_prepare();
    const amp_kernel *max = amp_kernel_select(AMP_KERNEL_MAX_LINES, m->dtype, m->dtype);
    const amp_kernel *argmax = max ? amp_kernel_select(AMP_KERNEL_ARGMAX_LINES, m->dtype, m->dtype) : NULL;
    if (!argmax) return amp_pending_error();
    m->max = (amp_max_lines_function *)max->function;
    m->argmax = (amp_argmax_lines_function *)argmax->function;
    call->note.kernel = m->indices ? argmax->name : max->name;
    return AMP_OK;
}

static void maximum_rows(void *context, int64_t begin, int64_t end, void *scratch) {
    const maximum *m = context;
    for (int64_t index = begin; index < end; index++) {
        const amp_pool_line line = amp_pool_line_at(m->pool, index, m->in, m->out, m->indices, m->size, scratch);
        m->row(m, &line);
    }
}

static amp_status run_rows(amp_call *call, maximum *m) {
    const amp_pool *p = m->pool;
    const road *r = find_road(m);
    int64_t cost = p->s.out[2] * p->s.inner * (window_elements(p) + 1);
    size_t scratch = 0;
    m->row = maximum_elements;
    if (r) {
        AMP_TRY(find_kernels(call, m));
        scratch = (size_t)r->prepare(m);
        m->row = m->indices ? r->placed : r->row;
        cost /= r->together;
    }
    return amp_spatial_run(call, amp_spatial_row_count(&p->s), cost, scratch, maximum_rows, m);
}

amp_status amp_cpu_pool_maximum(amp_call *call, const amp_pool *p, amp_tensor *input, bool return_indices) {
    const amp_dtype dtype = maximum_dtype(input->dtype);
    amp_spatial_result result, places = {0};
    const void *in;
    AMP_TRY(amp_spatial_write(call, &p->s, 0, input->dtype, dtype, &result));
    if (return_indices) AMP_TRY(amp_spatial_write(call, &p->s, 1, AMP_I64, AMP_I64, &places));
    AMP_TRY(amp_spatial_read(call, &p->s, input, dtype, &in));
    maximum m = {.pool = p, .function = amp_pool_maximum(dtype), .in = in, .out = result.data};
    m.indices = places.data;
    m.dtype = dtype;
    m.size = (int64_t)amp_dtype_size(dtype);
    AMP_TRY(run_rows(call, &m));
    return amp_spatial_finish(&result);
}
