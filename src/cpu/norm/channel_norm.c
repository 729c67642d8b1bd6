/* batch_norm, group_norm, instance_norm: each channel (n, c) of the input is a row of `inner` elements, normalised by
 * statistics of its own, of its group's or of its column of the batch. Statistics of f32, f16 and bf16 are taken by the
 * f32 kernels, and applied by them or bf16's; f64 runs in the loops here. Where rows are short, many channels are walked
 * at once, as columns. */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "amp/ops.h"
#include "call/call.h"
#include "core/parallel.h"
#include "cpu/convert/copy.h"
#include "cpu/convert/element.h"
#include "cpu/cpu_steps.h"
#include "cpu/norm/channels_last.h"
#include "cpu/registry/kernels.h"
#include "steps/row_rules.h"

enum {
    BLOCK = AMP_BLOCK_BYTES / sizeof(float),
    TINY_ROW = 16,      /* rows up to this are not worth a kernel */
    SHORT_ROW = 32,     /* rows below this are walked as columns */
    COLUMN_WIDTH = 512, /* least width of a column walk: short periods are repeated */
    COLUMN_UNIT = 64    /* columns that one thread takes at least */
};

typedef struct norm {
    amp_call *call;
    amp_dtype dtype; /* of the output */
    float least;     /* of the output: 0 is relu; −INFINITY, and nothing else, for f64 */
    const amp_tensor *in;
    amp_tensor *out;
    int64_t outer, channels, inner;
    double *weight, *bias; /* one number for each channel */
    double eps;
    amp_moments_function *moments;
    amp_column_sums_function *column_sums;
    amp_standardize_function *row, *columns;
    amp_norm_function *layer_norm;
} norm;

/* ---- Arguments --------------------------------------------------------------------------------------------------- */

/* Room for n numbers that goes with the call. */
static double *numbers(const amp_call *call, int64_t n) {
    amp_tensor *t = amp_tensor_new(call->op->name, AMP_F64, 1, &n);
    return t ? amp_tensor_pointer(t) : NULL;
}

static void load_parameter(double *values, const amp_tensor *t) {
    const int64_t stride = t->strides[0] * (int64_t)amp_dtype_size(t->dtype);
    amp_block_load(AMP_F64, values, t->dtype, amp_tensor_pointer(t), stride, t->shape[0]);
}

static double *parameter(const amp_call *call, const amp_tensor *t, int64_t channels, double otherwise) {
    double *values = numbers(call, channels);
    if (values && t) load_parameter(values, t);
    for (int64_t c = 0; values && !t && c < channels; c++) values[c] = otherwise;
    return values;
}

/* Whether kernels read the input and write the output as they are. */
static bool is_direct(const norm *p) {
    return p->in->dtype == p->dtype && (p->dtype == AMP_F32 || p->dtype == AMP_BF16);
}

static amp_status find_kernels(norm *p) {
    const amp_dtype dtype = is_direct(p) ? p->dtype : AMP_F32;
    const amp_kernel *kernel = amp_kernel_select(AMP_KERNEL_STANDARDIZE_ROW, dtype, dtype);
    p->moments = (amp_moments_function *)amp_kernel_get(AMP_KERNEL_MOMENTS, AMP_F32, AMP_F32);
    p->column_sums = (amp_column_sums_function *)amp_kernel_get(AMP_KERNEL_COLUMN_SUMS, AMP_F32, AMP_F32);
    p->columns = (amp_standardize_function *)amp_kernel_get(AMP_KERNEL_STANDARDIZE_COLUMNS, dtype, dtype);
    p->layer_norm = (amp_norm_function *)amp_kernel_get(AMP_KERNEL_LAYER_NORM, AMP_F32, AMP_F32);
    if (!kernel || !p->moments || !p->column_sums || !p->columns || !p->layer_norm) return amp_pending_error();
    p->row = (amp_standardize_function *)kernel->function;
    if (p->in->dtype != AMP_F64) p->call->note.kernel = kernel->name;
    amp_block_prepare();
    return AMP_OK;
}

