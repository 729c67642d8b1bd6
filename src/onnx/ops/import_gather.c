/* Ops that pick elements. */
#include <string.h>

#include "core/memory.h"
#include "onnx/ops.h"
#include "onnx/ops/compose.h"
#include "onnx/ops/indices.h"

/* ---- Indices --------------------------------------------------------------------------------------------------- */

amp_tensor *amp_onnx_wrapped(amp_tensor *indices, int64_t n) {
    amp_tensor *wide = indices ? amp_onnx_as(indices, AMP_I64) : NULL;
    return amp_where(amp_lt_scalar(wide, amp_int(0)), amp_add_scalar(wide, amp_int(n)), wide);
}

/* The number of a row by its indices into these dimensions; one that is none of `rows` where an index is outside. */
static amp_tensor *numbered(const amp_tensor *x, amp_tensor *indices, int first, int count, int64_t rows) {
    int64_t strides[AMP_MAX_RANK];
    for (int j = 0; j < count; j++) strides[j] = amp_onnx_extent(x, first + j + 1, first + count);
    amp_tensor *extents = amp_onnx_vector_beside(x, x->shape + first, count);
    amp_tensor *wide = amp_onnx_as(indices, AMP_I64);
    wide = amp_where(amp_lt_scalar(wide, amp_int(0)), amp_add(wide, extents), wide);
    amp_tensor *outside = amp_logical_or(amp_lt_scalar(wide, amp_int(0)), amp_ge(wide, extents));
    amp_tensor *parts = amp_mul(wide, amp_onnx_vector_beside(x, strides, count));
    return amp_sum(amp_where_scalar_self(outside, amp_int(rows), parts), .dim = AMP_DIMS(-1));
}

/* 0, step, 2 · step … as a column. */
static amp_tensor *column(const amp_tensor *beside, int64_t count, int64_t step) {
    amp_tensor *numbers = amp_arange(amp_int(count), .device = amp_tensor_device(beside));
    return amp_unsqueeze(amp_mul_scalar(numbers, amp_int(step)), 1);
}

amp_status amp_onnx_rows(const amp_onnx_step *s, amp_tensor *x, amp_tensor *indices, int64_t batch_dims,
                         amp_onnx_row_set *rows) {
    *rows = (amp_onnx_row_set){.of = NULL};
    if (!x || !indices) return amp_pending_error();
    const int last = indices->rank - 1;
    if (last < 0 || batch_dims < 0 || batch_dims > last || batch_dims > x->rank ||
        indices->shape[last] > x->rank - batch_dims || !amp_same_leading(x, indices, (int)batch_dims))
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "indices are %s, batch_dims %lld, for %s", amp_describe(indices),
                             (long long)batch_dims, amp_describe(x));
    const int first = (int)batch_dims, depth = (int)indices->shape[last];
    const int64_t batch = amp_onnx_extent(x, 0, first), groups = amp_onnx_extent(x, 0, first + depth);
    rows->count = amp_onnx_extent(indices, 0, last);
    rows->elements = amp_onnx_extent(x, first + depth, x->rank);
    rows->depth = first + depth;
    rows->of = amp_reshape(x, AMP_DIMS(groups, rows->elements));
    amp_tensor *places = numbered(x, indices, first, depth, groups);
    if (first > 0) {
        const int64_t each = amp_onnx_extent(indices, first, last), step = amp_onnx_extent(x, first, first + depth);
        places = amp_add(amp_reshape(places, AMP_DIMS(batch, each)), column(x, batch, step));
    }
    rows->places = amp_reshape(places, AMP_DIMS(rows->count));
    return amp_pending_error();
}

/* ---- Picking --------------------------------------------------------------------------------------------------- */

/* The shape of indices, up to `end`, then that of x from `from` on, behind x's up to `before`. */
static amp_status joined_shape(const amp_onnx_step *s, const amp_tensor *x, int before, const amp_tensor *indices,
                               int end, int from, amp_dims *shape) {
    const int rank = before + end + x->rank - from;
    *shape = amp_onnx_dims(0, NULL);
    if (rank > AMP_MAX_RANK)
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "rank %d; libamp's tensors have at most %d", rank, AMP_MAX_RANK);
    for (int d = 0; d < before; d++) shape->values[shape->count++] = x->shape[d];
    for (int d = 0; d < end; d++) shape->values[shape->count++] = indices->shape[d];
    for (int d = from; d < x->rank; d++) shape->values[shape->count++] = x->shape[d];
    return AMP_OK;
}

