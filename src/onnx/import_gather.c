/* Ops that pick elements. */
#include <string.h>

#include "core/memory.h"
#include "onnx/compose.h"
#include "onnx/indices.h"
#include "onnx/ops.h"

/* ---- Indices --------------------------------------------------------------------------------------------------- */

static amp_tensor *wrapped_on_cpu(const amp_onnx_step *s, const amp_tensor *indices, const amp_tensor *x, int axis) {
    const int64_t count = amp_tensor_numel(indices);
    int64_t *all = amp_onnx_all_ints(s, indices);
    for (int64_t i = 0; all && i < count; i++) {
        all[i] = amp_onnx_wrap(s, all[i], x->shape[axis], axis);
        if (all[i] < 0) break;
    }
    amp_tensor *vector = all && !amp_failed() ? amp_onnx_vector_beside(x, all, count) : NULL;
    amp_free(all);
    return vector;
}

amp_tensor *amp_onnx_wrapped(const amp_onnx_step *s, amp_tensor *indices, const amp_tensor *x, int axis) {
    if (!indices) return NULL;
    if (amp_tensor_device(indices) == AMP_DEVICE_CPU) {
        amp_tensor *vector = wrapped_on_cpu(s, indices, x, axis);
        return amp_reshape(vector, amp_onnx_dims(indices->rank, indices->shape));
    }
    amp_tensor *wide = amp_onnx_as(indices, AMP_I64);
    return amp_where(amp_lt_scalar(wide, amp_int(0)), amp_add_scalar(wide, amp_int(x->shape[axis])), wide);
}

/* The number of row r of the indices among the groups of rows that begin with `batch` and one index for each dimension
 * after that; -1 with an error. */
static int64_t place_of(const amp_onnx_step *s, const amp_tensor *x, int64_t batch, const int64_t *row, int first,
                        int count) {
    int64_t place = batch;
    for (int j = 0; j < count; j++) {
        const int64_t i = amp_onnx_wrap(s, row[j], x->shape[first + j], first + j);
        if (i < 0) return -1;
        place = place * x->shape[first + j] + i;
    }
    return place;
}

amp_status amp_onnx_rows(const amp_onnx_step *s, amp_tensor *x, const amp_tensor *indices, int64_t batch_dims,
                         amp_onnx_row_set *rows) {
    if (!x || !indices) return amp_pending_error();
    const int last = indices->rank - 1;
    if (last < 0 || batch_dims < 0 || batch_dims > last || batch_dims > x->rank ||
        indices->shape[last] > x->rank - batch_dims || !amp_same_leading(x, indices, (int)batch_dims))
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "indices are %s, batch_dims %lld, for %s", amp_describe(indices),
                             (long long)batch_dims, amp_describe(x));
    const int first = (int)batch_dims, depth = (int)indices->shape[last];
    const int64_t count = amp_onnx_extent(indices, 0, last), each = amp_onnx_extent(indices, first, last);
    int64_t *all = amp_onnx_all_ints(s, indices), *places = amp_alloc((size_t)count * sizeof *places);
    if (all && !places) (void)amp_onnx_fail(s, AMP_ERROR_MEMORY, "no memory for %lld places", (long long)count);
    for (int64_t r = 0; all && places && r < count && !amp_failed(); r++)
        places[r] = place_of(s, x, r / each, all + r * depth, first, depth);
    if (all && !amp_failed()) {
        const int64_t groups = amp_onnx_extent(x, 0, first + depth);
        rows->elements = amp_onnx_extent(x, first + depth, x->rank);
        rows->count = count;
        rows->of = amp_reshape(x, AMP_DIMS(groups, rows->elements));
        rows->depth = first + depth;
        rows->places = amp_onnx_vector_beside(x, places, count);
    }
    amp_free(places);
    amp_free(all);
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

/* One index on the CPU makes a view. */
amp_status onnx_gather(amp_onnx_step *s) {
    amp_tensor *x = amp_onnx_required(s, 0), *indices = amp_onnx_required(s, 1), *y = NULL;
    const int axis = x ? (int)amp_onnx_axis(s, amp_onnx_int(s, "axis", 0), x->rank) : -1;
    int64_t one = 0;
    amp_dims shape;
    if (axis < 0 || !indices) return amp_pending_error();
    AMP_TRY(joined_shape(s, x, axis, indices, indices->rank, axis + 1, &shape));
    if (amp_tensor_numel(indices) == 1 && amp_tensor_device(indices) == AMP_DEVICE_CPU) {
        if (amp_onnx_read_ints(s, indices, &one, 1) < 0) return amp_pending_error();
        one = amp_onnx_wrap(s, one, x->shape[axis], axis);
        if (one < 0) return amp_pending_error();
        y = amp_narrow(x, axis, one, 1);
    } else {
        amp_tensor *places = amp_onnx_wrapped(s, indices, x, axis);
        y = amp_index_select(x, axis, amp_reshape(places, AMP_DIMS(amp_tensor_numel(indices))));
    }
    return amp_onnx_set(s, 0, amp_reshape(y, shape));
}

