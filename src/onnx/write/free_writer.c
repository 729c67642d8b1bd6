/* One model for all extents, of several for some: nodes that are the same in all stay, and what differs is written as
 * what it is of the extents. */
#include <stdio.h>
#include <string.h>

#include "amp/ops.h"
#include "core/memory.h"
#include "core/thread.h"
#include "onnx/write/extent_terms.h"

enum { CAPTURES = AMP_EXTENT_CAPTURES };

static amp_status fail_node(const amp_free_writer *g, const char *type, const char *what, const char *more) {
    return amp_fail(AMP_ERROR_NOT_IMPLEMENTED,
                    "graph_save: %s: %s: %s%s, and not in a way that can be written; save it with fixed extents",
                    g->to->source->name, type, what, more);
}

/* ---- Constants that are not the same ------------------------------------------------------------------------------- */

typedef struct twins {
    const amp_tensor *of[CAPTURES];
} twins;

static size_t size_of(const amp_tensor *t) {
    return amp_dtype_size(t->dtype);
}

static bool is_same_everywhere(const twins *t) {
    const size_t bytes = (size_t)amp_tensor_elements(t->of[0]) * size_of(t->of[0]);
    for (int c = 1; c < CAPTURES; c++) {
        if (t->of[c]->dtype != t->of[0]->dtype || !amp_same_shape(t->of[c], t->of[0])) return false;
        if (amp_tensor_pointer(t->of[c]) == amp_tensor_pointer(t->of[0])) continue;
        if (bytes && memcmp(amp_tensor_pointer(t->of[c]), amp_tensor_pointer(t->of[0]), bytes) != 0) return false;
    }
    return true;
}

static bool have_one_rank(const twins *t) {
    for (int c = 1; c < CAPTURES; c++) {
        if (t->of[c]->dtype != t->of[0]->dtype || t->of[c]->rank != t->of[0]->rank) return false;
    }
    return true;
}

/* Element i as a whole number. */
static bool whole_number(const amp_tensor *t, int64_t i, int64_t *number) {
    const void *at = amp_tensor_pointer(t);
    switch (t->dtype) {
    case AMP_I64: *number = ((const int64_t *)at)[i]; return true;
    case AMP_I32: *number = ((const int32_t *)at)[i]; return true;
    case AMP_F32: {
        enum { EXACT = 1 << 24 };
        const float value = ((const float *)at)[i];
        if (!(value >= -EXACT && value <= EXACT) || value != (float)(int64_t)value) return false;
        *number = (int64_t)value;
        return true;
    }
    default: return false;
    }
}

/* As many numbers in each. */
static bool read_terms(const twins *t, amp_term *terms, int most, int *count) {
    const int64_t elements = amp_tensor_elements(t->of[0]);
    if (elements < 1 || elements > most) return false;
    for (int c = 0; c < CAPTURES; c++) {
        if (!amp_same_shape(t->of[c], t->of[0])) return false;
        for (int64_t i = 0; i < elements; i++) {
            if (!whole_number(t->of[c], i, &terms[i].of[c])) return false;
        }
    }
    *count = (int)elements;
    return true;
}

static int vector_of_shape(amp_free_writer *g, const twins *t) {
    amp_term terms[AMP_MAX_RANK];
    for (int d = 0; d < t->of[0]->rank; d++) {
        for (int c = 0; c < CAPTURES; c++) terms[d].of[c] = t->of[c]->shape[d];
    }
    return amp_terms_write(g, terms, t->of[0]->rank);
}

static amp_made_shape shape_of(const amp_free_writer *g, const twins *t) {
    amp_made_shape shape = {.dtype = t->of[0]->dtype, .rank = t->of[0]->rank};
    for (int d = 0; d < shape.rank; d++) {
        amp_term term;
        for (int c = 0; c < CAPTURES; c++) term.of[c] = t->of[c]->shape[d];
        shape.extents[d] = amp_term_as_extent(g, &term);
    }
    return shape;
}

