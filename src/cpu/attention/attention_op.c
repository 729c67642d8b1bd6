/* scaled_dot_product_attention: checks, broadcasting of batches and heads, one kernel call for each head. */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "amp/ops.h"
#include "core/layout.h"
#include "core/memory.h"
#include "core/parallel.h"
#include "cpu/attention/attention_problem.h"
#include "cpu/convert/copy.h"
#include "cpu/convert/element.h"
#include "cpu/elementwise/iterate.h"
#include "cpu/registry/kernels.h"

size_t amp_attention_packed_bytes(int64_t keys, int64_t depth, int64_t width) {
    const size_t blocks = (size_t)(keys + 63) / 64 * 64, columns = (size_t)(width + 15) / 16 * 16, d = (size_t)depth;
    const size_t query = AMP_ATTENTION_TILE_ROWS * d * sizeof(uint16_t);
    return sizeof(float) * (blocks * d + blocks / 2 * columns + AMP_ATTENTION_TILE_ROWS * columns) + query + 256;
}

bool amp_attention_depth_is_even(const void *problem) {
    const amp_attention_head *h = problem;
    return !h || h->depth % 2 == 0;
}

bool amp_attention_suits_tiles(const void *problem) {
    const amp_attention_head *h = problem;
    return !h || h->depth % 32 == 0;
}

/* ---- Checks --------------------------------------------------------------------------------------------------- */

static amp_status check_arguments(const amp_call *call, const amp_scaled_dot_product_attention_args *a) {
    const amp_tensor *const inputs[] = {a->query, a->key, a->value};
    static const char *const names[] = {"query", "key", "value"};
    for (int i = 0; i < 3; i++) {
        if (inputs[i]->rank >= 2 && amp_dtype_is_floating(inputs[i]->dtype)) continue;
        return amp_fail(inputs[i]->rank < 2 ? AMP_ERROR_INVALID : AMP_ERROR_DTYPE,
                        "%s: '%s' is %s; expected a floating tensor [..., length, depth]", amp_call_name(call),
                        names[i], amp_describe(inputs[i]));
    }
    AMP_TRY(amp_call_check_same_dtype(call, "query", a->query, "key", a->key));
    AMP_TRY(amp_call_check_same_dtype(call, "query", a->query, "value", a->value));
    if (a->dropout_p != 0.0) {
        return amp_fail(AMP_ERROR_NOT_IMPLEMENTED, "%s: 'dropout_p' is %g; only 0 (inference) is implemented",
                        amp_call_name(call), a->dropout_p);
    }
    if (a->attn_mask && a->is_causal) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'attn_mask' %s and 'is_causal' exclude each other", amp_call_name(call),
                        amp_describe(a->attn_mask));
    }
    if (a->attn_mask && a->attn_mask->dtype != AMP_BOOL && !amp_dtype_is_floating(a->attn_mask->dtype)) {
        return amp_fail(AMP_ERROR_DTYPE,
                        "%s: 'attn_mask' is %s; expected bool (true: attend) or a floating dtype (added)",
                        amp_call_name(call), amp_describe(a->attn_mask));
    }
    return AMP_OK;
}

static int64_t extent(const amp_tensor *t, int from_end) {
    return from_end <= t->rank ? t->shape[t->rank - from_end] : 1;
}

static amp_status misfit(const amp_call *call, const amp_scaled_dot_product_attention_args *a) {
    return amp_fail(AMP_ERROR_INVALID,
                    "%s: query is %s, key is %s, value is %s; expected [..., L, D], [..., S, D], "
                    "[..., S, E] with leading dimensions that broadcast%s",
                    amp_call_name(call), amp_describe(a->query), amp_describe(a->key), amp_describe(a->value),
                    a->enable_gqa ? " and heads of query a multiple of those of key and value"
                                  : " (enable_gqa lets heads of key and value be shared)");
}

