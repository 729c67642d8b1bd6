/* Index tensors and the walk over what they name. */
#include "cpu/index/index_walk.h"

#include <string.h>

#include "cpu/elementwise/iterate.h"

/* ---- Checks --------------------------------------------------------------------------------------------------- */

typedef struct bounds {
    int64_t least, greatest;
    bool bad; /* only ever set: threads may race to do it */
} bounds;

/* Below `least` or above `greatest` one of the differences is negative; it is too where it overflows. */
static bool in_bounds(const char *at, int64_t step, int64_t n, int64_t least, int64_t greatest) {
    const uint64_t low = (uint64_t)least, high = (uint64_t)greatest;
    uint64_t signs = 0;
    if (step == sizeof(int64_t)) {
        const uint64_t *index = (const void *)at;
        for (int64_t i = 0; i < n; i++) signs |= (index[i] - low) | (high - index[i]);
    } else {
        for (int64_t i = 0; i < n; i++, at += step) {
            const uint64_t index = *(const uint64_t *)(const void *)at;
            signs |= (index - low) | (high - index);
        }
    }
    return !(signs >> 63);
}

static void check_run(void *context, char *const *data, const int64_t *strides, int64_t count) {
    bounds *b = context;
    if (in_bounds(data[0], strides[0], count, b->least, b->greatest)) return;
    __atomic_store_n(&b->bad, true, __ATOMIC_RELAXED);
}

/* The first index out of bounds, in row-major order. */
static int64_t first_bad(const amp_tensor *index, const bounds *b, int64_t *value) {
    const int64_t *data = amp_tensor_pointer(index), n = amp_tensor_elements(index);
    for (int64_t i = 0; i < n; i++) {
        int64_t offset = 0, rest = i;
        for (int d = index->rank - 1; d >= 0; d--) {
            offset += rest % index->shape[d] * index->strides[d];
            rest /= index->shape[d];
        }
        *value = data[offset];
        if (*value < b->least || *value > b->greatest) return i;
    }
    return -1;
}

amp_status amp_index_check(const amp_call *call, const char *argument, const amp_tensor *index, int64_t size,
                           const amp_tensor *described, int dim, bool negative) {
    bounds b = {.least = negative ? -size : 0, .greatest = size - 1};
    amp_iterator it;
    if (call->device == AMP_DEVICE_CUDA) return AMP_OK;
    if (size == 0) {
        b.bad = amp_tensor_elements(index) > 0;
        b.least = 1; /* nothing is in bounds */
        b.greatest = 0;
    } else {
        amp_iterator_start(&it, index->rank, index->shape);
        amp_iterator_add(&it, index);
        amp_iterator_run(&it, check_run, &b, 1);
    }
    if (!b.bad) return AMP_OK;
    int64_t value = 0;
    const int64_t place = first_bad(index, &b, &value);
    return amp_fail(AMP_ERROR_INVALID, "%s: element %lld of '%s' is %lld, but dimension %d of %s has %lld elements",
                    amp_call_name(call), (long long)place, argument, (long long)value, dim, amp_describe(described),
                    (long long)size);
}

/* ---- The walk ------------------------------------------------------------------------------------------------- */

amp_index_walk amp_index_walk_of(const amp_tensor *table, const amp_tensor *values, void *constant,
                                 const amp_tensor *index, int dim) {
    const int64_t size = (int64_t)amp_dtype_size(table->dtype);
    const int64_t value_size = values ? (int64_t)amp_dtype_size(values->dtype) : 0;
    amp_index_walk w = {.table = amp_tensor_pointer(table),
                        .values = values ? amp_tensor_pointer(values) : constant,
                        .index = amp_tensor_pointer(index),
                        .scale = table->strides[dim] * size,
                        .length = index->shape[dim],
                        .values_step = values ? values->strides[dim] * value_size : 0,
                        .index_step = index->strides[dim] * (int64_t)sizeof(int64_t)};
    for (int d = 0; d < index->rank; d++) {
        if (d == dim) continue;
        w.shape[w.rank] = index->shape[d];
        w.table_steps[w.rank] = table->strides[d] * size;
        w.values_steps[w.rank] = values ? values->strides[d] * value_size : 0;
        w.index_steps[w.rank++] = index->strides[d] * (int64_t)sizeof(int64_t);
    }
    return w;
}

