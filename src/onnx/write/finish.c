/* What is done once all nodes of a model are there. */
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "onnx/write/writer.h"

enum { LEAST_OPSET = 13, LEAST_PORTABLE_OPSET = 17, AXES_ARE_INPUTS = 18, NAME_BYTES = 48 };

/* ---- Equal nodes ----------------------------------------------------------------------------------------------- */

static bool is_equal_attribute(const amp_made_attribute *a, const amp_made_attribute *b) {
    if (strcmp(a->name, b->name) != 0 || a->kind != b->kind || a->count != b->count || a->integers[0] != b->integers[0])
        return false;
    if (memcmp(&a->number, &b->number, sizeof a->number) != 0) return false; /* 0 and -0 are two */
    if (a->text != b->text && (!a->text || !b->text || strcmp(a->text, b->text) != 0)) return false;
    return a->count == 0 || memcmp(a->integers, b->integers, (size_t)a->count * sizeof *a->integers) == 0;
}

bool amp_made_same_attributes(const amp_made_node *a, const amp_made_node *b) {
    if (a->attribute_count != b->attribute_count) return false;
    for (int i = 0; i < a->attribute_count; i++) {
        if (!is_equal_attribute(&a->attributes[i], &b->attributes[i])) return false;
    }
    return true;
}

static bool is_equal(const amp_made_node *a, const amp_made_node *b) {
    if (a->type != b->type || a->input_count != b->input_count || a->output_count != b->output_count) return false;
    if (a->input_count > 0 && memcmp(a->inputs, b->inputs, (size_t)a->input_count * sizeof *a->inputs) != 0)
        return false;
    return amp_made_same_attributes(a, b);
}