static amp_status check_shapes(const amp_call *call, const amp_scaled_dot_product_attention_args *a, amp_attention *t) {
    int64_t shape[AMP_MAX_RANK], k_shape[AMP_MAX_RANK], v_shape[AMP_MAX_RANK];
    const amp_tensor *q = a->query, *k = a->key, *v = a->value;
    *t = (amp_attention){
        .rows = extent(q, 2), .keys = extent(k, 2), .depth = extent(q, 1), .width = extent(v, 1), .group = 1};
    memcpy(k_shape, k->shape, (size_t)k->rank * sizeof *k_shape);
    memcpy(v_shape, v->shape, (size_t)v->rank * sizeof *v_shape);
    if (extent(k, 1) != t->depth || extent(v, 2) != t->keys) return misfit(call, a);
    if (a->enable_gqa && q->rank >= 3 && k->rank >= 3 && v->rank >= 3 && extent(k, 3) > 0) {
        if (extent(q, 3) % extent(k, 3) != 0 || extent(v, 3) != extent(k, 3)) return misfit(call, a);
        t->group = extent(q, 3) / extent(k, 3);
        k_shape[k->rank - 3] = v_shape[v->rank - 3] = extent(q, 3);
    }
    int rank;
    if (!amp_broadcast_shapes(q->rank - 2, q->shape, k->rank - 2, k_shape, &rank, shape) ||
        !amp_broadcast_shapes(rank, shape, v->rank - 2, v_shape, &t->batch_rank, t->batch)) {
        return misfit(call, a);
    }
    return AMP_OK;
}

static amp_status check_mask_shape(const amp_call *call, const amp_tensor *mask, const amp_attention *t) {
    int64_t full[AMP_MAX_RANK], both[AMP_MAX_RANK];
    const int rank = t->batch_rank + 2;
    int both_rank;
    memcpy(full, t->batch, (size_t)t->batch_rank * sizeof *full);
    full[rank - 2] = t->rows;
    full[rank - 1] = t->keys;
    if (mask->rank <= rank && amp_broadcast_shapes(rank, full, mask->rank, mask->shape, &both_rank, both) &&
        !memcmp(full, both, (size_t)rank * sizeof *full)) {
        return AMP_OK;
    }
    return amp_fail(AMP_ERROR_INVALID, "%s: 'attn_mask' is %s, which does not broadcast to the scores %s",
                    amp_call_name(call), amp_describe(mask), amp_describe_shape(rank, full));
}

amp_status amp_attention_read(const amp_call *call, amp_attention *t) {
    const amp_scaled_dot_product_attention_args *a = call->args;
    AMP_TRY(check_arguments(call, a));
    AMP_TRY(check_shapes(call, a, t));
    if (a->attn_mask) AMP_TRY(check_mask_shape(call, a->attn_mask, t));
    t->scale = a->scale.set ? a->scale.value : 1.0 / sqrt((double)t->depth);
    t->causal = a->is_causal;
    return AMP_OK;
}

/* ---- Preparation ---------------------------------------------------------------------------------------------- */

amp_status amp_attention_mask(const amp_call *call, const amp_tensor *mask, amp_dtype dtype, amp_tensor **prepared) {
    *prepared = NULL;
    if (!mask) return AMP_OK;
    amp_tensor *t = amp_tensor_new(call->op->name, dtype, mask->rank, mask->shape);
    if (!t) return amp_pending_error();
    AMP_TRY(amp_cpu_copy(t, mask));
    if (mask->dtype == AMP_BOOL) {
        const int64_t n = amp_tensor_elements(t);
        float *f = amp_tensor_pointer(t);
        double *d = amp_tensor_pointer(t);
        for (int64_t i = 0; i < n; i++) {
            if (dtype == AMP_F32)
                f[i] = f[i] != 0.0f ? 0.0f : -INFINITY;
            else
                d[i] = d[i] != 0.0 ? 0.0 : -INFINITY;
        }
    }
    *prepared = t;
    return AMP_OK;
}

amp_status amp_attention_input(const amp_call *call, amp_tensor *input, amp_dtype dtype, amp_tensor **prepared) {
    *prepared = input;
    if (input->dtype == dtype && (input->strides[input->rank - 1] == 1 || input->shape[input->rank - 1] <= 1))
        return AMP_OK;
    *prepared = amp_tensor_new(call->op->name, dtype, input->rank, input->shape);
    return *prepared ? amp_cpu_copy(*prepared, input) : amp_pending_error();
}

