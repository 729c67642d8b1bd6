/* The reduction engine. Either the reduced dimensions hold the densest stride, and each result takes rows; or a kept
 * one does, and a block of neighbouring results takes one element of each row at a time. */
#include "cpu/reduce/reduce.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "core/memory.h"
#include "core/parallel.h"
#include "cpu/convert/element.h"
#include "cpu/elementwise/iterate.h"
#include "cpu/registry/kernels.h"

enum {
    COLUMNS = 1024,                     /* results of one block at most, */
    ANY_COLUMNS = AMP_BLOCK_BYTES / 16, /* and without a kernel: a block of input fits the widest compute type */
    LEAST_COLUMNS = 64,                 /* worth a block of their own: some cache lines of each row */
    ROWS = 32,                          /* results of one block of rows at most */
    CHUNK = 32768                       /* elements of one part of a single long sum */
};

typedef struct dimensions {
    int rank;
    int64_t shape[AMP_MAX_RANK], in[AMP_MAX_RANK], out[AMP_MAX_RANK]; /* strides in bytes */
} dimensions;

/* What one result, or a block of them, has so far. f64: value and the rounding error of the sum; i64: whole; c128: real
 * and imaginary part. */
typedef struct accumulators {
    union {
        double value[COLUMNS];
        int64_t whole[COLUMNS];
    };
    double rest[COLUMNS];
} accumulators;

typedef struct plan {
    const amp_reduce_work *work;
    dimensions kept, reduced; /* outermost first */
    amp_dtype compute;        /* of blocks: f32 or bf16 only where a kernel takes it */
    bool columns;
    char *in, *out;
    amp_dtype in_dtype, out_dtype;
    amp_reduce_function *row_kernel;
    amp_columns_function *column_kernel;
    int64_t width; /* results of one block */
} plan;

/* ---- Geometry ------------------------------------------------------------------------------------------------- */

static void add_dimension(dimensions *d, int64_t extent, int64_t in, int64_t out) {
    if (extent == 1) return;
    int at = d->rank++;
    for (; at > 0 && amp_stride_reach(d->in[at - 1]) < amp_stride_reach(in); at--) {
        d->shape[at] = d->shape[at - 1];
        d->in[at] = d->in[at - 1];
        d->out[at] = d->out[at - 1];
    }
    d->shape[at] = extent;
    d->in[at] = in;
    d->out[at] = out;
}

static void merge_dimensions(dimensions *d) {
    for (int i = d->rank - 2; i >= 0; i--) {
        if (d->in[i] != d->in[i + 1] * d->shape[i + 1] || d->out[i] != d->out[i + 1] * d->shape[i + 1]) continue;
        d->shape[i + 1] *= d->shape[i];
        d->rank--;
        for (int k = i; k < d->rank; k++) {
            d->shape[k] = d->shape[k + 1];
            d->in[k] = d->in[k + 1];
            d->out[k] = d->out[k + 1];
        }
    }
}

static int64_t elements_of(const dimensions *d) {
    int64_t n = 1;
    for (int i = 0; i < d->rank; i++) n *= d->shape[i];
    return n;
}

static void make_plan(plan *p, const amp_reduce_work *work, amp_tensor *out) {
    const amp_tensor *in = work->input;
    const int64_t in_size = (int64_t)amp_dtype_size(in->dtype), out_size = (int64_t)amp_dtype_size(out->dtype);
    *p = (plan){.work = work,
                .in = amp_tensor_pointer(in),
                .out = amp_tensor_pointer(out),
                .in_dtype = in->dtype,
                .out_dtype = out->dtype};
    const bool keepdim = out->rank == in->rank;
    for (int d = 0, o = 0; d < in->rank; d++) {
        const bool reduced = work->mask & 1u << d;
        if (reduced)
            add_dimension(&p->reduced, in->shape[d], in->strides[d] * in_size, 0);
        else
            add_dimension(&p->kept, in->shape[d], in->strides[d] * in_size, out->strides[o] * out_size);
        o += keepdim || !reduced;
    }
    merge_dimensions(&p->kept);
    merge_dimensions(&p->reduced);
    const int64_t kept_step = p->kept.rank ? amp_stride_reach(p->kept.in[p->kept.rank - 1]) : 0;
    const int64_t reduced_step = p->reduced.rank ? amp_stride_reach(p->reduced.in[p->reduced.rank - 1]) : 0;
    p->columns = p->kept.rank && p->reduced.rank && kept_step && (kept_step < reduced_step || !reduced_step);
}

