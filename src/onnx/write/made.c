/* Values and nodes of a model that is being made. */
#include <math.h>
#include <string.h>

#include "amp/ops.h"
#include "core/memory.h"
#include "onnx/model.h"
#include "onnx/write/writer.h"

static const amp_node_type types[] = {
#define NODE_TYPE(name, since, bf16, moves) {#name, since, bf16, moves},
#include "onnx/write/node_types.def"
#undef NODE_TYPE
};

static const amp_node_type *find_type(const char *name) {
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (strcmp(types[i].name, name) == 0) return &types[i];
    }
    (void)amp_fail(AMP_ERROR_INTERNAL, "graph_save: no row for nodes of type %s", name);
    return NULL;
}

static int no_memory(const amp_writer *w) {
    (void)amp_fail(AMP_ERROR_MEMORY, "graph_save: %s: no memory for the model", w->source->name);
    return AMP_MADE_NONE;
}

/* Room for one more. */
static bool grow(void **items, int count, int *room, size_t size) {
    if (count < *room) return true;
    const int more = 2 * count + 64;
    void *grown = amp_alloc((size_t)more * size);
    if (!grown) return false;
    if (count) memcpy(grown, *items, (size_t)count * size);
    amp_free(*items);
    *items = grown;
    *room = more;
    return true;
}

/* ---- Values ---------------------------------------------------------------------------------------------------- */

amp_made_shape amp_made_shape_from(amp_dtype dtype, int rank, const int64_t *extents) {
    amp_made_shape shape = {.dtype = dtype, .rank = rank};
    if (rank > 0) memcpy(shape.extents, extents, (size_t)rank * sizeof *extents);
    return shape;
}

amp_made_shape amp_made_shape_of(const amp_writer *w, int value) {
    const amp_made_value *v = &w->values[value];
    return amp_made_shape_from(v->dtype, v->rank, v->shape);
}

static int add_value(amp_writer *w, const amp_made_shape *shape) {
    if (!grow((void **)&w->values, w->value_count, &w->value_room, sizeof *w->values)) return no_memory(w);
    amp_made_value *v = &w->values[w->value_count];
    *v = (amp_made_value){.dtype = shape->dtype,
                          .rank = shape->rank,
                          .input = AMP_MADE_NONE,
                          .node = AMP_MADE_NONE,
                          .same_as = w->value_count};
    memcpy(v->shape, shape->extents, sizeof v->shape);
    return w->value_count++;
}

int amp_made_input(amp_writer *w, int input, const amp_made_shape *shape) {
    const int value = add_value(w, shape);
    if (value >= 0) w->values[value].input = input;
    return value;
}

/* The same elements; numbers on the way are made anew each time, weights are found by where they lie. */
static bool is_equal(const amp_tensor *a, const amp_tensor *b) {
    enum { SMALL = 1 << 12 };
    if (a->dtype != b->dtype || !amp_same_shape(a, b)) return false;
    if (amp_tensor_pointer(a) == amp_tensor_pointer(b)) return true;
    const size_t bytes = (size_t)amp_tensor_elements(a) * amp_dtype_size(a->dtype);
    return bytes <= SMALL && (bytes == 0 || memcmp(amp_tensor_pointer(a), amp_tensor_pointer(b), bytes) == 0);
}

int amp_made_constant(amp_writer *w, amp_tensor *tensor) {
    amp_tensor *dense = tensor ? amp_to_device(amp_contiguous(tensor), AMP_DEVICE_CPU) : NULL;
    if (!dense) return AMP_MADE_NONE;
    for (int i = 0; i < w->value_count; i++) {
        if (w->values[i].constant && is_equal(w->values[i].constant, dense)) return i;
    }
    const amp_made_shape shape = amp_made_shape_from(dense->dtype, dense->rank, dense->shape);
    const int value = add_value(w, &shape);
    if (value >= 0) w->values[value].constant = amp_retain(dense);
    return value;
}

