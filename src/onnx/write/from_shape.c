/* Calls that move elements. */
#include <string.h>

#include "amp/ops.h"
#include "onnx/write/from.h"

static int64_t within(int64_t i, int64_t extent) {
    if (i < 0) i += extent;
    return i < 0 ? 0 : i > extent ? extent : i;
}

amp_status from_same_elements(amp_written_call *c) {
    const amp_made_shape shape = amp_written_shape(c, 0);
    const int x = amp_written_operand(c, "input");
    return amp_written_set(c, 0, amp_made_reshape(c->w, x, shape.rank, shape.extents));
}

amp_status from_permute(amp_written_call *c) {
    const amp_dims *dims = amp_written_dims(c, "dims");
    int64_t order[AMP_MAX_RANK];
    for (int d = 0; dims && d < dims->count; d++)
        order[d] = dims->values[d] < 0 ? dims->values[d] + dims->count : dims->values[d];
    return amp_written_set(c, 0, amp_made_transpose(c->w, amp_written_operand(c, "input"), order));
}

amp_status from_transpose(amp_written_call *c) {
    const amp_net_value *x = amp_written_value(c, "input");
    int64_t order[AMP_MAX_RANK];
    for (int d = 0; d < AMP_MAX_RANK; d++) order[d] = d;
    if (x && x->rank > 1) {
        const int a = amp_written_axis(c, "dim0", 0, x->rank), b = amp_written_axis(c, "dim1", 1, x->rank);
        order[a] = b;
        order[b] = a;
    }
    return amp_written_set(c, 0, amp_made_transpose(c->w, amp_written_operand(c, "input"), order));
}

amp_status from_expand(amp_written_call *c) {
    const amp_made_shape shape = amp_written_shape(c, 0);
    const amp_net_value *x = amp_written_value(c, "input");
    const int input = amp_written_operand(c, "input");
    if (x && x->rank == shape.rank && memcmp(x->shape, shape.extents, (size_t)x->rank * sizeof *x->shape) == 0)
        return amp_written_set(c, 0, input);
    const int extents = amp_made_integers(c->w, shape.extents, shape.rank);
    return amp_written_set(c, 0, AMP_MADE(c->w, "Expand", &shape, input, extents));
}

/* ---- Parts ----------------------------------------------------------------------------------------------------- */

/* slice, narrow, and select, which drops the dimension. */
amp_status from_slice(amp_written_call *c) {
    const amp_net_value *x = amp_written_value(c, "input");
    const amp_made_shape shape = amp_written_shape(c, 0);
    const int input = amp_written_operand(c, "input");
    if (!x || x->rank == 0) return amp_written_fail(c, "of a tensor without dimensions");
    const int axis = amp_written_axis(c, "dim", 0, x->rank);
    const int64_t extent = x->shape[axis], step = amp_written_int(c, "step", 1);
    const bool is_select = strcmp(c->to, "select") == 0, is_narrow = strcmp(c->to, "narrow") == 0;
    const int64_t start = within(amp_written_int(c, is_select ? "index" : "start", 0), extent);
    int64_t end = is_select   ? start + 1
                  : is_narrow ? start + amp_written_int(c, "length", 0)
                              : within(amp_written_int(c, "end", extent), extent);
    if (end < start) end = start;
    int part = amp_made_slice(c->w, input, axis, start, end, step);
    if (is_select) part = amp_made_reshape(c->w, part, shape.rank, shape.extents);
    return amp_written_set(c, 0, part);
}

/* Parts one after another, whose sizes the results tell. */
amp_status from_split(amp_written_call *c) {
    const amp_net_value *x = amp_written_value(c, "input");
    const int input = amp_written_operand(c, "input");
    if (!x || x->rank == 0) return amp_written_fail(c, "of a tensor without dimensions");
    const int axis = amp_written_axis(c, "dim", 0, x->rank);
    const amp_dims *sizes = amp_written_dims(c, "split_size_or_sections");
    const int64_t chunks = amp_written_int(c, "chunks", 0), extent = x->shape[axis];
    int64_t start = 0;
    for (int i = 0; i < c->node.result_count; i++) {
        int64_t size = chunks > 0 ? (extent + chunks - 1) / chunks : 0;
        if (sizes && sizes->count > 0) size = sizes->values[sizes->count == 1 ? 0 : i];
        if (size > extent - start) size = extent - start;
        const int part = amp_written_wants(c, i) ? amp_made_slice(c->w, input, axis, start, start + size, 1) : 0;
        AMP_TRY(amp_written_set(c, i, part));
        start += size;
    }
    return AMP_OK;
}