amp_status onnx_gather(amp_onnx_step *s) {
    amp_tensor *operands[2];
    if (!amp_onnx_operands(s, operands, 2)) return amp_pending_error();
    amp_tensor *x = operands[0], *indices = operands[1];
    const int axis = (int)amp_onnx_axis(s, amp_onnx_int(s, "axis", 0), x->rank);
    amp_dims shape;
    if (axis < 0) return amp_pending_error();
    AMP_TRY(joined_shape(s, x, axis, indices, indices->rank, axis + 1, &shape));
    amp_tensor *places = amp_reshape(indices, AMP_DIMS(amp_tensor_numel(indices)));
    amp_tensor *y = amp_index_select(x, axis, amp_onnx_wrapped(places, x->shape[axis]));
    return amp_onnx_set(s, 0, indices->rank == 1 ? y : amp_reshape(y, shape));
}

amp_status onnx_gather_elements(amp_onnx_step *s) {
    amp_tensor *x[2];
    if (!amp_onnx_operands(s, x, 2)) return amp_pending_error();
    const int axis = (int)amp_onnx_axis(s, amp_onnx_int(s, "axis", 0), x[0]->rank);
    if (axis < 0) return amp_pending_error();
    return amp_onnx_set(s, 0, amp_gather(x[0], axis, amp_onnx_wrapped(x[1], x[0]->shape[axis])));
}

amp_status onnx_gather_nd(amp_onnx_step *s) {
    amp_tensor *x[2];
    amp_onnx_row_set rows;
    amp_dims shape;
    if (!amp_onnx_operands(s, x, 2)) return amp_pending_error();
    AMP_TRY(amp_onnx_rows(s, x[0], x[1], amp_onnx_int(s, "batch_dims", 0), &rows));
    AMP_TRY(joined_shape(s, x[0], 0, x[1], x[1]->rank - 1, rows.depth, &shape));
    return amp_onnx_set(s, 0, amp_reshape(amp_index_select(rows.of, 0, rows.places), shape));
}

/* Where the condition, which may be shorter, holds; of all elements in a row without an axis. */
amp_status onnx_compress(amp_onnx_step *s) {
    amp_tensor *x = amp_onnx_required(s, 0);
    const amp_tensor *condition = amp_onnx_required(s, 1);
    if (!x || !condition) return amp_pending_error();
    const bool flat = !amp_onnx_has(s, "axis");
    const int64_t axis = flat ? 0 : amp_onnx_axis(s, amp_onnx_int(s, "axis", 0), x->rank);
    if (axis < 0) return amp_pending_error();
    amp_tensor *from = flat ? amp_reshape(x, AMP_DIMS(amp_tensor_numel(x))) : x;
    const int64_t conditions = amp_tensor_numel(condition);
    int64_t *places = amp_onnx_all_ints(s, condition), count = 0;
    for (int64_t i = 0; places && i < conditions; i++) {
        if (places[i] != 0) places[count++] = i;
    }
    amp_tensor *y = places ? amp_index_select(from, axis, amp_onnx_vector_beside(x, places, count)) : NULL;
    amp_free(places);
    return amp_onnx_set(s, 0, y);
}

/* A column for each element that is not zero. */
amp_status onnx_nonzero(amp_onnx_step *s) {
    amp_tensor *x = amp_onnx_required(s, 0);
    if (x && x->rank == 0) x = amp_reshape(x, AMP_DIMS(1));
    return amp_onnx_set(s, 0, amp_transpose(amp_nonzero(x), 0, 1));
}

/* ---- Turning round, triangles, classes ------------------------------------------------------------------------- */

/* Of (batch, time, …) the first lengths[b] steps of each sequence backwards. A length that cannot be makes places that
 * are none. */
static amp_tensor *turned(amp_tensor *x, amp_tensor *lengths) {
    if (!x || !lengths) return NULL;
    const int64_t batch = x->shape[0], time = x->shape[1], all = amp_onnx_extent(x, 0, 2);
    amp_tensor *length = amp_unsqueeze(amp_onnx_as(lengths, AMP_I64), 1);
    amp_tensor *t = amp_arange(amp_int(time), .device = amp_tensor_device(x));
    amp_tensor *back = amp_sub(amp_sub_scalar(length, amp_int(1)), t);
    amp_tensor *place = amp_add(amp_where(amp_lt(t, length), back, t), column(x, batch, time));
    amp_tensor *outside = amp_logical_or(amp_lt_scalar(length, amp_int(0)), amp_gt_scalar(length, amp_int(time)));
    amp_tensor *places = amp_reshape(amp_where_scalar_self(outside, amp_int(all), place), AMP_DIMS(all));
    amp_tensor *rows = amp_reshape(x, AMP_DIMS(all, amp_onnx_extent(x, 2, x->rank)));
    return amp_reshape(amp_index_select(rows, 0, places), amp_onnx_dims(x->rank, x->shape));
}