/* All but the output, whose dtype and least p has. */
static amp_status start(norm *p, amp_call *call, amp_tensor *input, amp_tensor *weight, amp_tensor *bias, double eps) {
    AMP_TRY(amp_check_channel_input(call, input));
    AMP_TRY(amp_check_channel_numbers(call, input, "weight", weight));
    AMP_TRY(amp_check_channel_numbers(call, input, "bias", bias));
    p->call = call;
    p->in = input;
    p->outer = input->shape[0];
    p->channels = input->shape[1];
    p->inner = 1;
    p->eps = eps;
    for (int d = 2; d < input->rank; d++) p->inner *= input->shape[d];
    p->weight = parameter(call, weight, p->channels, 1.0);
    p->bias = parameter(call, bias, p->channels, 0.0);
    return p->weight && p->bias ? find_kernels(p) : amp_pending_error();
}

/* A dense input where its dimensions from `first` on are not. */
static amp_status make_dense(norm *p, int first) {
    p->in = amp_cpu_dense(p->call->op->name, p->in, p->in->dtype, first);
    return p->in ? AMP_OK : amp_pending_error();
}

static amp_status make_output(norm *p) {
    p->out = amp_call_output(p->call, 0, p->dtype, p->in->rank, p->in->shape);
    return p->out ? AMP_OK : amp_pending_error();
}

static int threads_for(const norm *p) {
    return amp_parallel_threads(2 * amp_tensor_elements(p->in), AMP_GRAIN_ELEMENTS);
}

/* ---- Rows -------------------------------------------------------------------------------------------------------- */

static int64_t row_offset(const amp_tensor *t, int64_t n, int64_t c) {
    return (n * t->strides[0] + c * t->strides[1]) * (int64_t)amp_dtype_size(t->dtype);
}

static amp_moments moments_f64(const double *x, int64_t n) {
    amp_moments m = {(double)n, 0.0, 0.0};
    for (int64_t i = 0; i < n; i++) m.mean += x[i];
    m.mean /= (double)n;
    for (int64_t i = 0; i < n; i++) m.squares += (x[i] - m.mean) * (x[i] - m.mean);
    return m;
}

static amp_moments row_moments(const norm *p, int64_t n, int64_t c) {
    const amp_dtype dtype = p->in->dtype;
    const int64_t size = (int64_t)amp_dtype_size(dtype);
    const char *x = (const char *)amp_tensor_pointer(p->in) + row_offset(p->in, n, c);
    amp_moments m = {0.0, 0.0, 0.0};
    if (dtype == AMP_F64) return moments_f64((const double *)(const void *)x, p->inner);
    if (p->inner <= TINY_ROW) {
        double wide[TINY_ROW];
        if (dtype != AMP_F32) amp_block_load(AMP_F64, wide, dtype, x, size, p->inner);
        for (int64_t i = 0; dtype == AMP_F32 && i < p->inner; i++)
            wide[i] = (double)((const float *)(const void *)x)[i];
        return moments_f64(wide, p->inner);
    }
    if (dtype == AMP_F32) {
        p->moments(&m, (const float *)(const void *)x, p->inner);
        return m;
    }
    _Alignas(64) float block[BLOCK];
    for (int64_t at = 0; at < p->inner; at += BLOCK) {
        const int64_t count = p->inner - at < BLOCK ? p->inner - at : BLOCK;
        amp_block_load(AMP_F32, block, dtype, x + at * size, size, count);
        p->moments(&m, block, count);
    }
    return m;
}

/* n elements from x to y, by one channel's numbers, or each by its own where `step` is 1. */
static void standardize(const norm *p, amp_standardize_function *run, char *y, const char *x,
                        const amp_standardize_numbers *of, int64_t step, int64_t n) {
    const amp_dtype from = p->in->dtype;
    if (is_direct(p)) {
        run(y, x, of, n);
        return;
    }
    const int64_t read = (int64_t)amp_dtype_size(from), written = (int64_t)amp_dtype_size(p->dtype);
    _Alignas(64) float block[BLOCK];
    for (int64_t at = 0; at < n; at += BLOCK) {
        const int64_t count = n - at < BLOCK ? n - at : BLOCK;
        const amp_standardize_numbers here = {of->mean + at * step, of->scale + at * step, of->shift + at * step,
                                              of->least};
        const void *wide = from == AMP_F32 ? (const void *)(x + at * read) : block;
        if (from != AMP_F32) amp_block_load(AMP_F32, block, from, x + at * read, read, count);
        run(block, wide, &here, count);
        amp_block_store(AMP_F32, block, p->dtype, y + at * written, written, count);
    }
}