/* Byte offset of element `index` of the first `rank` dimensions. */
static int64_t offset_of(const dimensions *d, int rank, int64_t index, const int64_t *strides) {
    int64_t offset = 0;
    for (int i = rank - 1; i >= 0; i--) {
        offset += index % d->shape[i] * strides[i];
        index /= d->shape[i];
    }
    return offset;
}

/* ---- Accumulation --------------------------------------------------------------------------------------------- */

static void start(const plan *p, accumulators *acc, int64_t n) {
    const amp_reduction kind = p->work->kind;
    const bool whole = p->compute == AMP_I64;
    double first = 0.0;
    int64_t first_whole = 0;
    if (kind == AMP_REDUCE_PRODUCT) first = 1.0, first_whole = 1;
    if (kind == AMP_REDUCE_MAX) first = -INFINITY, first_whole = INT64_MIN;
    if (kind == AMP_REDUCE_MIN || kind == AMP_REDUCE_MIN_ABS) first = INFINITY, first_whole = INT64_MAX;
    for (int64_t i = 0; i < n; i++) {
        if (whole)
            acc->whole[i] = first_whole;
        else
            acc->value[i] = first;
        acc->rest[i] = 0.0;
    }
}

/* Neumaier's sum: what an addition rounds away is kept beside it. */
static inline void add_exactly(double *sum, double *rest, double x) {
    const double total = *sum + x;
    *rest += fabs(*sum) >= fabs(x) ? (*sum - total) + x : (x - total) + *sum;
    *sum = total;
}

static inline double larger(double a, double b) {
    return a != a || a > b ? a : b;
}

static inline double smaller(double a, double b) {
    return a != a || a < b ? a : b;
}

/* x[i] into result number i, or, with step 0, all into the first. */
#define EACH(statement)                                                                                                \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
        const int64_t k = i * step;                                                                                    \
        statement;                                                                                                     \
    }                                                                                                                  \
    return

/* Of one long product eight parts grow side by side: an addition or product waits for the one before it. */
static double product_of(const double *x, int64_t n) {
    double part[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        for (int k = 0; k < 8; k++) part[k] *= x[i + k];
    }
    for (; i < n; i++) part[0] *= x[i];
    return ((part[0] * part[1]) * (part[2] * part[3])) * ((part[4] * part[5]) * (part[6] * part[7]));
}

static void take_f64(const plan *p, accumulators *acc, const double *x, int64_t n, int64_t step) {
    double *value = acc->value, *rest = acc->rest;
    switch (p->work->kind) {
    case AMP_REDUCE_SUM: EACH(add_exactly(&value[k], &rest[k], x[i]));
    case AMP_REDUCE_SUM_ABS: EACH(add_exactly(&value[k], &rest[k], fabs(x[i])));
    case AMP_REDUCE_SUM_SQUARES: EACH(add_exactly(&value[k], &rest[k], x[i] * x[i]));
    case AMP_REDUCE_SUM_POWERS:
        if (p->work->power == 3.0) {
            EACH(add_exactly(&value[k], &rest[k], fabs(x[i]) * (x[i] * x[i])));
        }
        EACH(add_exactly(&value[k], &rest[k], pow(fabs(x[i]), p->work->power)));
    case AMP_REDUCE_PRODUCT:
        if (!step) {
            value[0] *= product_of(x, n);
            return;
        }
        EACH(value[k] *= x[i]);
    case AMP_REDUCE_COUNT: EACH(value[k] += x[i] != 0.0);
    case AMP_REDUCE_MAX: EACH(value[k] = larger(x[i], value[k]));
    case AMP_REDUCE_MIN: EACH(value[k] = smaller(x[i], value[k]));
    case AMP_REDUCE_MAX_ABS: EACH(value[k] = larger(fabs(x[i]), value[k]));
    case AMP_REDUCE_MIN_ABS: EACH(value[k] = smaller(fabs(x[i]), value[k]));
    }
}

static void take_i64(const plan *p, accumulators *acc, const int64_t *x, int64_t n, int64_t step) {
    int64_t *whole = acc->whole;
    switch (p->work->kind) {
    case AMP_REDUCE_MAX: EACH(if (x[i] > whole[k]) whole[k] = x[i]);
    case AMP_REDUCE_MIN: EACH(if (x[i] < whole[k]) whole[k] = x[i]);
    case AMP_REDUCE_PRODUCT: EACH(whole[k] = (int64_t)((uint64_t)whole[k] * (uint64_t)x[i]));
    default: EACH(whole[k] = (int64_t)((uint64_t)whole[k] + (uint64_t)x[i]));
    }
}

