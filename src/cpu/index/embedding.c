/* embedding and embedding_bag: rows of a table that integer indices name, as they are or put together in bags. */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "amp/ops.h"
#include "core/memory.h"
#include "core/parallel.h"
#include "cpu/convert/copy.h"
#include "cpu/convert/element.h"
#include "cpu/cpu_steps.h"
#include "cpu/registry/kernels.h"
#include "steps/row_rules.h"

/* ---- Indices and the table --------------------------------------------------------------------------------------- */

/* The table's rows by dense i64 indices, of which there are `count`, all checked. */
typedef struct lookup {
    const int64_t *index;
    int64_t count;
} lookup;

static amp_status take_indices(const amp_call *call, const amp_tensor *input, const amp_tensor *weight, lookup *l) {
    const char *op = amp_call_name(call);
    const amp_tensor *dense = amp_cpu_dense(call->op->name, input, AMP_I64, 0);
    if (!dense) return amp_pending_error();
    *l = (lookup){amp_tensor_pointer(dense), amp_tensor_elements(input)};
    for (int64_t i = 0; i < l->count; i++) {
        if (l->index[i] >= 0 && l->index[i] < weight->shape[0]) continue;
        return amp_fail(AMP_ERROR_INVALID, "%s: element %lld of input is %lld, 'weight' has rows 0 to %lld", op,
                        (long long)i, (long long)l->index[i], (long long)weight->shape[0] - 1);
    }
    return AMP_OK;
}

/* Scales a row of `weight` down to p-norm `limit` if it is longer. */
static void limit_row(amp_tensor *weight, int64_t row, double p, double limit, double *values) {
    const int64_t width = weight->shape[1], size = (int64_t)amp_dtype_size(weight->dtype);
    char *at = (char *)amp_tensor_pointer(weight) + row * weight->strides[0] * size;
    amp_block_load(AMP_F64, values, weight->dtype, at, weight->strides[1] * size, width);
    double norm = 0.0;
    for (int64_t i = 0; i < width; i++) {
        const double x = fabs(values[i]);
        if (isinf(p))
            norm = x > norm ? x : norm;
        else
            norm += p == 2.0 ? x * x : p == 1.0 ? x : pow(x, p);
    }
    if (!isinf(p)) norm = pow(norm, 1.0 / p);
    if (!(norm > limit)) return;
    for (int64_t i = 0; i < width; i++) values[i] *= limit / (norm + 1e-7);
    amp_block_store(AMP_F64, values, weight->dtype, at, weight->strides[1] * size, width);
}

/* max_norm: the rows that are looked up are first limited, once each, in 'weight' itself. */
static amp_status limit_rows(const amp_call *call, const lookup *l, amp_tensor *weight, double p, double limit) {
    const int64_t rows = weight->shape[0], width = weight->shape[1];
    AMP_TRY(amp_tensor_check_writable(amp_call_name(call), "weight", weight));
    bool *seen = amp_alloc_zeroed((size_t)rows);
    double *values = amp_alloc((size_t)width * sizeof *values);
    for (int64_t i = 0; seen && values && i < l->count; i++) {
        const int64_t row = l->index[i];
        if (!seen[row]) limit_row(weight, row, p, limit, values);
        seen[row] = true;
    }
    const bool done = seen && values;
    amp_free(values);
    amp_free(seen);
    if (!done) {
        return amp_fail(AMP_ERROR_MEMORY, "%s: no memory to limit %lld rows", amp_call_name(call), (long long)rows);
    }
    amp_tensor_written(weight);
    return AMP_OK;
}

/* ---- embedding --------------------------------------------------------------------------------------------------- */

/* Rows that are dense are copied as bytes, wherever they lie: of a table in a file only those are read. */
static const amp_tensor *dense_table(const amp_tensor *t) {
    const bool is_row_by_row = t->strides[1] == 1 || t->shape[1] == 1;
    if (!is_row_by_row && amp_tensor_lies_unaligned(t) && amp_storage_align(t->storage) != AMP_OK) return NULL;
    return amp_cpu_dense("embedding", t, t->dtype, 1);
}

