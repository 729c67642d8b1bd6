/* f32 products through oneDNN, cut into slices by their extents alone, each for one thread; scratchpads are ours. */
#include <assert.h>
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#include <string.h>

#include "core/fail.h"
#include "core/memory.h"
#include "core/parallel.h"
#include "cpu/dnnl/dnnl_cache.h"
#include "cpu/dnnl/dnnl_engine.h"
#include "cpu/dnnl/dnnl_matmul.h"

enum {
    SLICES = 64,              /* most of a product; with packed weights at least one for each matrix of a batch */
    SLICE_PRODUCTS = 1 << 21, /* least of one … */
    SLICE_ROWS = 128,         /* … and of its rows, */
    LEAST_ROWS = 64,          /* but so many if there would be FEW slices or less: each reads all of B */
    FEW = 4,
    SLICE_COLUMNS = 128 /* columns are cut at multiples of it */
};

/* What a primitive depends on. */
typedef struct key {
    int64_t m, n, k, batch;
    int64_t a_row, a_column, a_batch, b_row, b_column, b_batch, c_row, c_batch;
    int32_t has_bias, packed;
} key;

_Static_assert(sizeof(key) <= AMP_DNNL_KEY_WORDS * sizeof(uint64_t), "a key fits the table of primitives");

static amp_status check(dnnl_status_t status, const char *what) {
    if (status == dnnl_success) return AMP_OK;
    if (status == dnnl_out_of_memory) return amp_fail(AMP_ERROR_MEMORY, "matmul: oneDNN: no memory to %s", what);
    return amp_fail(AMP_ERROR_INTERNAL, "matmul: oneDNN cannot %s (status %d)", what, (int)status);
}

/* ---- Descriptors ---------------------------------------------------------------------------------------------- */

static dnnl_status_t describe(dnnl_memory_desc_t *d, int64_t batch, int64_t rows, int64_t columns, int64_t batch_stride,
                              int64_t row_stride, int64_t column_stride) {
    const dnnl_dims_t dims3 = {batch, rows, columns}, strides3 = {batch_stride, row_stride, column_stride};
    const dnnl_dims_t dims2 = {rows, columns}, strides2 = {row_stride, column_stride};
    if (batch > 0) return dnnl_memory_desc_create_with_strides(d, 3, dims3, dnnl_f32, strides3);
    return dnnl_memory_desc_create_with_strides(d, 2, dims2, dnnl_f32, strides2);
}

static dnnl_status_t make_attributes(dnnl_primitive_attr_t *attributes) {
    const dnnl_status_t status = dnnl_primitive_attr_create(attributes);
    return status != dnnl_success ? status
                                  : dnnl_primitive_attr_set_scratchpad_mode(*attributes, dnnl_scratchpad_mode_user);
}

typedef struct descriptors {
    dnnl_memory_desc_t a, b, c, bias;
    dnnl_primitive_attr_t attributes;
} descriptors;

static void destroy_descriptors(descriptors *d) {
    if (d->a) dnnl_memory_desc_destroy(d->a);
    if (d->b) dnnl_memory_desc_destroy(d->b);
    if (d->c) dnnl_memory_desc_destroy(d->c);
    if (d->bias) dnnl_memory_desc_destroy(d->bias);
    if (d->attributes) dnnl_primitive_attr_destroy(d->attributes);
}

/* oneDNN's matmul of rank 2, or of rank 3 with broadcasting where the batch stride is 0. */
static dnnl_status_t make_matmul(const key *q, descriptors *d, dnnl_primitive_desc_t *matmul) {
    const int64_t batch = q->batch > 1 ? q->batch : 0;
    const dnnl_dims_t bias_dims = {1, batch ? 1 : q->n, q->n}, b_dims = {q->k, q->n};
    dnnl_status_t s = make_attributes(&d->attributes);
    if (s == dnnl_success)
        s = describe(&d->a, batch && !q->a_batch ? 1 : batch, q->m, q->k, q->a_batch ? q->a_batch : q->m * q->k,
                     q->a_row, q->a_column);
    if (s == dnnl_success) {
        if (q->packed)
            s = dnnl_memory_desc_create_with_tag(&d->b, 2, b_dims, dnnl_f32, dnnl_BA16a32b);
        else
            s = describe(&d->b, batch && !q->b_batch ? 1 : batch, q->k, q->n, q->b_batch ? q->b_batch : q->k * q->n,
                         q->b_row, q->b_column);
    }
    if (s == dnnl_success) s = describe(&d->c, batch, q->m, q->n, q->c_batch, q->c_row, 1);
    if (s == dnnl_success && q->has_bias)
        s = dnnl_memory_desc_create_with_tag(&d->bias, batch ? 3 : 2, bias_dims, dnnl_f32, batch ? dnnl_abc : dnnl_ab);
    if (s == dnnl_success)
        s = dnnl_matmul_primitive_desc_create(matmul, amp_dnnl_engine(), d->a, d->b, d->bias, d->c, d->attributes);
    return s;
}