static void multiply(double *real, double *imaginary, const double *x) {
    const double r = *real * x[0] - *imaginary * x[1];
    *imaginary = *real * x[1] + *imaginary * x[0];
    *real = r;
}

static void take_c128(const plan *p, accumulators *acc, const double *x, int64_t n, int64_t step) {
    if (p->work->kind == AMP_REDUCE_PRODUCT) {
        EACH(multiply(&acc->value[k], &acc->rest[k], &x[2 * i]));
    }
    EACH(acc->value[k] += x[2 * i]; acc->rest[k] += x[2 * i + 1]);
}

/* What a part of the elements gave. */
static void join(const plan *p, accumulators *acc, double part) {
    switch (p->work->kind) {
    case AMP_REDUCE_MAX:
    case AMP_REDUCE_MAX_ABS: acc->value[0] = larger(part, acc->value[0]); break;
    case AMP_REDUCE_MIN:
    case AMP_REDUCE_MIN_ABS: acc->value[0] = smaller(part, acc->value[0]); break;
    case AMP_REDUCE_PRODUCT: acc->value[0] *= part; break;
    default: acc->value[0] += part; break;
    }
}

/* n elements, `stride` bytes apart. */
static void take(const plan *p, accumulators *acc, const char *x, int64_t stride, int64_t n, int64_t step) {
    const int64_t size = (int64_t)amp_dtype_size(p->compute), block = AMP_BLOCK_BYTES / size;
    const bool dense = p->compute == p->in_dtype && stride == size;
    _Alignas(64) char buffer[AMP_BLOCK_BYTES];
    for (int64_t at = 0; at < n;) {
        const int64_t count = dense || n - at < block ? n - at : block;
        const void *data = x + at * stride;
        if (!dense) {
            amp_block_load(p->compute, buffer, p->in_dtype, data, stride, count);
            data = buffer;
        }
        if (p->row_kernel)
            join(p, acc, p->row_kernel(data, count));
        else if (p->compute == AMP_F64)
            take_f64(p, acc, data, count, step);
        else if (p->compute == AMP_C128)
            take_c128(p, acc, data, count, step);
        else
            take_i64(p, acc, data, count, step);
        at += count;
    }
}

static double rooted(const amp_reduce_work *w, double x) {
    return w->root == 0.5 ? sqrt(x) : w->root == 1.0 ? x : pow(x, w->root);
}

static void finish_complex(const plan *p, const accumulators *acc, char *out, int64_t stride, int64_t n) {
    const amp_reduce_work *w = p->work;
    for (int64_t i = 0; i < n; i++) {
        const double result[2] = {rooted(w, acc->value[i] * w->scale), acc->rest[i] * w->scale};
        amp_block_store(AMP_C128, result, p->out_dtype, out + i * stride, stride, 1);
    }
}

static void finish(const plan *p, accumulators *acc, char *out, int64_t stride, int64_t n) {
    const amp_reduce_work *w = p->work;
    if (p->compute == AMP_C128) {
        finish_complex(p, acc, out, stride, n);
        return;
    }
    const bool whole = p->compute == AMP_I64;
    for (int64_t i = 0; i < n && !whole; i++) {
        const bool has_rest = w->kind <= AMP_REDUCE_SUM_POWERS && isfinite(acc->value[i]);
        acc->value[i] = rooted(w, (has_rest ? acc->value[i] + acc->rest[i] : acc->value[i]) * w->scale);
    }
    amp_block_store(whole ? AMP_I64 : AMP_F64, acc->value, p->out_dtype, out, stride, n);
}

/* ---- The two walks -------------------------------------------------------------------------------------------- */

/* One result from its rows. */
static void reduce_rows(const plan *p, int64_t index) {
    const dimensions *r = &p->reduced;
    const char *in = p->in + offset_of(&p->kept, p->kept.rank, index, p->kept.in);
    char *out = p->out + offset_of(&p->kept, p->kept.rank, index, p->kept.out);
    const int64_t n = r->rank ? r->shape[r->rank - 1] : 1, stride = r->rank ? r->in[r->rank - 1] : 0;
    const int64_t rows = n ? elements_of(r) / n : 0;
    accumulators acc;
    start(p, &acc, 1);
    for (int64_t i = 0; i < rows; i++) take(p, &acc, in + offset_of(r, r->rank - 1, i, r->in), stride, n, 0);
    finish(p, &acc, out, 0, 1);
}

