/* The gradients of batch_norm, group_norm and instance_norm. One read of input and gradient gives the sums of each row,
 * the elements of a channel in a sample, or of each column where channels lie innermost, or rows are short; another,
 * mostly out of a cache, what depends on them. Sums of rows are joined in f64 in an order that the shape gives. */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "core/parallel.h"
#include "cpu/convert/copy.h"
#include "cpu/convert/element.h"
#include "cpu/cpu_steps.h"
#include "cpu/norm/channels_last.h"
#include "cpu/registry/kernels.h"

enum {
    BLOCK = AMP_BLOCK_BYTES / sizeof(float),
    SHORT_ROW = 32,        /* rows below this are walked as columns, or as rows of whole groups */
    COLUMN_WIDTH = 512,    /* least width of a column walk: short periods are repeated */
    COLUMN_CHUNKS = 32,    /* parts of a column walk, … */
    CHUNK_BYTES = 1 << 16, /* … of at least so much f32 */
    WALK_BYTES = 16,       /* of a column that are read at a time */
    ELEMENT_COST = 8       /* in simple operations */
};

/* What an element's gradient is made of, by row or column: amp_norm_slope_numbers. */
typedef struct numbers {
    float *mean, *a, *b, *c;
} numbers;

typedef struct norm {
    amp_call *call;
    const amp_channel_norm_slope *s;
    const amp_tensor *x, *d;
    amp_tensor *out;
    int64_t outer, channels, inner; /* of the shape [outer, channels, inner] */
    double *weight, *mean, *var;    /* by channel; mean and var NULL: own statistics */
    amp_slope_sums *sums;           /* [outer][channels], or [channels] */
    double *by_weight, *by_bias;    /* what each of them gives to its channel */
    bool wanted[2];                 /* whether the gradients by weight and bias are */
    bool is_summed;                 /* something hangs on the sums */
    numbers rows;                   /* for each of them */
    amp_dtype compute;              /* bf16 where both are, else f32 */
    amp_slope_sums_function *row_sums;
    amp_slope_columns_function *column_sums;
    amp_norm_slope_function *row, *columns;
    amp_norm_row_slope_function *group_row;
} norm;

/* ---- Arguments ---------------------------------------------------------------------------------------------------- */
/* Room that goes with the call. */
static void *room(const amp_call *call, int64_t bytes) {
    const int64_t words = bytes / (int64_t)sizeof(double) + 1;
    amp_tensor *t = amp_tensor_new(call->op->name, AMP_F64, 1, &words);
    return t ? amp_tensor_pointer(t) : NULL;
}

/* A number for each channel. */
static double *by_channel(const norm *p, const amp_tensor *t) {
    double *values = room(p->call, p->channels * (int64_t)sizeof *values);
    if (!values || !t) {
        for (int64_t c = 0; values && c < p->channels; c++) values[c] = 1.0;
        return values;
    }
    const int64_t step = t->strides[0] * (int64_t)amp_dtype_size(t->dtype);
    amp_block_load(AMP_F64, values, t->dtype, amp_tensor_pointer(t), step, p->channels);
    return values;
}

static bool make_numbers(const amp_call *call, numbers *n, int64_t count) {
    n->mean = room(call, 4 * count * (int64_t)sizeof *n->mean);
    if (!n->mean) return false;
    n->a = n->mean + count;
    n->b = n->a + count;
    n->c = n->b + count;
    return true;
}

static amp_status find_kernels(norm *p) {
    const amp_dtype x = p->s->input->dtype, d = p->s->d->dtype,
                    t = x == d ? amp_kernel_dtype(AMP_KERNEL_SLOPE_SUMS, x) : AMP_F32;
    const amp_kernel *kernel = amp_kernel_select(AMP_KERNEL_NORM_SLOPE_ROW, t, t);
    p->compute = t;
    p->row_sums = (amp_slope_sums_function *)amp_kernel_get(AMP_KERNEL_SLOPE_SUMS, t, t);
    p->column_sums = (amp_slope_columns_function *)amp_kernel_get(AMP_KERNEL_SLOPE_COLUMNS, t, t);
    p->columns = (amp_norm_slope_function *)amp_kernel_get(AMP_KERNEL_NORM_SLOPE_COLUMNS, t, t);
    p->group_row = (amp_norm_row_slope_function *)amp_kernel_get(AMP_KERNEL_NORM_ROW_SLOPE, t, t);
    if (!kernel || !p->row_sums || !p->column_sums || !p->columns || !p->group_row) return amp_pending_error();
    p->row = (amp_norm_slope_function *)kernel->function;
    p->call->note.kernel = kernel->name;
    amp_block_prepare();
    return AMP_OK;
}