/* The last to the first, along one dimension after another; a dimension turned twice is as it was. */
amp_status from_flip(amp_written_call *c) {
    const amp_dims *dims = amp_written_dims(c, "dims");
    int x = amp_written_operand(c, "input");
    const int64_t first = -1, end = INT64_MIN + 1, step = -1;
    for (int i = 0; dims && x >= 0 && i < dims->count; i++) {
        const amp_made_shape shape = amp_made_shape_of(c->w, x);
        const int64_t axis = dims->values[i] < 0 ? dims->values[i] + shape.rank : dims->values[i];
        const int inputs[] = {x, amp_made_integers(c->w, &first, 1), amp_made_integers(c->w, &end, 1),
                              amp_made_integers(c->w, &axis, 1), amp_made_integers(c->w, &step, 1)};
        const int made = c->w->values[x].node;
        const amp_made_node *before = made >= 0 ? &c->w->nodes[made] : NULL;
        const bool turned = before && strcmp(before->type->name, "Slice") == 0 && before->input_count == 5 &&
                            memcmp(before->inputs + 1, inputs + 1, 4 * sizeof *inputs) == 0;
        x = turned ? before->inputs[0] : amp_made_node_of(c->w, "Slice", inputs, 5, &shape);
    }
    return amp_written_set(c, 0, x);
}

/* ---- Joining --------------------------------------------------------------------------------------------------- */

enum { MOST_PARTS = AMP_RECORD_OPERANDS };

/* PyTorch lets cat skip vectors without elements. */
static bool is_skipped(const amp_writer *w, int value, int rank) {
    return w->values[value].rank != rank && w->values[value].rank == 1 && w->values[value].shape[0] == 0;
}

static amp_status join(amp_written_call *c, bool stacks) {
    const amp_made_shape shape = amp_written_shape(c, 0);
    const int given = amp_written_count(c, "tensors"), axis = amp_written_axis(c, "dim", 0, shape.rank);
    int parts[MOST_PARTS], count = 0;
    int64_t extents[AMP_MAX_RANK];
    if (given > MOST_PARTS) return amp_written_fail(c, "%d tensors; at most %d can be saved", given, MOST_PARTS);
    memcpy(extents, shape.extents, sizeof extents);
    if (stacks) extents[axis] = 1;
    for (int i = 0; i < given; i++) {
        int part = amp_made_cast(c->w, amp_written_item(c, "tensors", i), shape.dtype);
        if (part < 0) return amp_pending_error();
        if (stacks) part = amp_made_reshape(c->w, part, shape.rank, extents);
        if (!is_skipped(c->w, part, shape.rank)) parts[count++] = part;
    }
    if (count == 1) return amp_written_set(c, 0, parts[0]);
    const int joined = amp_made_node_of(c->w, "Concat", parts, count, &shape);
    amp_made_int(c->w, "axis", axis);
    return amp_written_set(c, 0, joined);
}

amp_status from_cat(amp_written_call *c) {
    return join(c, false);
}

amp_status from_stack(amp_written_call *c) {
    return join(c, true);
}

/* Pairs from the last dimension on; in ONNX all before, then all behind. */
amp_status from_pad(amp_written_call *c) {
    const amp_made_shape shape = amp_written_shape(c, 0);
    const amp_dims *pad = amp_written_dims(c, "pad");
    const int x = amp_written_operand(c, "input"), rank = shape.rank;
    int64_t pads[2 * AMP_MAX_RANK] = {0};
    bool none = true;
    for (int i = 0; pad && i < pad->count / 2; i++) {
        pads[rank - 1 - i] = pad->values[2 * i];
        pads[2 * rank - 1 - i] = pad->values[2 * i + 1];
        none = none && pad->values[2 * i] == 0 && pad->values[2 * i + 1] == 0;
    }
    if (none) return amp_written_set(c, 0, x);
    const int numbers = amp_made_integers(c->w, pads, 2 * rank),
              value = amp_made_number(c->w, shape.dtype, amp_written_scalar(c, "value"));
    return amp_written_set(c, 0, AMP_MADE(c->w, "Pad", &shape, x, numbers, value));
}

