/* var, std, var_mean, std_mean, logsumexp: results that need a mean or a maximum first, in one pass over memory. Each
 * piece of a row gives a partial result about its own mean or maximum, and partial results are joined in order: Chan,
 * Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances" (1979). Where pieces
 * begin follows from the dtype alone, so that threads change nothing. Vectors of f32 are summed in f32 in blocks of 64,
 * all else in f64. */
#include <complex.h>
#include <math.h>
#include <omp.h>
#include <string.h>

#include "amp/ops.h"
#include "call/backend.h"
#include "core/memory.h"
#include "core/parallel.h"
#include "cpu/cpu_steps.h"
#include "cpu/move/rows.h"
#include "cpu/reduce/column_walk.h"
#include "cpu/registry/kernels.h"
#include "policy/promotion.h"
#include "steps/shape_rules.h"

enum {
    BUFFER = AMP_BLOCK_BYTES / 8, /* elements of a chunk that needs conversion, */
    CHUNK = 4096,                 /* of one that does not, */
    PIECE = 32768                 /* and of what one thread takes from a long row */
};

/* Of n elements. mean and squares (Σ(x − mean)²): real and imaginary part; or maximum and Σe^(x − maximum) in [0]. */
typedef struct partial {
    int64_t n;
    double mean[2], squares[2];
} partial;

typedef struct fold fold;

struct fold {
    amp_rows in;
    amp_dtype compute; /* f32, bf16, f64 or c128 */
    int64_t chunk;
    void (*of_chunk)(const fold *f, partial *p, const void *x, int64_t n);
    void (*join)(partial *all, const partial *next);
    void (*finish)(const fold *f, int64_t row, const partial *all);
    amp_reduce_function *first; /* kernels: sum or maximum, … */
    amp_centred_function *then; /* … then the sums about it */
    double correction, power;   /* of the variance: 1, or ½ for the deviation */
    amp_rows out, means;        /* means without data: not wanted */
};

/* ---- The walk ------------------------------------------------------------------------------------------------- */

static partial fold_piece(const fold *f, int64_t row, int64_t begin, int64_t end) {
    _Alignas(64) char buffer[BUFFER * 16];
    partial all = {0};
    for (int64_t at = begin; at < end; at += f->chunk) {
        partial p = {.n = end - at < f->chunk ? end - at : f->chunk};
        f->of_chunk(f, &p, amp_rows_load(&f->in, f->compute, row, at, p.n, buffer), p.n);
        if (all.n)
            f->join(&all, &p);
        else
            all = p;
    }
    return all;
}

static partial piece_number(const fold *f, int64_t row, int64_t i) {
    const int64_t begin = i * PIECE, left = f->in.length - begin;
    return fold_piece(f, row, begin, begin + (left < PIECE ? left : PIECE));
}

static int64_t pieces_of(const fold *f) {
    return (f->in.length + PIECE - 1) / PIECE;
}

static void fold_rows(void *context, int64_t begin, int64_t end) {
    const fold *f = context;
    for (int64_t row = begin; row < end; row++) {
        partial all = {0};
        for (int64_t i = 0; i < pieces_of(f); i++) {
            const partial p = piece_number(f, row, i);
            if (i)
                f->join(&all, &p);
            else
                all = p;
        }
        f->finish(f, row, &all);
    }
}

/* Fewer rows than threads: these share the pieces of one row. */
static amp_status fold_long_rows(const fold *f, int threads) {
    const int64_t pieces = pieces_of(f);
    partial *partials = amp_alloc((size_t)pieces * sizeof *partials);
    if (!partials) return amp_fail(AMP_ERROR_MEMORY, "no memory for %lld partial results", (long long)pieces);
    for (int64_t row = 0; row < f->in.count; row++) {
#pragma omp parallel for num_threads(threads) schedule(static)
        for (int64_t i = 0; i < pieces; i++) partials[i] = piece_number(f, row, i);
        for (int64_t i = 1; i < pieces; i++) f->join(&partials[0], &partials[i]);
        f->finish(f, row, &partials[0]);
    }
    amp_free(partials);
    return AMP_OK;
}