/* A block of results whose rows the kernel takes whole. */
static void reduce_dense_rows(const plan *p, int64_t first, int64_t count) {
    const int64_t n = p->reduced.rank ? p->reduced.shape[0] : 1;
    const int64_t in_step = p->kept.rank ? p->kept.in[0] : 0, out_step = p->kept.rank ? p->kept.out[0] : 0;
    accumulators acc;
    start(p, &acc, count);
    for (int64_t i = 0; i < count; i++) acc.value[i] = p->row_kernel(p->in + (first + i) * in_step, n);
    finish(p, &acc, p->out + first * out_step, out_step, count);
}

static bool has_dense_rows(const plan *p) {
    return p->row_kernel && p->compute == p->in_dtype && p->kept.rank <= 1 && p->reduced.rank <= 1 &&
           (!p->reduced.rank || p->reduced.in[0] == (int64_t)amp_dtype_size(p->compute));
}

/* `width` neighbouring results through the kernel: all rows at once, or each as a block. */
static void take_columns(const plan *p, accumulators *acc, const char *in, int64_t step, int64_t width) {
    const dimensions *r = &p->reduced;
    const int inner = r->rank - 1;
    const int64_t rows = r->shape[inner], runs = rows ? elements_of(r) / rows : 0;
    const bool dense = p->compute == p->in_dtype && step == (int64_t)amp_dtype_size(p->compute);
    _Alignas(64) char buffer[COLUMNS * sizeof(float)];
    for (int64_t i = 0; i < runs; i++) {
        const char *run = in + offset_of(r, inner, i, r->in);
        if (dense) {
            p->column_kernel(acc->value, run, r->in[inner], rows, width);
            continue;
        }
        for (int64_t k = 0; k < rows; k++) {
            amp_block_load(p->compute, buffer, p->in_dtype, run + k * r->in[inner], step, width);
            p->column_kernel(acc->value, buffer, 0, 1, width);
        }
    }
}

/* A block of neighbouring results, an element for each from every row. */
static void reduce_columns(const plan *p, int64_t index) {
    const dimensions *k = &p->kept, *r = &p->reduced;
    const int last = k->rank - 1;
    const int64_t blocks = (k->shape[last] + p->width - 1) / p->width, first = index % blocks * p->width;
    const int64_t width = k->shape[last] - first < p->width ? k->shape[last] - first : p->width;
    const char *in = p->in + offset_of(k, last, index / blocks, k->in) + first * k->in[last];
    char *out = p->out + offset_of(k, last, index / blocks, k->out) + first * k->out[last];
    const int64_t rows = elements_of(r);
    accumulators acc;
    start(p, &acc, width);
    if (p->column_kernel) {
        take_columns(p, &acc, in, k->in[last], width);
    } else {
        for (int64_t i = 0; i < rows; i++) take(p, &acc, in + offset_of(r, r->rank, i, r->in), k->in[last], width, 1);
    }
    finish(p, &acc, out, k->out[last], width);
}

/* One result from one long run: parts of fixed length, so that threads may share them, added in order. */
static amp_status reduce_long_run(const plan *p, int64_t n) {
    const int64_t parts = (n + CHUNK - 1) / CHUNK, stride = p->reduced.in[0];
    double *partial = amp_alloc((size_t)parts * sizeof *partial);
    if (!partial) return amp_fail(AMP_ERROR_MEMORY, "reduction: no memory for %lld partial results", (long long)parts);
    const int threads = amp_parallel_threads(n, AMP_GRAIN_ELEMENTS);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t i = 0; i < parts; i++) {
        accumulators acc;
        start(p, &acc, 1);
        take(p, &acc, p->in + i * CHUNK * stride, stride, n - i * CHUNK < CHUNK ? n - i * CHUNK : CHUNK, 0);
        partial[i] = isfinite(acc.value[0]) ? acc.value[0] + acc.rest[0] : acc.value[0];
    }
    accumulators acc;
    start(p, &acc, 1);
    for (int64_t i = 0; i < parts; i++) join(p, &acc, partial[i]);
    finish(p, &acc, p->out, 0, 1);
    amp_free(partial);
    return AMP_OK;
}

/* ---- Choosing ------------------------------------------------------------------------------------------------- */