static amp_status start(norm *p) {
    amp_call *call = p->call;
    const amp_channel_norm_slope *s = p->s;
    const amp_tensor *in = s->input;
    for (int d = 2; d < in->rank; d++) p->inner *= in->shape[d];
    const int64_t rows = p->outer * p->channels;
    p->weight = by_channel(p, s->weight);
    p->sums = room(call, rows * (int64_t)sizeof *p->sums);
    p->by_weight = room(call, 2 * rows * (int64_t)sizeof *p->by_weight);
    if (!p->weight || !p->sums || !p->by_weight || !make_numbers(call, &p->rows, rows)) return amp_pending_error();
    p->by_bias = p->by_weight + rows;
    if (s->running_mean) {
        p->mean = by_channel(p, s->running_mean);
        p->var = by_channel(p, s->running_var);
        if (!p->mean || !p->var) return amp_pending_error();
    }
    p->wanted[0] = amp_call_wants(call, 1);
    p->wanted[1] = amp_call_wants(call, 2);
    p->is_summed = !p->mean || p->wanted[0] || p->wanted[1];
    return find_kernels(p);
}

static int threads_for(const norm *p) {
    return amp_parallel_threads(ELEMENT_COST * amp_tensor_elements(p->x), AMP_GRAIN_ELEMENTS);
}

static const char *place(const amp_tensor *t, int64_t element) {
    return (const char *)amp_tensor_pointer(t) + element * (int64_t)amp_dtype_size(t->dtype);
}

/* n elements in what the kernels compute: where they lie, or in the buffer. */
static const void *elements(const norm *p, const amp_tensor *t, int64_t first, int64_t n, float *buffer) {
    const char *from = place(t, first);
    if (t->dtype == p->compute) return from;
    amp_block_load(AMP_F32, buffer, t->dtype, from, (int64_t)amp_dtype_size(t->dtype), n);
    return buffer;
}

/* Where results are written, and what then brings them to where they belong. */
static void *results(const norm *p, int64_t first, float *buffer) {
    return p->out->dtype == p->compute ? (void *)(uintptr_t)place(p->out, first) : buffer;
}
static void keep_results(const norm *p, int64_t first, int64_t n, const void *made) {
    char *out = (char *)(uintptr_t)place(p->out, first);
    if (made != out) amp_block_store(AMP_F32, made, p->out->dtype, out, (int64_t)amp_dtype_size(p->out->dtype), n);
}

/* ---- Statistics --------------------------------------------------------------------------------------------------- */
/* Rows first, first + step, … that have one mean and one variance. */
typedef struct set {
    int64_t first, step, count;
} set;

/* The mean, the reciprocal of the deviation, and the means of g and of g·(x − mean), g = d·weight; those of running
 * statistics are numbers, and nothing hangs on them. */
typedef struct statistics {
    double mean, rstd, g, dot;
} statistics;

static double about(const amp_slope_sums *s, double mean) {
    return s->dot + (s->moments.mean - mean) * s->d;
}

static statistics statistics_of(const norm *p, const set *t) {
    const int64_t channel = t->first % p->channels;
    if (p->mean) return (statistics){p->mean[channel], 1.0 / sqrt(p->var[channel] + p->s->eps), 0.0, 0.0};
    amp_moments m = {0.0, 0.0, 0.0};
    for (int64_t i = 0; i < t->count; i++) m = amp_moments_join(m, p->sums[t->first + i * t->step].moments);
    statistics all = {m.mean, 1.0 / sqrt(m.squares / m.count + p->s->eps), 0.0, 0.0};
    for (int64_t i = 0; i < t->count; i++) {
        const int64_t r = t->first + i * t->step;
        all.g += p->weight[r % p->channels] * p->sums[r].d / m.count;
        all.dot += p->weight[r % p->channels] * about(&p->sums[r], m.mean) / m.count;
    }
    return all;
}