static dnnl_status_t describe_product(const void *words, dnnl_primitive_desc_t *descriptor) {
    descriptors d = {0};
    const dnnl_status_t s = make_matmul(words, &d, descriptor);
    destroy_descriptors(&d);
    return s;
}

static int list_arguments(const void *words, int list[AMP_DNNL_OPERANDS]) {
    const int all[] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_SCRATCHPAD, DNNL_ARG_BIAS};
    const int count = ((const key *)words)->has_bias ? 5 : 4;
    memcpy(list, all, (size_t)count * sizeof *all);
    return count;
}

/* Plain loops over packed weights: then the weights as they lie. */
static bool refuses_loops(const void *words) {
    return ((const key *)words)->packed != 0;
}

static const amp_dnnl_kind products = {sizeof(key), describe_product, list_arguments, refuses_loops};

/* ---- Slices --------------------------------------------------------------------------------------------------- */

enum { BATCH, ROWS, COLUMNS, DIMENSIONS, EDGES = 1 << DIMENSIONS };

/* A product cut by its extents alone: slices of `step`, of which the last along a dimension may be smaller. */
typedef struct slices {
    int64_t whole[DIMENSIONS], step[DIMENSIONS], count[DIMENSIONS], all;
    amp_dnnl_primitive *primitives[EDGES]; /* by the dimensions whose last slice it is, where that differs; else NULL */
} slices;

static void cut_dimension(slices *s, int dimension, int64_t whole, int64_t count, int64_t unit) {
    const int64_t each = (whole + count - 1) / count;
    int64_t step = (each + unit - 1) / unit * unit;
    while (unit > 1 && step < whole && whole % step == 1) step += unit; /* a single column is a vector, a slow one */
    s->whole[dimension] = whole;
    s->step[dimension] = step < whole ? step : whole;
    s->count[dimension] = (whole + step - 1) / step;
}

static int64_t wanted_slices(const amp_dnnl_matmul *p) {
    const double products = (double)p->batch * (double)p->m * (double)p->n * (double)p->k;
    const double wanted = products / SLICE_PRODUCTS;
    return wanted < 1 ? 1 : wanted < SLICES ? (int64_t)wanted : SLICES;
}