static amp_status run(const amp_call *call, fold *f, const amp_tensor *input, unsigned mask) {
    AMP_TRY(amp_rows_of(call, input, mask, &f->in));
    f->chunk = f->in.dtype == f->compute ? CHUNK : BUFFER;
    const int threads = amp_parallel_threads(f->in.count * f->in.length, AMP_GRAIN_ELEMENTS);
    if (threads > f->in.count && pieces_of(f) > 1) return fold_long_rows(f, threads);
    amp_rows_run(&f->in, 1, fold_rows, f);
    return AMP_OK;
}

static amp_status find_kernels(fold *f, amp_dtype dtype, amp_kernel_family first, amp_kernel_family then) {
    if (f->compute != AMP_F32) return AMP_OK;
    f->compute = amp_kernel_dtype(first, dtype);
    f->first = (amp_reduce_function *)amp_kernel_get(first, f->compute, f->compute);
    f->then = (amp_centred_function *)amp_kernel_get(then, f->compute, f->compute);
    return f->first && f->then ? AMP_OK : amp_pending_error();
}

/* ---- Variance ------------------------------------------------------------------------------------------------- */

static void moments_by_kernels(const fold *f, partial *p, const void *x, int64_t n) {
    double sums[2] = {0.0, 0.0};
    const float centre = (float)(f->first(x, n) / (double)n);
    f->then(sums, x, n, centre);
    p->mean[0] = (double)centre + sums[0] / (double)n;
    p->squares[0] = sums[1] - sums[0] * sums[0] / (double)n;
    if (p->squares[0] < 0.0) p->squares[0] = 0.0;
}

static void moments_strided(double *mean, double *squares, const double *x, int64_t step, int64_t n) {
    double sum = 0.0, rest = 0.0, square = 0.0;
    for (int64_t i = 0; i < n; i++) sum += x[i * step];
    const double centre = sum / (double)n;
    for (int64_t i = 0; i < n; i++) {
        const double d = x[i * step] - centre;
        rest += d;
        square += d * d;
    }
    *mean = centre + rest / (double)n;
    *squares = fmax(square - rest * rest / (double)n, 0.0);
    if (square != square) *squares = square;
}

static void moments_f64(const fold *f, partial *p, const void *x, int64_t n) {
    (void)f;
    moments_strided(&p->mean[0], &p->squares[0], x, 1, n);
}

static void moments_c128(const fold *f, partial *p, const void *x, int64_t n) {
    (void)f;
    for (int i = 0; i < 2; i++) moments_strided(&p->mean[i], &p->squares[i], (const double *)x + i, 2, n);
}

static void join_moments(partial *all, const partial *next) {
    const double n = (double)(all->n + next->n), share = (double)next->n / n;
    for (int i = 0; i < 2; i++) {
        const double step = next->mean[i] - all->mean[i];
        all->squares[i] += next->squares[i] + step * step * (double)all->n * share;
        all->mean[i] += step * share;
    }
    all->n += next->n;
}

static void finish_moments(const fold *f, int64_t row, const partial *all) {
    const double freedom = fmax((double)all->n - f->correction, 0.0);
    double variance = all->n ? (all->squares[0] + all->squares[1]) / freedom : NAN;
    double mean[2] = {all->n ? all->mean[0] : NAN, all->mean[1]};
    if (f->power == 0.5) variance = sqrt(variance);
    amp_block_store(AMP_F64, &variance, f->out.dtype, f->out.data + row * f->out.size, 0, 1);
    if (!f->means.data) return;
    amp_block_store(f->compute == AMP_C128 ? AMP_C128 : AMP_F64, mean, f->means.dtype,
                    f->means.data + row * f->means.size, 0, 1);
}

static amp_dtype real_dtype(amp_dtype dtype) {
    return dtype == AMP_C64 ? AMP_F32 : dtype == AMP_C128 ? AMP_F64 : dtype;
}