/* Offset, in elements, of the matrix that head `index` uses; `group` heads in a row share one. */
static int64_t head_offset(const amp_attention *t, const amp_tensor *x, int64_t index, int64_t group) {
    int64_t offset = 0;
    for (int d = t->batch_rank - 1; d >= 0; d--) {
        int64_t at = index % t->batch[d];
        const int own = d - (t->batch_rank - (x->rank - 2));
        index /= t->batch[d];
        if (own < 0 || x->shape[own] == 1) continue;
        if (d == t->batch_rank - 1) at /= group;
        offset += at * x->strides[own];
    }
    return offset;
}

const char *amp_attention_matrix(const amp_attention *t, const amp_tensor *x, int64_t index, int64_t group) {
    return (const char *)amp_tensor_pointer(x) + head_offset(t, x, index, group) * (int64_t)amp_dtype_size(x->dtype);
}

amp_tensor *amp_attention_result(amp_call *call, int index, const amp_attention *t, int64_t heads, int64_t rows,
                                 int64_t columns, amp_dtype dtype) {
    int64_t shape[AMP_MAX_RANK], strides[AMP_MAX_RANK];
    const int rank = t->batch_rank + 2, h = t->batch_rank - 1;
    memcpy(shape, t->batch, (size_t)t->batch_rank * sizeof *shape);
    shape[rank - 2] = rows;
    shape[rank - 1] = columns;
    if (h < 0) return amp_call_output(call, index, dtype, rank, shape);
    shape[h] = rows;
    shape[h + 1] = heads;
    const bool computes = amp_call_output(call, index, dtype, rank, shape);
    amp_tensor *memory = call->outputs[index];
    if (!memory) return NULL;
    memcpy(strides, memory->strides, sizeof strides);
    strides[h] = memory->strides[h + 1];
    strides[h + 1] = memory->strides[h];
    shape[h] = heads;
    shape[h + 1] = rows;
    call->outputs[index] = amp_tensor_view(call->op->name, memory, rank, shape, strides, memory->offset);
    return computes ? call->outputs[index] : NULL;
}

amp_tensor *amp_attention_output(amp_call *call, const amp_attention *t, amp_dtype dtype) {
    const int64_t heads = t->batch_rank > 0 ? t->batch[t->batch_rank - 1] : 1;
    return amp_attention_result(call, 0, t, heads, t->rows, t->width, dtype);
}

int64_t amp_attention_heads(const amp_attention *t) {
    int64_t heads = 1;
    for (int d = 0; d < t->batch_rank; d++) heads *= t->batch[d];
    return heads;
}

/* ---- f32 and bf16: the kernels -------------------------------------------------------------------------------- */

amp_attention_head amp_attention_head_at(const amp_attention *t, int64_t index, int64_t row, int64_t rows) {
    const int64_t size = (int64_t)amp_dtype_size(t->q->dtype);
    amp_attention_head h = {.q_step = t->q->strides[t->q->rank - 2],
                            .k_step = t->k->strides[t->k->rank - 2],
                            .v_step = t->v->strides[t->v->rank - 2],
                            .out_step = t->out->strides[t->out->rank - 2],
                            .rows = rows,
                            .keys = t->keys,
                            .depth = t->depth,
                            .width = t->width,
                            .scale = (float)t->scale,
                            .causal = t->causal,
                            .first_row = row};
    h.q = amp_attention_matrix(t, t->q, index, 1) + row * h.q_step * size;
    h.k = amp_attention_matrix(t, t->k, index, t->group);
    h.v = amp_attention_matrix(t, t->v, index, t->group);
    h.out = (char *)(uintptr_t)amp_attention_matrix(t, t->out, index, 1) + row * h.out_step * size;
    if (t->mask) {
        const amp_tensor *m = t->mask;
        h.mask_row_step = extent(m, 2) == 1 ? 0 : m->strides[m->rank - 2];
        h.mask_key_step = extent(m, 1) == 1 ? 0 : 1;
        h.mask = (const float *)(const void *)amp_attention_matrix(t, m, index, 1) + row * h.mask_row_step;
    }
    return h;
}