/* Row (n, c) by its mean and the reciprocal of its deviation. */
static void apply_row(const norm *p, int64_t n, int64_t c, double mean, double rstd) {
    const char *x = (const char *)amp_tensor_pointer(p->in) + row_offset(p->in, n, c);
    char *y = (char *)amp_tensor_pointer(p->out) + row_offset(p->out, n, c);
    const double scale = p->weight[c] * rstd, bias = p->bias[c];
    if (p->in->dtype == AMP_F64) {
        const double *in = (const double *)(const void *)x;
        for (int64_t i = 0; i < p->inner; i++) ((double *)(void *)y)[i] = (in[i] - mean) * scale + bias;
        return;
    }
    /* what rounding takes from the mean goes into the shift */
    const float m = (float)mean, s = (float)scale, t = (float)(bias - (mean - (double)m) * scale);
    const amp_standardize_numbers of = {&m, &s, &t, p->least};
    standardize(p, p->row, y, x, &of, 0, p->inner);
}

static double reciprocal_deviation(double variance, double eps) {
    return 1.0 / sqrt(variance + eps);
}

/* Every group of `each` channels by its own statistics, which are kept in `moments` unless that is NULL. */
static void run_groups(const norm *p, int64_t each, amp_moments *moments) {
    const int64_t groups = p->channels / each, units = p->outer * groups;
    const int threads = threads_for(p);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t u = 0; u < units; u++) {
        const int64_t n = u / groups, first = u % groups * each;
        amp_moments m = {0.0, 0.0, 0.0};
        for (int64_t c = first; c < first + each; c++) m = amp_moments_join(m, row_moments(p, n, c));
        const double rstd = reciprocal_deviation(m.squares / m.count, p->eps);
        for (int64_t c = first; c < first + each; c++) apply_row(p, n, c, m.mean, rstd);
        if (moments) moments[u] = m;
    }
}

/* Every channel by one mean and variance for all of the batch. */
static void run_channels(const norm *p, const double *mean, const double *variance) {
    const int64_t rows = p->outer * p->channels;
    const int threads = threads_for(p);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t r = 0; r < rows; r++) {
        const int64_t c = r % p->channels;
        apply_row(p, r / p->channels, c, mean[c], reciprocal_deviation(variance[c], p->eps));
    }
}

/* Σ over the batch of each channel's moments, as mean and Σ of squares. */
static amp_status batch_moments_of_rows(const norm *p, double *mean, double *squares) {
    const int64_t rows = p->outer * p->channels;
    amp_moments *moments = (amp_moments *)(void *)numbers(p->call, rows * (int64_t)(sizeof *moments / sizeof(double)));
    if (!moments) return amp_pending_error();
    const int threads = threads_for(p);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t r = 0; r < rows; r++) moments[r] = row_moments(p, r / p->channels, r % p->channels);
    for (int64_t c = 0; c < p->channels; c++) {
        amp_moments m = moments[c];
        for (int64_t n = 1; n < p->outer; n++) m = amp_moments_join(m, moments[n * p->channels + c]);
        mean[c] = m.mean;
        squares[c] = m.squares;
    }
    return AMP_OK;
}