int amp_made_integers(amp_writer *w, const int64_t *numbers, int count) {
    const int64_t extent = count;
    return amp_made_constant(w, amp_from_data(numbers, AMP_I64, 1, &extent));
}

int amp_made_number(amp_writer *w, amp_dtype dtype, amp_scalar number) {
    return amp_made_constant(w, amp_full(AMP_NO_DIMS, number, .dtype = dtype));
}

int amp_made_filled(amp_writer *w, amp_dtype dtype, int rank, const int64_t *shape, double number) {
    amp_dims dims = {.count = rank, .set = AMP_PRESENT};
    memcpy(dims.values, shape, (size_t)rank * sizeof *shape);
    return amp_made_constant(w, amp_full(dims, amp_float(number), .dtype = dtype));
}

/* ---- Nodes ----------------------------------------------------------------------------------------------------- */

int amp_made_node_of(amp_writer *w, const char *type, const int *inputs, int count, const amp_made_shape *result) {
    const amp_node_type *row = find_type(type);
    if (!row || amp_failed()) return AMP_MADE_NONE;
    while (count > 0 && inputs[count - 1] < 0) count--;
    if (!grow((void **)&w->nodes, w->node_count, &w->node_room, sizeof *w->nodes)) return no_memory(w);
    amp_made_node *node = &w->nodes[w->node_count];
    *node = (amp_made_node){.type = row, .input_count = count, .inputs = amp_alloc(((size_t)count + 1) * sizeof(int))};
    if (!node->inputs) return no_memory(w);
    for (int i = 0; i < count; i++) node->inputs[i] = inputs[i];
    w->node_count++;
    return amp_made_another(w, result);
}

int amp_made_another(amp_writer *w, const amp_made_shape *result) {
    const int value = amp_failed() ? AMP_MADE_NONE : add_value(w, result);
    amp_made_node *node = &w->nodes[w->node_count - 1];
    if (value < 0) return value;
    w->values[value].node = w->node_count - 1;
    node->outputs[node->output_count++] = value;
    return value;
}

static amp_made_attribute *add_attribute(amp_writer *w, const char *name, amp_made_kind kind) {
    static amp_made_attribute nowhere;
    if (amp_failed() || w->node_count == 0) return &nowhere;
    amp_made_node *node = &w->nodes[w->node_count - 1];
    if (node->attribute_count == AMP_MADE_ATTRIBUTES) {
        (void)amp_fail(AMP_ERROR_INTERNAL, "graph_save: too many attributes of %s", node->type->name);
        return &nowhere;
    }
    amp_made_attribute *a = &node->attributes[node->attribute_count++];
    *a = (amp_made_attribute){.name = name, .kind = kind};
    return a;
}

void amp_made_int(amp_writer *w, const char *name, int64_t value) {
    add_attribute(w, name, AMP_MADE_INT)->integers[0] = value;
}
void amp_made_float(amp_writer *w, const char *name, double value) {
    add_attribute(w, name, AMP_MADE_FLOAT)->number = value;
}
void amp_made_text(amp_writer *w, const char *name, const char *text) {
    add_attribute(w, name, AMP_MADE_TEXT)->text = text;
}
void amp_made_ints(amp_writer *w, const char *name, const int64_t *values, int count) {
    amp_made_attribute *a = add_attribute(w, name, AMP_MADE_INTS);
    a->count = count;
    memcpy(a->integers, values, (size_t)count * sizeof *values);
}

const amp_made_attribute *amp_made_find(const amp_made_node *node, const char *name) {
    for (int i = 0; i < node->attribute_count; i++) {
        if (strcmp(node->attributes[i].name, name) == 0) return &node->attributes[i];
    }
    return NULL;
}

/* ---- Nodes that several rows need ------------------------------------------------------------------------------ */

/* The node of a type that makes the value; NULL: none does. */
static const amp_made_node *maker(const amp_writer *w, int value, const char *type) {
    const int node = w->values[value].node;
    return node >= 0 && strcmp(w->nodes[node].type->name, type) == 0 ? &w->nodes[node] : NULL;
}