amp_status amp_cpu_variance(amp_call *call, const amp_variance *v) {
    const amp_dtype dtype = v->input->dtype;
    fold f = {.compute = amp_compute_dtype(dtype),
              .power = v->power,
              .correction = v->correction,
              .join = join_moments,
              .finish = finish_moments};
    f.of_chunk = f.compute == AMP_F32 ? moments_by_kernels : f.compute == AMP_F64 ? moments_f64 : moments_c128;
    AMP_TRY(find_kernels(&f, dtype, AMP_KERNEL_SUM, AMP_KERNEL_SUM_DEVIATIONS));
    int64_t shape[AMP_MAX_RANK];
    const int rank = amp_reduced_shape(v->input, v->mask, v->keepdim, shape);
    amp_tensor *out = amp_call_output(call, 0, real_dtype(dtype), rank, shape);
    if (!out) return amp_pending_error();
    AMP_TRY(amp_rows_for(call, out, 0, &f.out));
    if (v->with_mean) {
        amp_tensor *mean = amp_call_output(call, 1, dtype, rank, shape);
        if (!mean) return amp_pending_error();
        AMP_TRY(amp_rows_for(call, mean, 0, &f.means));
    }
    AMP_TRY(run(call, &f, v->input, v->mask));
    return amp_rows_finish(&f.out);
}

/* ---- logsumexp ------------------------------------------------------------------------------------------------ */

static void exponentials_by_kernels(const fold *f, partial *p, const void *x, int64_t n) {
    p->mean[0] = f->first(x, n);
    if (isfinite(p->mean[0]))
        f->then(p->squares, x, n, (float)p->mean[0]);
    else
        p->squares[0] = p->mean[0] != -INFINITY; /* e^(∞ − ∞) counts as one; of −∞ alone there is nothing */
}

static void exponentials_f64(const fold *f, partial *p, const void *given, int64_t n) {
    const double *x = given;
    double max = x[0];
    (void)f;
    for (int64_t i = 1; i < n; i++) max = x[i] > max || x[i] != x[i] ? x[i] : max;
    p->mean[0] = max;
    p->squares[0] = max != -INFINITY;
    if (!isfinite(max)) return;
    p->squares[0] = 0.0;
    for (int64_t i = 0; i < n; i++) p->squares[0] += exp(x[i] - max);
}

/* The maximum is that of the real parts. */
static void exponentials_c128(const fold *f, partial *p, const void *given, int64_t n) {
    const double _Complex *x = given;
    double _Complex sum = 0.0;
    double max = creal(x[0]);
    (void)f;
    for (int64_t i = 1; i < n; i++) max = creal(x[i]) > max || creal(x[i]) != creal(x[i]) ? creal(x[i]) : max;
    p->mean[0] = max;
    for (int64_t i = 0; i < n && isfinite(max); i++) sum += cexp(x[i] - max);
    p->squares[0] = isfinite(max) ? creal(sum) : max != -INFINITY;
    p->squares[1] = cimag(sum);
}

static void join_exponentials(partial *all, const partial *next) {
    const bool larger = next->mean[0] > all->mean[0] || next->mean[0] != next->mean[0];
    const partial *high = larger ? next : all, *low = larger ? all : next;
    const double shift = low->mean[0] - high->mean[0];
    const double factor = isfinite(high->mean[0]) ? exp(shift) : 0.0;
    const double sum = high->squares[0] + (factor == 0.0 ? 0.0 : low->squares[0] * factor);
    const double imaginary = high->squares[1] + (factor == 0.0 ? 0.0 : low->squares[1] * factor);
    *all = (partial){.n = all->n + next->n, .mean = {high->mean[0]}, .squares = {sum, imaginary}};
}

static void finish_exponentials(const fold *f, int64_t row, const partial *all) {
    const double max = all->n ? all->mean[0] : -INFINITY;
    if (f->compute == AMP_C128) {
        const double _Complex sum = __builtin_complex(all->squares[0], all->squares[1]);
        const double _Complex result = isfinite(max) ? max + clog(sum) : max;
        amp_block_store(AMP_C128, &result, f->out.dtype, f->out.data + row * f->out.size, 0, 1);
        return;
    }
    const double result = isfinite(max) ? max + log(all->squares[0]) : max;
    amp_block_store(AMP_F64, &result, f->out.dtype, f->out.data + row * f->out.size, 0, 1);
}

/* Dimensions of the mask that are neighbours, with enough columns behind them: [*first, *end). */
static bool find_columns(const amp_tensor *t, unsigned mask, int *first, int *end) {
    int64_t inner = 1, rows = 1;
    for (*first = 0; *first < t->rank && !(mask & 1u << *first);) ++*first;
    for (*end = *first; *end < t->rank && mask & 1u << *end; ++*end) rows *= t->shape[*end];
    for (int d = *end; d < t->rank; d++) inner *= mask & 1u << d ? 0 : t->shape[d];
    return rows > 0 && inner >= AMP_LEAST_COLUMNS;
}

