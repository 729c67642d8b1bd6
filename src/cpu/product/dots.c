/* Dot products, in one of two ways. By rows: each is cut into pieces of a fixed length. By columns, where neighbouring
 * results' elements are neighbours in memory and a row's own are not: a panel of results at a time. Threads share the
 * pieces; their sums are added in order. */
#include "cpu/product/dots.h"

#include <omp.h>
#include <string.h>

#include "core/memory.h"
#include "core/parallel.h"
#include "cpu/convert/element.h"
#include "cpu/registry/kernels.h"
#include "cuda/ops/cuda_rows.h"

typedef double _Complex complex128;

enum {
    PIECE = 32 * 1024, /* elements of a row that one piece has */
    PANEL = AMP_BLOCK_BYTES / sizeof(double),
    PANEL_PIECE = 2048, /* … and of each row of a panel */
    IN_F32 = 64         /* products of a panel that are summed in f32 */
};

/* The sum of one piece, or of several. */
typedef union total {
    double f64;
    int64_t i64;
    complex128 c128;
} total;

typedef struct dots {
    amp_tensor x, y, out; /* headers of our own: dimensions may be in another order */
    amp_dtype compute;
    bool conjugate, by_columns;
    int64_t length;         /* of a row */
    int64_t panels, pieces; /* of one row of panels, of one panel (by rows, a panel is one result) */
    int outer;              /* dimensions above the panels */
    amp_dot_function *dot;
    amp_accumulate_function *accumulate;
    amp_binary_function *add_scaled, *add, *multiply;
} dots;

static int64_t size_of(const amp_tensor *t) {
    return (int64_t)amp_dtype_size(t->dtype);
}

/* Address of the element with this index in the first `rank` dimensions, 0 in the others. */
static char *element_at(const amp_tensor *t, int rank, int64_t index) {
    int64_t offset = 0;
    for (int d = rank - 1; d >= 0; d--) {
        offset += index % t->shape[d] * t->strides[d];
        index /= t->shape[d];
    }
    return (char *)amp_tensor_pointer(t) + offset * size_of(t);
}

/* n elements of `stride` elements, where they lie if they are dense and of the compute type, or loaded into the
 * buffer. */
static const void *block_of(const dots *p, const amp_tensor *t, const char *at, int64_t stride, char *buffer,
                            int64_t n) {
    if (t->dtype == p->compute && stride == 1) return at;
    amp_block_load(p->compute, buffer, t->dtype, at, stride * size_of(t), n);
    return buffer;
}

/* ---- By rows ----------------------------------------------------------------------------------------------------- */

/* Eight sums side by side, for the compiler's vectors. */
static double dot_f64(const double *x, const double *y, int64_t n) {
    double s[8] = {0};
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        for (int k = 0; k < 8; k++) s[k] += x[i + k] * y[i + k];
    }
    for (; i < n; i++) s[0] += x[i] * y[i];
    return ((s[0] + s[4]) + (s[1] + s[5])) + ((s[2] + s[6]) + (s[3] + s[7]));
}

static int64_t dot_i64(const int64_t *x, const int64_t *y, int64_t n) {
    uint64_t s = 0;
    for (int64_t i = 0; i < n; i++) s += (uint64_t)x[i] * (uint64_t)y[i];
    return (int64_t)s;
}

static complex128 dot_c128(const complex128 *x, const complex128 *y, int64_t n, bool conjugate) {
    complex128 s = 0;
    for (int64_t i = 0; i < n; i++) s += (conjugate ? conj(x[i]) : x[i]) * y[i];
    return s;
}

static void add_block(const dots *p, total *t, const void *x, const void *y, int64_t n) {
    switch (p->compute) {
    case AMP_F32: t->f64 += p->dot(x, y, n); break;
    case AMP_F64: t->f64 += dot_f64(x, y, n); break;
    case AMP_C128: t->c128 += dot_c128(x, y, n, p->conjugate); break;
    default: t->i64 = (int64_t)((uint64_t)t->i64 + (uint64_t)dot_i64(x, y, n));
    }
}

static void row_piece(const dots *p, int64_t row, int64_t piece, total *t) {
    _Alignas(64) char x_buffer[AMP_BLOCK_BYTES], y_buffer[AMP_BLOCK_BYTES];
    const int last = p->x.rank - 1;
    const int64_t block = (int64_t)(AMP_BLOCK_BYTES / amp_dtype_size(p->compute));
    const int64_t begin = piece * PIECE, end = begin + PIECE < p->length ? begin + PIECE : p->length;
    const int64_t x_step = p->x.strides[last], y_step = p->y.strides[last];
    const char *x = element_at(&p->x, last, row), *y = element_at(&p->y, last, row);
    t->c128 = 0;
    for (int64_t i = begin; i < end; i += block) {
        const int64_t n = end - i < block ? end - i : block;
        add_block(p, t, block_of(p, &p->x, x + i * x_step * size_of(&p->x), x_step, x_buffer, n),
                  block_of(p, &p->y, y + i * y_step * size_of(&p->y), y_step, y_buffer, n), n);
    }
}