enum {
    ROWS_PER_PART = 256, /* query rows of one piece of work */
    /* Least multiply-adds of a thread on AMX, 10 µs as AMP_GRAIN_MACS: at depth 64 a score has 128 of them, in a
     * quarter of a cycle, and its power takes 0.44: some 36 K scores. By arithmetic, not measured. */
    TILES_GRAIN = 4 * 1024 * 1024,
};

static amp_status run_kernel(amp_call *call, const amp_attention *t, const amp_kernel *kernel) {
    amp_attention_function *run = (amp_attention_function *)kernel->function;
    const int64_t grain = kernel->isa == AMP_ISA_AMX ? TILES_GRAIN : AMP_GRAIN_MACS;
    const int64_t heads = amp_attention_heads(t);
    const int64_t parts = (t->rows + ROWS_PER_PART - 1) / ROWS_PER_PART, work = heads * parts;
    int threads = amp_parallel_threads(heads * t->rows * t->keys * (t->depth + t->width), grain);
    if (work > 0 && threads > work) threads = (int)work;
    const size_t bytes = (amp_attention_packed_bytes(t->keys, t->depth, t->width) + 63) / 64 * 64;
    char *packed = amp_alloc(bytes * (size_t)threads);
    if (!packed) {
        return amp_fail(AMP_ERROR_MEMORY, "%s: no memory for %zu bytes of packed keys and values", amp_call_name(call),
                        bytes * (size_t)threads);
    }
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        const amp_range part = amp_parallel_part(work, 1, omp_get_thread_num(), omp_get_num_threads());
        char *mine = packed + bytes * (size_t)omp_get_thread_num();
        const void *last_k = NULL, *last_v = NULL;
        for (int64_t i = part.begin; i < part.end; i++) {
            const int64_t row = i % parts * ROWS_PER_PART, left = t->rows - row;
            const amp_attention_head h =
                amp_attention_head_at(t, i / parts, row, left < ROWS_PER_PART ? left : ROWS_PER_PART);
            run(&h, mine, i > part.begin && h.k == last_k && h.v == last_v);
            last_k = h.k;
            last_v = h.v;
        }
    }
    amp_free(packed);
    return AMP_OK;
}

/* The bf16 kernel where a vector one runs here and takes this depth; NULL: f32 kernels on converted inputs are faster
 * than the bf16 reference. */
static const amp_kernel *choose_bf16(amp_dtype dtype, int64_t depth) {
    const amp_attention_head problem = {.depth = depth};
    if (dtype != AMP_BF16) return NULL;
    const amp_kernel *kernel = amp_kernel_select_for(AMP_KERNEL_ATTENTION, AMP_BF16, AMP_BF16, &problem);
    return kernel && kernel->isa != AMP_ISA_REF ? kernel : NULL;
}

static amp_status run_narrow(amp_call *call, amp_attention *t, const amp_scaled_dot_product_attention_args *a) {
    const amp_kernel *kernel = choose_bf16(a->query->dtype, t->depth);
    const bool is_short = amp_attention_is_short(t, kernel != NULL);
    const amp_dtype compute = kernel || (is_short && a->query->dtype == AMP_BF16) ? AMP_BF16 : AMP_F32;
    if (!kernel) kernel = amp_kernel_select(AMP_KERNEL_ATTENTION, AMP_F32, AMP_F32);
    if (!kernel) return amp_pending_error();
    call->note.kernel = kernel->name;
    AMP_TRY(amp_attention_input(call, a->query, compute, &t->q));
    AMP_TRY(amp_attention_input(call, a->key, compute, &t->k));
    AMP_TRY(amp_attention_input(call, a->value, compute, &t->v));
    amp_tensor *out = amp_attention_output(call, t, a->query->dtype);
    if (!out) return amp_pending_error();
    t->out = out;
    if (compute != out->dtype) t->out = amp_tensor_new(call->op->name, compute, out->rank, out->shape);
    if (!t->out) return amp_pending_error();
    AMP_TRY(is_short ? amp_attention_run_parts(call, t) : run_kernel(call, t, kernel));
    return t->out == out ? AMP_OK : amp_cpu_copy(out, t->out);
}