amp_status cpu_embedding(amp_call *call) {
    const amp_embedding_args *a = call->args;
    const amp_tensor *input = a->input;
    lookup l;
    AMP_TRY(amp_check_embedding(call, a));
    if (amp_tensor_lies_unaligned(input)) AMP_TRY(amp_storage_align(input->storage));
    AMP_TRY(take_indices(call, input, a->weight, &l));
    int64_t shape[AMP_MAX_RANK];
    memcpy(shape, input->shape, (size_t)input->rank * sizeof *shape);
    const int64_t width = shape[input->rank] = a->weight->shape[1];
    amp_tensor *out = amp_call_dense_output(call, a->weight->dtype, input->rank + 1, shape);
    if (!out) return amp_pending_error();
    if (a->max_norm.set) AMP_TRY(limit_rows(call, &l, a->weight, a->norm_type.value, a->max_norm.value));
    const amp_tensor *table = dense_table(a->weight);
    if (!table) return amp_pending_error();
    const int64_t size = (int64_t)amp_dtype_size(out->dtype), bytes = width * size, step = table->strides[0] * size;
    const char *from = amp_tensor_pointer(table);
    char *to = amp_tensor_pointer(out);
    const int threads = amp_parallel_threads(l.count * width, AMP_GRAIN_ELEMENTS);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t i = 0; i < l.count; i++) memcpy(to + i * bytes, from + l.index[i] * step, (size_t)bytes);
    return AMP_OK;
}

/* ---- embedding_dense_backward ------------------------------------------------------------------------------------ */

/* Complex numbers are two real ones. */
typedef struct row_sums {
    const int64_t *index;
    int64_t count, width, padding;
    amp_dtype dtype;     /* of the rows: f32, f64 or of 16 bits */
    const char *rows;    /* dense */
    char *table;         /* dense, of f32 or f64 */
    const float *scales; /* by row of the table; NULL: 1 */
    amp_binary_function *add_scaled;
} row_sums;

static void add_row_f64(const row_sums *s, int64_t i, double scale) {
    double *to = (double *)(void *)s->table + s->index[i] * s->width;
    const double *from = (const double *)(const void *)s->rows + i * s->width;
    for (int64_t k = 0; k < s->width; k++) to[k] += from[k] / scale;
}

static void add_row_f32(const row_sums *s, int64_t i, float scale) {
    enum { PART = AMP_BLOCK_BYTES / sizeof(float) };
    _Alignas(64) float block[PART];
    const int64_t size = (int64_t)amp_dtype_size(s->dtype);
    float *to = (float *)(void *)s->table + s->index[i] * s->width;
    const char *from = s->rows + i * s->width * size;
    if (s->dtype == AMP_F32) {
        s->add_scaled(to, to, from, s->width, 1.0F / scale);
        return;
    }
    for (int64_t at = 0; at < s->width; at += PART) {
        const int64_t n = s->width - at < PART ? s->width - at : PART;
        amp_block_load(AMP_F32, block, s->dtype, from + at * size, size, n);
        s->add_scaled(to + at, to + at, block, n, 1.0F / scale);
    }
}

/* The rows of the table from `first` up to `last`, which one thread clears and adds to, in the order of the indices. */
static void sum_rows(const row_sums *s, int64_t first, int64_t last) {
    const int64_t bytes = s->width * (int64_t)(s->dtype == AMP_F64 ? sizeof(double) : sizeof(float));
    memset(s->table + first * bytes, 0, (size_t)((last - first) * bytes));
    for (int64_t i = 0; i < s->count; i++) {
        const int64_t row = s->index[i];
        if (row < first || row >= last || row == s->padding) continue;
        const float scale = s->scales ? s->scales[row] : 1.0F;
        if (s->dtype == AMP_F64)
            add_row_f64(s, i, (double)scale);
        else
            add_row_f32(s, i, scale);
    }
}