/* What the rows of a set give to weight and bias, and the numbers that their elements need. */
static void finish_set(const norm *p, const set *t) {
    const statistics s = statistics_of(p, t);
    const double b = -s.rstd * s.rstd * s.rstd * s.dot, c = -s.rstd * s.g;
    for (int64_t i = 0; i < t->count; i++) {
        const int64_t r = t->first + i * t->step;
        const float mean = (float)s.mean;
        p->by_weight[r] = p->is_summed ? about(&p->sums[r], s.mean) * s.rstd : 0.0;
        p->by_bias[r] = p->is_summed ? p->sums[r].d : 0.0;
        p->rows.mean[r] = mean;
        p->rows.a[r] = (float)(p->weight[r % p->channels] * s.rstd);
        p->rows.b[r] = (float)b;
        p->rows.c[r] = (float)(c + ((double)mean - s.mean) * b);
    }
}

static amp_status give_parameters(const norm *p, int64_t samples) {
    for (int k = 0; k < 2; k++) {
        if (!p->wanted[k]) continue;
        const double *rows = k ? p->by_bias : p->by_weight;
        const amp_tensor *out = amp_call_output(p->call, k + 1, AMP_F32, 1, &p->channels);
        if (!out) return amp_pending_error();
        for (int64_t c = 0; c < p->channels; c++) {
            double sum = 0.0;
            for (int64_t n = 0; n < samples; n++) sum += rows[n * p->channels + c];
            ((float *)amp_tensor_pointer(out))[c] = (float)sum;
        }
    }
    return AMP_OK;
}

/* ---- Rows --------------------------------------------------------------------------------------------------------- */
static void sum_row(const norm *p, int64_t row) {
    _Alignas(64) float x[BLOCK], d[BLOCK];
    p->sums[row] = (amp_slope_sums){{0.0, 0.0, 0.0}, 0.0, 0.0};
    for (int64_t at = 0; at < p->inner; at += BLOCK) {
        const int64_t first = row * p->inner + at, n = p->inner - at < BLOCK ? p->inner - at : BLOCK;
        p->row_sums(&p->sums[row], elements(p, p->x, first, n, x), elements(p, p->d, first, n, d), n);
    }
}

static void apply_row(const norm *p, int64_t row) {
    const amp_norm_slope_numbers n = {p->rows.mean + row, p->rows.a + row, p->rows.b + row, p->rows.c + row};
    _Alignas(64) float x[BLOCK], d[BLOCK];
    for (int64_t at = 0; at < p->inner; at += BLOCK) {
        const int64_t first = row * p->inner + at, count = p->inner - at < BLOCK ? p->inner - at : BLOCK;
        void *to = results(p, first, x);
        p->row(to, elements(p, p->x, first, count, x), elements(p, p->d, first, count, d), &n, count);
        keep_results(p, first, count, to);
    }
}

/* A set is one thread's: its rows are still in a cache when what depends on their sums is made. */
static amp_status run_rows(norm *p) {
    const int64_t each = p->s->groups ? p->channels / p->s->groups : p->outer;
    const int64_t sets = p->outer * p->channels / each, step = p->s->groups ? 1 : p->channels;
    const int threads = threads_for(p);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t i = 0; i < sets; i++) {
        const set t = {p->s->groups ? i * each : i, step, each};
        for (int64_t k = 0; k < each && p->is_summed; k++) sum_row(p, t.first + k * step);
        finish_set(p, &t);
        for (int64_t k = 0; k < each; k++) apply_row(p, t.first + k * step);
    }
    return give_parameters(p, p->outer);
}

/* ---- Short rows of groups: each group is a row of layer_norm, whose weights are spread over its elements ----------- */
typedef struct spread {
    const norm *p;
    int64_t length, period;          /* of a group; of a sample */
    float *weight, *dweight, *dbias; /* [period] */
} spread;

