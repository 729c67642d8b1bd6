/* softmax, log_softmax and softmin over a dimension that is not the last: blocks of columns that lie together, whole
 * where their elements stay in the caches, else in two passes over memory. */
#include "cpu/norm/column_softmax.h"

#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "cpu/convert/element.h"
#include "cpu/reduce/column_walk.h"
#include "cpu/registry/kernels.h"

enum {
    WHOLE_ROWS = 4096,      /* of columns whose elements are kept between the passes, */
    BLOCK_ELEMENTS = 16384, /* and as many elements at once where they are converted */
    LONG_WIDTH = 512,
    LONG_ROWS = 1024, /* a block of longer columns */
    COST = 4          /* in simple operations per element */
};

typedef struct softmax {
    amp_columns in, out;
    amp_dtype compute;
    bool logarithm, negate, direct_in, direct_out;
    amp_softmax_columns_function *kernel; /* of whole columns */
    float *max;                           /* of long ones, [outer, inner], … */
    float *factor;                        /* … and 1/Σ, or ln Σ */
    amp_binary_function *subtract, *multiply;
    amp_unary_function *exponential;
} softmax;

bool amp_suits_columns(const amp_tensor *in, int dim, bool negate) {
    int64_t inner = 1;
    for (int d = dim + 1; d < in->rank; d++) inner *= in->shape[d];
    return inner >= AMP_LEAST_COLUMNS && (!negate || in->shape[dim] <= WHOLE_ROWS);
}

/* ---- Whole columns -------------------------------------------------------------------------------------------- */

static int64_t width_of(const amp_columns *c) {
    const int64_t width = BLOCK_ELEMENTS / c->rows / AMP_SOFTMAX_COLUMNS * AMP_SOFTMAX_COLUMNS;
    return width < AMP_SOFTMAX_COLUMNS ? AMP_SOFTMAX_COLUMNS : width;
}

static void negate(float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) x[i] = -x[i];
}

static void whole_block(void *context, const amp_column_block *b, void *scratch) {
    const softmax *s = context;
    const int64_t step = b->n * (int64_t)amp_dtype_size(s->compute);
    char *block = (char *)scratch + b->rows * AMP_SOFTMAX_COLUMNS * (int64_t)sizeof(float);
    char *in = block, *out = block;
    if (s->direct_in)
        in = amp_columns_at(&s->in, b->outer, 0, b->column);
    else
        amp_columns_load(&s->in, s->compute, block, b);
    if (s->negate) negate((float *)(void *)block, b->rows * b->n);
    if (s->direct_out) out = amp_columns_at(&s->out, b->outer, 0, b->column);
    s->kernel(out, s->direct_out ? s->out.row_stride : step, in, s->direct_in ? s->in.row_stride : step, b->rows, b->n,
              scratch);
    if (!s->direct_out) amp_columns_store(&s->out, s->compute, block, b);
}

static amp_status run_whole(const char *op, softmax *s) {
    const amp_column_blocks blocks = amp_columns_blocks(&s->in, width_of(&s->in), s->in.rows);
    const int64_t width = s->in.inner < blocks.width ? s->in.inner : blocks.width;
    size_t scratch = (size_t)(s->in.rows * AMP_SOFTMAX_COLUMNS) * sizeof(float);
    if (!s->direct_in || !s->direct_out) scratch += (size_t)(s->in.rows * width) * amp_dtype_size(s->compute);
    return amp_columns_run(op, &s->in, &blocks, COST, scratch, whole_block, s);
}

/* ---- Long columns --------------------------------------------------------------------------------------------- */

/* Rows of n elements below each other, as many as there is room for. */
static int64_t rows_together(int64_t n) {
    return LONG_WIDTH / n;
}

static void repeat(float *to, const float *from, int64_t n, int64_t times) {
    for (int64_t k = 0; k < times; k++) memcpy(to + k * n, from, (size_t)n * sizeof *to);
}

/* Where those rows lie as an array of f32 themselves, or NULL. */
static float *as_array(const amp_columns *c, const amp_column_block *b) {
    const bool together = b->rows == 1 || c->row_stride == b->n * c->size;
    if (!c->dense || c->dtype != AMP_F32 || !together) return NULL;
    return (float *)(void *)amp_columns_at(c, b->outer, b->row, b->column);
}

/* e^(x − max)·factor, or x − max − factor, of `n` elements by way of `between`. */
static void normalise(const softmax *s, float *out, float *between, const float *in, const float *max,
                      const float *factor, int64_t n) {
    s->subtract(between, in, max, n, 0.0f);
    if (s->logarithm) {
        s->subtract(out, between, factor, n, 0.0f);
    } else {
        s->exponential(between, between, n);
        s->multiply(out, between, factor, n, 0.0f);
    }
}