static const float *frequencies(const amp_call *call, const row_sums *s, int64_t rows) {
    amp_tensor *counts = amp_tensor_new(call->op->name, AMP_F32, 1, &rows);
    if (!counts) return NULL;
    float *to = amp_tensor_pointer(counts);
    memset(to, 0, (size_t)rows * sizeof *to);
    for (int64_t i = 0; i < s->count; i++) to[s->index[i]] += 1.0F;
    return to;
}

static amp_dtype part_dtype(amp_dtype dtype) {
    return dtype == AMP_C64 ? AMP_F32 : dtype == AMP_C128 ? AMP_F64 : dtype;
}

amp_status cpu_embedding_dense_backward(amp_call *call) {
    const amp_embedding_dense_backward_args *a = call->args;
    const amp_tensor *given = a->grad_output;
    AMP_TRY(amp_check_embedding_backward(call, a));
    const int64_t shape[2] = {a->num_weights, given->shape[given->rank - 1]};
    const amp_tensor table = {.rank = 2, .shape = {shape[0], shape[1]}};
    lookup l;
    AMP_TRY(take_indices(call, a->indices, &table, &l));
    amp_tensor *out = amp_call_output(call, 0, given->dtype, 2, shape), *sums = out;
    if (!out) return amp_pending_error();
    const bool in_out = amp_tensor_is_dense(out) && amp_dtype_size(part_dtype(out->dtype)) >= sizeof(float);
    if (!in_out) sums = amp_tensor_new(call->op->name, amp_compute_dtype(out->dtype), 2, shape);
    const amp_tensor *rows = sums ? amp_cpu_dense(call->op->name, given, given->dtype, 0) : NULL;
    if (!rows) return amp_pending_error();
    row_sums s = {l.index,
                  l.count,
                  shape[1] * (amp_dtype_is_complex(given->dtype) ? 2 : 1),
                  a->padding_idx,
                  part_dtype(given->dtype),
                  amp_tensor_pointer(rows),
                  amp_tensor_pointer(sums),
                  NULL,
                  NULL};
    s.add_scaled = (amp_binary_function *)amp_kernel_get(AMP_KERNEL_ADD_SCALED, AMP_F32, AMP_F32);
    if (a->scale_grad_by_freq) s.scales = frequencies(call, &s, shape[0]);
    if (!s.add_scaled || (a->scale_grad_by_freq && !s.scales)) return amp_pending_error();
    amp_block_prepare();
    const int threads = amp_parallel_threads((l.count + shape[0]) * s.width, AMP_GRAIN_ELEMENTS);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int t = 0; t < threads; t++) sum_rows(&s, shape[0] * t / threads, shape[0] * (t + 1) / threads);
    return sums == out ? AMP_OK : amp_cpu_copy(out, sums);
}

/* ---- embedding_bag ----------------------------------------------------------------------------------------------- */

enum { BLOCK = AMP_BLOCK_BYTES / sizeof(float) };

typedef struct bags {
    lookup l;
    const amp_tensor *table;      /* rows dense */
    const int64_t *offsets;       /* NULL: `each` indices in every bag */
    int64_t count, each, padding; /* padding: the row that does not count; -1: none */
    amp_bag_mode mode;
    amp_dtype compute;
    const void *scales; /* per_sample_weights, dense, of compute type; or NULL */
    amp_binary_function *add_scaled, *div;
    amp_lines_function *combine;
    char *out; /* dense, of compute type */
} bags;

static double scale_of(const bags *b, int64_t i) {
    if (!b->scales) return 1.0;
    return b->compute == AMP_F64 ? ((const double *)b->scales)[i] : (double)((const float *)b->scales)[i];
}