/* A group of short rows is one row of layer_norm's kernel; weight and bias are spread over its elements. */
static amp_status run_short_groups(const norm *p, int64_t each) {
    const int64_t period = p->channels * p->inner, length = each * p->inner, units = p->outer * p->channels / each;
    const amp_dtype dtype = p->in->dtype;
    const int64_t size = (int64_t)amp_dtype_size(dtype);
    const int threads = threads_for(p);
    float *weight = (float *)(void *)numbers(p->call, period), *bias = weight + period;
    float *rows = (float *)(void *)numbers(p->call, (length + 16) / 2 * threads);
    if (!weight || !rows) return amp_pending_error();
    for (int64_t j = 0; j < period; j++) {
        weight[j] = (float)p->weight[j / p->inner];
        bias[j] = (float)p->bias[j / p->inner];
    }
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t u = 0; u < units; u++) {
        const int64_t first = u * length % period;
        const char *x = (const char *)amp_tensor_pointer(p->in) + u * length * size;
        char *y = (char *)amp_tensor_pointer(p->out) + u * length * size;
        float *row = rows + (length + 16) / 2 * 2 * omp_get_thread_num();
        if (dtype != AMP_F32) amp_block_load(AMP_F32, row, dtype, x, size, length);
        p->layer_norm(dtype == AMP_F32 ? (float *)(void *)y : row,
                      dtype == AMP_F32 ? (const float *)(const void *)x : row, weight + first, bias + first, length,
                      p->eps);
        if (dtype != AMP_F32) amp_block_store(AMP_F32, row, dtype, y, size, length);
    }
    return AMP_OK;
}

/* ---- Columns: element j of the memory belongs to channel j/inner mod channels ------------------------------------ */

typedef struct columns {
    const norm *p;
    int64_t inner, width, total, rows;
    int threads;
    double *room; /* room_of(…) of them */
} columns;

/* Two sums of each column, then its mean, scale and shift in f32. */
static int64_t room_of(const columns *k) {
    return 4 * k->width;
}

/* Without room. */
static columns columns_of(const norm *p, int64_t inner, int threads) {
    const int64_t period = p->channels * inner, total = amp_tensor_elements(p->in);
    const int64_t width = period >= COLUMN_WIDTH ? period : COLUMN_WIDTH / period * period;
    return (columns){p, inner, width, total, (total + width - 1) / width, threads, NULL};
}

static int64_t channel_of(const columns *k, int64_t column) {
    return column / k->inner % k->p->channels;
}

/* Sums over all rows of the columns from `from` to `to`. */
static void sum_columns(const columns *k, double *sum, double *squares, int64_t from, int64_t to) {
    const amp_tensor *in = k->p->in;
    const int64_t size = (int64_t)amp_dtype_size(in->dtype);
    _Alignas(64) float block[BLOCK];
    for (int64_t r = 0; r < k->rows; r++) {
        const int64_t left = k->total - r * k->width, end = to < left ? to : left;
        for (int64_t at = from; at < end; at += BLOCK) {
            const int64_t count = end - at < BLOCK ? end - at : BLOCK;
            const char *x = (const char *)amp_tensor_pointer(in) + (r * k->width + at) * size;
            const float *values = (const float *)(const void *)x;
            if (in->dtype != AMP_F32) {
                amp_block_load(AMP_F32, block, in->dtype, x, size, count);
                values = block;
            }
            k->p->column_sums(sum + at, squares + at, values, count);
        }
    }
}

static void batch_moments_of_columns(const columns *k, double *mean, double *squares) {
    const norm *p = k->p;
    const int64_t each = k->total / p->channels;
    const double count = (double)each;
    double *sums = k->room;
    memset(sums, 0, 2 * (size_t)k->width * sizeof *sums);
#pragma omp parallel num_threads(k->threads) if (k->threads > 1)
    {
        const amp_range part = amp_parallel_part(k->width, COLUMN_UNIT, omp_get_thread_num(), omp_get_num_threads());
        sum_columns(k, sums, sums + k->width, part.begin, part.end);
    }
    for (int64_t c = 0; c < p->channels; c++) mean[c] = squares[c] = 0.0;
    for (int64_t j = 0; j < k->width; j++) {
        mean[channel_of(k, j)] += sums[j];
        squares[channel_of(k, j)] += sums[k->width + j];
    }
    for (int64_t c = 0; c < p->channels; c++) {
        mean[c] /= count;
        const double spread = squares[c] - mean[c] * mean[c] * count;
        squares[c] = spread < 0.0 ? 0.0 : spread;
    }
}

