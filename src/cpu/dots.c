/* Dot products: each is cut into pieces of a fixed length, which threads share; the pieces' sums are added in order. */
#include "cpu/dots.h"

#include <omp.h>

#include "core/memory.h"
#include "core/parallel.h"
#include "cpu/element.h"
#include "cpu/kernels.h"

typedef double _Complex complex128;

enum { PIECE = 32 * 1024 };

/* The sum of one piece, or of several. */
typedef union total {
    double f64;
    int64_t i64;
    complex128 c128;
} total;

typedef struct dots {
    const amp_tensor *x, *y;
    amp_tensor *out;
    amp_dtype compute;
    int64_t length, rows, pieces; /* of one row */
    amp_binary_function *multiply;
    amp_reduce_function *sum;
    bool conjugate;
} dots;

static int64_t row_offset(const amp_tensor *t, int rank, int64_t row) {
    int64_t offset = 0;
    for (int d = rank - 1; d >= 0; d--) {
        offset += row % t->shape[d] * t->strides[d];
        row /= t->shape[d];
    }
    return offset * (int64_t)amp_dtype_size(t->dtype);
}

/* ---- One block of dense elements ------------------------------------------------------------------------------ */

static void add_f32(const dots *p, total *t, const void *x, const void *y, int64_t n) {
    _Alignas(64) float products[AMP_BLOCK_BYTES / sizeof(float)];
    p->multiply(products, x, y, n, 1.0f);
    t->f64 += p->sum(products, n);
}

/* Eight sums side by side, for the compiler's vectors. */
static void add_f64(total *t, const double *x, const double *y, int64_t n) {
    double s[8] = {0};
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        for (int k = 0; k < 8; k++) s[k] += x[i + k] * y[i + k];
    }
    for (; i < n; i++) s[0] += x[i] * y[i];
    t->f64 += ((s[0] + s[4]) + (s[1] + s[5])) + ((s[2] + s[6]) + (s[3] + s[7]));
}

static void add_i64(total *t, const int64_t *x, const int64_t *y, int64_t n) {
    uint64_t s = (uint64_t)t->i64;
    for (int64_t i = 0; i < n; i++) s += (uint64_t)x[i] * (uint64_t)y[i];
    t->i64 = (int64_t)s;
}

static void add_c128(total *t, const complex128 *x, const complex128 *y, int64_t n, bool conjugate) {
    for (int64_t i = 0; i < n; i++) t->c128 += (conjugate ? conj(x[i]) : x[i]) * y[i];
}

static void add_block(const dots *p, total *t, const void *x, const void *y, int64_t n) {
    switch (p->compute) {
    case AMP_F32: add_f32(p, t, x, y, n); break;
    case AMP_F64: add_f64(t, x, y, n); break;
    case AMP_C128: add_c128(t, x, y, n, p->conjugate); break;
    default: add_i64(t, x, y, n);
    }
}

/* ---- Pieces ---------------------------------------------------------------------------------------------------- */

/* n elements where they lie, or loaded into the buffer. */
static const void *block_of(const dots *p, const amp_tensor *t, const char *at, char *buffer, int64_t n) {
    const int64_t size = (int64_t)amp_dtype_size(t->dtype), stride = t->strides[t->rank - 1] * size;
    if (t->dtype == p->compute && stride == size) return at;
    amp_block_load(p->compute, buffer, t->dtype, at, stride, n);
    return buffer;
}

static total piece_sum(const dots *p, int64_t row, int64_t piece) {
    _Alignas(64) char x_buffer[AMP_BLOCK_BYTES], y_buffer[AMP_BLOCK_BYTES];
    const amp_tensor *x = p->x, *y = p->y;
    const int last = x->rank - 1;
    const int64_t block = (int64_t)(AMP_BLOCK_BYTES / amp_dtype_size(p->compute));
    const int64_t begin = piece * PIECE, end = begin + PIECE < p->length ? begin + PIECE : p->length;
    const int64_t size = (int64_t)amp_dtype_size(x->dtype);
    const char *x_row = (const char *)amp_tensor_pointer(x) + row_offset(x, last, row);
    const char *y_row = (const char *)amp_tensor_pointer(y) + row_offset(y, last, row);
    total t = {.c128 = 0};
    for (int64_t i = begin; i < end; i += block) {
        const int64_t n = end - i < block ? end - i : block;
        add_block(p, &t, block_of(p, x, x_row + i * x->strides[last] * size, x_buffer, n),
                  block_of(p, y, y_row + i * y->strides[last] * size, y_buffer, n), n);
    }
    return t;
}

/* Floats are rounded once, from f64. */
static void store(const dots *p, int64_t row, const total *t) {
    const amp_dtype from = p->compute == AMP_F32 ? AMP_F64 : p->compute;
    char *to = (char *)amp_tensor_pointer(p->out) + row_offset(p->out, p->out->rank, row);
    amp_block_store(from, t, p->out->dtype, to, 0, 1);
}

static void add_total(const dots *p, total *t, const total *other) {
    if (p->compute == AMP_C128)
        t->c128 += other->c128;
    else if (p->compute == AMP_I64)
        t->i64 = (int64_t)((uint64_t)t->i64 + (uint64_t)other->i64);
    else
        t->f64 += other->f64;
}

static amp_status run(const char *op, const dots *p) {
    const int64_t work = p->rows * p->pieces;
    total *sums = NULL;
    if (p->pieces > 1) {
        sums = amp_alloc((size_t)work * sizeof *sums);
        if (!sums) return amp_fail(AMP_ERROR_MEMORY, "%s: no memory for %lld partial sums", op, (long long)work);
    }
    int threads = amp_parallel_threads(p->rows * p->length, AMP_GRAIN_ELEMENTS);
    if (threads > work) threads = (int)work;
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t i = 0; i < work; i++) {
        const total t = piece_sum(p, i / p->pieces, i % p->pieces);
        if (sums)
            sums[i] = t;
        else
            store(p, i, &t);
    }
    for (int64_t row = 0; sums && row < p->rows; row++) {
        total t = sums[row * p->pieces];
        for (int64_t k = 1; k < p->pieces; k++) add_total(p, &t, &sums[row * p->pieces + k]);
        store(p, row, &t);
    }
    amp_free(sums);
    return AMP_OK;
}

amp_status amp_cpu_dots(const char *op, amp_tensor *out, const amp_tensor *x, const amp_tensor *y, bool conjugate) {
    dots p = {.x = x, .y = y, .out = out, .compute = amp_compute_dtype(x->dtype), .conjugate = conjugate};
    p.length = x->shape[x->rank - 1];
    p.rows = amp_tensor_elements(out);
    p.pieces = p.length > PIECE ? (p.length + PIECE - 1) / PIECE : 1;
    const amp_kernel *multiply = amp_kernel_select(AMP_KERNEL_MUL, AMP_F32, AMP_F32);
    const amp_kernel *sum = amp_kernel_select(AMP_KERNEL_SUM, AMP_F32, AMP_F32);
    if (!multiply || !sum) return amp_pending_error();
    p.multiply = (amp_binary_function *)multiply->function;
    p.sum = (amp_reduce_function *)sum->function;
    amp_block_prepare();
    return run(op, &p);
}