typedef struct logarithms {
    const amp_columns *columns;
    amp_unary_function *log;
    float *max; /* of every column */
    const double *sum;
    amp_rows out;
} logarithms;

static void write_logarithms(void *context, const amp_column_block *b, void *scratch) {
    const logarithms *l = context;
    const int64_t at = b->outer * l->columns->inner + b->column, n = b->n;
    float *result = scratch;
    for (int64_t i = 0; i < n; i++) result[i] = (float)l->sum[at + i];
    l->log(result, result, n);
    for (int64_t i = 0; i < n; i++) {
        const float max = l->max[at + i], both = max + result[i];
        result[i] = isinf(max) && !isnan(result[i]) ? max : both;
    }
    amp_block_store(AMP_F32, result, l->out.dtype, l->out.data + at * l->out.size, l->out.size, n);
}

/* Of columns that lie side by side; any other strides are made such ones. */
static amp_status sum_columns(amp_call *call, const amp_tensor *input, int first, int end, amp_tensor *result) {
    enum { WIDTH = 512 };
    amp_columns c;
    logarithms l = {.columns = &c};
    AMP_TRY(amp_rows_for(call, result, 0, &l.out));
    l.log = (amp_unary_function *)amp_kernel_get(AMP_KERNEL_LOG, AMP_F32, AMP_F32);
    if (!l.log) return amp_pending_error();
    if (!amp_columns_of(&c, input, first, end)) {
        amp_tensor *dense = amp_backend_tensor(call->device, call->op->name, input->dtype, input->rank, input->shape);
        if (!dense) return amp_pending_error();
        AMP_TRY(amp_copy_tensor(dense, input));
        amp_columns_of(&c, dense, first, end);
    }
    const int64_t count = c.outer * c.inner * amp_exponentials_parts(&c);
    double *sum = amp_alloc((size_t)count * (sizeof(double) + sizeof(float)));
    if (!sum) return amp_fail(AMP_ERROR_MEMORY, "logsumexp: no memory for %lld partial results", (long long)count);
    l.sum = sum;
    l.max = (float *)(void *)(sum + count);
    amp_status status = amp_column_exponentials(call->op->name, &c, l.max, sum, &call->note.kernel);
    if (status == AMP_OK) {
        const amp_column_blocks blocks = amp_columns_blocks(&c, WIDTH, c.rows);
        status = amp_columns_run(call->op->name, &c, &blocks, 1, WIDTH * sizeof(float), write_logarithms, &l);
    }
    amp_free(sum);
    return status == AMP_OK ? amp_rows_finish(&l.out) : status;
}

static bool is_narrow(amp_dtype dtype) {
    return dtype == AMP_F32 || dtype == AMP_BF16 || dtype == AMP_F16;
}

amp_status cpu_logsumexp(amp_call *call) {
    const amp_logsumexp_args *a = call->args;
    const amp_dtype dtype = amp_floating_result(a->input->dtype);
    fold f = {.compute = amp_compute_dtype(dtype), .join = join_exponentials, .finish = finish_exponentials};
    unsigned mask;
    AMP_TRY(amp_wrap_dims(call, "dim", &a->dim, true, a->input->rank, &mask));
    f.of_chunk = f.compute == AMP_F32   ? exponentials_by_kernels
                 : f.compute == AMP_F64 ? exponentials_f64
                                        : exponentials_c128;
    AMP_TRY(find_kernels(&f, a->input->dtype, AMP_KERNEL_ROW_MAX, AMP_KERNEL_SUM_EXPONENTIALS));
    int64_t shape[AMP_MAX_RANK];
    const int rank = amp_reduced_shape(a->input, mask, a->keepdim, shape);
    amp_tensor *out = amp_call_output(call, 0, dtype, rank, shape);
    int first, end;
    if (!out) return amp_pending_error();
    if (is_narrow(a->input->dtype) && amp_tensor_elements(out) > 0 && find_columns(a->input, mask, &first, &end))
        return sum_columns(call, a->input, first, end, out);
    AMP_TRY(amp_rows_for(call, out, 0, &f.out));
    AMP_TRY(run(call, &f, a->input, mask));
    return amp_rows_finish(&f.out);
}
