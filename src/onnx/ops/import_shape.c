/* Ops that ask for shapes or give the same elements another one, and joining. */
#include <string.h>

#include "onnx/ops.h"
#include "onnx/ops/compose.h"

/* ---- Shapes as values: on the CPU, whatever the device of the data --------------------------------------------- */

static int64_t clipped(int64_t i, int rank) {
    if (i < 0) i += rank;
    return i < 0 ? 0 : i > rank ? rank : i;
}

amp_status onnx_shape(amp_onnx_step *s) {
    const amp_tensor *x = amp_onnx_required(s, 0);
    if (!x) return amp_pending_error();
    const int64_t start = clipped(amp_onnx_int(s, "start", 0), x->rank);
    const int64_t end = clipped(amp_onnx_int(s, "end", x->rank), x->rank), count = end > start ? end - start : 0;
    return amp_onnx_set(s, 0, amp_from_data(x->shape + start, AMP_I64, 1, &count));
}

amp_status onnx_size(amp_onnx_step *s) {
    const amp_tensor *x = amp_onnx_required(s, 0);
    if (!x) return amp_pending_error();
    const int64_t count = amp_tensor_numel(x);
    return amp_onnx_set(s, 0, amp_from_data(&count, AMP_I64, 0, NULL));
}

/* ---- Other shapes ---------------------------------------------------------------------------------------------- */

amp_status onnx_identity(amp_onnx_step *s) {
    return amp_onnx_set(s, 0, amp_onnx_required(s, 0));
}

/* The extent for -1: what the given ones leave of the elements. Extents that 0 copies count on neither side, so that a
 * dimension without elements may be copied too. */
static amp_status fill_open(const amp_onnx_step *s, const amp_tensor *x, amp_dims *shape, const bool *copied) {
    int64_t elements = 1, given = 1;
    int open = -1;
    for (int d = 0; d < x->rank; d++) {
        const int64_t extent = d < shape->count && copied[d] ? 1 : x->shape[d];
        if (__builtin_mul_overflow(elements, extent, &elements))
            return amp_onnx_fail(s, AMP_ERROR_INVALID, "%s is too large", amp_describe(x));
    }
    for (int d = 0; d < shape->count; d++) {
        if (shape->values[d] == -1) {
            if (open >= 0) return amp_onnx_fail(s, AMP_ERROR_INVALID, "-1 stands for two extents");
            open = d;
        } else if (!copied[d] && __builtin_mul_overflow(given, shape->values[d], &given)) {
            return amp_onnx_fail(s, AMP_ERROR_INVALID, "the shape [%s] is too large",
                                 amp_describe_shape(shape->count, shape->values));
        }
    }
    if (open < 0) return AMP_OK;
    if (given <= 0 || elements % given != 0)
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "%s does not fit the shape %s", amp_describe(x),
                             amp_describe_shape(shape->count, shape->values));
    shape->values[open] = elements / given;
    return AMP_OK;
}

amp_status onnx_reshape(amp_onnx_step *s) {
    amp_tensor *x = amp_onnx_required(s, 0);
    const bool allow_zero = amp_onnx_int(s, "allowzero", 0) != 0;
    amp_dims shape = amp_onnx_dims(0, NULL);
    bool copied[AMP_MAX_RANK] = {false};
    const int64_t count = x ? amp_onnx_read_ints(s, amp_onnx_required(s, 1), shape.values, AMP_MAX_RANK) : -1;
    if (count < 0) return amp_pending_error();
    shape.count = (int)count;
    for (int d = 0; d < shape.count && !allow_zero; d++) {
        if (shape.values[d] != 0) continue;
        if (d >= x->rank)
            return amp_onnx_fail(s, AMP_ERROR_INVALID, "extent %d is to be copied from %s", d, amp_describe(x));
        copied[d] = true;
        shape.values[d] = x->shape[d];
    }
    AMP_TRY(fill_open(s, x, &shape, copied));
    return amp_onnx_set(s, 0, amp_reshape(x, shape));
}

