/* avg_pool1d … 3d and the adaptive forms. A row of the output takes the rows of the input under its windows, adds them
 * up in f64 (in 64-bit integers for i64), then sums along the row. */
#include <string.h>

#include "amp/ops.h"
#include "core/compute_dtype.h"
#include "cpu/cpu_steps.h"
#include "cpu/plane/pooling.h"
#include "cpu/registry/kernels.h"

typedef struct average average;

typedef void average_function(const average *a, const amp_pool_line *l);

struct average {
    average_function *function;
    const amp_pool *pool;
    amp_accumulate_function *add_f32;
    amp_lines_function *sum_lines;
    amp_reduce_function *sum_row;
    const char *in;
    char *out;
    amp_dtype dtype;
    size_t size;
    bool count_padding;
    int64_t divisor; /* 0: the window's elements */
};

/* ---- Down ----------------------------------------------------------------------------------------------------- */

static void add_line(const average *a, void *sums, const char *line, int64_t n) {
    if (a->dtype == AMP_F32) {
        a->add_f32(sums, (const float *)(const void *)line, n);
    } else if (a->dtype == AMP_F64) {
        double *to = sums;
        const double *from = (const double *)(const void *)line;
        for (int64_t i = 0; i < n; i++) to[i] += from[i];
    } else {
        uint64_t *to = sums;
        const uint64_t *from = (const uint64_t *)(const void *)line;
        for (int64_t i = 0; i < n; i++) to[i] += from[i];
    }
}

/* sums[W·inner] = all lines under the windows of one output line. */
static void add_lines(const average *a, const amp_pool_line *l, void *sums) {
    const amp_spatial *s = &a->pool->s;
    const int64_t n = s->in[2] * s->inner;
    memset(sums, 0, (size_t)n * sizeof(double));
    for (int64_t i = l->d->start; i < l->d->start + l->d->count; i++) {
        const int64_t line = i * s->in[1] + l->h->start;
        for (int64_t k = 0; k < l->h->count; k++) {
            add_line(a, sums, (const char *)l->in + (line + k) * n * (int64_t)a->size, n);
        }
    }
}

/* ---- Along ---------------------------------------------------------------------------------------------------- */

/* In one order, whichever thread; four sums where there is much to add. */
static double sum_column(const double *x, int64_t n, int64_t step) {
    double sum = 0.0, more[4] = {0.0};
    int64_t i = 0;
    if (n >= 32) {
        for (; i + 4 <= n; i += 4) {
            for (int64_t k = 0; k < 4; k++) more[k] += x[(i + k) * step];
        }
    }
    for (; i < n; i++) sum += x[i * step];
    return sum + ((more[0] + more[1]) + (more[2] + more[3]));
}

static void along_f32(float *out, const double *sums, const amp_window *w, double divisor, int64_t inner) {
    for (int64_t c = 0; c < inner; c++) out[c] = (float)(sum_column(sums + c, w->count, inner) / divisor);
}

static void along_f64(double *out, const double *sums, const amp_window *w, double divisor, int64_t inner) {
    for (int64_t c = 0; c < inner; c++) out[c] = sum_column(sums + c, w->count, inner) / divisor;
}

static void along_i64(int64_t *out, const uint64_t *sums, const amp_window *w, int64_t divisor, int64_t inner) {
    for (int64_t c = 0; c < inner; c++) {
        uint64_t sum = 0;
        for (int64_t k = 0; k < w->count; k++) sum += sums[k * inner + c];
        out[c] = divisor == -1 ? (int64_t)(0 - sum) : (int64_t)sum / divisor;
    }
}

/* What the window's sum is divided by. One that lies in the padding holds nothing: 0 / 1. */
static int64_t divisor_of(const average *a, const amp_pool_line *l, const amp_window *w) {
    const int64_t counted = l->d->count * l->h->count * w->count;
    if (counted == 0) return 1;
    return a->divisor ? a->divisor : a->count_padding ? l->d->padded * l->h->padded * w->padded : counted;
}

static void average_line(const average *a, const amp_pool_line *l) {
    const amp_spatial *s = &a->pool->s;
    const int64_t inner = s->inner;
    const void *sums = l->scratch;
    add_lines(a, l, l->scratch);
    for (int64_t i = 0; i < s->out[2]; i++) {
        const amp_window *w = &a->pool->windows[2][i];
        const int64_t divisor = divisor_of(a, l, w), at = w->count ? w->start * inner : 0;
        void *to = (char *)l->out + i * inner * (int64_t)a->size;
        if (a->dtype == AMP_F32) {
            along_f32(to, (const double *)sums + at, w, (double)divisor, inner);
        } else if (a->dtype == AMP_F64) {
            along_f64(to, (const double *)sums + at, w, (double)divisor, inner);
        } else {
            along_i64(to, (const uint64_t *)sums + at, w, divisor, inner);
        }
    }
}

/* ---- f32, other ways ------------------------------------------------------------------------------------------ */

enum { PIXELS_AT_ONCE = 64 }; /* whose sums are f32, before they are added up in f64 */