/* A vector as it has to be: of another dtype and shape. */
static int dressed(amp_free_writer *g, int vector, const twins *t) {
    const amp_made_shape shape = shape_of(g, t);
    const int value = amp_made_cast(g->to, vector, shape.dtype);
    if (value < 0 || shape.rank == 1) return value;
    int64_t numbers[AMP_MAX_RANK];
    for (int d = 0; d < shape.rank; d++) numbers[d] = shape.extents[d] < 0 ? -1 : shape.extents[d];
    return AMP_MADE(g->to, "Reshape", &shape, value, amp_made_integers(g->to, numbers, shape.rank));
}

static int write_numbers(amp_free_writer *g, const twins *t) {
    enum { MOST = 16 };
    amp_term terms[MOST];
    int count;
    if (!have_one_rank(t) || !read_terms(t, terms, MOST, &count)) return AMP_MADE_NONE;
    const int vector = amp_terms_write(g, terms, count);
    return vector < 0 ? vector : dressed(g, vector, t);
}

/* All elements are one number. */
static int write_filled(amp_free_writer *g, const twins *t) {
    const char *first = amp_tensor_pointer(t->of[0]);
    if (!have_one_rank(t)) return AMP_MADE_NONE;
    for (int c = 0; c < CAPTURES; c++) {
        const char *at = amp_tensor_pointer(t->of[c]);
        const size_t bytes = size_of(t->of[c]), count = (size_t)amp_tensor_elements(t->of[c]);
        if (count == 0) return AMP_MADE_NONE;
        for (size_t i = 0; i < count; i++) {
            if (memcmp(at + i * bytes, first, bytes) != 0) return AMP_MADE_NONE;
        }
    }
    const amp_made_shape shape = shape_of(g, t);
    const int extents = vector_of_shape(g, t);
    if (extents < 0) return AMP_MADE_NONE;
    const int number = amp_made_constant(g->to, amp_from_data(first, shape.dtype, 0, NULL));
    return AMP_MADE(g->to, "Expand", &shape, number, extents);
}

/* start, start + step, …; how many is in the extent that is not 1. */
static bool is_progression(const amp_tensor *t, int64_t start, int64_t step) {
    const int64_t count = amp_tensor_elements(t);
    int64_t number;
    int long_ones = 0;
    for (int d = 0; d < t->rank; d++) long_ones += t->shape[d] != 1;
    for (int64_t i = 0; i < count; i++) {
        if (!whole_number(t, i, &number) || number != start + i * step) return false;
    }
    return long_ones == 1;
}

static int write_range(amp_free_writer *g, const twins *t) {
    const amp_made_shape open = {.dtype = AMP_I64, .rank = 1, .extents = {AMP_MADE_OPEN}};
    int64_t start, next;
    amp_term end;
    if (!have_one_rank(t) || amp_tensor_elements(t->of[0]) < 2) return AMP_MADE_NONE;
    if (!whole_number(t->of[0], 0, &start) || !whole_number(t->of[0], 1, &next) || next == start) return AMP_MADE_NONE;
    for (int c = 0; c < CAPTURES; c++) {
        if (!is_progression(t->of[c], start, next - start)) return AMP_MADE_NONE;
        end.of[c] = start + amp_tensor_elements(t->of[c]) * (next - start);
    }
    const int limit = amp_made_reshape(g->to, amp_terms_write(g, &end, 1), 0, NULL);
    if (limit < 0) return AMP_MADE_NONE;
    const int from = amp_made_number(g->to, AMP_I64, amp_int(start)),
              by = amp_made_number(g->to, AMP_I64, amp_int(next - start));
    return dressed(g, AMP_MADE(g->to, "Range", &open, from, limit, by), t);
}

static amp_status write_varying(amp_free_writer *g, const char *type, const twins *t, int *value) {
    static int (*const ways[])(amp_free_writer *, const twins *) = {write_numbers, write_filled, write_range};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        *value = ways[i](g, t);
        if (amp_failed()) return amp_pending_error();
        if (*value >= 0) return AMP_OK;
    }
    char what[256];
    snprintf(what, sizeof what, "it reads %s for some of the free extents and ", amp_describe(t->of[0]));
    return fail_node(g, type, what, amp_describe(t->of[CAPTURES - 1]));
}

/* ---- Inputs of nodes ----------------------------------------------------------------------------------------------- */