enum { CHECKED = 512 }; /* places whose indices are looked at before they are used */

static void run_loop(const amp_index_walk *w, const amp_index_run *run) {
    if (!w->check) {
        w->loop(w->context, run);
        return;
    }
    if (w->vector && run->index_step == sizeof(int64_t) && run->table_step == 0 && run->values_step == w->element &&
        run->wrap == 0) {
        if (!w->vector(run, w->size)) __atomic_store_n(w->bad, true, __ATOMIC_RELAXED);
        return;
    }
    amp_index_run part = *run;
    for (int64_t left = run->n; left > 0; left -= part.n) {
        part.n = left < CHECKED || run->index_step == 0 ? left : CHECKED;
        const int64_t looked_at = run->index_step ? part.n : 1;
        if (!in_bounds(part.index, part.index_step, looked_at, w->wrap ? -w->size : 0, w->size - 1)) {
            __atomic_store_n(w->bad, true, __ATOMIC_RELAXED);
            return;
        }
        w->loop(w->context, &part);
        part.table += part.n * part.table_step;
        part.values += part.n * part.values_step;
        part.index += part.n * part.index_step;
    }
}

static void run_places(void *context, char *const *data, const int64_t *strides, int64_t count) {
    const amp_index_walk *w = context;
    const amp_index_run run = {.table = data[1],
                               .values = data[0],
                               .index = data[2],
                               .table_step = strides[1],
                               .values_step = strides[0],
                               .index_step = strides[2],
                               .scale = w->scale,
                               .n = count,
                               .wrap = w->wrap};
    run_loop(w, &run);
}

static void add_operands(amp_iterator *it, const amp_index_walk *w, bool values_first) {
    if (values_first) amp_iterator_add_memory(it, w->values, w->values_steps);
    amp_iterator_add_memory(it, w->table, w->table_steps);
    if (!values_first) amp_iterator_add_memory(it, w->values, w->values_steps);
    amp_iterator_add_memory(it, (void *)(uintptr_t)w->index, w->index_steps);
}

bool amp_index_walk_free(const amp_index_walk *walk) {
    bool bad = false;
    amp_index_walk w = *walk; /* with the line as one more dimension, in which the table stays where it is */
    w.shape[w.rank] = w.length;
    w.table_steps[w.rank] = 0;
    w.values_steps[w.rank] = w.values_step;
    w.index_steps[w.rank++] = w.index_step;
    amp_iterator it;
    amp_iterator_start(&it, w.rank, w.shape);
    add_operands(&it, &w, true);
    w.bad = &bad;
    amp_iterator_run(&it, run_places, &w, 2);
    return !bad;
}

/* `count` neighbouring lines: one after the other, or place by place for all, whichever walks memory in shorter
 * steps. */
static void run_lines(void *context, char *const *data, const int64_t *strides, int64_t count) {
    const amp_index_walk *w = context;
    amp_index_run run = {.table = data[0], .values = data[1], .index = data[2], .scale = w->scale, .wrap = w->wrap};
    const bool by_values = strides[1] || w->values_step;
    const int64_t across = by_values ? strides[1] : strides[2], along = by_values ? w->values_step : w->index_step;
    if (count == 1 || amp_stride_reach(along) < amp_stride_reach(across)) {
        run.values_step = w->values_step;
        run.index_step = w->index_step;
        run.n = w->length;
        for (int64_t i = 0; i < count; i++) {
            run_loop(w, &run);
            run.table += strides[0];
            run.values += strides[1];
            run.index += strides[2];
        }
        return;
    }
    run.table_step = strides[0];
    run.values_step = strides[1];
    run.index_step = strides[2];
    run.n = count;
    for (int64_t j = 0; j < w->length; j++) {
        run_loop(w, &run);
        run.values += w->values_step;
        run.index += w->index_step;
    }
}

bool amp_index_walk_ordered(const amp_index_walk *walk) {
    bool bad = false;
    amp_index_walk w = *walk;
    amp_iterator it;
    amp_iterator_start(&it, w.rank, w.shape);
    add_operands(&it, &w, false);
    w.bad = &bad;
    if (w.length > 0) amp_iterator_run(&it, run_lines, &w, 2 * w.length);
    return !bad;
}