static int onnx_number(amp_dtype dtype) {
    const char *name;
    for (int number = 1; number <= 16; number++) {
        if (amp_onnx_dtype_of(number, &name) == dtype) return number;
    }
    return 0;
}

int amp_made_cast(amp_writer *w, int value, amp_dtype dtype) {
    if (value < 0 || amp_failed()) return AMP_MADE_NONE;
    if (w->values[value].dtype == dtype) return value;
    if (w->values[value].constant) return amp_made_constant(w, amp_to(w->values[value].constant, dtype));
    amp_made_shape shape = amp_made_shape_of(w, value);
    shape.dtype = dtype;
    const int cast = AMP_MADE(w, "Cast", &shape, value);
    amp_made_int(w, "to", onnx_number(dtype));
    return cast;
}

int amp_made_reshape(amp_writer *w, int value, int rank, const int64_t *shape) {
    if (value < 0 || amp_failed()) return AMP_MADE_NONE;
    for (const amp_made_node *other; (other = maker(w, value, "Reshape"));) value = other->inputs[0];
    const amp_made_value *v = &w->values[value];
    if (v->rank == rank && (rank == 0 || memcmp(v->shape, shape, (size_t)rank * sizeof *shape) == 0)) return value;
    const amp_made_shape made = amp_made_shape_from(v->dtype, rank, shape);
    int64_t numbers[AMP_MAX_RANK];
    bool copies = false; /* an extent of 0 says that of the input, unless it has one in that place */
    for (int d = 0; d < rank; d++) {
        numbers[d] = shape[d];
        copies = copies || (shape[d] == 0 && (d >= v->rank || v->shape[d] != 0));
    }
    const int extents = amp_made_integers(w, numbers, rank);
    const int result = AMP_MADE(w, "Reshape", &made, value, extents);
    if (copies) amp_made_int(w, "allowzero", 1);
    return result;
}

int amp_made_transpose(amp_writer *w, int value, const int64_t *order) {
    if (value < 0 || amp_failed()) return AMP_MADE_NONE;
    int64_t joined[AMP_MAX_RANK];
    amp_made_shape made = amp_made_shape_of(w, value);
    const amp_made_node *other = maker(w, value, "Transpose");
    const amp_made_attribute *before = other ? amp_made_find(other, "perm") : NULL;
    bool none = true;
    for (int d = 0; d < made.rank; d++) {
        made.extents[d] = w->values[value].shape[order[d]];
        joined[d] = before ? before->integers[order[d]] : order[d];
        none = none && joined[d] == d;
    }
    if (other) value = other->inputs[0];
    if (none) return value;
    const int result = AMP_MADE(w, "Transpose", &made, value);
    amp_made_ints(w, "perm", joined, made.rank);
    return result;
}

int amp_made_slice(amp_writer *w, int value, int axis, int64_t start, int64_t end, int64_t step) {
    if (value < 0 || amp_failed()) return AMP_MADE_NONE;
    amp_made_shape made = amp_made_shape_of(w, value);
    const int64_t axes = axis;
    if (start == 0 && end == made.extents[axis] && step == 1) return value;
    made.extents[axis] = end > start ? (end - start + step - 1) / step : 0;
    const int from = amp_made_integers(w, &start, 1), to = amp_made_integers(w, &end, 1),
              which = amp_made_integers(w, &axes, 1), by = step == 1 ? AMP_MADE_NONE : amp_made_integers(w, &step, 1);
    return AMP_MADE(w, "Slice", &made, value, from, to, which, by);
}

void amp_writer_end(amp_writer *w) {
    for (int i = 0; i < w->node_count; i++) amp_free(w->nodes[i].inputs);
    for (int i = 0; i < w->value_count; i++) amp_release(w->values[i].constant);
    amp_free(w->values);
    amp_free(w->nodes);
    amp_free(w->outputs);
    amp_free(w->constants);
    amp_free(w->names);
    *w = (amp_writer){0};
}
