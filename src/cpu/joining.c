/* cat, stack, embedding: whole rows of elements moved into place. */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "amp/ops.h"
#include "core/memory.h"
#include "core/parallel.h"
#include "cpu/copy.h"
#include "cpu/element.h"
#include "ops/shape_rules.h"
#include "policy/promotion.h"

/* ---- cat, stack ----------------------------------------------------------------------------------------------- */

static amp_status check_list(const amp_call *call, const amp_tensor_list *list) {
    if (list->count < 1) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'tensors' is empty; expected at least one tensor", amp_call_name(call));
    }
    for (int64_t i = 0; i < list->count; i++) {
        if (list->items[i]) continue;
        return amp_fail(AMP_ERROR_INVALID, "%s: tensor %lld of 'tensors' is missing", amp_call_name(call),
                        (long long)i);
    }
    return AMP_OK;
}

static amp_dtype list_dtype(const amp_tensor_list *list) {
    amp_dtype dtype = AMP_DTYPE_NONE;
    for (int64_t i = 0; i < list->count; i++) dtype = amp_promote(dtype, list->items[i]->dtype);
    return dtype;
}

/* Copies each tensor behind the one before, along dimension d of `out`; with `stacked` each is one index of it. */
static amp_status place(const amp_tensor_list *list, amp_tensor *out, int d, bool stacked) {
    int64_t at = 0;
    for (int64_t i = 0; i < list->count; i++) {
        const amp_tensor *t = list->items[i];
        if (!stacked && t->rank != out->rank) continue; /* the empty vector that cat ignores */
        amp_tensor part = *out;
        part.shape[d] = stacked ? 1 : t->shape[d];
        part.offset += at * out->strides[d];
        at += part.shape[d];
        if (stacked) {
            for (int k = d; k + 1 < part.rank; k++) {
                part.shape[k] = part.shape[k + 1];
                part.strides[k] = part.strides[k + 1];
            }
            part.rank--;
        }
        AMP_TRY(amp_cpu_copy(&part, t));
    }
    return AMP_OK;
}

static bool is_ignored(const amp_tensor *t) {
    return t->rank == 1 && t->shape[0] == 0;
}

amp_status cpu_cat(amp_call *call) {
    const amp_cat_args *a = call->args;
    const amp_tensor_list *list = &a->tensors;
    int d;
    AMP_TRY(check_list(call, list));
    const amp_tensor *first = list->items[0];
    for (int64_t i = 0; i < list->count && is_ignored(first); i++) first = list->items[i];
    if (first->rank == 0) {
        return amp_fail(AMP_ERROR_INVALID, "%s: a tensor is %s, which has no dimension to join along; stack makes one",
                        amp_call_name(call), amp_describe(first));
    }
    AMP_TRY(amp_wrap_dim(call, "dim", a->dim, first->rank, &d));
    int64_t shape[AMP_MAX_RANK];
    memcpy(shape, first->shape, (size_t)first->rank * sizeof *shape);
    shape[d] = 0;
    for (int64_t i = 0; i < list->count; i++) {
        const amp_tensor *t = list->items[i];
        if (is_ignored(t) && first->rank != 1) continue;
        bool fits = t->rank == first->rank;
        for (int k = 0; fits && k < t->rank; k++) fits = k == d || t->shape[k] == shape[k];
        if (!fits || __builtin_add_overflow(shape[d], t->shape[d], &shape[d])) {
            return amp_fail(AMP_ERROR_INVALID, "%s: tensor %lld is %s, tensor 0 is %s; all but dimension %d must agree",
                            amp_call_name(call), (long long)i, amp_describe(t), amp_describe(first), d);
        }
    }
    amp_tensor *out = amp_call_output(call, 0, list_dtype(list), first->rank, shape);
    return out ? place(list, out, d, false) : amp_pending_error();
}

amp_status cpu_stack(amp_call *call) {
    const amp_stack_args *a = call->args;
    const amp_tensor_list *list = &a->tensors;
    int d;
    AMP_TRY(check_list(call, list));
    const amp_tensor *first = list->items[0];
    AMP_TRY(amp_wrap_dim(call, "dim", a->dim, first->rank + 1, &d));
    if (first->rank == AMP_MAX_RANK) {
        return amp_fail(AMP_ERROR_INVALID, "%s: tensor 0 is %s; one more dimension would be too many (at most %d)",
                        amp_call_name(call), amp_describe(first), AMP_MAX_RANK);
    }
    for (int64_t i = 1; i < list->count; i++) {
        const amp_tensor *t = list->items[i];
        if (t->rank == first->rank && !memcmp(t->shape, first->shape, (size_t)t->rank * sizeof *t->shape)) continue;
        return amp_fail(AMP_ERROR_INVALID, "%s: tensor %lld is %s, tensor 0 is %s; expected equal shapes",
                        amp_call_name(call), (long long)i, amp_describe(t), amp_describe(first));
    }
    int64_t shape[AMP_MAX_RANK];
    for (int k = 0; k <= first->rank; k++)
        shape[k] = k < d ? first->shape[k] : k == d ? list->count : first->shape[k - 1];
    amp_tensor *out = amp_call_output(call, 0, list_dtype(list), first->rank + 1, shape);
    return out ? place(list, out, d, true) : amp_pending_error();
}