/* What stands at one place in all captures: a value of `to`. */
static amp_status take_value(amp_free_writer *g, const char *type, const int *values, int *value) {
    twins t;
    int constants = 0;
    for (int c = 0; c < CAPTURES; c++) {
        t.of[c] = values[c] >= 0 ? g->w[c].values[values[c]].constant : NULL;
        constants += t.of[c] != NULL;
    }
    if (constants == CAPTURES) {
        if (!is_same_everywhere(&t)) return write_varying(g, type, &t, value);
        *value = amp_made_constant(g->to, g->w[0].values[values[0]].constant);
        return amp_pending_error();
    }
    for (int c = 0; c < CAPTURES; c++) {
        if (values[c] != (values[0] < 0 ? AMP_MADE_NONE : amp_free_twin(g, c, values[0])))
            return fail_node(g, type, "what it reads depends on the free extents", "");
    }
    *value = values[0] < 0 ? AMP_MADE_NONE : g->known[values[0]];
    return AMP_OK;
}

/* The shape of a Reshape: extents that its input has in the same place are copied, one is what is left. */
static bool write_reshape(amp_free_writer *g, const amp_made_node *node, const amp_term *terms, int count, int *value) {
    amp_term written[AMP_MAX_RANK];
    const int rank = g->w[0].values[node->inputs[0]].rank;
    int open = AMP_MADE_NONE;
    if (amp_made_find(node, "allowzero") || count > AMP_MAX_RANK) return false;
    for (int d = 0; d < count; d++) {
        written[d] = terms[d];
        if (amp_term_is_fixed(&terms[d])) continue;
        const amp_term copied = d < rank ? amp_term_of_extent(g, node->inputs[0], d) : (amp_term){{0}};
        if (d < rank && amp_term_is_same(&copied, &terms[d])) {
            written[d] = (amp_term){{0}};
        } else {
            open = d;
        }
    }
    if (open >= 0) written[open] = (amp_term){{-1, -1, -1, -1}};
    *value = amp_terms_write(g, written, count);
    return *value >= 0;
}

static bool take_reshape(amp_free_writer *g, const amp_made_node *node, const int *values, int *value) {
    amp_term terms[AMP_MAX_RANK];
    twins t;
    int count;
    if (strcmp(node->type->name, "Reshape") != 0 || g->w[0].values[node->inputs[0]].constant) return false;
    for (int c = 0; c < CAPTURES; c++) {
        t.of[c] = values[c] >= 0 ? g->w[c].values[values[c]].constant : NULL;
        if (!t.of[c]) return false;
    }
    if (is_same_everywhere(&t) || !read_terms(&t, terms, AMP_MAX_RANK, &count)) return false;
    return write_reshape(g, node, terms, count, value);
}

/* One of no type was taken out, for nobody reads it or another is like it. */
static const char *name_of(const amp_made_node *node) {
    return node->type ? node->type->name : "a node that only one of the captures has";
}

static amp_status take_input(amp_free_writer *g, int i, int *value) {
    const amp_made_node *node = &g->w[0].nodes[g->node];
    int values[CAPTURES];
    for (int c = 0; c < CAPTURES; c++) values[c] = g->w[c].nodes[g->node].inputs[i];
    if (i == 1 && take_reshape(g, node, values, value)) return AMP_OK;
    return take_value(g, name_of(node), values, value);
}

/* ---- Nodes ---------------------------------------------------------------------------------------------------------- */

static amp_status check_twins(const amp_free_writer *g, const amp_made_node *node) {
    for (int c = 1; c < CAPTURES; c++) {
        const amp_made_node *twin = &g->w[c].nodes[g->node];
        if (twin->type != node->type || twin->input_count != node->input_count ||
            twin->output_count != node->output_count)
            return fail_node(g, name_of(node->type ? node : twin), "what is computed depends on the free extents", "");
        if (node->type && !amp_made_same_attributes(node, twin))
            return fail_node(g, node->type->name, "its attributes depend on the free extents", "");
    }
    return AMP_OK;
}

