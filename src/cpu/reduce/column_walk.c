/* Blocks of columns, however a tensor lies, and their exponentials. */
#include "cpu/reduce/column_walk.h"

#include <math.h>
#include <omp.h>

#include "core/fail.h"
#include "core/memory.h"
#include "core/parallel.h"
#include "cpu/convert/element.h"
#include "cpu/registry/kernels.h"

/* ---- Geometry ------------------------------------------------------------------------------------------------- */

static amp_merged_dims merge(const amp_tensor *t, int first, int end) {
    const int64_t size = (int64_t)amp_dtype_size(t->dtype);
    amp_merged_dims m = {0};
    for (int d = first; d < end; d++) {
        const int64_t stride = t->strides[d] * size;
        if (t->shape[d] == 1) continue;
        if (m.rank && m.strides[m.rank - 1] == stride * t->shape[d]) {
            m.shape[m.rank - 1] *= t->shape[d];
        } else {
            m.shape[m.rank++] = t->shape[d];
        }
        m.strides[m.rank - 1] = stride;
    }
    return m;
}

static int64_t elements_of(const amp_merged_dims *m) {
    int64_t n = 1;
    for (int i = 0; i < m->rank; i++) n *= m->shape[i];
    return n;
}

/* In bytes, of element `index` of the first `rank` dimensions. */
static int64_t offset_of(const amp_merged_dims *m, int rank, int64_t index) {
    int64_t offset = 0;
    for (int i = rank - 1; i > 0; i--) {
        offset += index % m->shape[i] * m->strides[i];
        index /= m->shape[i];
    }
    return rank ? offset + index * m->strides[0] : 0;
}

bool amp_columns_of(amp_columns *c, const amp_tensor *t, int first, int end) {
    const amp_merged_dims rows = merge(t, first, end);
    *c = (amp_columns){.data = amp_tensor_pointer(t), .dtype = t->dtype, .size = (int64_t)amp_dtype_size(t->dtype)};
    c->outer_dims = merge(t, 0, first);
    c->inner_dims = merge(t, end, t->rank);
    c->outer = elements_of(&c->outer_dims);
    c->rows = elements_of(&rows);
    c->inner = elements_of(&c->inner_dims);
    c->row_stride = rows.rank ? rows.strides[0] : 0;
    c->dense = !c->inner_dims.rank || (c->inner_dims.rank == 1 && c->inner_dims.strides[0] == c->size);
    return rows.rank <= 1;
}

char *amp_columns_at(const amp_columns *c, int64_t outer, int64_t row, int64_t column) {
    return c->data + offset_of(&c->outer_dims, c->outer_dims.rank, outer) + row * c->row_stride + column * c->size;
}

/* n elements, `stride` bytes apart, to or from an array of `compute`. */
typedef struct transfer {
    amp_dtype compute, dtype;
    bool store;
    char *array;
} transfer;

static void move(transfer *t, char *at, int64_t stride, int64_t n) {
    if (t->store)
        amp_block_store(t->compute, t->array, t->dtype, at, stride, n);
    else
        amp_block_load(t->compute, t->array, t->dtype, at, stride, n);
    t->array += n * (int64_t)amp_dtype_size(t->compute);
}

/* A row whose columns are not one stride apart. */
static void move_runs(transfer *t, const amp_merged_dims *m, char *row, int64_t column, int64_t n) {
    const int last = m->rank - 1;
    const int64_t length = m->shape[last], stride = m->strides[last];
    for (const int64_t end = column + n; column < end;) {
        const int64_t within = column % length, left = length - within;
        const int64_t count = left < end - column ? left : end - column;
        move(t, row + offset_of(m, last, column / length) + within * stride, stride, count);
        column += count;
    }
}

static void move_block(const amp_columns *c, transfer *t, const amp_column_block *b) {
    const amp_merged_dims *m = &c->inner_dims;
    char *row = amp_columns_at(c, b->outer, b->row, 0);
    if (c->dense && c->row_stride == b->n * c->size) { /* one behind the other */
        move(t, row + b->column * c->size, c->size, b->rows * b->n);
        return;
    }
    for (int64_t r = 0; r < b->rows; r++, row += c->row_stride) {
        if (m->rank > 1)
            move_runs(t, m, row, b->column, b->n);
        else
            move(t, row + (m->rank ? b->column * m->strides[0] : 0), m->rank ? m->strides[0] : c->size, b->n);
    }
}

void amp_columns_load(const amp_columns *c, amp_dtype compute, void *to, const amp_column_block *block) {
    transfer t = {compute, c->dtype, false, to};
    move_block(c, &t, block);
}

void amp_columns_store(const amp_columns *c, amp_dtype compute, const void *from, const amp_column_block *block) {
    transfer t = {compute, c->dtype, true, (char *)from}; /* not written */
    move_block(c, &t, block);
}

/* ---- Blocks --------------------------------------------------------------------------------------------------- */

static int64_t parts_of(int64_t n, int64_t part) {
    return (n + part - 1) / part;
}

amp_column_blocks amp_columns_blocks(const amp_columns *c, int64_t width, int64_t height) {
    amp_column_blocks b = {.width = width, .height = height};
    b.across = parts_of(c->inner, width);
    b.down = parts_of(c->rows, height);
    b.count = c->outer * b.across * b.down;
    return b;
}