static const struct {
    amp_kernel_family rows, columns;
} kernels[] = {
    [AMP_REDUCE_SUM] = {AMP_KERNEL_SUM, AMP_KERNEL_COLUMNS_SUM},
    [AMP_REDUCE_SUM_ABS] = {AMP_KERNEL_SUM_ABS, AMP_KERNEL_COLUMNS_SUM_ABS},
    [AMP_REDUCE_SUM_SQUARES] = {AMP_KERNEL_SUM_SQUARES, AMP_KERNEL_COLUMNS_SUM_SQUARES},
    [AMP_REDUCE_SUM_POWERS] = {AMP_KERNEL_FAMILY_COUNT, AMP_KERNEL_FAMILY_COUNT}, /* none */
    [AMP_REDUCE_COUNT] = {AMP_KERNEL_COUNT_NONZERO, AMP_KERNEL_COLUMNS_COUNT},
    [AMP_REDUCE_PRODUCT] = {AMP_KERNEL_PRODUCT, AMP_KERNEL_COLUMNS_PRODUCT},
    [AMP_REDUCE_MAX] = {AMP_KERNEL_ROW_MAX, AMP_KERNEL_COLUMNS_MAX},
    [AMP_REDUCE_MIN] = {AMP_KERNEL_ROW_MIN, AMP_KERNEL_COLUMNS_MIN},
    [AMP_REDUCE_MAX_ABS] = {AMP_KERNEL_ROW_MAX_ABS, AMP_KERNEL_COLUMNS_MAX_ABS},
    [AMP_REDUCE_MIN_ABS] = {AMP_KERNEL_ROW_MIN_ABS, AMP_KERNEL_COLUMNS_MIN_ABS},
};

/* f32 or bf16 blocks where kernels take them, else f64. */
static amp_status choose_compute(plan *p) {
    const amp_reduction kind = p->work->kind;
    const amp_kernel_family family = p->columns ? kernels[kind].columns : kernels[kind].rows;
    p->compute = p->work->compute;
    if (p->compute != AMP_F32) return AMP_OK;
    p->compute = AMP_F64;
    if (family == AMP_KERNEL_FAMILY_COUNT) return AMP_OK;
    p->compute = amp_kernel_dtype(family, p->in_dtype);
    amp_kernel_function *kernel = amp_kernel_get(family, p->compute, p->compute);
    if (p->columns)
        p->column_kernel = (amp_columns_function *)kernel;
    else
        p->row_kernel = (amp_reduce_function *)kernel;
    return kernel ? AMP_OK : amp_pending_error();
}

/* As many blocks as there are threads, of COLUMNS or less. Where a block ends changes nothing. */
static int64_t columns_of_block(const plan *p, int64_t width, int64_t results, int threads) {
    if (!p->column_kernel) return ANY_COLUMNS;
    const int64_t matrices = results / width, each = (width * matrices + threads - 1) / threads;
    const int64_t lines = (each + LEAST_COLUMNS - 1) / LEAST_COLUMNS * LEAST_COLUMNS;
    return lines < COLUMNS ? lines : COLUMNS;
}

static bool is_long_run(const plan *p, int64_t results, int64_t each) {
    return results == 1 && each > CHUNK && p->reduced.rank == 1 &&
           (p->row_kernel || (p->compute == AMP_F64 && p->work->kind != AMP_REDUCE_PRODUCT));
}

amp_status amp_cpu_reduce(const amp_reduce_work *work, amp_tensor *out) {
    plan p;
    make_plan(&p, work, out);
    AMP_TRY(choose_compute(&p));
    amp_block_prepare();
    const int64_t results = elements_of(&p.kept), each = elements_of(&p.reduced);
    if (results == 0) return AMP_OK;
    if (is_long_run(&p, results, each)) return reduce_long_run(&p, each);
    const int threads = amp_parallel_threads(results * each, AMP_GRAIN_ELEMENTS);
    if (has_dense_rows(&p)) {
        const int64_t share = (results + threads - 1) / threads, rows = share < ROWS ? share : ROWS;
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
        for (int64_t i = 0; i < results; i += rows) reduce_dense_rows(&p, i, results - i < rows ? results - i : rows);
        return AMP_OK;
    }
    int64_t units = results;
    if (p.columns) {
        const int64_t width = p.kept.shape[p.kept.rank - 1];
        p.width = columns_of_block(&p, width, results, threads);
        units = results / width * ((width + p.width - 1) / p.width);
    }
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t i = 0; i < units; i++) {
        if (p.columns)
            reduce_columns(&p, i);
        else
            reduce_rows(&p, i);
    }
    return AMP_OK;
}