static void apply_columns(const columns *k, int64_t row, const amp_standardize_numbers *of) {
    const norm *p = k->p;
    const int64_t from = row * k->width, left = k->total - from, n = left < k->width ? left : k->width;
    const char *x = (const char *)amp_tensor_pointer(p->in) + from * (int64_t)amp_dtype_size(p->in->dtype);
    char *y = (char *)amp_tensor_pointer(p->out) + from * (int64_t)amp_dtype_size(p->dtype);
    standardize(p, p->columns, y, x, of, 1, n);
}

static void run_columns(const columns *k, const double *mean, const double *variance) {
    const norm *p = k->p;
    float *values = (float *)(void *)(k->room + 2 * k->width), *scale = values + k->width, *shift = scale + k->width;
    for (int64_t c = 0; c < p->channels; c++) {
        const double s = p->weight[c] * reciprocal_deviation(variance[c], p->eps);
        const float m = (float)mean[c], t = (float)(p->bias[c] - (mean[c] - (double)m) * s);
        for (int64_t j = c * k->inner; j < (c + 1) * k->inner; j++) {
            values[j] = m;
            scale[j] = (float)s;
            shift[j] = t;
        }
    }
    for (int64_t j = p->channels * k->inner; j < k->width; j++) {
        const int64_t first = j - p->channels * k->inner;
        values[j] = values[first];
        scale[j] = scale[first];
        shift[j] = shift[first];
    }
    const amp_standardize_numbers of = {values, scale, shift, p->least};
#pragma omp parallel for num_threads(k->threads) if (k->threads > 1) schedule(static)
    for (int64_t r = 0; r < k->rows; r++) apply_columns(k, r, &of);
}

/* ---- Running statistics ------------------------------------------------------------------------------------------ */

/* running ← (1 − momentum)·running + momentum·value */
static void update_running(amp_tensor *running, const double *value, double momentum, double *room) {
    if (!running) return;
    const int64_t n = running->shape[0], stride = running->strides[0] * (int64_t)amp_dtype_size(running->dtype);
    load_parameter(room, running);
    for (int64_t c = 0; c < n; c++) room[c] = (1.0 - momentum) * room[c] + momentum * value[c];
    amp_block_store(AMP_F64, room, running->dtype, amp_tensor_pointer(running), stride, n);
    amp_tensor_written(running);
}

/* ---- Channels last ----------------------------------------------------------------------------------------------- */

static bool lies_last(const norm *p) {
    return p->in->dtype != AMP_F64 && amp_lies_channels_last(p->in) && !amp_tensor_is_dense(p->in);
}

/* The output in the input's own order. */
static amp_status make_output_like(norm *p) {
    const amp_tensor *in = p->in;
    p->out = amp_call_output(p->call, 0, p->dtype, in->rank, in->shape);
    amp_tensor *made = p->call->outputs[0]; /* of a call that runs ahead too */
    for (int d = 0; made && d < in->rank; d++) made->strides[d] = in->strides[d];
    return p->out ? AMP_OK : amp_pending_error();
}

/* ---- batch_norm -------------------------------------------------------------------------------------------------- */

typedef struct batch_statistics {
    double *mean, *variance, *squares, *room;
} batch_statistics;

static amp_status make_statistics(const amp_call *call, int64_t channels, batch_statistics *s) {
    s->mean = numbers(call, 4 * channels);
    if (!s->mean) return amp_pending_error();
    s->variance = s->mean + channels;
    s->squares = s->variance + channels;
    s->room = s->squares + channels;
    return AMP_OK;
}

/* From Σ(x − mean)² of `count` elements: variance of this batch, and the estimate for the running one. */
static void finish_variance(batch_statistics *s, int64_t channels, double count) {
    for (int64_t c = 0; c < channels; c++) {
        s->variance[c] = s->squares[c] / count;
        s->squares[c] /= count - 1.0;
    }
}