/* A bag's greatest element so far; the first row is taken as it is. */
#define TAKE_GREATER(type, out, row, n, first)                                                                         \
    for (int64_t k = 0; k < (n); k++) {                                                                                \
        if ((first) || ((const type *)(row))[k] > ((type *)(out))[k]) ((type *)(out))[k] = ((const type *)(row))[k];   \
    }

static void take_row(const bags *b, char *out, int64_t i, bool first) {
    const amp_tensor *t = b->table;
    const int64_t size = (int64_t)amp_dtype_size(t->dtype), width = t->shape[1];
    const char *row = (const char *)amp_tensor_pointer(t) + b->l.index[i] * t->strides[0] * size;
    const double scale = scale_of(b, i);
    if (b->compute == AMP_F64) {
        double *o = (double *)(void *)out;
        const double *x = (const double *)(const void *)row;
        if (b->mode == AMP_BAG_MAX)
            TAKE_GREATER(double, o, x, width, first)
        else
            for (int64_t k = 0; k < width; k++) o[k] += scale * x[k];
        return;
    }
    _Alignas(64) float block[BLOCK];
    for (int64_t at = 0; at < width; at += BLOCK) {
        const int64_t n = width - at < BLOCK ? width - at : BLOCK;
        float *o = (float *)(void *)out + at;
        const float *x = (const float *)(const void *)(row + at * size);
        if (t->dtype != AMP_F32) {
            amp_block_load(AMP_F32, block, t->dtype, row + at * size, size, n);
            x = block;
        }
        if (b->mode == AMP_BAG_MAX)
            TAKE_GREATER(float, o, x, n, first)
        else if (first && scale == 1.0)
            memcpy(o, x, (size_t)n * sizeof *o);
        else
            b->add_scaled(o, o, x, n, (float)scale);
    }
}

static void divide(const bags *b, char *out, int64_t taken) {
    const int64_t width = b->table->shape[1];
    float divisor[BLOCK];
    if (taken < 2) return;
    if (b->compute == AMP_F64) {
        for (int64_t k = 0; k < width; k++) ((double *)(void *)out)[k] /= (double)taken;
        return;
    }
    for (int64_t k = 0; k < width && k < BLOCK; k++) divisor[k] = (float)taken;
    for (int64_t at = 0; at < width; at += BLOCK) {
        float *o = (float *)(void *)out + at;
        b->div(o, o, divisor, width - at < BLOCK ? width - at : BLOCK, 0.0F);
    }
}

/* Rows of f32, several at a time behind the sum so far: their columns stay in registers, and the rows come from memory
 * side by side. */
static int64_t add_rows(const bags *b, float *out, int64_t from, int64_t to) {
    enum { TOGETHER = 16 };
    const amp_tensor *t = b->table;
    const float *table = amp_tensor_pointer(t), *rows[TOGETHER + 1] = {out};
    float scales[TOGETHER + 1] = {1.0F};
    int64_t taken = 0;
    int count = 1;
    for (int64_t i = from; i < to; i++) {
        if (b->l.index[i] != b->padding) {
            rows[count] = table + b->l.index[i] * t->strides[0];
            scales[count++] = (float)scale_of(b, i);
            taken++;
        }
        if (count == TOGETHER + 1 || (i + 1 == to && count > 1)) {
            const int skip = taken < count; /* no sum so far */
            b->combine(out, rows + skip, scales + skip, count - skip, t->shape[1]);
            count = 1;
        }
    }
    return taken;
}

static void run_bag(const bags *b, int64_t bag) {
    const int64_t bytes = b->table->shape[1] * (int64_t)amp_dtype_size(b->compute);
    const int64_t from = b->offsets ? b->offsets[bag] : bag * b->each;
    const int64_t to = !b->offsets ? from + b->each : bag + 1 < b->count ? b->offsets[bag + 1] : b->each;
    char *out = b->out + bag * bytes;
    int64_t taken = 0;
    memset(out, 0, (size_t)bytes);
    if (b->table->dtype == AMP_F32 && b->mode != AMP_BAG_MAX) {
        taken = add_rows(b, (float *)(void *)out, from, to);
    } else {
        for (int64_t i = from; i < to; i++) {
            if (b->l.index[i] != b->padding) take_row(b, out, i, taken++ == 0);
        }
    }
    if (b->mode == AMP_BAG_MEAN) divide(b, out, taken);
}