/* ---- By columns -------------------------------------------------------------------------------------------------- */

/* One element of each row of a panel against one, or one of each, of the other operand. */
static void add_products_f32(const dots *p, float *sums, const float *x, const float *y, bool shared, int64_t n) {
    float products[PANEL];
    if (shared) {
        p->add_scaled(sums, sums, x, n, *y);
        return;
    }
    p->multiply(products, x, y, n, 1.0f);
    p->add(sums, sums, products, n, 1.0f);
}

static void add_products_f64(double *sums, const double *x, const double *y, bool shared, int64_t n) {
    const int64_t step = shared ? 0 : 1;
#pragma omp simd
    for (int64_t j = 0; j < n; j++) sums[j] += x[j] * y[j * step];
}

static void column_piece(const dots *p, int64_t item, double *sums) {
    _Alignas(64) char x_buffer[AMP_BLOCK_BYTES], y_buffer[AMP_BLOCK_BYTES];
    _Alignas(64) float partial[PANEL];
    const int last = p->x.rank - 1;
    const int64_t piece = item % p->pieces, panel = item / p->pieces % p->panels, row = item / p->pieces / p->panels;
    const int64_t first = panel * PANEL, columns = p->x.shape[last - 1];
    const int64_t n = columns - first < PANEL ? columns - first : PANEL;
    const int64_t begin = piece * PANEL_PIECE, end = begin + PANEL_PIECE < p->length ? begin + PANEL_PIECE : p->length;
    const int64_t x_step = p->x.strides[last - 1], y_step = p->y.strides[last - 1];
    const char *x = element_at(&p->x, p->outer, row) + first * x_step * size_of(&p->x);
    const char *y = element_at(&p->y, p->outer, row) + first * y_step * size_of(&p->y);
    const bool shared = y_step == 0;
    memset(sums, 0, (size_t)n * sizeof *sums); /* NOLINT(clang-analyzer-core.NonNullParamChecker) */
    for (int64_t i = begin; i < end; i++) {
        const char *x_at = x + i * p->x.strides[last] * size_of(&p->x);
        const char *y_at = y + i * p->y.strides[last] * size_of(&p->y);
        const void *x_block = block_of(p, &p->x, x_at, x_step, x_buffer, n);
        const void *y_block = block_of(p, &p->y, y_at, shared ? 1 : y_step, y_buffer, shared ? 1 : n);
        if (p->compute == AMP_F64) {
            add_products_f64(sums, x_block, y_block, shared, n);
            continue;
        }
        if ((i - begin) % IN_F32 == 0) memset(partial, 0, sizeof partial);
        add_products_f32(p, partial, x_block, y_block, shared, n);
        if ((i - begin) % IN_F32 == IN_F32 - 1 || i + 1 == end) p->accumulate(sums, partial, n);
    }
}

/* ---- All --------------------------------------------------------------------------------------------------------- */

/* Floats are rounded once, from f64. */
static void store(const dots *p, int64_t row, const total *t) {
    const amp_dtype from = p->compute == AMP_F32 ? AMP_F64 : p->compute;
    amp_block_store(from, t, p->out.dtype, element_at(&p->out, p->out.rank, row), 0, 1);
}

static void add_total(const dots *p, total *t, const total *other) {
    if (p->compute == AMP_C128)
        t->c128 += other->c128;
    else if (p->compute == AMP_I64)
        t->i64 = (int64_t)((uint64_t)t->i64 + (uint64_t)other->i64);
    else
        t->f64 += other->f64;
}

static void finish_row(const dots *p, int64_t row, const total *sums) {
    total t = sums[row * p->pieces];
    for (int64_t k = 1; k < p->pieces; k++) add_total(p, &t, &sums[row * p->pieces + k]);
    store(p, row, &t);
}

static void finish_panel(const dots *p, int64_t index, double *sums) {
    const int last = p->out.rank - 1;
    const int64_t first = index % p->panels * PANEL, left = p->out.shape[last] - first, n = left < PANEL ? left : PANEL;
    double *total = sums + index * p->pieces * PANEL;
    for (int64_t k = 1; k < p->pieces; k++) {
        for (int64_t j = 0; j < n; j++) total[j] += total[k * PANEL + j];
    }
    const int64_t step = p->out.strides[last] * size_of(&p->out);
    amp_block_store(AMP_F64, total, p->out.dtype, element_at(&p->out, p->outer, index / p->panels) + first * step, step,
                    n);
}