amp_status from_full(amp_written_call *c) {
    const amp_made_shape shape = amp_written_shape(c, 0);
    amp_dims dims = {.count = shape.rank, .set = AMP_PRESENT};
    memcpy(dims.values, shape.extents, sizeof shape.extents);
    const amp_scalar value = amp_written_scalar(c, "fill_value");
    return amp_written_set(c, 0, amp_made_constant(c->w, amp_full(dims, value, .dtype = shape.dtype)));
}

/* ---- Picking --------------------------------------------------------------------------------------------------- */

static const amp_made_node *maker(const amp_writer *w, int value, const char *type) {
    const int node = value >= 0 ? w->values[value].node : AMP_MADE_NONE;
    return node >= 0 && strcmp(w->nodes[node].type->name, type) == 0 ? &w->nodes[node] : NULL;
}

/* Gather counts negative indices from behind itself: what its loader puts in front for that is left out. */
static int unwrapped(const amp_writer *w, int indices) {
    const amp_made_node *where = maker(w, indices, "Where");
    const amp_made_node *less = where ? maker(w, where->inputs[0], "Less") : NULL;
    const amp_made_node *add = where ? maker(w, where->inputs[1], "Add") : NULL;
    const int plain = where ? where->inputs[2] : indices;
    return less && add && less->inputs[0] == plain && add->inputs[0] == plain ? plain : indices;
}

/* Indices are a vector; those of any integer type are i64. */
static int indices_of(amp_written_call *c, const char *argument) {
    int indices = amp_made_cast(c->w, amp_written_operand(c, argument), AMP_I64);
    if (indices < 0) return indices;
    int64_t count = 1;
    for (int d = 0; d < c->w->values[indices].rank; d++) count *= c->w->values[indices].shape[d];
    return amp_made_reshape(c->w, unwrapped(c->w, indices), 1, &count);
}

amp_status from_index_select(amp_written_call *c) {
    const amp_made_shape shape = amp_written_shape(c, 0);
    const int x = amp_written_operand(c, "input"), indices = indices_of(c, "index");
    if (shape.rank == 0) return amp_written_fail(c, "of a tensor without dimensions");
    const int y = AMP_MADE(c->w, "Gather", &shape, x, indices);
    amp_made_int(c->w, "axis", amp_written_axis(c, "dim", 0, shape.rank));
    return amp_written_set(c, 0, y);
}

amp_status from_embedding(amp_written_call *c) {
    const amp_made_shape shape = amp_written_shape(c, 0);
    const int table = amp_written_operand(c, "weight"), indices = indices_of(c, "input");
    if (table < 0 || indices < 0) return amp_pending_error();
    if (amp_written_float(c, "max_norm", 0) != 0) return amp_written_fail(c, "with max_norm");
    const amp_made_value *t = &c->w->values[table];
    amp_made_shape rows = amp_made_shape_from(t->dtype, 2, (int64_t[]){c->w->values[indices].shape[0], t->shape[1]});
    const int y = AMP_MADE(c->w, "Gather", &rows, table, indices);
    amp_made_int(c->w, "axis", 0);
    return amp_written_set(c, 0, amp_made_reshape(c->w, y, shape.rank, shape.extents));
}

amp_status from_gather(amp_written_call *c) {
    const amp_made_shape shape = amp_written_shape(c, 0);
    const int x = amp_written_operand(c, "input"), indices = unwrapped(c->w, amp_written_operand(c, "index"));
    const int y = AMP_MADE(c->w, "GatherElements", &shape, x, indices);
    amp_made_int(c->w, "axis", amp_written_axis(c, "dim", 0, shape.rank));
    return amp_written_set(c, 0, y);
}