static void run_group(const spread *k, int64_t group, float *buffers) {
    const norm *p = k->p;
    const int64_t at = group * k->length;
    const amp_norm_row row = {k->weight + at, p->wanted[0] ? k->dweight + at : NULL,
                              p->wanted[1] ? k->dbias + at : NULL, p->s->eps, true};
    for (int64_t n = 0; n < p->outer; n++) {
        const int64_t first = n * k->period + at;
        void *to = results(p, first, buffers);
        p->group_row(to, elements(p, p->x, first, k->length, buffers),
                     elements(p, p->d, first, k->length, buffers + k->length), &row, k->length);
        keep_results(p, first, k->length, to);
    }
}

static amp_status run_short_groups(norm *p) {
    const int64_t groups = p->s->groups, period = p->channels * p->inner, length = period / groups;
    int threads = threads_for(p);
    if (threads > groups) threads = (int)groups;
    float *memory = room(p->call, (3 * period + threads * 2 * length) * (int64_t)sizeof *memory);
    if (!memory) return amp_pending_error();
    const spread k = {p, length, period, memory, memory + period, memory + 2 * period};
    float *buffers = memory + 3 * period;
    memset(k.dweight, 0, 2 * (size_t)period * sizeof *memory);
    for (int64_t j = 0; j < period; j++) k.weight[j] = (float)p->weight[j / p->inner];
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t g = 0; g < groups; g++) run_group(&k, g, buffers + 2 * length * omp_get_thread_num());
    for (int64_t c = 0; c < p->channels; c++) {
        p->by_weight[c] = p->by_bias[c] = 0.0;
        for (int64_t i = c * p->inner; i < (c + 1) * p->inner; i++) {
            p->by_weight[c] += (double)k.dweight[i];
            p->by_bias[c] += (double)k.dbias[i];
        }
    }
    return give_parameters(p, 1);
}

/* ---- Columns: element j of the memory belongs to channel j/inner mod channels ------------------------------------- */
/* Of a part of the memory that has statistics of its own; a thread has one for all parts that it takes. Its last row
 * may be short. */
typedef struct columns {
    norm *p;
    int64_t inner, width, total; /* total: elements of the part */
    int64_t first;               /* … which begins there */
    int64_t chunk, chunks;       /* rows that are summed together */
    double *sums;                /* [chunks][AMP_SLOPE_COLUMN_SUMS][width] */
    float *centre;               /* [width]: an element of the column */
    numbers numbers;             /* [width] */
    float *buffers;              /* two for each thread */
    int64_t buffer;
} columns;

static int64_t rows_of(const columns *k) {
    return (k->total + k->width - 1) / k->width;
}
static int64_t channel_of(const columns *k, int64_t column) {
    return column / k->inner % k->p->channels;
}
static int64_t length_of_row(const columns *k, int64_t row) {
    const int64_t left = k->total - row * k->width;
    return left < k->width ? left : k->width;
}

/* Rows that are read at a time: of whole ones as many as may be; a short one comes alone. */
static int64_t walk(const columns *k, int64_t row, int64_t end) {
    const int64_t whole = k->total / k->width, left = (end < whole ? end : whole) - row, fit = k->buffer / k->width;
    const int64_t walk = WALK_BYTES / (int64_t)amp_dtype_size(k->p->compute), most = fit < walk ? fit : walk;
    return left <= 0 ? 1 : left < most ? left : most;
}

static amp_range rows_of_chunk(const columns *k, int64_t index) {
    const int64_t begin = index * k->chunk, rows = rows_of(k);
    return (amp_range){begin, begin + k->chunk < rows ? begin + k->chunk : rows};
}

static void sum_chunk(const columns *k, int64_t index, float *buffers) {
    const norm *p = k->p;
    const amp_range rows = rows_of_chunk(k, index);
    double *sums = k->sums + index * AMP_SLOPE_COLUMN_SUMS * k->width;
    memset(sums, 0, AMP_SLOPE_COLUMN_SUMS * (size_t)k->width * sizeof *sums);
    for (int64_t r = rows.begin; r < rows.end;) {
        const int64_t count = walk(k, r, rows.end), n = length_of_row(k, r), at = k->first + r * k->width;
        const void *x = elements(p, p->x, at, count * n, buffers);
        p->column_sums(sums, k->width, x, elements(p, p->d, at, count * n, buffers + k->buffer), k->centre, count, n);
        r += count;
    }
}