static int64_t at_most(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Matrices of a batch first; then rows, which leaves matrices dense: others go to a slower kernel of oneDNN's. Columns
 * where there are but few rows; of packed weights they are not cut. */
static void cut(slices *s, const amp_dnnl_matmul *p) {
    const int64_t wanted = wanted_slices(p), items = p->packed_b ? p->batch : at_most(wanted, p->batch);
    const int64_t rest = wanted / items, columns = p->n / SLICE_COLUMNS;
    int64_t rows = at_most(p->m / LEAST_ROWS, FEW);
    if (rows < p->m / SLICE_ROWS) rows = p->m / SLICE_ROWS;
    rows = at_most(rows, rest);
    const bool wide = !p->packed_b && rows < 2;
    *s = (slices){0};
    cut_dimension(s, BATCH, p->batch, items, 1);
    cut_dimension(s, ROWS, p->m, rows < 1 ? 1 : rows, 1);
    cut_dimension(s, COLUMNS, p->n, !wide || rest < 2 || columns < 2 ? 1 : at_most(rest, columns), SLICE_COLUMNS);
    s->all = s->count[BATCH] * s->count[ROWS] * s->count[COLUMNS];
}

/* Whose primitive slice `at` has, and its extents. */
static int edge_of(const slices *s, const int64_t at[DIMENSIONS], int64_t extent[DIMENSIONS]) {
    int edge = 0;
    for (int d = 0; d < DIMENSIONS; d++) {
        const int64_t left = s->whole[d] - at[d] * s->step[d];
        extent[d] = left < s->step[d] ? left : s->step[d];
        edge |= (extent[d] != s->step[d]) << d;
    }
    return edge;
}

/* The product that slice number `index` is. */
static int slice_of(const slices *s, const amp_dnnl_matmul *p, int64_t index, amp_dnnl_matmul *slice) {
    const int64_t at[DIMENSIONS] = {index / s->count[COLUMNS] / s->count[ROWS],
                                    index / s->count[COLUMNS] % s->count[ROWS], index % s->count[COLUMNS]};
    const int64_t item = at[BATCH] * s->step[BATCH], row = at[ROWS] * s->step[ROWS],
                  column = at[COLUMNS] * s->step[COLUMNS];
    int64_t extent[DIMENSIONS];
    const int edge = edge_of(s, at, extent);
    *slice = *p;
    slice->batch = extent[BATCH];
    slice->m = extent[ROWS];
    slice->n = extent[COLUMNS];
    slice->a += item * p->a_batch_stride + row * p->a_row_stride;
    slice->c += item * p->c_batch_stride + row * p->c_row_stride + column;
    slice->b += item * p->b_batch_stride + column * p->b_column_stride;
    if (p->bias) slice->bias += column;
    return edge;
}

/* ---- Execution ------------------------------------------------------------------------------------------------ */

static key make_key(const amp_dnnl_matmul *p) {
    key q;
    memset(&q, 0, sizeof q);
    q.m = p->m;
    q.n = p->n;
    q.k = p->k;
    q.batch = p->batch;
    q.a_row = p->a_row_stride;
    q.a_column = p->a_column_stride;
    q.c_row = p->m == 1 ? p->n : p->c_row_stride;
    if (p->batch > 1) {
        q.a_batch = p->a_batch_stride;
        q.b_batch = p->b_batch_stride;
        q.c_batch = p->c_batch_stride;
    }
    if (!p->packed_b) {
        q.b_row = p->b_row_stride;
        q.b_column = p->b_column_stride;
    }
    q.has_bias = p->bias != NULL;
    q.packed = p->packed_b != NULL;
    return q;
}

/* dnnl_unimplemented: it has none. */
static dnnl_status_t take_primitives(slices *s, const amp_dnnl_matmul *p) {
    dnnl_status_t status = dnnl_success;
    for (int64_t i = 0; i < s->all; i++) {
        amp_dnnl_matmul slice;
        const int edge = slice_of(s, p, i, &slice);
        if (s->primitives[edge]) continue;
        const key q = make_key(&slice);
        s->primitives[edge] = amp_dnnl_take(&products, &q, &status);
        if (!s->primitives[edge]) return status;
        if (!s->primitives[edge]->primitive) return dnnl_unimplemented;
    }
    return status;
}

static size_t scratch_bytes(const slices *s) {
    size_t most = 0;
    for (int i = 0; i < EDGES; i++)
        if (s->primitives[i] && s->primitives[i]->scratch_bytes > most) most = s->primitives[i]->scratch_bytes;
    return most;
}

typedef struct work {
    const slices *s;
    const amp_dnnl_matmul *p;
} work;

static amp_dnnl_primitive *primitive_of(const void *context, int64_t index) {
    const work *w = context;
    amp_dnnl_matmul slice;
    return w->s->primitives[slice_of(w->s, w->p, index, &slice)];
}

static dnnl_status_t run_slice(const void *context, int64_t index, const amp_dnnl_operands *o, char *scratchpad) {
    const work *w = context;
    amp_dnnl_matmul slice;
    const amp_dnnl_primitive *d = w->s->primitives[slice_of(w->s, w->p, index, &slice)];
    const void *b = slice.packed_b ? slice.packed_b : slice.b;
    return amp_dnnl_execute(d, o, (void *[]){(void *)slice.a, (void *)b, slice.c, scratchpad, (void *)slice.bias});
}

/* Not served, without an error: oneDNN has no product with packed weights. */
static amp_status run_dnnl(const amp_dnnl_matmul *p, bool *served, const char **name) {
    slices s;
    cut(&s, p);
    dnnl_status_t status = take_primitives(&s, p);
    *served = status == dnnl_success;
    const work w = {&s, p};
    if (*served)
        status = amp_dnnl_run_slices(&(amp_dnnl_slices){s.all, scratch_bytes(&s), primitive_of, run_slice, &w});
    if (*served && name && s.primitives[0]) *name = s.primitives[0]->name;
    for (int i = 0; i < EDGES; i++) amp_dnnl_give_back(s.primitives[i]);
    return !*served && status == dnnl_unimplemented && p->packed_b ? AMP_OK : check(status, "compute a product");
}

/* ---- What oneDNN's product does not do ------------------------------------------------------------------------ */

/* C = alpha · T + beta · R + bias, T the products [batch, M, N] with their own strides; NULL: zeros. */
typedef struct sum {
    const amp_dnnl_matmul *p;
    const float *t;
    int64_t t_row_stride, t_batch_stride;
} sum;

static void sum_row(const sum *s, int64_t item, int64_t i) {
    const amp_dnnl_matmul *p = s->p;
    const float *bias = p->bias;
    const float *t = s->t ? s->t + item * s->t_batch_stride + i * s->t_row_stride : NULL;
    const float *r = p->residual;
    if (r) r += item * p->residual_batch_stride + i * p->residual_row_stride;
    assert(p->c);
    float *c = p->c + item * p->c_batch_stride + i * p->c_row_stride;
    for (int64_t j = 0; j < p->n; j++) {
        float x = t ? p->alpha * t[j] : 0.0f;
        if (r) x += p->beta * r[j * p->residual_column_stride];
        if (bias) x += bias[j];
        c[j] = x;
    }
}

/* Products, residual and result follow one another without gaps: rows and batch do not matter. */
static bool is_one_row(const sum *s) {
    const amp_dnnl_matmul *p = s->p;
    const int64_t n = p->n, matrix = p->m * n;
    return s->t && p->residual && !p->bias && p->residual_column_stride == 1 && p->residual_row_stride == n &&
           p->c_row_stride == n && s->t_row_stride == n &&
           (p->batch == 1 ||
            (p->residual_batch_stride == matrix && p->c_batch_stride == matrix && s->t_batch_stride == matrix));
}

static void sum_dense(const sum *s, amp_range part) {
    const float alpha = s->p->alpha, beta = s->p->beta, *t = s->t, *r = s->p->residual;
    float *c = s->p->c;
    for (int64_t i = part.begin; i < part.end; i++) c[i] = alpha * t[i] + beta * r[i];
}

static void sum_all(const sum *s) {
    const int64_t rows = s->p->batch * s->p->m, elements = rows * s->p->n;
    const int threads = amp_parallel_threads(elements, AMP_GRAIN_ELEMENTS);
    const bool one_row = is_one_row(s);
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        const int thread = omp_get_thread_num(), count = omp_get_num_threads();
        const amp_range part = amp_parallel_part(one_row ? elements : rows, one_row ? 16 : 1, thread, count);
        if (one_row) sum_dense(s, part);
        for (int64_t i = part.begin; !one_row && i < part.end; i++) sum_row(s, i / s->p->m, i % s->p->m);
    }
}