amp_status onnx_gather_elements(amp_onnx_step *s) {
    amp_tensor *x = amp_onnx_required(s, 0), *indices = amp_onnx_required(s, 1);
    const int axis = x ? (int)amp_onnx_axis(s, amp_onnx_int(s, "axis", 0), x->rank) : -1;
    if (axis < 0) return amp_pending_error();
    return amp_onnx_set(s, 0, amp_gather(x, axis, amp_onnx_wrapped(s, indices, x, axis)));
}

amp_status onnx_gather_nd(amp_onnx_step *s) {
    amp_tensor *x = amp_onnx_required(s, 0);
    const amp_tensor *indices = amp_onnx_required(s, 1);
    amp_onnx_row_set rows;
    amp_dims shape;
    AMP_TRY(amp_onnx_rows(s, x, indices, amp_onnx_int(s, "batch_dims", 0), &rows));
    AMP_TRY(joined_shape(s, x, 0, indices, indices->rank - 1, rows.depth, &shape));
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
    int64_t *places = amp_onnx_all_ints(s, condition), count = 0;
    for (int64_t i = 0; places && i < amp_tensor_numel(condition); i++) {
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
    return amp_onnx_set(s, 0, amp_transpose(AMP_ONNX_CALL("nonzero", x), 0, 1));
}

/* ---- Turning round, triangles, classes ------------------------------------------------------------------------- */

/* The first lengths[b] steps of each sequence of a batch backwards: as rows of (batch, time, …). */
static amp_tensor *turned(const amp_onnx_step *s, amp_tensor *x, const int64_t *lengths) {
    const int64_t batch = x->shape[0], time = x->shape[1];
    int64_t *places = amp_alloc((size_t)(batch * time) * sizeof *places);
    if (!places) {
        (void)amp_onnx_fail(s, AMP_ERROR_MEMORY, "no memory for %lld places", (long long)(batch * time));
        return NULL;
    }
    for (int64_t b = 0; b < batch; b++) {
        for (int64_t t = 0; t < time; t++) places[b * time + t] = b * time + (t < lengths[b] ? lengths[b] - 1 - t : t);
    }
    amp_tensor *rows = amp_reshape(x, AMP_DIMS(batch * time, amp_onnx_extent(x, 2, x->rank)));
    amp_tensor *y = amp_index_select(rows, 0, amp_onnx_vector_beside(x, places, batch * time));
    amp_free(places);
    return amp_reshape(y, amp_onnx_dims(x->rank, x->shape));
}

amp_status onnx_reverse_sequence(amp_onnx_step *s) {
    amp_tensor *x = amp_onnx_required(s, 0);
    const amp_tensor *given = amp_onnx_required(s, 1);
    const int64_t batch_axis = amp_onnx_int(s, "batch_axis", 1), time_axis = amp_onnx_int(s, "time_axis", 0);
    if (!x || !given) return amp_pending_error();
    if (x->rank < 2 || batch_axis + time_axis != 1 || batch_axis * time_axis != 0)
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "batch axis %lld and time axis %lld of %s", (long long)batch_axis,
                             (long long)time_axis, amp_describe(x));
    if (batch_axis == 1) x = amp_transpose(x, 0, 1);
    int64_t *lengths = x ? amp_onnx_all_ints(s, given) : NULL;
    if (!lengths) return amp_pending_error();
    bool fits = amp_tensor_numel(given) == x->shape[0];
    for (int64_t b = 0; fits && b < x->shape[0]; b++) fits = lengths[b] >= 0 && lengths[b] <= x->shape[1];
    amp_tensor *y = fits ? turned(s, x, lengths) : NULL;
    amp_free(lengths);
    if (!fits)
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "sequence_lens of %lld steps and %lld sequences do not fit",
                             (long long)x->shape[1], (long long)x->shape[0]);
    return amp_onnx_set(s, 0, batch_axis == 1 ? amp_transpose(y, 0, 1) : y);
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
    amp_tensor *indices = amp_onnx_required(s, 0), *values = amp_onnx_required(s, 2);
    amp_scalar given;
    if (!indices || !values) return amp_pending_error();
    AMP_TRY(amp_onnx_read_number(s, amp_onnx_required(s, 1), &given));
    const int64_t depth = given.kind == AMP_SCALAR_INT ? given.i : (int64_t)given.re;
    const int rank = indices->rank + 1, axis = (int)amp_onnx_axis(s, amp_onnx_int(s, "axis", -1), rank);
    if (axis < 0) return amp_pending_error();
    if (rank > AMP_MAX_RANK)
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "rank %d; libamp's tensors have at most %d", rank, AMP_MAX_RANK);
    amp_tensor *wide = amp_onnx_as(indices, AMP_I64);
    wide = amp_where(amp_lt_scalar(wide, amp_int(0)), amp_add_scalar(wide, amp_int(depth)), wide);
    amp_tensor *hot = amp_eq(amp_unsqueeze(wide, axis), classes(indices, depth, axis, rank));
    return amp_onnx_set(s, 0, amp_where(hot, amp_select(values, 0, 1), amp_select(values, 0, 0)));
}
