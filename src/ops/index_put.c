/* index_put: values at the places that several index tensors name together. They are turned into one vector of offsets,
 * which is then one indexed dimension of the table. */
#include <string.h>

#include "amp/ops.h"
#include "call/backend.h"
#include "core/layout.h"
#include "cpu/convert/copy.h"
#include "cpu/index/index_walk.h"
#include "ops/scatter.h"
#include "steps/indices.h"
#include "steps/steps.h"

typedef struct places {
    const amp_tensor *input;
    amp_tensor *indices[AMP_MAX_RANK]; /* i64, by dimension of input; NULL: the whole dimension */
    int dims;                          /* how many of input's dimensions the list covers */
    int rank;                          /* of the common shape of all indices */
    int64_t shape[AMP_MAX_RANK];
    int before; /* free dimensions that come before that shape in the values' */
} places;

/* ---- Reading the list ----------------------------------------------------------------------------------------- */

static amp_status check_mask(const amp_call *call, const amp_tensor *input, const amp_tensor *mask, int first) {
    bool fits = mask->rank > 0 && first + mask->rank <= input->rank;
    for (int d = 0; fits && d < mask->rank; d++) fits = mask->shape[d] == input->shape[first + d];
    if (fits) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: a mask in 'indices' is %s, which does not fit input %s from dimension %d",
                    amp_call_name(call), amp_describe(mask), amp_describe(input), first);
}

/* Places in a mask that are set, as one vector of indices for each of its dimensions. */
static amp_status expand_mask(const amp_call *call, places *p, const amp_tensor *given) {
    AMP_TRY(check_mask(call, p->input, given, p->dims));
    amp_tensor *mask = amp_tensor_new(call->op->name, AMP_BOOL, given->rank, given->shape);
    if (!mask) return amp_pending_error();
    AMP_TRY(amp_cpu_copy(mask, given));
    const uint8_t *set = amp_tensor_pointer(mask);
    const int64_t n = amp_tensor_elements(mask);
    const int rank = given->rank;
    int64_t count = 0, *to[AMP_MAX_RANK];
    for (int64_t i = 0; i < n; i++) count += set[i];
    for (int d = 0; d < rank; d++) {
        amp_tensor *index = amp_tensor_new(call->op->name, AMP_I64, 1, &count);
        if (!index) return amp_pending_error();
        p->indices[p->dims++] = index;
        to[d] = amp_tensor_pointer(index);
    }
    for (int64_t i = 0, at = 0; i < n; i++) {
        if (!set[i]) continue;
        int64_t rest = i;
        for (int d = rank; d > 0; d--) {
            to[d - 1][at] = rest % given->shape[d - 1];
            rest /= given->shape[d - 1];
        }
        at++;
    }
    return AMP_OK;
}

static bool is_mask(const amp_tensor *t) {
    return t && (t->dtype == AMP_BOOL || t->dtype == AMP_U8);
}

static bool any_mask(const amp_tensor_list *list) {
    for (int64_t i = 0; i < list->count; i++) {
        if (is_mask(list->items[i])) return true;
    }
    return false;
}

static amp_status read_list(const amp_call *call, const amp_tensor_list *list, places *p) {
    bool any = false;
    for (int64_t i = 0; i < list->count; i++) {
        amp_tensor *t = list->items[i];
        if (p->dims >= p->input->rank) {
            return amp_fail(AMP_ERROR_INVALID, "%s: 'indices' covers more dimensions than input %s has",
                            amp_call_name(call), amp_describe(p->input));
        }
        any |= t != NULL;
        if (is_mask(t)) {
            AMP_TRY(expand_mask(call, p, t));
        } else {
            amp_tensor *index = t ? amp_index_tensor(call, "indices", t) : NULL;
            if (t && !index) return amp_pending_error();
            p->indices[p->dims++] = index;
        }
    }
    if (any) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: 'indices' names no place; expected at least one tensor",
                    amp_call_name(call));
}

static amp_status check_indices(const amp_call *call, places *p) {
    for (int d = 0; d < p->dims; d++) {
        const amp_tensor *index = p->indices[d];
        if (!index) continue;
        AMP_TRY(amp_index_check(call, "indices", index, p->input->shape[d], p->input, d, true));
        if (amp_broadcast_shapes(p->rank, p->shape, index->rank, index->shape, &p->rank, p->shape)) continue;
        return amp_fail(AMP_ERROR_INVALID, "%s: tensor %d of 'indices' is %s, which does not broadcast to %s",
                        amp_call_name(call), d, amp_describe(index), amp_describe_shape(p->rank, p->shape));
    }
    return AMP_OK;
}

/* ---- Geometry ------------------------------------------------------------------------------------------------- */

static bool is_free(const places *p, int d) {
    return d >= p->dims || !p->indices[d];
}

/* The shape of the values: the indices' in the place of the indexed dimensions if these are neighbours, else in
 * front. */
static amp_status values_shape(const amp_call *call, places *p, int *rank, int64_t *shape) {
    int first = -1, last = 0, indexed = 0;
    for (int d = 0; d < p->dims; d++) {
        if (is_free(p, d)) continue;
        if (first < 0) first = d;
        last = d;
        indexed++;
    }
    p->before = last - first + 1 == indexed ? first : 0;
    *rank = p->input->rank - indexed + p->rank;
    if (*rank > AMP_MAX_RANK) {
        return amp_fail(AMP_ERROR_INVALID, "%s: the values would have %d dimensions, at most %d are possible",
                        amp_call_name(call), *rank, AMP_MAX_RANK);
    }
    int at = 0, passed = 0;
    for (int d = 0; d <= p->input->rank; d++) {
        if (passed == p->before && at == p->before) {
            memcpy(shape + at, p->shape, (size_t)p->rank * sizeof *shape);
            at += p->rank;
            passed++; /* only once, also where the indices are 0-dim */
        }
        if (d == p->input->rank || !is_free(p, d)) continue;
        shape[at++] = p->input->shape[d];
        if (at <= p->before) passed = at;
    }
    return AMP_OK;
}