amp_status amp_cpu_batch_norm(amp_call *call, const amp_batch_norm_args *a, amp_dtype dtype, float least) {
    norm p = {.call = call, .in = a->input, .dtype = dtype, .least = least};
    batch_statistics s = {0};
    if (amp_tensor_elements(a->input) == 0) return make_output(&p);
    AMP_TRY(start(&p, call, a->input, a->weight, a->bias, a->eps.value));
    AMP_TRY(amp_check_running(call, a->input, a->running_mean, a->running_var, "training", !a->training));
    const int64_t each = p.outer * p.inner;
    if (a->training && each == 1) {
        return amp_fail(AMP_ERROR_INVALID,
                        "batch_norm: input is %s; training needs more than one value for each channel",
                        amp_describe(a->input));
    }
    AMP_TRY(make_statistics(call, p.channels, &s));
    const bool wide = p.in->dtype == AMP_F64, last = lies_last(&p);
    const bool by_columns = last || (!wide && p.inner < SHORT_ROW);
    if (!last) AMP_TRY(make_dense(&p, by_columns ? 0 : 2));
    AMP_TRY(last ? make_output_like(&p) : make_output(&p));
    columns k = columns_of(&p, last ? 1 : p.inner, threads_for(&p));
    if (by_columns && !(k.room = numbers(call, room_of(&k)))) return amp_pending_error();
    if (a->training) {
        if (by_columns)
            batch_moments_of_columns(&k, s.mean, s.squares);
        else
            AMP_TRY(batch_moments_of_rows(&p, s.mean, s.squares));
        finish_variance(&s, p.channels, (double)each);
        update_running(a->running_mean, s.mean, a->momentum.value, s.room);
        update_running(a->running_var, s.squares, a->momentum.value, s.room);
    } else {
        load_parameter(s.mean, a->running_mean);
        load_parameter(s.variance, a->running_var);
    }
    if (by_columns)
        run_columns(&k, s.mean, s.variance);
    else
        run_channels(&p, s.mean, s.variance);
    return AMP_OK;
}

amp_status cpu_batch_norm(amp_call *call) {
    const amp_batch_norm_args *a = call->args;
    return amp_cpu_batch_norm(call, a, a->input->dtype, -INFINITY);
}

/* ---- instance_norm ----------------------------------------------------------------------------------------------- */

/* The running statistics move towards the mean, over the batch, of the instances' own. */
static amp_status update_from_instances(const norm *p, const amp_instance_norm_args *a, const amp_moments *moments) {
    batch_statistics s = {0};
    AMP_TRY(make_statistics(p->call, p->channels, &s));
    for (int64_t c = 0; c < p->channels; c++) {
        s.mean[c] = s.squares[c] = 0.0;
        for (int64_t n = 0; n < p->outer; n++) {
            const amp_moments *m = &moments[n * p->channels + c];
            s.mean[c] += m->mean / (double)p->outer;
            s.squares[c] += m->squares / (m->count - 1.0) / (double)p->outer;
        }
    }
    update_running(a->running_mean, s.mean, a->momentum.value, s.room);
    update_running(a->running_var, s.squares, a->momentum.value, s.room);
    return AMP_OK;
}

amp_status cpu_instance_norm(amp_call *call) {
    const amp_instance_norm_args *a = call->args;
    const bool own = a->use_input_stats.value;
    norm p = {.dtype = a->input->dtype, .least = -INFINITY};
    batch_statistics s = {0};
    AMP_TRY(amp_check_channel_input(call, a->input));
    AMP_TRY(amp_check_running(call, a->input, a->running_mean, a->running_var, "use_input_stats", !own));
    AMP_TRY(start(&p, call, a->input, a->weight, a->bias, a->eps.value));
    if (own && p.inner == 1) {
        return amp_fail(AMP_ERROR_INVALID,
                        "instance_norm: input is %s; expected more than one element for each channel",
                        amp_describe(a->input));
    }
    AMP_TRY(make_dense(&p, 2));
    AMP_TRY(make_output(&p));
    if (amp_tensor_elements(a->input) == 0) return AMP_OK;
    if (!own) {
        AMP_TRY(make_statistics(call, p.channels, &s));
        load_parameter(s.mean, a->running_mean);
        load_parameter(s.variance, a->running_var);
        run_channels(&p, s.mean, s.variance);
        return AMP_OK;
    }
    if (p.in->dtype != AMP_F64 && p.inner < SHORT_ROW && !a->running_mean && !a->running_var) {
        AMP_TRY(make_dense(&p, 0));
        return run_short_groups(&p, 1);
    }
    amp_moments *moments = NULL;
    if (a->running_mean || a->running_var) {
        const int64_t room = p.outer * p.channels * (int64_t)(sizeof *moments / sizeof(double));
        moments = (amp_moments *)(void *)numbers(call, room);
        if (!moments) return amp_pending_error();
    }
    run_groups(&p, 1, moments);
    return moments ? update_from_instances(&p, a, moments) : AMP_OK;
}