/* `rows`: of the results, by rows; of the panels, by columns. */
static amp_status run(const char *op, const dots *p, int64_t rows) {
    const int64_t work = rows * p->pieces, width = p->by_columns ? PANEL : 1;
    const bool stored = p->by_columns || p->pieces > 1;
    total *sums = NULL;
    if (stored) {
        sums = amp_alloc((size_t)(work * width) * (p->by_columns ? sizeof(double) : sizeof *sums));
        if (!sums) return amp_fail(AMP_ERROR_MEMORY, "%s: no memory for %lld partial sums", op, (long long)work);
    }
    double *columns = (double *)sums;
    int threads = amp_parallel_threads(rows * p->length * width, AMP_GRAIN_ELEMENTS);
    if (threads > work) threads = (int)work;
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t i = 0; i < work; i++) {
        total t;
        if (p->by_columns)
            column_piece(p, i, columns + i * PANEL);
        else
            row_piece(p, i / p->pieces, i % p->pieces, stored ? &sums[i] : &t);
        if (!stored) store(p, i, &t);
    }
    for (int64_t row = 0; stored && row < rows; row++) {
        if (p->by_columns)
            finish_panel(p, row, columns);
        else
            finish_row(p, row, sums);
    }
    amp_free(sums);
    return AMP_OK;
}

static amp_status choose_kernels(dots *p) {
    const amp_kernel *dot = amp_kernel_select(AMP_KERNEL_DOT, AMP_F32, AMP_F32);
    const amp_kernel *accumulate = amp_kernel_select(AMP_KERNEL_ACCUMULATE, AMP_F32, AMP_F32);
    const amp_kernel *add_scaled = amp_kernel_select(AMP_KERNEL_ADD_SCALED, AMP_F32, AMP_F32);
    const amp_kernel *add = amp_kernel_select(AMP_KERNEL_ADD, AMP_F32, AMP_F32);
    const amp_kernel *multiply = amp_kernel_select(AMP_KERNEL_MUL, AMP_F32, AMP_F32);
    if (!dot || !accumulate || !add_scaled || !add || !multiply) return amp_pending_error();
    p->dot = (amp_dot_function *)dot->function;
    p->accumulate = (amp_accumulate_function *)accumulate->function;
    p->add_scaled = (amp_binary_function *)add_scaled->function;
    p->add = (amp_binary_function *)add->function;
    p->multiply = (amp_binary_function *)multiply->function;
    amp_block_prepare();
    return AMP_OK;
}

/* The dimension of the results along which one operand is dense, and the other too or constant, while rows are not;
 * −1. */
static int dense_columns(const dots *p) {
    const int last = p->x.rank - 1;
    if (p->x.strides[last] == 1 || (p->compute != AMP_F32 && p->compute != AMP_F64)) return -1;
    for (int d = 0; d < last; d++) {
        const int64_t y = p->y.strides[d];
        if (p->x.strides[d] == 1 && (y == 0 || y == 1) && p->x.shape[d] >= 16) return d;
    }
    return -1;
}

/* Dimension d of the results becomes their last. */
static void move_last(amp_tensor *t, int d, int last) {
    const int64_t shape = t->shape[d], stride = t->strides[d];
    for (; d < last; d++) {
        t->shape[d] = t->shape[d + 1];
        t->strides[d] = t->strides[d + 1];
    }
    t->shape[last] = shape;
    t->strides[last] = stride;
}

amp_status amp_cpu_dots(const char *op, amp_tensor *out, const amp_tensor *x, const amp_tensor *y, bool conjugate) {
    dots p = {.x = *x, .y = *y, .out = *out, .compute = amp_compute_dtype(x->dtype), .conjugate = conjugate};
    const int last = x->rank - 1;
    int64_t rows = amp_tensor_elements(out), piece = PIECE;
    if (rows == 0) return AMP_OK;
    AMP_TRY(choose_kernels(&p));
    p.length = x->shape[last];
    int d = dense_columns(&p);
    if (d < 0 && p.compute != AMP_C128) { /* which is x is all the same */
        p.x = *y;
        p.y = *x;
        d = dense_columns(&p);
        if (d < 0) {
            p.x = *x;
            p.y = *y;
        }
    }
    p.by_columns = d >= 0;
    if (p.by_columns) {
        move_last(&p.x, d, last - 1);
        move_last(&p.y, d, last - 1);
        move_last(&p.out, d, last - 1);
        p.outer = last - 1;
        p.panels = (p.x.shape[last - 1] + PANEL - 1) / PANEL;
        rows = rows / p.x.shape[last - 1] * p.panels;
        piece = PANEL_PIECE;
    }
    p.pieces = p.length > piece ? (p.length + piece - 1) / piece : 1;
    return run(op, &p, rows);
}