static amp_made_shape result_shape(const amp_free_writer *g, int value) {
    amp_made_shape shape = amp_made_shape_of(&g->w[0], value);
    for (int d = 0; d < shape.rank; d++) {
        const amp_term term = amp_term_of_extent(g, value, d);
        shape.extents[d] = amp_term_as_extent(g, &term);
    }
    return shape;
}

static amp_status write_made(amp_free_writer *g, const amp_made_node *node, const int *inputs) {
    amp_made_shape shape = result_shape(g, node->outputs[0]);
    g->known[node->outputs[0]] = amp_made_node_of(g->to, node->type->name, inputs, node->input_count, &shape);
    for (int i = 1; i < node->output_count; i++) {
        shape = result_shape(g, node->outputs[i]);
        g->known[node->outputs[i]] = amp_made_another(g->to, &shape);
    }
    if (amp_failed()) return amp_pending_error();
    amp_made_node *made = &g->to->nodes[g->to->node_count - 1];
    memcpy(made->attributes, node->attributes, sizeof made->attributes);
    made->attribute_count = node->attribute_count;
    return AMP_OK;
}

static amp_status write_node(amp_free_writer *g) {
    const amp_made_node *node = &g->w[0].nodes[g->node];
    AMP_TRY(check_twins(g, node));
    if (!node->type) return AMP_OK;
    int *inputs = amp_alloc(((size_t)node->input_count + 1) * sizeof *inputs);
    if (!inputs) return amp_fail(AMP_ERROR_MEMORY, "graph_save: no memory for the model");
    amp_status status = AMP_OK;
    for (int i = 0; status == AMP_OK && i < node->input_count; i++) status = take_input(g, i, &inputs[i]);
    if (status == AMP_OK) status = write_made(g, node, inputs);
    amp_free(inputs);
    return status;
}

/* ---- The model ------------------------------------------------------------------------------------------------------ */

static amp_status write_inputs(amp_free_writer *g) {
    for (int i = 0; i < g->w[0].value_count; i++) {
        g->known[i] = AMP_MADE_NONE;
        const int input = g->w[0].values[i].input;
        if (input < 0) continue;
        const amp_made_shape shape = result_shape(g, i);
        g->inputs[input] = i;
        g->known[i] = amp_made_input(g->to, input, &shape);
        if (g->known[i] < 0) return amp_pending_error();
    }
    return AMP_OK;
}

static amp_status write_outputs(amp_free_writer *g) {
    for (int i = 0; i < g->to->source->output_count; i++) {
        int values[CAPTURES];
        for (int c = 0; c < CAPTURES; c++) values[c] = g->w[c].outputs[i];
        AMP_TRY(take_value(g, "an output", values, &g->to->outputs[i]));
    }
    return AMP_OK;
}

static amp_status write_all(amp_free_writer *g) {
    for (int c = 1; c < CAPTURES; c++) {
        if (g->w[c].node_count != g->w[0].node_count)
            return fail_node(g, "the model", "what is computed depends on the free extents", "");
    }
    AMP_TRY(write_inputs(g));
    for (g->node = 0; g->node < g->w[0].node_count; g->node++) {
        amp_scope_frame frame;
        amp_scope_push(&frame);
        const amp_status status = write_node(g);
        amp_scope_pop(&frame);
        AMP_TRY(status);
    }
    return write_outputs(g);
}

amp_status amp_write_free(const amp_writer *captures, const amp_free_extents *extents, amp_writer *to) {
    const amp_graph_source *s = captures[0].source;
    *to = (amp_writer){.source = s, .extent_names = extents->names};
    to->outputs = amp_alloc(((size_t)s->output_count + 1) * sizeof *to->outputs);
    amp_free_writer g = {.w = captures,
                         .extents = extents,
                         .to = to,
                         .known = amp_alloc(((size_t)captures[0].value_count + 1) * sizeof *g.known),
                         .inputs = amp_alloc(((size_t)s->input_count + 1) * sizeof *g.inputs)};
    const bool there = to->outputs && g.known && g.inputs;
    const amp_status status =
        there ? write_all(&g) : amp_fail(AMP_ERROR_MEMORY, "graph_save: %s: no memory for the model", s->name);
    amp_free(g.known);
    amp_free(g.inputs);
    return status;
}
