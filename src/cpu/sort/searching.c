/* searchsorted, bucketize: where values belong in sorted rows. */
#include <omp.h>
#include <string.h>

#include "amp/ops.h"
#include "core/parallel.h"
#include "cpu/convert/copy.h"
#include "cpu/cpu_steps.h"
#include "cpu/index/index_walk.h"
#include "cpu/move/rows.h"

enum { BLOCK = AMP_BLOCK_BYTES / 8 };

typedef struct search {
    amp_rows sequence, values, out;
    amp_dtype compute;
    bool right, one_row; /* one row serves all values */
} search;

/* How many elements of x[0 … n) come before v: those that are not ≥ v, or (right) not > v. So a NaN belongs at the
 * end. */
#define COUNT_LOOP(suffix, type)                                                                                       \
    static void count_##suffix(int64_t *out, const type *x, int64_t n, const type *v, int64_t count, bool right) {     \
        for (int64_t i = 0; i < count; i++) {                                                                          \
            int64_t base = 0;                                                                                          \
            const type value = v[i];                                                                                   \
            for (int64_t length = n; length > 0;) {                                                                    \
                const int64_t half = length / 2;                                                                       \
                const type middle = x[base + half];                                                                    \
                const bool before = right ? !(middle > value) : !(middle >= value);                                    \
                base += before ? half + 1 : 0;                                                                         \
                length = before ? length - half - 1 : half;                                                            \
            }                                                                                                          \
            out[i] = base;                                                                                             \
        }                                                                                                              \
    }

COUNT_LOOP(f32, float)

COUNT_LOOP(f64, double)

COUNT_LOOP(i64, int64_t)

/* Values [begin, end), counted over all rows, within one row. */
static void search_piece(const search *s, int64_t row, int64_t at, int64_t count) {
    _Alignas(64) char buffer[AMP_BLOCK_BYTES];
    int64_t found[BLOCK];
    const int64_t n = s->sequence.length;
    const char *x = s->sequence.data + (s->one_row ? 0 : row) * n * s->sequence.size;
    const void *v = amp_rows_load(&s->values, s->compute, row, at, count, buffer);
    switch (s->compute) {
    case AMP_F32: count_f32(found, (const void *)x, n, v, count, s->right); break;
    case AMP_F64: count_f64(found, (const void *)x, n, v, count, s->right); break;
    default: count_i64(found, (const void *)x, n, v, count, s->right); break;
    }
    amp_block_store(AMP_I64, found, s->out.dtype, s->out.data + (row * s->values.length + at) * s->out.size,
                    s->out.size, count);
}

static void search_all(const search *s) {
    const int64_t pieces = (s->values.length + BLOCK - 1) / BLOCK;
    const int threads = amp_parallel_threads(s->values.count * s->values.length * 16, AMP_GRAIN_ELEMENTS);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t i = 0; i < s->values.count * pieces; i++) {
        const int64_t at = i % pieces * BLOCK, left = s->values.length - at;
        search_piece(s, i / pieces, at, left < BLOCK ? left : BLOCK);
    }
}

/* A copy of `t` in `dtype`, or itself. NULL with an error. */
static amp_tensor *converted(const amp_call *call, amp_tensor *t, amp_dtype dtype) {
    if (t->dtype == dtype) return t;
    amp_tensor *copy = amp_tensor_new(call->op->name, dtype, t->rank, t->shape);
    return copy && amp_cpu_copy(copy, t) == AMP_OK ? copy : NULL;
}

/* The sequence's rows in compute type, in the order that `sorter` gives where there is one. */
static amp_status read_sequence(const amp_call *call, const amp_searching *a, search *s) {
    amp_tensor *x = converted(call, a->sequence, a->compute);
    if (!x) return amp_pending_error();
    const int last = x->rank - 1;
    AMP_TRY(amp_rows_of(call, x, 1u << last, &s->sequence));
    if (!a->sorter) return AMP_OK;
    AMP_TRY(amp_index_check(call, "sorter", a->sorter, x->shape[last], a->sequence, last, false));
    amp_rows places;
    AMP_TRY(amp_rows_of(call, a->sorter, 1u << last, &places));
    amp_tensor *sorted = amp_tensor_new(call->op->name, a->compute, x->rank, x->shape);
    if (!sorted) return amp_pending_error();
    char *to = amp_tensor_pointer(sorted);
    const int64_t size = s->sequence.size, n = s->sequence.length;
    for (int64_t i = 0; i < s->sequence.count * n; i++) {
        const int64_t from = i / n * n + ((const int64_t *)(const void *)places.data)[i];
        memcpy(to + i * size, s->sequence.data + from * size, (size_t)size);
    }
    s->sequence.data = to;
    return AMP_OK;
}

amp_status amp_cpu_search(const amp_call *call, const amp_searching *a, const amp_rows *values, const amp_rows *out) {
    search s = {.values = *values, .out = *out, .compute = a->compute, .right = a->right};
    s.one_row = a->sequence->rank == 1;
    AMP_TRY(read_sequence(call, a, &s));
    search_all(&s);
    return AMP_OK;
}