/* ---- f64 ------------------------------------------------------------------------------------------------------ */

static const double *f64_row(const amp_attention *t, const amp_tensor *x, int64_t index, int64_t group, int64_t row) {
    const int64_t step = x->rank < 2 ? 0 : x->strides[x->rank - 2]; /* a mask of keys alone has no rows */
    return (const double *)(const void *)amp_attention_matrix(t, x, index, group) + row * step;
}

/* One query row; `s` has room for a score of every key. */
static void attend_f64(const amp_attention *t, int64_t index, int64_t row, double *s) {
    const double *q = f64_row(t, t->q, index, 1, row);
    double *out = (double *)(uintptr_t)f64_row(t, t->out, index, 1, row), max = -INFINITY, sum = 0.0;
    for (int64_t j = 0; j < t->keys; j++) {
        const double *k = f64_row(t, t->k, index, t->group, j);
        double x = 0.0;
        for (int64_t d = 0; d < t->depth; d++) x += q[d] * k[d];
        s[j] = t->causal && j > row ? -INFINITY : x * t->scale;
        if (t->mask) {
            const double *m = f64_row(t, t->mask, index, 1, extent(t->mask, 2) == 1 ? 0 : row);
            s[j] += m[extent(t->mask, 1) == 1 ? 0 : j];
        }
        if (s[j] > max) max = s[j];
    }
    for (int64_t j = 0; j < t->keys; j++) {
        s[j] = max == -INFINITY && s[j] == s[j] ? 0.0 : exp(s[j] - max);
        sum += s[j];
    }
    for (int64_t i = 0; i < t->width; i++) out[i] = 0.0;
    for (int64_t j = 0; sum != 0.0 && j < t->keys; j++) {
        const double *v = f64_row(t, t->v, index, t->group, j), w = s[j] / sum;
        for (int64_t i = 0; i < t->width; i++) out[i] += w * v[i];
    }
}

static amp_status run_f64(amp_call *call, amp_attention *t, const amp_scaled_dot_product_attention_args *a) {
    AMP_TRY(amp_attention_input(call, a->query, AMP_F64, &t->q));
    AMP_TRY(amp_attention_input(call, a->key, AMP_F64, &t->k));
    AMP_TRY(amp_attention_input(call, a->value, AMP_F64, &t->v));
    t->out = amp_attention_output(call, t, AMP_F64);
    if (!t->out) return amp_pending_error();
    double *scores = amp_alloc((size_t)(t->keys + 1) * sizeof *scores);
    if (!scores) return amp_fail(AMP_ERROR_MEMORY, "%s: no memory for a row of scores", amp_call_name(call));
    const int64_t rows = t->rows && t->width ? amp_tensor_elements(t->out) / t->width : 0;
    for (int64_t i = 0; i < rows; i++) attend_f64(t, i / t->rows, i % t->rows, scores);
    amp_free(scores);
    return AMP_OK;
}

/* Expanded keys and values reach any size, and the scratch for them does not. */
static amp_status check_scratch(const amp_call *call, const amp_attention *t) {
    if (((double)t->keys + 64.0) * ((double)t->depth + (double)t->width + 16.0) < 0x1p58) return AMP_OK;
    return amp_fail(AMP_ERROR_MEMORY, "%s: no memory for packed keys [%lld, %lld] and values [%lld, %lld]",
                    amp_call_name(call), (long long)t->keys, (long long)t->depth, (long long)t->keys,
                    (long long)t->width);
}

amp_status cpu_scaled_dot_product_attention(amp_call *call) {
    const amp_scaled_dot_product_attention_args *a = call->args;
    const bool wide = a->query->dtype == AMP_F64;
    amp_attention t;
    AMP_TRY(amp_attention_read(call, &t));
    AMP_TRY(check_scratch(call, &t));
    AMP_TRY(amp_attention_mask(call, a->attn_mask, wide ? AMP_F64 : AMP_F32, &t.mask));
    return wide ? run_f64(call, &t, a) : run_narrow(call, &t, a);
}