/* ---- group_norm -------------------------------------------------------------------------------------------------- */

static amp_tensor sample_of(const amp_tensor *t, int64_t n) {
    amp_tensor sample = *t;
    sample.shape[0] = 1;
    sample.offset += n * t->strides[0];
    return sample;
}

/* Each channel's mean and variance become those of its group. */
static void join_channels(int64_t channels, int64_t each, double count, double *mean, double *variance) {
    for (int64_t first = 0; first < channels; first += each) {
        amp_moments m = {0.0, 0.0, 0.0};
        for (int64_t c = first; c < first + each; c++)
            m = amp_moments_join(m, (amp_moments){count, mean[c], variance[c]});
        for (int64_t c = first; c < first + each; c++) {
            mean[c] = m.mean;
            variance[c] = m.squares / m.count;
        }
    }
}

/* Channels last: the columns of a sample are summed, and then joined. `room`: of its columns, and two numbers of each
 * channel. */
static void run_sample_last(const norm *p, int64_t n, int64_t each, bool is_shared, double *room) {
    amp_tensor in = sample_of(p->in, n), out = sample_of(p->out, n);
    norm sample = *p;
    sample.in = &in;
    sample.out = &out;
    columns k = columns_of(&sample, 1, is_shared ? threads_for(&sample) : 1);
    double *mean = room + room_of(&k), *variance = mean + p->channels;
    k.room = room;
    batch_moments_of_columns(&k, mean, variance);
    join_channels(p->channels, each, (double)p->inner, mean, variance);
    run_columns(&k, mean, variance);
}

static amp_status run_groups_last(const norm *p, int64_t each) {
    const int threads = amp_threads_of_parts(threads_for(p), p->outer);
    const columns k = columns_of(p, 1, 1);
    const int64_t words = room_of(&k) + 2 * p->channels;
    double *room = numbers(p->call, words * threads);
    if (!room) return amp_pending_error();
    if (threads == 1) { /* in no region: those of the samples would be nested in it */
        for (int64_t n = 0; n < p->outer; n++) run_sample_last(p, n, each, true, room);
        return AMP_OK;
    }
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t n = 0; n < p->outer; n++) run_sample_last(p, n, each, false, room + words * omp_get_thread_num());
    return AMP_OK;
}

amp_status cpu_group_norm(amp_call *call) {
    const amp_group_norm_args *a = call->args;
    norm p = {.dtype = a->input->dtype, .least = -INFINITY};
    AMP_TRY(start(&p, call, a->input, a->weight, a->bias, a->eps.value));
    AMP_TRY(amp_check_groups(call, a->input, a->num_groups));
    if (lies_last(&p) && amp_tensor_elements(a->input) > 0) {
        AMP_TRY(make_output_like(&p));
        return run_groups_last(&p, p.channels / a->num_groups);
    }
    const bool short_rows = p.in->dtype != AMP_F64 && p.inner < SHORT_ROW;
    AMP_TRY(make_dense(&p, short_rows ? 0 : 2));
    AMP_TRY(make_output(&p));
    if (amp_tensor_elements(a->input) == 0) return AMP_OK;
    const int64_t each = p.channels / a->num_groups;
    if (short_rows) return run_short_groups(&p, each);
    run_groups(&p, each, NULL);
    return AMP_OK;
}