amp_column_block amp_columns_block(const amp_columns *c, const amp_column_blocks *b, int64_t index) {
    amp_column_block block = {.part = index % b->down, .outer = index / b->down / b->across};
    block.row = block.part * b->height;
    block.column = index / b->down % b->across * b->width;
    block.rows = c->rows - block.row < b->height ? c->rows - block.row : b->height;
    block.n = c->inner - block.column < b->width ? c->inner - block.column : b->width;
    return block;
}

amp_status amp_columns_run(const char *op, const amp_columns *c, const amp_column_blocks *b, int64_t cost,
                           size_t scratch, amp_column_function *function, void *context) {
    const int wanted = amp_parallel_threads(c->outer * c->rows * c->inner * cost, AMP_GRAIN_ELEMENTS);
    const int threads = wanted > b->count ? (int)b->count : wanted;
    const size_t each = (scratch + 63) / 64 * 64;
    char *memory = each ? amp_alloc(each * (size_t)threads) : NULL;
    if (each && !memory) {
        return amp_fail(AMP_ERROR_MEMORY, "%s: no memory for columns of %lld elements", op, (long long)c->rows);
    }
    amp_block_prepare();
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        const int thread = omp_get_thread_num();
        const amp_range part = amp_parallel_part(b->count, 1, thread, omp_get_num_threads());
        for (int64_t i = part.begin; i < part.end; i++) {
            const amp_column_block block = amp_columns_block(c, b, i);
            function(context, &block, memory ? memory + each * (size_t)thread : NULL);
        }
    }
    amp_free(memory);
    return AMP_OK;
}

/* ---- Exponentials --------------------------------------------------------------------------------------------- */

enum {
    PART_ROWS = 2048, /* of a column that one thread takes */
    LOADED_ROWS = 64, /* that are converted at once */
    WIDTH = 512
};

typedef struct exponentials {
    const amp_columns *columns;
    amp_exponentials_function *kernel;
    amp_dtype compute;
    float *max;
    double *sum;
} exponentials;

int64_t amp_exponentials_parts(const amp_columns *c) {
    return parts_of(c->rows, PART_ROWS);
}

/* Where a part's results stand: the first parts of all columns, then the second ones. */
static int64_t place_of(const amp_columns *c, const amp_column_block *b) {
    return (b->part * c->outer + b->outer) * c->inner + b->column;
}

static void sum_block(void *context, const amp_column_block *b, void *scratch) {
    const exponentials *e = context;
    const amp_columns *c = e->columns;
    const int64_t at = place_of(c, b), step = b->n * (int64_t)amp_dtype_size(e->compute);
    if (c->dense && c->dtype == e->compute) {
        const char *in = amp_columns_at(c, b->outer, b->row, b->column);
        e->kernel(e->max + at, e->sum + at, in, c->row_stride, b->rows, b->n, true);
        return;
    }
    amp_column_block loaded = *b;
    for (int64_t r = 0; r < b->rows; r += LOADED_ROWS) {
        loaded.row = b->row + r;
        loaded.rows = b->rows - r < LOADED_ROWS ? b->rows - r : LOADED_ROWS;
        amp_columns_load(c, e->compute, scratch, &loaded);
        e->kernel(e->max + at, e->sum + at, scratch, step, loaded.rows, b->n, r == 0);
    }
}

/* The second part's sum about the maximum of both. */
static void join(float *max, double *sum, float next_max, double next_sum) {
    const float low = fminf(*max, next_max), high = fmaxf(*max, next_max);
    const double factor = low == high ? 1.0 : exp((double)low - (double)high); /* 0 where one is infinite */
    *sum = *max < next_max ? *sum * factor + next_sum : *sum + next_sum * factor;
    *max = high;
}

static void join_block(void *context, const amp_column_block *b, void *scratch) {
    const exponentials *e = context;
    const int64_t columns = e->columns->outer * e->columns->inner, parts = amp_exponentials_parts(e->columns);
    (void)scratch;
    for (int64_t i = place_of(e->columns, b), end = i + b->n; i < end; i++) {
        for (int64_t k = 1; k < parts; k++)
            join(&e->max[i], &e->sum[i], e->max[k * columns + i], e->sum[k * columns + i]);
    }
}

amp_status amp_column_exponentials(const char *op, const amp_columns *c, float *max, double *sum, const char **name) {
    exponentials e = {.columns = c, .max = max, .sum = sum};
    e.compute = amp_kernel_dtype(AMP_KERNEL_COLUMNS_EXPONENTIALS, c->dtype);
    const amp_kernel *kernel = amp_kernel_select(AMP_KERNEL_COLUMNS_EXPONENTIALS, e.compute, e.compute);
    if (!kernel) return amp_pending_error();
    *name = kernel->name;
    e.kernel = (amp_exponentials_function *)kernel->function;
    const amp_column_blocks blocks = amp_columns_blocks(c, WIDTH, PART_ROWS);
    const int64_t width = c->inner < WIDTH ? c->inner : WIDTH;
    const size_t loaded = (size_t)(LOADED_ROWS * width) * amp_dtype_size(e.compute);
    const bool direct = c->dense && c->dtype == e.compute;
    AMP_TRY(amp_columns_run(op, c, &blocks, 4, direct ? 0 : loaded, sum_block, &e));
    if (blocks.down == 1) return AMP_OK;
    const amp_column_blocks whole = amp_columns_blocks(c, AMP_LEAST_COLUMNS, c->rows);
    return amp_columns_run(op, c, &whole, 1, 0, join_block, &e);
}