/* Where an extent is 1 its stride means nothing: canonical ones keep the keys few and oneDNN's kernels fast. False for
 * strides that oneDNN's fast kernels do not take, or that some versions read wrongly: 3.7 takes a row vector with steps
 * between its elements for a dense one. */
static bool settle_strides(int64_t rows, int64_t columns, int64_t *row, int64_t *column) {
    if (rows == 1 && columns == 1) *row = *column = 1;
    if (rows == 1 && *column != 1) return false;
    if (columns == 1 && *row != 1) return false;
    if (rows == 1) *row = columns;
    if (columns == 1) *column = rows;
    return (*row == 1 && *column >= rows) || (*column == 1 && *row >= columns);
}

typedef struct operand {
    const float *data;
    int64_t rows, columns, row_stride, column_stride, batch_stride;
} operand;

/* Makes the strides of an operand acceptable, by a dense copy if need be, and always with `spread`: then every matrix
 * of the batch gets its own. `copy` receives what to free. */
static amp_status settle(operand *x, int64_t batch, bool spread, void **copy) {
    *copy = NULL;
    if (!spread && settle_strides(x->rows, x->columns, &x->row_stride, &x->column_stride) &&
        (batch == 1 || x->batch_stride >= 0))
        return AMP_OK;
    const int64_t items = x->batch_stride || spread ? batch : 1;
    int64_t values, bytes; /* a broadcast operand reaches any size */
    const bool overflow = __builtin_mul_overflow(x->rows, x->columns, &values) ||
                          __builtin_mul_overflow(values, items * (int64_t)sizeof(float), &bytes);
    float *dense = overflow ? NULL : amp_alloc((size_t)bytes);
    if (!dense) return amp_fail(AMP_ERROR_MEMORY, "matmul: no memory to copy an operand");
    const int threads = amp_parallel_threads(items * values, AMP_GRAIN_ELEMENTS);
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
    for (int64_t i = 0; i < items * x->rows; i++) {
        const float *from = x->data + i / x->rows * x->batch_stride + i % x->rows * x->row_stride;
        for (int64_t j = 0; j < x->columns; j++) dense[i * x->columns + j] = from[j * x->column_stride];
    }
    *x = (operand){dense, x->rows, x->columns, x->columns, 1, items > 1 ? values : 0};
    *copy = dense;
    return AMP_OK;
}