/* ---- embedding ------------------------------------------------------------------------------------------------ */

static int64_t index_at(const amp_tensor *t, int64_t i) {
    int64_t offset = 0;
    for (int d = t->rank - 1; d >= 0; d--) {
        offset += i % t->shape[d] * t->strides[d];
        i /= t->shape[d];
    }
    const char *p = (const char *)amp_tensor_pointer(t) + offset * (int64_t)amp_dtype_size(t->dtype);
    return t->dtype == AMP_I64 ? *(const int64_t *)(const void *)p : *(const int32_t *)(const void *)p;
}

static amp_status check_embedding(const amp_call *call, const amp_embedding_args *a) {
    if (a->weight->rank != 2) {
        return amp_fail(AMP_ERROR_INVALID, "embedding: 'weight' is %s; expected a matrix [rows, width]",
                        amp_describe(a->weight));
    }
    if (a->input->dtype != AMP_I64 && a->input->dtype != AMP_I32) {
        return amp_fail(AMP_ERROR_DTYPE, "embedding: input is %s; expected indices of i64 or i32",
                        amp_describe(a->input));
    }
    if (a->input->rank == AMP_MAX_RANK) {
        return amp_fail(AMP_ERROR_INVALID, "embedding: input is %s; the result would have more than %d dimensions",
                        amp_describe(a->input), AMP_MAX_RANK);
    }
    const int64_t rows = a->weight->shape[0], n = amp_tensor_elements(a->input);
    for (int64_t i = 0; i < n; i++) {
        const int64_t row = index_at(a->input, i);
        if (row >= 0 && row < rows) continue;
        return amp_fail(AMP_ERROR_INVALID, "%s: element %lld of input is %lld, 'weight' has rows 0 to %lld",
                        amp_call_name(call), (long long)i, (long long)row, (long long)rows - 1);
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
static amp_status limit_rows(const amp_embedding_args *a) {
    const int64_t n = amp_tensor_elements(a->input), rows = a->weight->shape[0], width = a->weight->shape[1];
    bool *seen = amp_alloc_zeroed((size_t)rows);
    double *values = amp_alloc((size_t)width * sizeof *values);
    for (int64_t i = 0; seen && values && i < n; i++) {
        const int64_t row = index_at(a->input, i);
        if (!seen[row]) limit_row(a->weight, row, a->norm_type.value, a->max_norm.value, values);
        seen[row] = true;
    }
    const bool done = seen && values;
    amp_free(values);
    amp_free(seen);
    if (!done) return amp_fail(AMP_ERROR_MEMORY, "embedding: no memory to limit %lld rows", (long long)rows);
    amp_tensor_written(a->weight);
    return AMP_OK;
}

amp_status cpu_embedding(amp_call *call) {
    const amp_embedding_args *a = call->args;
    AMP_TRY(check_embedding(call, a));
    if (a->max_norm.set) AMP_TRY(limit_rows(a));
    int64_t shape[AMP_MAX_RANK];
    memcpy(shape, a->input->shape, (size_t)a->input->rank * sizeof *shape);
    const int64_t width = shape[a->input->rank] = a->weight->shape[1], n = amp_tensor_elements(a->input);
    amp_tensor *out = amp_call_output(call, 0, a->weight->dtype, a->input->rank + 1, shape);
    if (!out) return amp_pending_error();
    const int64_t size = (int64_t)amp_dtype_size(out->dtype), bytes = width * size;
    const int64_t row_step = a->weight->strides[0] * size;
    const bool dense_rows = width <= 1 || a->weight->strides[1] == 1;
    const char *weight = amp_tensor_pointer(a->weight);
    char *to = amp_tensor_pointer(out);
    if (!dense_rows) {
        amp_tensor *copy = amp_tensor_new("embedding", a->weight->dtype, 2, a->weight->shape);
        if (!copy) return amp_pending_error();
        AMP_TRY(amp_cpu_copy(copy, a->weight));
        weight = amp_tensor_pointer(copy);
    }
    const int64_t step = dense_rows ? row_step : bytes;
    const int threads = amp_parallel_threads(n * width, AMP_GRAIN_ELEMENTS);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t i = 0; i < n; i++) {
        memcpy(to + i * bytes, weight + index_at(a->input, i) * step, (size_t)bytes);
    }
    return AMP_OK;
}