static amp_status take_offsets(const amp_call *call, const amp_embedding_bag_args *a, bags *b) {
    const amp_tensor *offsets = a->offsets;
    if (!offsets) {
        b->count = a->input->shape[0];
        b->each = a->input->shape[1];
        return AMP_OK;
    }
    const amp_tensor *dense = amp_cpu_dense(call->op->name, offsets, AMP_I64, 0);
    if (!dense) return amp_pending_error();
    b->offsets = amp_tensor_pointer(dense);
    b->count = offsets->shape[0];
    b->each = b->l.count; /* where the last bag ends */
    int64_t before = 0;
    for (int64_t i = 0; i < b->count; i++) {
        const int64_t o = b->offsets[i];
        if (o < before || o > b->l.count || (i == 0 && o != 0)) {
            return amp_fail(AMP_ERROR_INVALID,
                            "%s: element %lld of 'offsets' is %lld; expected them to rise from 0 to %lld",
                            amp_call_name(call), (long long)i, (long long)o, (long long)b->l.count);
        }
        before = o;
    }
    if (a->include_last_offset) b->each = b->offsets[--b->count];
    return AMP_OK;
}

static amp_status take_scales(const amp_call *call, const amp_tensor *scales, bags *b) {
    const amp_tensor *dense = scales ? amp_cpu_dense(call->op->name, scales, b->compute, 0) : NULL;
    if (!scales) return AMP_OK;
    if (!dense) return amp_pending_error();
    b->scales = amp_tensor_pointer(dense);
    return AMP_OK;
}

amp_status amp_cpu_embedding_bag(amp_call *call, const amp_embedding_bag_args *a, amp_bag_mode mode, int64_t padding) {
    bags b = {.compute = amp_compute_dtype(a->weight->dtype), .mode = mode, .padding = padding};
    AMP_TRY(take_indices(call, a->input, a->weight, &b.l));
    AMP_TRY(take_offsets(call, a, &b));
    AMP_TRY(take_scales(call, a->per_sample_weights, &b));
    if (a->max_norm.set) AMP_TRY(limit_rows(call, &b.l, a->weight, a->norm_type.value, a->max_norm.value));
    const int64_t shape[2] = {b.count, a->weight->shape[1]};
    amp_tensor *out = amp_call_output(call, 0, a->weight->dtype, 2, shape);
    amp_tensor *results = out && out->dtype != b.compute ? amp_tensor_new(call->op->name, b.compute, 2, shape) : out;
    b.table = results ? amp_cpu_dense(call->op->name, a->weight, a->weight->dtype, 1) : NULL;
    b.add_scaled = (amp_binary_function *)amp_kernel_get(AMP_KERNEL_ADD_SCALED, AMP_F32, AMP_F32);
    b.div = (amp_binary_function *)amp_kernel_get(AMP_KERNEL_DIV, AMP_F32, AMP_F32);
    b.combine = (amp_lines_function *)amp_kernel_get(AMP_KERNEL_COMBINE_LINES, AMP_F32, AMP_F32);
    if (!b.table || !b.add_scaled || !b.div || !b.combine) return amp_pending_error();
    b.out = amp_tensor_pointer(results);
    amp_block_prepare();
    const int threads = amp_parallel_threads(b.l.count * shape[1], AMP_GRAIN_ELEMENTS);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t i = 0; i < b.count; i++) run_bag(&b, i);
    return results == out ? AMP_OK : amp_cpu_copy(out, results);
}