amp_status onnx_reverse_sequence(amp_onnx_step *s) {
    amp_tensor *operands[2];
    const int64_t batch_axis = amp_onnx_int(s, "batch_axis", 1), time_axis = amp_onnx_int(s, "time_axis", 0);
    if (!amp_onnx_operands(s, operands, 2)) return amp_pending_error();
    amp_tensor *x = operands[0], *lengths = operands[1];
    const bool time_first = batch_axis == 1 && time_axis == 0, batch_first = batch_axis == 0 && time_axis == 1;
    if (x->rank < 2 || !(time_first || batch_first))
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "batch axis %lld and time axis %lld of %s", (long long)batch_axis,
                             (long long)time_axis, amp_describe(x));
    if (lengths->rank != 1 || lengths->shape[0] != x->shape[batch_axis])
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "sequence_lens is %s; expected one for each of axis %lld of %s",
                             amp_describe(lengths), (long long)batch_axis, amp_describe(x));
    if (batch_first) return amp_onnx_set(s, 0, turned(x, lengths));
    return amp_onnx_set(s, 0, amp_transpose(turned(amp_transpose(x, 0, 1), lengths), 0, 1));
}

amp_status onnx_trilu(amp_onnx_step *s) {
    amp_tensor *x = amp_onnx_required(s, 0);
    const amp_tensor *given = amp_onnx_input(s, 1);
    int64_t k = 0;
    if (!x || (given && amp_onnx_read_ints(s, given, &k, 1) < 0)) return amp_pending_error();
    if (x->rank < 2) return amp_onnx_fail(s, AMP_ERROR_INVALID, "%s; expected matrices", amp_describe(x));
    const int64_t rows = x->shape[x->rank - 2], columns = x->shape[x->rank - 1];
    k = k < -rows ? -rows : k > columns ? columns : k; /* further is the same */
    return amp_onnx_set(s, 0, amp_onnx_int(s, "upper", 1) != 0 ? amp_triu(x, k) : amp_tril(x, k));
}

/* 0, 1, … depth − 1 along `axis` of a tensor of `rank` dimensions, which it broadcasts to. */
static amp_tensor *classes(const amp_tensor *beside, int64_t depth, int axis, int rank) {
    amp_dims shape = amp_onnx_dims(rank - axis, NULL);
    for (int d = 0; d < shape.count; d++) shape.values[d] = d == 0 ? depth : 1;
    return amp_reshape(amp_arange(amp_int(depth), .device = amp_tensor_device(beside)), shape);
}

/* Indices outside of −depth … depth − 1 are none of the classes. */
amp_status onnx_one_hot(amp_onnx_step *s) {
    amp_tensor *both[] = {amp_onnx_required(s, 0), amp_onnx_required(s, 2)};
    amp_scalar given;
    amp_onnx_meet(both, 2);
    amp_tensor *indices = both[0], *values = both[1];
    if (!indices || !values) return amp_pending_error();
    AMP_TRY(amp_onnx_read_number(s, amp_onnx_required(s, 1), &given));
    if (given.kind == AMP_SCALAR_FLOAT && !(given.re >= 0 && given.re < 0x1p53))
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "a depth of %g", given.re);
    const int64_t depth = given.kind == AMP_SCALAR_INT ? given.i : (int64_t)given.re;
    const int rank = indices->rank + 1, axis = (int)amp_onnx_axis(s, amp_onnx_int(s, "axis", -1), rank);
    if (axis < 0) return amp_pending_error();
    if (rank > AMP_MAX_RANK)
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "rank %d; libamp's tensors have at most %d", rank, AMP_MAX_RANK);
    const int64_t shape[] = {amp_tensor_numel(indices), depth};
    AMP_TRY(amp_onnx_check_made(s, indices, 2, shape));
    amp_tensor *wrapped = amp_onnx_wrapped(indices, depth);
    amp_tensor *hot = amp_eq(amp_unsqueeze(wrapped, axis), classes(indices, depth, axis, rank));
    return amp_onnx_set(s, 0, amp_where(hot, amp_select(values, 0, 1), amp_select(values, 0, 0)));
}