static void long_block(void *context, const amp_column_block *b, void *scratch) {
    const softmax *s = context;
    const int64_t at = b->outer * s->in.inner + b->column, together = rows_together(b->n);
    float *x = scratch, *max = x + LONG_WIDTH, *factor = max + LONG_WIDTH;
    amp_column_block some = *b;
    repeat(max, s->max + at, b->n, together);
    repeat(factor, s->factor + at, b->n, together);
    for (int64_t r = 0; r < b->rows; r += together) {
        some.row = b->row + r;
        some.rows = b->rows - r < together ? b->rows - r : together;
        const float *in = as_array(&s->in, &some);
        float *out = as_array(&s->out, &some);
        if (!in) amp_columns_load(&s->in, AMP_F32, x, &some);
        normalise(s, out ? out : x, x, in ? in : x, max, factor, some.rows * b->n);
        if (!out) amp_columns_store(&s->out, AMP_F32, x, &some);
    }
}

/* A column with an infinity, or of −∞ alone, is NaN, as it is where it is computed whole. */
static void find_factors(const softmax *s, const double *sum, int64_t columns) {
    for (int64_t i = 0; i < columns; i++) {
        const double factor = s->logarithm ? log(sum[i]) : 1.0 / sum[i];
        s->factor[i] = isfinite(s->max[i]) ? (float)factor : NAN;
    }
}

static amp_status find_long_kernels(softmax *s) {
    s->subtract = (amp_binary_function *)amp_kernel_get(AMP_KERNEL_SUB, AMP_F32, AMP_F32);
    s->multiply = (amp_binary_function *)amp_kernel_get(AMP_KERNEL_MUL, AMP_F32, AMP_F32);
    s->exponential = (amp_unary_function *)amp_kernel_get(AMP_KERNEL_EXP, AMP_F32, AMP_F32);
    return s->subtract && s->multiply && s->exponential ? AMP_OK : amp_pending_error();
}

static amp_status run_long(amp_call *call, softmax *s) {
    const char *op = amp_call_name(call);
    const int64_t columns = s->in.outer * s->in.inner, parts = amp_exponentials_parts(&s->in);
    AMP_TRY(find_long_kernels(s));
    double *sum =
        amp_alloc((size_t)(columns * parts) * (sizeof(double) + sizeof(float)) + (size_t)columns * sizeof(float));
    if (!sum) return amp_fail(AMP_ERROR_MEMORY, "%s: no memory for %lld columns", op, (long long)columns);
    s->max = (float *)(void *)(sum + columns * parts);
    s->factor = s->max + columns * parts;
    amp_status status = amp_column_exponentials(op, &s->in, s->max, sum, &call->note.kernel);
    if (status == AMP_OK) {
        find_factors(s, sum, columns);
        const amp_column_blocks blocks = amp_columns_blocks(&s->in, LONG_WIDTH, LONG_ROWS);
        status = amp_columns_run(op, &s->in, &blocks, COST, 3 * LONG_WIDTH * sizeof(float), long_block, s);
    }
    amp_free(sum);
    return status;
}

/* ---- The op --------------------------------------------------------------------------------------------------- */

amp_status amp_cpu_column_softmax(amp_call *call, const amp_column_softmax *given) {
    softmax s = {.logarithm = given->logarithm, .negate = given->negate, .compute = AMP_F32};
    amp_columns_of(&s.in, given->in, given->dim, given->dim + 1);
    amp_columns_of(&s.out, given->out, given->dim, given->dim + 1);
    if (s.in.outer * s.in.rows * s.in.inner == 0) return AMP_OK;
    const amp_kernel_family family = s.logarithm ? AMP_KERNEL_LOG_SOFTMAX_COLUMNS : AMP_KERNEL_SOFTMAX_COLUMNS;
    if (s.in.dtype == s.out.dtype && !s.negate) s.compute = amp_kernel_dtype(family, s.in.dtype);
    if (s.in.rows > WHOLE_ROWS) return run_long(call, &s);
    const amp_kernel *kernel = amp_kernel_select(family, s.compute, s.compute);
    if (!kernel) return amp_pending_error();
    call->note.kernel = kernel->name;
    s.kernel = (amp_softmax_columns_function *)kernel->function;
    s.direct_in = s.in.dense && s.in.dtype == s.compute && !s.negate;
    s.direct_out = s.out.dense && s.out.dtype == s.compute;
    return run_whole(amp_call_name(call), &s);
}
