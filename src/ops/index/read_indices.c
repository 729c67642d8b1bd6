/* index: the elements that several index tensors name together. Their dimensions become one, of which one vector of
 * numbers then picks slices. */
#include <string.h>

#include "call/backend.h"
#include "core/layout.h"
#include "cpu/index/index_walk.h"
#include "ops/index/places.h"
#include "ops/math/compose.h"
#include "steps/indices.h"
#include "steps/steps.h"

typedef struct selection {
    amp_tensor *input;
    amp_tensor *indices[AMP_MAX_RANK]; /* i64, by dimension of input; NULL: the whole dimension */
    int dims;                          /* how many of input's dimensions the list covers */
    int first, last, count;            /* of the indexed dimensions */
    int rank;                          /* of the common shape of all indices */
    int64_t shape[AMP_MAX_RANK];
} selection;

/* ---- The list --------------------------------------------------------------------------------------------------- */

static bool is_mask(const amp_tensor *t) {
    return t->dtype == AMP_BOOL || t->dtype == AMP_U8;
}

static amp_status read_mask(const amp_call *call, selection *s, amp_tensor *mask) {
    bool fits = mask->rank > 0 && s->dims + mask->rank <= s->input->rank;
    for (int d = 0; fits && d < mask->rank; d++) fits = mask->shape[d] == s->input->shape[s->dims + d];
    if (!fits) {
        return amp_fail(AMP_ERROR_INVALID,
                        "%s: a mask in 'indices' is %s, which does not fit input %s from dimension %d",
                        amp_call_name(call), amp_describe(mask), amp_describe(s->input), s->dims);
    }
    amp_tensor *places = amp_places_of(call, mask, false);
    for (int d = 0; d < mask->rank; d++) {
        amp_tensor *index = places ? amp_select(places, 1, d) : NULL;
        if (!index) return amp_pending_error();
        s->indices[s->dims++] = index;
    }
    return AMP_OK;
}

static amp_status read_one(const amp_call *call, selection *s, amp_tensor *given) {
    if (s->dims >= s->input->rank) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'indices' covers more dimensions than input %s has",
                        amp_call_name(call), amp_describe(s->input));
    }
    if (given && is_mask(given)) return read_mask(call, s, given);
    amp_tensor *index = given ? amp_index_tensor(call, "indices", given) : NULL;
    if (given && !index) return amp_pending_error();
    s->indices[s->dims++] = index;
    return AMP_OK;
}

static amp_status check_one(const amp_call *call, selection *s, int d) {
    const amp_tensor *index = s->indices[d];
    AMP_TRY(amp_index_check(call, "indices", index, s->input->shape[d], s->input, d, true));
    if (s->count++ == 0) s->first = d;
    s->last = d;
    if (amp_broadcast_shapes(s->rank, s->shape, index->rank, index->shape, &s->rank, s->shape)) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: tensor %d of 'indices' is %s, which does not broadcast to %s",
                    amp_call_name(call), d, amp_describe(index), amp_describe_shape(s->rank, s->shape));
}

static amp_status read_list(const amp_call *call, const amp_tensor_list *list, selection *s) {
    for (int64_t i = 0; i < list->count; i++) AMP_TRY(read_one(call, s, list->items[i]));
    for (int d = 0; d < s->dims; d++) {
        if (s->indices[d]) AMP_TRY(check_one(call, s, d));
    }
    if (s->count == 0) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'indices' names no place; expected at least one tensor",
                        amp_call_name(call));
    }
    if (s->input->rank - s->count + s->rank <= AMP_MAX_RANK) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: the result would have %d dimensions, at most %d are possible",
                    amp_call_name(call), s->input->rank - s->count + s->rank, AMP_MAX_RANK);
}

/* ---- Geometry --------------------------------------------------------------------------------------------------- */

/* The indexed dimensions side by side: they move to the front where free ones stand between them. */
static amp_tensor *gathered(selection *s) {
    if (s->last - s->first + 1 == s->count) return s->input;
    amp_dims order = {.set = AMP_PRESENT};
    amp_tensor *indices[AMP_MAX_RANK] = {0};
    for (int d = 0; d < s->dims; d++) {
        if (!s->indices[d]) continue;
        indices[order.count] = s->indices[d];
        order.values[order.count++] = d;
    }
    for (int d = 0; d < s->input->rank; d++) {
        if (d >= s->dims || !s->indices[d]) order.values[order.count++] = d;
    }
    memcpy(s->indices, indices, sizeof indices);
    s->first = 0;
    s->last = s->count - 1;
    s->dims = s->count;
    return amp_permute(s->input, order);
}

/* For each place its number among all of the indexed dimensions. */
static amp_tensor *numbers_of(const amp_call *call, const selection *s, const amp_tensor *table) {
    amp_tensor counted = *table;
    int64_t step = 1;
    for (int d = s->last; d >= s->first; d--) {
        counted.strides[d] = step;
        step *= table->shape[d];
    }
    amp_tensor *numbers = amp_backend_tensor(call->device, call->op->name, AMP_I64, s->rank, s->shape);
    if (!numbers) return NULL;
    return amp_steps_of(call)->make_offsets(call, &counted, s->indices, s->dims, numbers) == AMP_OK ? numbers : NULL;
}

/* `count` extents in the place of the indexed dimensions. */
static amp_dims with_extents(const selection *s, const amp_tensor *table, int count, const int64_t *extents) {
    amp_dims shape = amp_dims_of(s->first, table->shape);
    for (int i = 0; i < count; i++) shape.values[shape.count++] = extents[i];
    for (int d = s->last + 1; d < table->rank; d++) shape.values[shape.count++] = table->shape[d];
    return shape;
}

amp_status amp_op_index(amp_call *call) {
    const amp_index_args *a = call->args;
    selection s = {.input = a->input};
    AMP_TRY(read_list(call, &a->indices, &s));
    amp_tensor *table = gathered(&s);
    amp_tensor *numbers = table ? amp_flattened(numbers_of(call, &s, table)) : NULL;
    if (!numbers) return amp_pending_error();
    int64_t places = 1;
    for (int d = s.first; d <= s.last; d++) places *= table->shape[d];
    const amp_dims shape = with_extents(&s, table, s.rank, s.shape);
    amp_tensor *merged = amp_reshape(table, with_extents(&s, table, 1, &places));
    amp_tensor *picked = merged ? amp_index_select(merged, s.first, numbers) : NULL;
    return amp_return(call, picked ? amp_reshape(picked, shape) : NULL);
}