/* Those of all chunks, in their order, in the place of the first. */
static void join_chunks(const columns *k) {
    const int64_t n = AMP_SLOPE_COLUMN_SUMS * k->width;
    for (int64_t c = 1; c < k->chunks; c++)
        for (int64_t i = 0; i < n; i++) k->sums[i] += k->sums[c * n + i];
}

static amp_slope_sums column(const columns *k, int64_t j) {
    const double *s = k->sums + j, d = s[2 * k->width];
    const int64_t rows = k->total / k->width + (j < k->total % k->width);
    const double count = (double)rows;
    const double mean = s[0] / count, squares = s[k->width] - s[0] * mean;
    const amp_moments m = {count, (double)k->centre[j] + mean, squares < 0.0 ? 0.0 : squares};
    return (amp_slope_sums){m, d, s[3 * k->width] - mean * d};
}

/* `row`: of the part's first channel, among those of all parts. */
static void join_columns(const columns *k, int64_t row) {
    amp_slope_sums *sums = k->p->sums + row;
    join_chunks(k);
    for (int64_t c = 0; c < k->p->channels; c++) sums[c] = (amp_slope_sums){{0.0, 0.0, 0.0}, 0.0, 0.0};
    for (int64_t j = 0; j < k->width; j++) {
        amp_slope_sums *to = &sums[channel_of(k, j)];
        *to = amp_slope_sums_join(*to, column(k, j));
    }
}

static void spread_numbers(const columns *k, int64_t row) {
    const numbers *from = &k->p->rows, *to = &k->numbers;
    for (int64_t j = 0; j < k->width; j++) {
        const int64_t r = row + channel_of(k, j);
        to->mean[j] = from->mean[r];
        to->a[j] = from->a[r];
        to->b[j] = from->b[r];
        to->c[j] = from->c[r];
    }
}

static void apply_chunk(const columns *k, int64_t index, float *buffers) {
    const norm *p = k->p;
    const amp_range rows = rows_of_chunk(k, index);
    const amp_norm_slope_numbers numbers = {k->numbers.mean, k->numbers.a, k->numbers.b, k->numbers.c};
    for (int64_t r = rows.begin; r < rows.end; r++) {
        const int64_t n = length_of_row(k, r), at = k->first + r * k->width;
        void *to = results(p, at, buffers);
        p->columns(to, elements(p, p->x, at, n, buffers), elements(p, p->d, at, n, buffers + k->buffer), &numbers, n);
        keep_results(p, at, n, to);
    }
}

static void sum_part(const columns *k, int64_t row, int threads) {
    if (!k->p->is_summed) return;
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t i = 0; i < k->chunks; i++) sum_chunk(k, i, k->buffers + 2 * k->buffer * omp_get_thread_num());
    join_columns(k, row);
}

/* Last chunks first: they are what the caches have. */
static void apply_part(const columns *k, int threads) {
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t i = 0; i < k->chunks; i++)
        apply_chunk(k, k->chunks - 1 - i, k->buffers + 2 * k->buffer * omp_get_thread_num());
}

static columns columns_of(norm *p, int64_t inner, int64_t parts) {
    const int64_t period = p->channels * inner;
    columns k = {.p = p, .inner = inner, .total = amp_tensor_elements(p->x) / parts};
    k.width = period >= COLUMN_WIDTH ? period : COLUMN_WIDTH / period * period;
    if (k.width > k.total) k.width = k.total;
    const int64_t even = (rows_of(&k) + COLUMN_CHUNKS - 1) / COLUMN_CHUNKS, least = CHUNK_BYTES / (4 * k.width) + 1;
    k.chunk = even > least ? even : least;
    k.chunks = (rows_of(&k) + k.chunk - 1) / k.chunk;
    k.buffer = k.width > 4 * BLOCK ? k.width : 4 * BLOCK;
    return k;
}