/* The values repeated to their shape, with the indices' dimensions merged into one. */
static amp_status merged_values(const amp_call *call, const places *p, const amp_tensor *values, int rank,
                                const int64_t *shape, amp_tensor *merged) {
    amp_tensor wide = *values;
    wide.rank = rank;
    for (int d = 0; d < rank; d++) {
        const int from = d - (rank - values->rank);
        const bool repeated = from < 0 || values->shape[from] == 1;
        wide.shape[d] = shape[d];
        wide.strides[d] = repeated ? 0 : values->strides[from];
    }
    if (p->rank > 1) { /* several dimensions seldom step as one */
        amp_tensor *copy = amp_backend_tensor(call->device, call->op->name, values->dtype, rank, shape);
        if (!copy) return amp_pending_error();
        AMP_TRY(amp_copy_tensor(copy, &wide));
        wide = *copy;
    }
    *merged = wide;
    merged->rank = rank - p->rank + 1;
    merged->shape[p->before] = 1;
    for (int d = 0; d < p->rank; d++) merged->shape[p->before] *= p->shape[d];
    merged->strides[p->before] = p->rank ? wide.strides[p->before + p->rank - 1] : 0;
    for (int d = p->before + 1; d < merged->rank; d++) {
        merged->shape[d] = wide.shape[d + p->rank - 1];
        merged->strides[d] = wide.strides[d + p->rank - 1];
    }
    return AMP_OK;
}

/* ---- Offsets -------------------------------------------------------------------------------------------------- */

/* The table with one dimension, of stride 1 and no end, for all that are indexed, and the offsets that index it. */
static amp_status view_table(const amp_call *call, amp_scatter_work *w, amp_tensor *table) {
    const places *p = w->context;
    amp_tensor *offsets = amp_backend_tensor(call->device, call->op->name, AMP_I64, p->rank, p->shape);
    if (!offsets) return amp_pending_error();
    AMP_TRY(amp_steps_of(call)->make_offsets(call, table, p->indices, p->dims, offsets));
    amp_tensor viewed = *table;
    viewed.rank = 0;
    for (int d = 0; d <= table->rank; d++) {
        if (viewed.rank == p->before && w->dim < 0) w->dim = viewed.rank++;
        if (d == table->rank) break;
        if (!is_free(p, d)) continue;
        viewed.shape[viewed.rank] = table->shape[d];
        viewed.strides[viewed.rank++] = table->strides[d];
    }
    viewed.shape[w->dim] = INT64_MAX;
    viewed.strides[w->dim] = 1;
    w->least = INT64_MIN + 1; /* the first number marks what is out of range */
    const int64_t n = amp_tensor_elements(offsets);
    offsets->rank = 1;
    offsets->shape[0] = n;
    offsets->strides[0] = 1;
    w->index = amp_index_along(offsets, w->dim, viewed.rank, w->values.shape);
    *table = viewed;
    return AMP_OK;
}

/* On the device, which does not say how many places are set. */
static amp_status put_by_mask(amp_call *call, const amp_index_put_args *a) {
    amp_tensor *mask = NULL;
    int first = 0, others = 0;
    for (int64_t i = 0; i < a->indices.count; i++) {
        amp_tensor *t = a->indices.items[i];
        others += t && (mask || !is_mask(t));
        if (is_mask(t)) mask = t;
        first += !mask;
    }
    if (others > 0) {
        return amp_fail(AMP_ERROR_NOT_IMPLEMENTED, "%s: a mask beside other indices is not implemented on cuda yet",
                        amp_call_name(call));
    }
    AMP_TRY(check_mask(call, a->input, mask, first));
    return amp_steps_of(call)->index_put_mask(call, a, mask, first);
}

amp_status cpu_index_put(amp_call *call) {
    const amp_index_put_args *a = call->args;
    places p = {.input = a->input};
    AMP_TRY(amp_call_check_same_dtype(call, "input", a->input, "values", a->values));
    if (amp_steps_of(call)->index_put_mask && any_mask(&a->indices)) return put_by_mask(call, a);
    AMP_TRY(read_list(call, &a->indices, &p));
    AMP_TRY(check_indices(call, &p));
    int rank, common;
    int64_t shape[AMP_MAX_RANK], both[AMP_MAX_RANK];
    AMP_TRY(values_shape(call, &p, &rank, shape));
    const amp_tensor *v = a->values;
    const bool fits = amp_broadcast_shapes(v->rank, v->shape, rank, shape, &common, both) && common == rank &&
                      memcmp(both, shape, (size_t)rank * sizeof *shape) == 0;
    if (!fits) {
        return amp_fail(AMP_ERROR_INVALID,
                        "%s: 'values' is %s, which does not broadcast to %s, the shape of the places",
                        amp_call_name(call), amp_describe(v), amp_describe_shape(rank, shape));
    }
    amp_scatter_work w = {.kind = a->accumulate ? AMP_SCATTER_ADD : AMP_SCATTER_WRITE,
                          .dim = -1,
                          .alpha = amp_int(1),
                          .view = view_table,
                          .context = &p};
    AMP_TRY(merged_values(call, &p, v, rank, shape, &w.values));
    return amp_scatter_run(call, a->input, &w);
}
