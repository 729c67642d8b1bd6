/* searchsorted, bucketize: where values belong in sorted rows. */
#include <omp.h>
#include <string.h>

#include "amp/ops.h"
#include "core/parallel.h"
#include "cpu/convert/copy.h"
#include "cpu/index/index_walk.h"
#include "cpu/elementwise/operands.h"
#include "cpu/move/rows.h"
#include "cuda/ops/cuda_order.h"
#include "dispatch/backend.h"

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

/* ---- Arguments ------------------------------------------------------------------------------------------------ */

typedef struct search_args {
    const char *sequence_name, *values_name;
    amp_tensor *sequence, *values; /* values NULL: a number */
    const amp_scalar *number;
    bool out_int32, right;
    const char *side;
    amp_tensor *sorter;
} search_args;

/* A copy of `t` in `dtype`, or itself. NULL with an error. */
static amp_tensor *converted(const amp_call *call, amp_tensor *t, amp_dtype dtype) {
    if (t->dtype == dtype) return t;
    amp_tensor *copy = amp_tensor_new(call->op->name, dtype, t->rank, t->shape);
    return copy && amp_cpu_copy(copy, t) == AMP_OK ? copy : NULL;
}

static amp_status check_search_shapes(const amp_call *call, const search_args *a) {
    const amp_tensor *x = a->sequence, *v = a->values;
    const bool only_vector = a->number || !strcmp(a->sequence_name, "boundaries");
    if (x->rank == 0 || (only_vector && x->rank != 1)) {
        return amp_fail(AMP_ERROR_INVALID, "%s: '%s' is %s; expected a vector%s", amp_call_name(call), a->sequence_name,
                        amp_describe(x), only_vector ? "" : ", or rows of them");
    }
    if (v && x->rank > 1 && !(x->rank == v->rank && amp_same_leading(x, v, x->rank - 1))) {
        return amp_fail(AMP_ERROR_INVALID, "%s: '%s' is %s, '%s' is %s; all but the last dimension must agree",
                        amp_call_name(call), a->values_name, amp_describe(v), a->sequence_name, amp_describe(x));
    }
    if (!a->sorter || amp_same_shape(a->sorter, x)) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: 'sorter' is %s, '%s' is %s; expected equal shapes", amp_call_name(call),
                    amp_describe(a->sorter), a->sequence_name, amp_describe(x));
}

static amp_status read_side(const amp_call *call, const search_args *a, bool *right) {
    *right = a->right;
    if (!a->side) return AMP_OK;
    const bool is_right = !strcmp(a->side, "right");
    if (!is_right && strcmp(a->side, "left") != 0) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'side' is \"%s\"; expected \"left\" or \"right\"", amp_call_name(call),
                        a->side);
    }
    if (!is_right && a->right) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'side' is \"left\" and 'right' is true; they contradict each other",
                        amp_call_name(call));
    }
    *right = is_right;
    return AMP_OK;
}

/* The sequence's rows in compute type, in the order that `sorter` gives where there is one. */
static amp_status read_sequence(const amp_call *call, const search_args *a, search *s) {
    amp_tensor *x = converted(call, a->sequence, s->compute);
    if (!x) return amp_pending_error();
    const int last = x->rank - 1;
    AMP_TRY(amp_rows_of(call, x, 1u << last, &s->sequence));
    if (!a->sorter) return AMP_OK;
    amp_tensor *index = amp_index_tensor(call, "sorter", a->sorter);
    if (!index) return amp_pending_error();
    AMP_TRY(amp_index_check(call, "sorter", index, x->shape[last], a->sequence, last, false));
    amp_rows places;
    AMP_TRY(amp_rows_of(call, index, 1u << last, &places));
    amp_tensor *sorted = amp_tensor_new(call->op->name, s->compute, x->rank, x->shape);
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

static amp_status run(amp_call *call, const search_args *a) {
    search s = {0};
    AMP_TRY(check_search_shapes(call, a));
    AMP_TRY(read_side(call, a, &s.right));
    const amp_operand v[2] = {
        amp_tensor_operand(a->sequence_name, a->sequence),
        a->values ? amp_tensor_operand(a->values_name, a->values)
                  : amp_number_operand(a->values_name, *a->number)}; /* NOLINT(clang-analyzer-core.NullDereference) */
    s.compute = amp_compute_dtype(amp_operands_dtype(v, 2));
    if (s.compute == AMP_C128) {
        return amp_fail(AMP_ERROR_DTYPE, "%s: complex numbers have no order ('%s' is %s)", amp_call_name(call),
                        a->sequence_name, amp_describe(a->sequence));
    }
    amp_tensor *values = a->values;
    if (!values) { /* the number as a 0-dim tensor of the type of the search */
        values = amp_backend_tensor(call->device, call->op->name, s.compute, 0, NULL);
        if (!values) return amp_pending_error();
        AMP_TRY(amp_fill_tensor_with(values, a->number));
    }
    s.one_row = a->sequence->rank == 1;
    const unsigned mask = s.one_row ? (1u << values->rank) - 1 : 1u << (values->rank - 1);
    amp_tensor *out =
        amp_call_output(call, 0, a->out_int32 ? AMP_I32 : AMP_I64, values->rank, a->values ? values->shape : NULL);
    if (!out) return amp_pending_error();
    AMP_TRY(amp_rows_of(call, values, mask, &s.values));
    AMP_TRY(amp_rows_for(call, out, mask, &s.out));
    if (call->device == AMP_DEVICE_CUDA) {
        amp_tensor *sorter = a->sorter ? amp_index_tensor(call, "sorter", a->sorter) : NULL;
        if (a->sorter && !sorter) return amp_pending_error();
        AMP_TRY(amp_rows_of(call, a->sequence, 1u << (a->sequence->rank - 1), &s.sequence));
        AMP_TRY(amp_cuda_search_rows(call, &s.sequence, sorter, &s.values, s.compute, s.right, &s.out));
        return amp_rows_finish(&s.out);
    }
    AMP_TRY(read_sequence(call, a, &s));
    search_all(&s);
    return amp_rows_finish(&s.out);
}

amp_status cpu_searchsorted(amp_call *call) {
    const amp_searchsorted_args *a = call->args;
    return run(call, &(const search_args){"sorted_sequence", "values", a->sorted_sequence, a->values, NULL,
                                          a->out_int32, a->right, a->side, a->sorter});
}
amp_status cpu_searchsorted_scalar(amp_call *call) {
    const amp_searchsorted_scalar_args *a = call->args;
    return run(call, &(const search_args){"sorted_sequence", "values", a->sorted_sequence, NULL, &a->values,
                                          a->out_int32, a->right, a->side, a->sorter});
}
amp_status cpu_bucketize(amp_call *call) {
    const amp_bucketize_args *a = call->args;
    return run(call, &(const search_args){"boundaries", "input", a->boundaries, a->input, NULL, a->out_int32, a->right,
                                          NULL, NULL});
}
amp_status cpu_bucketize_scalar(amp_call *call) {
    const amp_bucketize_scalar_args *a = call->args;
    return run(call, &(const search_args){"boundaries", "input", a->boundaries, NULL, &a->input, a->out_int32, a->right,
                                          NULL, NULL});
}