amp_status onnx_flatten(amp_onnx_step *s) {
    amp_tensor *x = amp_onnx_required(s, 0);
    const int64_t given = amp_onnx_int(s, "axis", 1);
    if (!x) return amp_pending_error();
    const int64_t axis = given < 0 ? given + x->rank : given;
    if (axis < 0 || axis > x->rank)
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "axis %lld of %s", (long long)given, amp_describe(x));
    const int64_t rows = amp_onnx_extent(x, 0, (int)axis), columns = amp_onnx_extent(x, (int)axis, x->rank);
    return amp_onnx_set(s, 0, amp_reshape(x, AMP_DIMS(rows, columns)));
}

amp_status onnx_squeeze(amp_onnx_step *s) {
    amp_tensor *x = amp_onnx_required(s, 0);
    amp_dims axes;
    if (!x) return amp_pending_error();
    AMP_TRY(amp_onnx_axes(s, 1, "axes", x->rank, &axes));
    for (int i = 0; i < axes.count; i++) {
        if (x->shape[axes.values[i]] != 1)
            return amp_onnx_fail(s, AMP_ERROR_INVALID, "axis %lld of %s has more or less than one element",
                                 (long long)axes.values[i], amp_describe(x));
    }
    return amp_onnx_set(s, 0, axes.set ? amp_squeeze(x, .dim = axes) : amp_squeeze(x));
}

/* Axes are those of the result. */
amp_status onnx_unsqueeze(amp_onnx_step *s) {
    amp_tensor *x = amp_onnx_required(s, 0);
    int64_t given[AMP_MAX_RANK];
    bool is_new[AMP_MAX_RANK] = {false};
    const int64_t count = x ? amp_onnx_list(s, 1, "axes", given, AMP_MAX_RANK) : -1;
    if (count < 0) return amp_pending_error();
    const int rank = x->rank + (int)count;
    if (rank > AMP_MAX_RANK)
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "rank %d; libamp's tensors have at most %d", rank, AMP_MAX_RANK);
    for (int64_t i = 0; i < count; i++) {
        const int64_t axis = amp_onnx_axis(s, given[i], rank);
        if (axis < 0) return amp_pending_error();
        if (is_new[axis]) return amp_onnx_fail(s, AMP_ERROR_INVALID, "axis %lld is there twice", (long long)axis);
        is_new[axis] = true;
    }
    for (int d = 0; d < rank; d++) {
        if (is_new[d]) x = amp_unsqueeze(x, d);
    }
    return amp_onnx_set(s, 0, x);
}

/* Dimensions reversed unless the order is given. */
amp_status onnx_transpose(amp_onnx_step *s) {
    amp_tensor *x = amp_onnx_required(s, 0);
    int count = 0;
    const int64_t *order = amp_onnx_ints(s, "perm", &count);
    if (!x) return amp_pending_error();
    if (order && count != x->rank)
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "perm has %d numbers for %s", count, amp_describe(x));
    amp_dims dims = amp_onnx_dims(x->rank, order);
    for (int d = 0; d < x->rank && !order; d++) dims.values[d] = x->rank - 1 - d;
    return amp_onnx_set(s, 0, amp_permute(x, dims));
}

/* ---- Repeating and joining ------------------------------------------------------------------------------------- */

/* The shape and the tensor broadcast each other. */
amp_status onnx_expand(amp_onnx_step *s) {
    amp_tensor *x = amp_onnx_required(s, 0);
    int64_t given[AMP_MAX_RANK];
    const int64_t count = x ? amp_onnx_read_ints(s, amp_onnx_required(s, 1), given, AMP_MAX_RANK) : -1;
    if (count < 0) return amp_pending_error();
    const int rank = count > x->rank ? (int)count : x->rank;
    amp_dims size = amp_onnx_dims(rank, NULL);
    for (int d = 0; d < rank; d++) {
        const int at = d - rank + x->rank, there = d - rank + (int)count;
        const int64_t own = at >= 0 ? x->shape[at] : 1;
        size.values[d] = there >= 0 && given[there] != 1 ? given[there] : own;
    }
    return amp_onnx_set(s, 0, amp_expand(x, size));
}

