/* gather, take_along_dim, index_select, one_hot: elements read where indices say. */
#include <string.h>

#include "amp/ops.h"
#include "cpu/cpu_steps.h"
#include "cpu/elementwise/iterate.h"
#include "cpu/index/index_walk.h"
#include "steps/indices.h"
#include "steps/shape_rules.h"

/* ---- Elements by size ----------------------------------------------------------------------------------------- */

typedef uint8_t unit_1;

typedef uint16_t unit_2 __attribute__((may_alias));

typedef uint32_t unit_4 __attribute__((may_alias));

typedef uint64_t unit_8 __attribute__((may_alias));

typedef double _Complex unit_16 __attribute__((may_alias));

/* Checked in the same pass, so that the wait for an index and that for an element overlap. */
#define READ_LOOP(bytes)                                                                                               \
    static bool read_checked_##bytes(const amp_index_run *run, int64_t size) {                                         \
        const amp_index_run r = *run;                                                                                  \
        const uint64_t *index = (const void *)r.index;                                                                 \
        unit_##bytes *values = (unit_##bytes *)(void *)r.values;                                                       \
        for (int64_t i = 0; i < r.n; i++) {                                                                            \
            const uint64_t at = index[i];                                                                              \
            if (at >= (uint64_t)size) return false;                                                                    \
            memcpy(&values[i], r.table + (int64_t)at * r.scale, bytes);                                                \
        }                                                                                                              \
        return true;                                                                                                   \
    }                                                                                                                  \
    static void read_dense_##bytes(unit_##bytes *restrict values, const char *restrict table,                          \
                                   const int64_t *restrict index, int64_t scale, int64_t n) {                          \
        const unit_##bytes *elements = (const unit_##bytes *)(const void *)table;                                      \
        if (scale != bytes) {                                                                                          \
            for (int64_t i = 0; i < n; i++) memcpy(&values[i], table + index[i] * scale, bytes);                       \
            return;                                                                                                    \
        }                                                                                                              \
        for (int64_t i = 0; i < n; i++) values[i] = elements[index[i]];                                                \
    }                                                                                                                  \
    static void read_##bytes(const void *context, const amp_index_run *run) {                                          \
        const amp_index_run r = *run;                                                                                  \
        (void)context;                                                                                                 \
        if (r.index_step == 0 && r.table_step == bytes && r.values_step == bytes) { /* a dense piece of a slice */     \
            memcpy(r.values, r.table + amp_index_at(r.index, r.wrap) * r.scale, (size_t)r.n * bytes);                  \
            return;                                                                                                    \
        }                                                                                                              \
        if (r.index_step == sizeof(int64_t) && r.table_step == 0 && r.values_step == bytes && r.wrap == 0) {           \
            read_dense_##bytes((unit_##bytes *)(void *)r.values, r.table, (const void *)r.index, r.scale, r.n);        \
            return;                                                                                                    \
        }                                                                                                              \
        for (int64_t i = 0; i < r.n; i++) {                                                                            \
            const int64_t index = amp_index_at(r.index + i * r.index_step, r.wrap);                                    \
            memcpy(r.values + i * r.values_step, r.table + i * r.table_step + index * r.scale, bytes);                 \
        }                                                                                                              \
    }

READ_LOOP(1)

READ_LOOP(2)

READ_LOOP(4)

READ_LOOP(8)

READ_LOOP(16)

static void set_reader(amp_index_walk *walk, amp_dtype dtype) {
    walk->element = (int64_t)amp_dtype_size(dtype);
    switch (walk->element) {
    case 1: walk->loop = read_1, walk->vector = read_checked_1; break;
    case 2: walk->loop = read_2, walk->vector = read_checked_2; break;
    case 4: walk->loop = read_4, walk->vector = read_checked_4; break;
    case 8: walk->loop = read_8, walk->vector = read_checked_8; break;
    default: walk->loop = read_16, walk->vector = read_checked_16;
    }
}

/* What is read: out[place] = table[place with dimension dim replaced by index[place]], for every place of the index. */
typedef struct reading {
    const char *argument;    /* the index's name, … */
    const amp_tensor *given; /* … and the index as i64 in the shape that it was given in, for messages */
    amp_tensor table, index;
    int dim;
    bool negative; /* indices may count from the end */
} reading;

/* Indices are checked on the way where that writes into a fresh tensor only, which an error makes unseen. */
static amp_status read_all(const amp_call *call, const reading *r, amp_tensor *out) {
    const amp_tensor table = amp_index_at_least_vector(&r->table), index = amp_index_at_least_vector(&r->index);
    const amp_tensor to = amp_index_at_least_vector(out);
    const int64_t size = table.shape[r->dim];
    const bool check_first = call->target || amp_tensor_elements(r->given) < amp_tensor_elements(out);
    if (check_first) {
        AMP_TRY(amp_index_check(call, r->argument, r->given, size, &r->table, r->dim, r->negative));
    }
    if (amp_tensor_elements(out) == 0) return AMP_OK;
    amp_index_walk walk = amp_index_walk_of(&table, &to, NULL, &index, r->dim);
    set_reader(&walk, table.dtype);
    walk.wrap = r->negative ? size : 0;
    walk.size = size;
    walk.check = !check_first;
    if (amp_index_walk_free(&walk)) return AMP_OK;
    return amp_index_check(call, r->argument, r->given, size, &r->table, r->dim, r->negative);
}

/* ---- gather, take_along_dim ----------------------------------------------------------------------------------- */