/* Channels last: the pixels of a window are lines of channels. */
static void average_pixels(const average *a, const amp_pool_line *l) {
    const amp_pool *p = a->pool;
    const int64_t inner = p->s.inner;
    double *sums = l->scratch;
    float *part = (float *)(void *)(sums + inner);
    const void **pixels = (const void **)(void *)(part + (inner + inner % 2));
    const float *const *lines = (const void *)pixels;
    const float *const one_by_one = &(const float){1.0f};
    for (int64_t i = 0; i < p->s.out[2]; i++) {
        const amp_window *w = &p->windows[2][i];
        const double divisor = (double)divisor_of(a, l, w);
        const int64_t count = amp_pool_pixels(l, w, pixels, NULL);
        float *out = (float *)l->out + i * inner;
        if (count > 0 && count <= PIXELS_AT_ONCE) {
            a->sum_lines(out, lines, &(const float){(float)divisor}, count, inner);
            continue;
        }
        memset(sums, 0, (size_t)inner * sizeof *sums);
        for (int64_t k = 0; k < count; k += PIXELS_AT_ONCE) {
            const int64_t some = count - k < PIXELS_AT_ONCE ? count - k : PIXELS_AT_ONCE;
            a->sum_lines(part, lines + k, one_by_one, some, inner);
            a->add_f32(sums, part, inner);
        }
        for (int64_t c = 0; c < inner; c++) out[c] = (float)(sums[c] / divisor);
    }
}

/* One channel, wide windows: each is rows of neighbours, or, where it is as wide as the input, fewer and longer
 * ones. */
static void average_wide(const average *a, const amp_pool_line *l) {
    const amp_pool *p = a->pool;
    const float *const *lines = l->scratch;
    const int64_t count = amp_pool_lines(l, l->scratch);
    for (int64_t i = 0; i < p->s.out[2]; i++) {
        const amp_window *w = &p->windows[2][i];
        double sum = 0.0;
        for (int64_t k = 0; k < count;) {
            int64_t together = 1;
            while (w->count == p->s.in[2] && k + together < count &&
                   lines[k + together] == lines[k] + together * w->count)
                together++;
            sum += a->sum_row(lines[k] + w->start, together * w->count);
            k += together;
        }
        ((float *)l->out)[i] = (float)(sum / (double)divisor_of(a, l, w));
    }
}

static average_function *choose(const average *a, size_t *scratch) {
    const amp_pool *p = a->pool;
    const int64_t inner = p->s.inner, lines = amp_pool_most_lines(p);
    *scratch = (size_t)(p->s.in[2] * inner) * sizeof(double);
    if (a->dtype != AMP_F32) return average_line;
    if (inner > 1) {
        *scratch = (size_t)(inner * 2 + 1 + lines * p->most[2]) * sizeof(double);
        return average_pixels;
    }
    if (p->s.out[2] && p->windows[2][p->s.out[2] / 2].count < 32) return average_line;
    *scratch = (size_t)lines * sizeof(void *);
    return average_wide;
}

static void average_rows(void *context, int64_t begin, int64_t end, void *scratch) {
    const average *a = context;
    for (int64_t index = begin; index < end; index++) {
        const amp_pool_line line = amp_pool_line_at(a->pool, index, a->in, a->out, NULL, (int64_t)a->size, scratch);
        a->function(a, &line);
    }
}

/* ---- Ops ------------------------------------------------------------------------------------------------------ */

amp_status amp_cpu_pool_average(amp_call *call, const amp_pool *p, amp_tensor *input, bool count_padding,
                                const int64_t *divisor) {
    const amp_spatial *s = &p->s;
    const amp_dtype dtype = input->dtype, compute = amp_compute_dtype(dtype);
    const amp_kernel *kernel = amp_kernel_select(AMP_KERNEL_ACCUMULATE, AMP_F32, AMP_F32);
    if (!kernel) return amp_pending_error();
    if (compute == AMP_F32) call->note.kernel = kernel->name;
    const amp_kernel *lines = amp_kernel_select(AMP_KERNEL_SUM_LINES, AMP_F32, AMP_F32);
    const amp_kernel *row = lines ? amp_kernel_select(AMP_KERNEL_SUM, AMP_F32, AMP_F32) : NULL;
    if (!row) return amp_pending_error();
    average a = {.pool = p, .add_f32 = (amp_accumulate_function *)kernel->function, .dtype = compute};
    a.size = amp_dtype_size(compute);
    a.sum_lines = (amp_lines_function *)lines->function;
    a.sum_row = (amp_reduce_function *)row->function;
    a.count_padding = count_padding;
    a.divisor = divisor ? *divisor : 0;
    amp_spatial_result result;
    const void *in;
    AMP_TRY(amp_spatial_write(call, s, 0, dtype, compute, &result));
    AMP_TRY(amp_spatial_read(call, s, input, compute, &in));
    a.in = in;
    a.out = result.data;
    size_t scratch;
    a.function = choose(&a, &scratch);
    const int64_t cost = (amp_pool_most_lines(p) * s->in[2] / 4 + p->most[2] * s->out[2]) * s->inner;
    AMP_TRY(amp_spatial_run(call, amp_spatial_row_count(s), cost, scratch, average_rows, &a));
    return amp_spatial_finish(&result);
}