static size_t hash_of(const amp_made_node *node) {
    size_t hash = (uintptr_t)node->type / 16;
    for (int i = 0; i < node->input_count; i++) hash = (hash ^ (size_t)(unsigned)node->inputs[i]) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

static amp_status join_equal(amp_writer *w) {
    size_t room = 64;
    while (room < 2 * (size_t)w->node_count) room *= 2;
    int *table = amp_alloc_zeroed(room * sizeof *table); /* nodes, from 1 on */
    if (!table) return amp_fail(AMP_ERROR_MEMORY, "graph_save: %s: no memory for the model", w->source->name);
    for (int k = 0; k < w->node_count; k++) {
        amp_made_node *node = &w->nodes[k];
        for (int i = 0; i < node->input_count; i++) {
            if (node->inputs[i] >= 0) node->inputs[i] = w->values[node->inputs[i]].same_as;
        }
        size_t at = hash_of(node) & (room - 1);
        while (table[at] && !is_equal(&w->nodes[table[at] - 1], node)) at = (at + 1) & (room - 1);
        if (!table[at]) {
            table[at] = k + 1;
            continue;
        }
        for (int i = 0; i < node->output_count; i++)
            w->values[node->outputs[i]].same_as = w->nodes[table[at] - 1].outputs[i];
    }
    for (int i = 0; i < w->source->output_count; i++) w->outputs[i] = w->values[w->outputs[i]].same_as;
    amp_free(table);
    return AMP_OK;
}

/* ---- What is read ---------------------------------------------------------------------------------------------- */

void amp_writer_mark_used(amp_writer *w) {
    for (int i = 0; i < w->value_count; i++) w->values[i].used = false;
    for (int i = 0; i < w->source->output_count; i++) w->values[w->outputs[i]].used = true;
    for (int k = w->node_count - 1; k >= 0; k--) {
        amp_made_node *node = &w->nodes[k];
        bool used = false;
        for (int i = 0; node->type && i < node->output_count; i++) used = used || w->values[node->outputs[i]].used;
        if (!used) node->type = NULL;
        for (int i = 0; used && i < node->input_count; i++) {
            if (node->inputs[i] >= 0) w->values[node->inputs[i]].used = true;
        }
    }
}

/* ---- The opset ------------------------------------------------------------------------------------------------- */

static void find_opset(amp_writer *w) {
    w->opset = w->portable ? LEAST_PORTABLE_OPSET : LEAST_OPSET;
    for (int k = 0; k < w->node_count; k++) {
        const amp_made_node *node = &w->nodes[k];
        if (!node->type) continue;
        bool has_bf16 = false;
        for (int i = 0; i < node->output_count; i++) has_bf16 |= w->values[node->outputs[i]].dtype == AMP_BF16;
        for (int i = 0; i < node->input_count; i++)
            has_bf16 |= node->inputs[i] >= 0 && w->values[node->inputs[i]].dtype == AMP_BF16;
        const int since = has_bf16 && node->type->bf16 > node->type->since ? node->type->bf16 : node->type->since;
        if (since > w->opset) w->opset = since;
    }
}

/* From opset 18 on the axes of reductions are an input; of sums they always are. */
static amp_status move_axes(amp_writer *w, amp_made_node *node) {
    int at = 0;
    while (at < node->attribute_count && strcmp(node->attributes[at].name, "axes") != 0) at++;
    if (at == node->attribute_count) return AMP_OK;
    const amp_made_attribute axes = node->attributes[at];
    if (w->opset < AXES_ARE_INPUTS && strcmp(node->type->name, "ReduceSum") != 0) return AMP_OK;
    int *inputs = amp_alloc(2 * sizeof *inputs);
    if (!inputs) return amp_fail(AMP_ERROR_MEMORY, "graph_save: %s: no memory for the model", w->source->name);
    inputs[0] = node->inputs[0];
    inputs[1] = amp_made_integers(w, axes.integers, axes.count);
    amp_free(node->inputs);
    node->inputs = inputs;
    node->input_count = 2;
    node->attribute_count--;
    memmove(&node->attributes[at], &node->attributes[at + 1],
            (size_t)(node->attribute_count - at) * sizeof node->attributes[0]);
    if (inputs[1] < 0) return amp_pending_error();
    w->values[inputs[1]].used = true;
    return AMP_OK;
}

/* ---- Outputs --------------------------------------------------------------------------------------------------- */

/* Each is a value of its own, made by a node: what is an input, a constant or another output too goes through
 * Identity. */
static amp_status separate_outputs(amp_writer *w) {
    for (int i = 0; i < w->source->output_count; i++) {
        bool own = w->values[w->outputs[i]].node >= 0;
        for (int j = 0; j < i; j++) own = own && w->outputs[j] != w->outputs[i];
        if (own) continue;
        const amp_made_shape shape = amp_made_shape_of(w, w->outputs[i]);
        w->outputs[i] = AMP_MADE(w, "Identity", &shape, w->outputs[i]);
        if (w->outputs[i] < 0) return amp_pending_error();
        w->values[w->outputs[i]].used = true;
    }
    return AMP_OK;
}

/* ---- Names ----------------------------------------------------------------------------------------------------- */

/* Those of the graph's inputs and outputs are its own; no other begins as one of these. */
static bool is_taken(const amp_graph_source *s, const char *prefix) {
    const size_t length = strlen(prefix);
    for (int i = 0; i < s->input_count + s->output_count; i++) {
        const amp_graph_value *v = i < s->input_count ? &s->inputs[i] : &s->outputs[i - s->input_count];
        if (strncmp(v->name, prefix, length) == 0) return true;
    }
    return false;
}

/* A traced function's are numbers, the same for both. */
static const char *declared_name(const amp_writer *w, int value, char *room) {
    const amp_graph_source *s = w->source;
    for (int i = 0; i < s->output_count; i++) {
        if (w->outputs[i] != value) continue;
        if (!s->is_programs) return s->outputs[i].name;
        snprintf(room, NAME_BYTES, "output_%d", i);
        return room;
    }
    const int input = w->values[value].input;
    if (input < 0 || !s->is_programs) return input < 0 ? NULL : s->inputs[input].name;
    snprintf(room, NAME_BYTES, "input_%d", input);
    return room;
}

static void name_value(amp_writer *w, int value, const char *prefix, const char *type, int number) {
    if (w->values[value].name) return;
    char *name = w->names + (size_t)value * NAME_BYTES;
    w->values[value].name = declared_name(w, value, name);
    if (w->values[value].name) return;
    snprintf(name, NAME_BYTES, "%s%s_%d", prefix, type, number);
    w->values[value].name = name;
}

static amp_status name_all(amp_writer *w) {
    char prefix[12] = "n";
    int number = 0;
    for (int i = 1; i < (int)sizeof prefix - 1 && is_taken(w->source, prefix); i++) prefix[i] = '_', prefix[i + 1] = 0;
    w->names = amp_alloc(((size_t)w->value_count + 1) * NAME_BYTES);
    w->constants = amp_alloc(((size_t)w->value_count + 1) * sizeof *w->constants);
    if (!w->names || !w->constants)
        return amp_fail(AMP_ERROR_MEMORY, "graph_save: %s: no memory for the model", w->source->name);
    for (int i = 0; i < w->value_count; i++) {
        if (w->values[i].input >= 0) name_value(w, i, "", "", 0);
    }
    for (int k = 0; k < w->node_count; k++) {
        const amp_made_node *node = &w->nodes[k];
        if (!node->type) continue;
        for (int i = 0; i < node->input_count; i++) {
            const int value = node->inputs[i];
            if (value < 0 || !w->values[value].constant || w->values[value].name) continue;
            name_value(w, value, prefix, "constant", w->constant_count);
            w->constants[w->constant_count++] = value;
        }
        for (int i = 0; i < node->output_count; i++)
            name_value(w, node->outputs[i], prefix, node->type->name, number++);
    }
    return AMP_OK;
}

amp_status amp_writer_join(amp_writer *w) {
    AMP_TRY(join_equal(w));
    amp_writer_mark_used(w);
    return AMP_OK;
}

amp_status amp_writer_finish(amp_writer *w) {
    AMP_TRY(amp_writer_join(w));
    find_opset(w);
    for (int k = 0; k < w->node_count; k++) {
        if (w->nodes[k].type) AMP_TRY(move_axes(w, &w->nodes[k]));
    }
    AMP_TRY(separate_outputs(w));
    amp_writer_mark_used(w);
    return name_all(w);
}