static amp_status make_room(columns *k, int threads) {
    const amp_call *call = k->p->call;
    k->sums = room(call, k->width * k->chunks * AMP_SLOPE_COLUMN_SUMS * (int64_t)sizeof *k->sums);
    k->centre = room(call, (k->width + threads * 2 * k->buffer) * (int64_t)sizeof *k->centre);
    if (!k->sums || !k->centre || !make_numbers(call, &k->numbers, k->width)) return amp_pending_error();
    k->buffers = k->centre + k->width;
    return AMP_OK;
}

static void run_part(columns *k, int64_t index, int threads) {
    const norm *p = k->p;
    const int64_t row = index * p->channels, each = p->s->groups ? p->channels / p->s->groups : 1;
    const int64_t size = (int64_t)amp_dtype_size(p->x->dtype);
    k->first = index * k->total;
    amp_block_load(AMP_F32, k->centre, p->x->dtype, place(p->x, k->first), size, k->width);
    sum_part(k, row, threads);
    for (int64_t c = 0; c < p->channels; c += each) finish_set(p, &(const set){row + c, 1, each});
    spread_numbers(k, row);
    apply_part(k, threads);
}

/* By groups each sample is a part. */
static amp_status run_columns(norm *p, int64_t inner) {
    const int64_t parts = p->s->groups ? p->outer : 1;
    const int all = threads_for(p), threads = amp_threads_of_parts(all, parts), of_part = threads > 1 ? 1 : all;
    columns *own = room(p->call, threads * (int64_t)sizeof *own);
    if (!own) return amp_pending_error();
    for (int t = 0; t < threads; t++) {
        own[t] = columns_of(p, inner, parts);
        AMP_TRY(make_room(&own[t], of_part));
    }
    if (threads == 1) { /* in no region: those of the parts would be nested in it */
        for (int64_t i = 0; i < parts; i++) run_part(own, i, of_part);
        return give_parameters(p, parts);
    }
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < parts; i++) run_part(&own[omp_get_thread_num()], i, of_part);
    return give_parameters(p, parts);
}

/* ---- The step ----------------------------------------------------------------------------------------------------- */
/* `t` as it is where its elements lie in the order of `like`; else a copy of that order. */
static const amp_tensor *in_order_of(const amp_call *call, amp_tensor *t, const amp_tensor *like) {
    if (amp_lies_channels_last(t)) return t;
    amp_tensor *copy = amp_tensor_new(call->op->name, t->dtype, t->rank, t->shape);
    if (!copy) return NULL;
    amp_channels_last_strides(like->rank, like->shape, copy->strides);
    return amp_cpu_copy(copy, t) == AMP_OK ? copy : NULL;
}

static amp_status prepare(norm *p, bool is_last) {
    const amp_call *call = p->call;
    amp_tensor *x = p->s->input, *d = p->s->d;
    p->x = is_last ? x : amp_cpu_dense(call->op->name, x, x->dtype, 0);
    p->d = is_last ? in_order_of(call, d, x) : amp_cpu_dense(call->op->name, d, d->dtype, 0);
    p->out = amp_call_output(p->call, 0, x->dtype, x->rank, x->shape);
    amp_tensor *made = p->call->outputs[0]; /* of a call that runs ahead too */
    for (int i = 0; is_last && made && i < x->rank; i++) made->strides[i] = x->strides[i];
    return p->x && p->d && p->out ? AMP_OK : amp_pending_error();
}

amp_status amp_cpu_channel_norm_slope(amp_call *call, const amp_channel_norm_slope *s) {
    norm p = {.call = call, .s = s, .outer = s->input->shape[0], .channels = s->input->shape[1], .inner = 1};
    const bool is_last = amp_lies_channels_last(s->input) && !amp_tensor_is_dense(s->input);
    AMP_TRY(prepare(&p, is_last));
    AMP_TRY(start(&p));
    if (is_last) return run_columns(&p, 1);
    if (p.inner >= SHORT_ROW) return run_rows(&p);
    return s->groups ? run_short_groups(&p) : run_columns(&p, p.inner);
}