/* Product and sum; the operands' strides are settled. The products go to memory of their own where there is an R, for
 * R may be C. */
static amp_status multiply(const amp_dnnl_matmul *p, bool *served, const char **name) {
    if (!p->residual && p->alpha == 1.0f) return run_dnnl(p, served, name);
    amp_dnnl_matmul product = *p;
    product.bias = NULL;
    void *temporary = NULL;
    if (p->residual) {
        temporary = amp_alloc((size_t)(p->batch * p->m * p->n) * sizeof(float));
        if (!temporary) return amp_fail(AMP_ERROR_MEMORY, "matmul: no memory for a product");
        product.c = temporary;
        product.c_row_stride = p->n;
        product.c_batch_stride = p->m * p->n;
    }
    const amp_status status = run_dnnl(&product, served, name);
    if (status == AMP_OK && *served) sum_all(&(sum){p, product.c, product.c_row_stride, product.c_batch_stride});
    amp_free(temporary);
    return status;
}

/* Matrices that share B and follow each other seamlessly are one matrix. */
static void fold_batch(amp_dnnl_matmul *p) {
    const bool seamless = p->batch > 1 && p->m <= INT32_MAX / p->batch && p->b_batch_stride == 0 &&
                          p->a_batch_stride == p->m * p->a_row_stride && p->c_batch_stride == p->m * p->c_row_stride &&
                          (!p->residual || p->residual_batch_stride == p->m * p->residual_row_stride);
    if (!seamless) return;
    p->m *= p->batch;
    p->batch = 1;
}

/* 16 k of 32 columns is a block of oneDNN's: K is padded to whole ones there, and to two of them in our packed form.
 * Nothing but dense matrices meets it fast. */
static bool takes_packed(const amp_dnnl_matmul *p) {
    const bool dense = p->a_column_stride == 1 && (p->m == 1 || (p->a_row_stride == p->k && p->c_row_stride == p->n));
    return p->packed_b && dense && (p->k + 15) / 16 % 2 == 0;
}

static amp_status settle_and_multiply(const amp_dnnl_matmul *problem, bool *served, const char **name) {
    amp_dnnl_matmul p = *problem;
    void *a_copy = NULL, *b_copy = NULL;
    operand a = {p.a, p.m, p.k, p.a_row_stride, p.a_column_stride, p.a_batch_stride};
    operand b = {p.b, p.k, p.n, p.b_row_stride, p.b_column_stride, p.b_batch_stride};
    /* oneDNN broadcasts one of the operands, not both. */
    const bool spread = p.batch > 1 && !a.batch_stride && !b.batch_stride;
    amp_status status = settle(&a, p.batch, spread, &a_copy);
    if (status == AMP_OK && !p.packed_b) status = settle(&b, p.batch, false, &b_copy);
    p.a = a.data;
    p.a_row_stride = a.row_stride;
    p.a_column_stride = a.column_stride;
    p.a_batch_stride = a.batch_stride;
    p.b = b.data;
    p.b_row_stride = b.row_stride;
    p.b_column_stride = b.column_stride;
    p.b_batch_stride = b.batch_stride;
    if (status == AMP_OK) status = multiply(&p, served, name);
    amp_free(b_copy);
    amp_free(a_copy);
    return status;
}

/* The form in which it is computed. */
static amp_dnnl_matmul settled(const amp_dnnl_matmul *problem) {
    amp_dnnl_matmul p = *problem;
    if (!takes_packed(&p)) p.packed_b = NULL;
    fold_batch(&p);
    return p;
}

bool amp_dnnl_matmul_is_shared(const amp_dnnl_matmul *problem) {
    const amp_dnnl_matmul p = settled(problem);
    slices s;
    cut(&s, &p);
    return s.all > 1 || wanted_slices(&p) < 2;
}

amp_status amp_dnnl_matmul_f32(const amp_dnnl_matmul *problem, const char **kernel_name) {
    amp_dnnl_matmul p = settled(problem);
    bool served = false;
    if (kernel_name) *kernel_name = "none";
    if (p.m == 0 || p.n == 0 || p.batch == 0) return AMP_OK;
    if (p.k == 0) {
        sum_all(&(sum){&p, NULL, 0, 0});
        return AMP_OK;
    }
    if (p.packed_b) AMP_TRY(settle_and_multiply(&p, &served, kernel_name));
    p.packed_b = NULL;
    return served ? AMP_OK : settle_and_multiply(&p, &served, kernel_name);
}