amp_status onnx_tile(amp_onnx_step *s) {
    amp_tensor *x = amp_onnx_required(s, 0);
    amp_dims repeats = amp_onnx_dims(0, NULL);
    const int64_t count = x ? amp_onnx_read_ints(s, amp_onnx_required(s, 1), repeats.values, AMP_MAX_RANK) : -1;
    if (count < 0) return amp_pending_error();
    if (count != x->rank)
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "%lld repeats for %s", (long long)count, amp_describe(x));
    repeats.count = (int)count;
    amp_dims shape = repeats;
    for (int d = 0; d < x->rank; d++) {
        if (__builtin_mul_overflow(shape.values[d], x->shape[d], &shape.values[d])) shape.values[d] = INT64_MAX;
    }
    AMP_TRY(amp_onnx_check_made(s, x, x->rank, shape.values));
    return amp_onnx_set(s, 0, amp_repeat(x, repeats));
}

amp_status onnx_concat(amp_onnx_step *s) {
    amp_tensor *parts[AMP_ONNX_MOST_PLACES];
    if (!amp_onnx_operands(s, parts, s->node->input_count)) return amp_pending_error();
    const int64_t axis = amp_onnx_axis(s, amp_onnx_int(s, "axis", 1), parts[0]->rank);
    if (axis < 0) return amp_pending_error();
    return amp_onnx_set(s, 0, amp_cat(((amp_tensor_list){parts, s->node->input_count, NULL}), axis));
}

/* ---- Dropout --------------------------------------------------------------------------------------------------- */

/* 1 where an element stays; with the same seed, in the same places. */
static amp_tensor *chosen(const amp_onnx_step *s, const amp_tensor *x, double stay) {
    amp_generator *own = amp_onnx_has(s, "seed") ? amp_generator_create(amp_tensor_device(x)) : NULL;
    if (own) (void)amp_generator_manual_seed(own, (uint64_t)amp_onnx_int(s, "seed", 0));
    amp_tensor *room = amp_empty(amp_onnx_dims(x->rank, x->shape), .dtype = AMP_F32, .device = amp_tensor_device(x));
    amp_tensor *ones = amp_bernoulli(room, .p = AMP_SET(stay), .generator = own);
    amp_generator_destroy(own);
    return amp_to(ones, AMP_BOOL);
}

/* Elements stay with probability 1 − ratio, and are as much larger. */
static amp_status drop(amp_onnx_step *s, amp_tensor *x, double ratio) {
    amp_tensor *mask = chosen(s, x, 1 - ratio);
    AMP_TRY(amp_onnx_set(s, 1, mask));
    return amp_onnx_set(s, 0, amp_where_scalar_other(mask, amp_div_scalar(x, amp_float(1 - ratio)), amp_int(0)));
}

/* Without training, and before opset 12 there was none, nothing is dropped. */
amp_status onnx_dropout(amp_onnx_step *s) {
    amp_tensor *x = amp_onnx_required(s, 0);
    const amp_tensor *given = amp_onnx_input(s, 1), *mode = amp_onnx_input(s, 2);
    amp_scalar ratio = amp_float(0.5), training = amp_bool(false);
    if (!x) return amp_pending_error();
    if (given) AMP_TRY(amp_onnx_read_number(s, given, &ratio));
    if (mode) AMP_TRY(amp_onnx_read_number(s, mode, &training));
    if (training.i != 0 && ratio.re != 0) return drop(s, x, ratio.re);
    AMP_TRY(amp_onnx_set(s, 0, x));
    return amp_onnx_wants(s, 1) ? amp_onnx_set(s, 1, amp_ones_like(x, .dtype = AMP_BOOL)) : AMP_OK;
}