static amp_status check_gather_shapes(const amp_call *call, const amp_tensor *input, const amp_tensor *index, int dim) {
    const amp_tensor a = amp_index_at_least_vector(input), b = amp_index_at_least_vector(index);
    bool fits = a.rank == b.rank;
    for (int d = 0; fits && d < a.rank; d++) fits = d == dim || b.shape[d] <= a.shape[d];
    if (fits) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID,
                    "%s: 'index' is %s, input %s; expected as many dimensions, none of them larger but number %d",
                    amp_call_name(call), amp_describe(index), amp_describe(input), dim);
}

amp_status cpu_gather(amp_call *call) {
    const amp_gather_args *a = call->args;
    int d;
    AMP_TRY(amp_wrap_dim(call, "dim", a->dim, a->input->rank, &d));
    amp_tensor *index = amp_index_tensor(call, "index", a->index);
    if (!index) return amp_pending_error();
    if (amp_tensor_elements(index) > 0) AMP_TRY(check_gather_shapes(call, a->input, index, d));
    amp_tensor *out = amp_call_output(call, 0, a->input->dtype, index->rank, index->shape);
    if (!out) return amp_pending_error();
    const reading r = {"index", index, *a->input, *index, d, false};
    return amp_tensor_elements(out) > 0 ? read_all(call, &r, out) : AMP_OK;
}

/* The tensor as a vector: a view, or a copy that belongs to the call. */
amp_status amp_cpu_read_along(amp_call *call, const amp_reading *a) {
    amp_tensor *out = amp_call_output(call, 0, a->table->dtype, a->rank, a->index->shape);
    if (!out) return amp_pending_error();
    const reading r = {"indices", a->given, *a->table, *a->index, a->dim, true};
    return read_all(call, &r, out);
}

/* ---- index_select --------------------------------------------------------------------------------------------- */

/* Rows of a dense table, copied as bytes, wherever they lie: of a table in a file only those are read. */
static amp_status copy_rows(const amp_call *call, const amp_tensor *table, const amp_tensor *index, amp_tensor *out) {
    AMP_TRY(amp_index_check(call, "index", index, table->shape[0], table, 0, false));
    const int64_t count = amp_tensor_elements(index), step = index->rank > 0 ? index->strides[0] : 0;
    const int64_t bytes = table->strides[0] * (int64_t)amp_dtype_size(table->dtype);
    const int64_t *place = amp_tensor_pointer(index);
    const char *from = amp_tensor_pointer(table);
    char *to = amp_tensor_pointer(out);
    for (int64_t i = 0; i < count && bytes > 0; i++)
        memcpy(to + i * bytes, from + place[i * step] * bytes, (size_t)bytes);
    return AMP_OK;
}

amp_status cpu_index_select(amp_call *call) {
    const amp_index_select_args *a = call->args;
    int d;
    AMP_TRY(amp_wrap_dim(call, "dim", a->dim, a->input->rank, &d));
    if (amp_tensor_lies_unaligned(a->index)) AMP_TRY(amp_storage_align(a->index->storage));
    amp_tensor *index = amp_index_tensor(call, "index", a->index);
    if (!index) return amp_pending_error();
    const int64_t length = amp_tensor_elements(index);
    if (index->rank > 1 || (a->input->rank == 0 && length != 1)) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'index' is %s, input %s; expected a vector%s", amp_call_name(call),
                        amp_describe(a->index), amp_describe(a->input), a->input->rank ? "" : " of one index");
    }
    const amp_tensor input = amp_index_at_least_vector(a->input);
    const amp_tensor repeated = amp_index_along(index, d, input.rank, input.shape);
    amp_tensor *out = amp_call_output(call, 0, input.dtype, a->input->rank, repeated.shape);
    if (!out) return amp_pending_error();
    const reading r = {"index", index, *a->input, repeated, d, false};
    if (amp_tensor_lies_unaligned(a->input)) {
        const bool by_rows = d == 0 && a->input->rank > 0 && amp_tensor_is_dense(a->input) && amp_tensor_is_dense(out);
        if (by_rows) return copy_rows(call, a->input, index, out);
        AMP_TRY(amp_storage_align(a->input->storage));
    }
    return read_all(call, &r, out);
}

/* ---- one_hot -------------------------------------------------------------------------------------------------- */

static void set_hot(void *context, char *const *data, const int64_t *strides, int64_t count) {
    const int64_t step = *(const int64_t *)context;
    for (int64_t i = 0; i < count; i++) {
        const int64_t class = *(const int64_t *)(const void *)(data[1] + i * strides[1]);
        *(int64_t *)(void *)(data[0] + i * strides[0] + class * step) = 1;
    }
}

static void find_largest(void *context, char *const *data, const int64_t *strides, int64_t count) {
    int64_t largest = 0, before = __atomic_load_n((int64_t *)context, __ATOMIC_RELAXED);
    for (int64_t i = 0; i < count; i++) {
        const int64_t x = *(const int64_t *)(const void *)(data[0] + i * strides[0]);
        largest = x > largest ? x : largest;
    }
    while (largest > before && !__atomic_compare_exchange_n((int64_t *)context, &before, largest, false,
                                                            __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}

int64_t amp_cpu_largest_index(const amp_tensor *index) {
    int64_t largest = 0;
    amp_iterator it;
    amp_iterator_start(&it, index->rank, index->shape);
    amp_iterator_add(&it, index);
    amp_iterator_run(&it, find_largest, &largest, 1);
    return largest;
}

amp_status amp_cpu_set_hot(const amp_call *call, const amp_tensor *index, amp_tensor *out) {
    amp_tensor first = *out; /* class 0 of every element */
    first.rank--;
    int64_t step = out->strides[index->rank] * (int64_t)sizeof(int64_t);
    amp_iterator it;
    (void)call;
    amp_iterator_start(&it, index->rank, index->shape);
    amp_iterator_add(&it, &first);
    amp_iterator_add(&it, index);
    amp_iterator_run(&it, set_hot, &step, 1);
    return AMP_OK;
}
