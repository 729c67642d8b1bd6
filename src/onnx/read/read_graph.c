/* Graphs: whose value is whose. Values get their numbers before any node is read, so nodes may stand in any order. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "onnx/read/reader.h"

#define FAIL(...) amp_onnx_read_fail(place->reader, AMP_ERROR_INVALID, __VA_ARGS__)

/* ---- Words for sentences ---- */

amp_onnx_words amp_onnx_place_words(const amp_onnx_place *place) {
    amp_onnx_words words;
    const amp_onnx_call *call = place->call;
    const char *name = place->graph->name;
    const bool is_body = call && place->graph->name == amp_onnx_text_of(call->function->name);
    if (is_body) {
        snprintf(words.text, sizeof words.text, "function '%.120s'", name);
    } else if (call) {
        snprintf(words.text, sizeof words.text, "graph '%.80s' in function '%.80s'", name,
                 amp_onnx_text_of(call->function->name));
    } else {
        snprintf(words.text, sizeof words.text, "graph '%.120s'", name);
    }
    return words;
}

amp_onnx_words amp_onnx_node_words(const amp_onnx_place *place, size_t node) {
    amp_onnx_words words;
    const amp_onnx_node_proto *proto = place->node_protos[node];
    const char *name = amp_onnx_text_of(proto->name), *type = amp_onnx_text_of(proto->op_type);
    const amp_onnx_words where = amp_onnx_place_words(place);
    if (*name) {
        snprintf(words.text, sizeof words.text, "node '%.120s' (%.60s) of %.190s", name, type, where.text);
    } else {
        snprintf(words.text, sizeof words.text, "node %zu (%.60s) of %.190s", node, type, where.text);
    }
    return words;
}

static int maker_of(const amp_onnx_place *place, int value) {
    return place->drafts && value != ABSENT_VALUE ? place->drafts[value].maker : MADE_BY_CALLER;
}

static amp_onnx_words maker_words(const amp_onnx_place *place, int value) {
    amp_onnx_words words;
    const int maker = maker_of(place, value);
    if (maker >= 0) return amp_onnx_node_words(place, (size_t)maker);
    snprintf(words.text, sizeof words.text, "%s", maker == MADE_BY_CALLER ? "an input" : "an initialiser");
    return words;
}

/* ---- Values ---- */

static amp_status make_room(amp_onnx_place *place) {
    const int count = place->graph->value_count;
    if (place->drafts && count < place->draft_room) return AMP_OK;
    const int room = count + count / 2 + 16;
    amp_onnx_draft *drafts = amp_alloc((size_t)room * sizeof *drafts);
    if (!drafts) return amp_onnx_no_memory(place->reader);
    if (place->drafts) memcpy(drafts, place->drafts, (size_t)count * sizeof *drafts);
    amp_free(place->drafts);
    place->drafts = drafts;
    place->draft_room = room;
    return AMP_OK;
}

/* A value with a number, under no name yet. */
static amp_status new_value(amp_onnx_place *place, const char *name, int maker, int *number) {
    AMP_TRY(amp_onnx_count(place->reader, 1, 0, place->call ? (int64_t)strlen(name) : 0));
    AMP_TRY(make_room(place));
    *number = place->graph->value_count++;
    place->drafts[*number] = (amp_onnx_draft){.name = name, .maker = maker};
    return AMP_OK;
}

static amp_status give_name(amp_onnx_place *place, const char *name, int number) {
    return amp_onnx_names_add(&place->names, name, number) == AMP_OK ? AMP_OK : amp_onnx_no_memory(place->reader);
}

static amp_status add_value(amp_onnx_place *place, const char *name, int maker, int *number) {
    const int other = amp_onnx_names_find(&place->names, name);
    if (other >= 0) {
        const amp_onnx_words first = maker_words(place, other);
        AMP_TRY(new_value(place, name, maker, number)); /* only to name its maker */
        return FAIL("value '%.120s' of %s is made twice: by %s and by %s", name, amp_onnx_place_words(place).text,
                    first.text, maker_words(place, *number).text);
    }
    AMP_TRY(new_value(place, name, maker, number));
    return give_name(place, name, *number);
}

static amp_status add_capture(amp_onnx_place *place, const char *name, int outside, int *number) {
    AMP_TRY(new_value(place, name, MADE_OUTSIDE, number));
    place->drafts[*number].outside = outside;
    place->graph->capture_count++;
    return give_name(place, name, *number);
}

amp_status amp_onnx_find_value(amp_onnx_place *place, const char *name, int *number) {
    int outside = NO_VALUE;
    *number = amp_onnx_names_find(&place->names, name);
    if (*number >= 0 || !place->outer) return AMP_OK;
    AMP_TRY(amp_onnx_find_value(place->outer, name, &outside));
    if (outside == NO_VALUE || outside == ABSENT_VALUE) {
        *number = outside;
        return AMP_OK;
    }
    return add_capture(place, name, outside, number);
}

/* ---- What is declared ---- */

static const char *other_type(const AmpOnnx__TypeProto *type) {
    return type->has_sequence_type        ? "a sequence"
           : type->has_map_type           ? "a map"
           : type->has_optional_type      ? "an optional"
           : type->has_sparse_tensor_type ? "a sparse tensor"
                                          : NULL;
}

static amp_status take_shape(const amp_onnx_place *place, const AmpOnnx__TensorShapeProto *shape, const char *what,
                             amp_onnx_value *value) {
    if (shape->n_dim > AMP_MAX_RANK) {
        return FAIL("%s '%.200s' has %zu dimensions, expected at most %d", what, value->name, shape->n_dim,
                    AMP_MAX_RANK);
    }
    value->rank = (int)shape->n_dim;
    for (int i = 0; i < value->rank; i++) {
        const AmpOnnx__TensorShapeProto__Dimension *dim = shape->dim[i];
        const char *name = amp_onnx_text_of(dim->dim_param);
        value->shape[i] = dim->has_dim_value ? dim->dim_value : AMP_ONNX_ANY; /* -1 is what some write for "open" */
        value->extent_names[i] = *name && value->shape[i] == AMP_ONNX_ANY ? name : NULL;
        if (value->shape[i] < AMP_ONNX_ANY) {
            return FAIL("%s '%.200s' has extent %lld in dimension %d", what, value->name, (long long)dim->dim_value, i);
        }
    }
    return AMP_OK;
}

static amp_status take_type(const amp_onnx_place *place, const amp_onnx_value_proto *proto, const char *what,
                            amp_onnx_value *value) {
    const AmpOnnx__TypeProto__Tensor *tensor = proto->type ? proto->type->tensor_type : NULL;
    const char *name = proto->type ? other_type(proto->type) : NULL;
    if (name) {
        return amp_onnx_read_fail(place->reader, AMP_ERROR_NOT_IMPLEMENTED, "%s '%.200s' is %s, expected a tensor",
                                  what, value->name, name);
    }
    if (tensor && tensor->elem_type != AMP_ONNX__TENSOR_PROTO__DATA_TYPE__UNDEFINED) {
        value->dtype = amp_onnx_dtype_of(tensor->elem_type, &name);
        if (value->dtype == AMP_DTYPE_NONE) {
            return amp_onnx_read_fail(place->reader, AMP_ERROR_DTYPE,
                                      "%s '%.200s' is %s, a type that libamp does not have", what, value->name, name);
        }
    }
    return tensor && tensor->shape ? take_shape(place, tensor->shape, what, value) : AMP_OK;
}

/* ---- Parts of a graph ---- */

static amp_status add_initialiser(amp_onnx_place *place, amp_onnx_tensor_proto *proto) {
    const char *name = amp_onnx_text_of(proto->name);
    amp_onnx_words what;
    int number;
    if (*name == '\0') return FAIL("an initialiser of %s has no name", amp_onnx_place_words(place).text);
    AMP_TRY(add_value(place, name, MADE_AS_INITIALISER, &number));
    snprintf(what.text, sizeof what.text, "tensor '%.200s'", name);
    place->drafts[number].constant = amp_onnx_read_tensor(place->reader, proto, what.text);
    return place->drafts[number].constant ? AMP_OK : amp_pending_error();
}

static amp_status add_initialisers(amp_onnx_place *place, const amp_onnx_graph_proto *proto) {
    if (proto->n_sparse_initializer > 0) {
        const amp_onnx_tensor_proto *values = proto->sparse_initializer[0]->values;
        return amp_onnx_read_fail(place->reader, AMP_ERROR_NOT_IMPLEMENTED,
                                  "initialiser '%.200s' is sparse, expected a dense tensor",
                                  amp_onnx_text_of(values ? values->name : NULL));
    }
    for (size_t i = 0; i < proto->n_initializer; i++) AMP_TRY(add_initialiser(place, proto->initializer[i]));
    return AMP_OK;
}

/* A value that is an initialiser too keeps that: whoever lists it may mean a default, and nobody can give another. */
static bool is_initialiser(const amp_onnx_place *place, const char *name) {
    const int number = amp_onnx_names_find(&place->names, name);
    return number >= 0 && maker_of(place, number) == MADE_AS_INITIALISER;
}

static amp_status add_inputs(amp_onnx_place *place, const amp_onnx_graph_proto *proto) {
    amp_onnx_graph *graph = place->graph;
    int *inputs = amp_onnx_get(place->reader, proto->n_input, sizeof *inputs);
    if (!inputs) return amp_pending_error();
    graph->inputs = inputs;
    for (size_t i = 0; i < proto->n_input; i++) {
        const char *name = amp_onnx_text_of(proto->input[i]->name);
        if (*name == '\0') return FAIL("input %zu of %s has no name", i, amp_onnx_place_words(place).text);
        if (is_initialiser(place, name)) continue;
        int *number = &inputs[graph->input_count++];
        AMP_TRY(add_value(place, name, MADE_BY_CALLER, number));
        place->drafts[*number].declared = proto->input[i];
    }
    return AMP_OK;
}

static amp_status add_results(amp_onnx_place *place) {
    for (size_t i = 0; i < place->node_count; i++) {
        const amp_onnx_node_proto *node = place->node_protos[i];
        for (size_t k = 0; k < node->n_output; k++) {
            int number;
            if (*node->output[k]) AMP_TRY(add_value(place, node->output[k], (int)i, &number));
        }
    }
    return AMP_OK;
}

static amp_status read_nodes(amp_onnx_place *place) {
    amp_onnx_graph *graph = place->graph;
    AMP_TRY(amp_onnx_count(place->reader, (int64_t)place->node_count, 0, 0));
    graph->nodes = amp_onnx_get(place->reader, place->node_count, sizeof *graph->nodes);
    if (!graph->nodes) return amp_pending_error();
    graph->node_count = (int)place->node_count;
    for (size_t i = 0; i < place->node_count; i++) AMP_TRY(amp_onnx_read_node(place, i, &graph->nodes[i]));
    return AMP_OK;
}

static amp_status find_output(amp_onnx_place *place, const char *name, int *number) {
    AMP_TRY(amp_onnx_find_value(place, name, number));
    if (*number == NO_VALUE) {
        return FAIL("output '%.200s' of %s is made by nobody", name, amp_onnx_place_words(place).text);
    }
    if (*number != ABSENT_VALUE) return AMP_OK;
    return FAIL("output '%.200s' of %s is an input that the call leaves out", name, amp_onnx_place_words(place).text);
}

static amp_status add_outputs(amp_onnx_place *place, const amp_onnx_graph_proto *proto) {
    int *outputs = amp_onnx_get(place->reader, proto->n_output, sizeof *outputs);
    if (!outputs) return amp_pending_error();
    place->graph->outputs = outputs;
    place->graph->output_count = (int)proto->n_output;
    for (size_t i = 0; i < proto->n_output; i++) {
        AMP_TRY(find_output(place, amp_onnx_text_of(proto->output[i]->name), &outputs[i]));
        amp_onnx_draft *draft = &place->drafts[outputs[i]];
        if (draft->maker != MADE_BY_CALLER) draft->declared = proto->output[i]; /* an input has its own */
    }
    return AMP_OK;
}

/* ---- Whole graphs ---- */

static amp_status fill_value(const amp_onnx_place *place, const amp_onnx_draft *draft, amp_onnx_value *value) {
    *value = (amp_onnx_value){.name = draft->name, .constant = draft->constant, .rank = AMP_ONNX_ANY, .last_use = -1};
    if (!draft->declared) return AMP_OK;
    return take_type(place, draft->declared, draft->maker == MADE_BY_CALLER ? "input" : "output", value);
}

static amp_status finish(amp_onnx_place *place) {
    amp_onnx_graph *graph = place->graph;
    graph->values = amp_onnx_get(place->reader, (size_t)graph->value_count, sizeof *graph->values);
    int *captured = amp_onnx_get(place->reader, (size_t)graph->capture_count, 2 * sizeof *captured);
    if (!graph->values || !captured) return amp_pending_error();
    int *captured_as = captured + graph->capture_count;
    graph->captured = captured;
    graph->captured_as = captured_as;
    for (int i = 0; place->drafts && i < graph->value_count; i++) {
        const amp_onnx_draft *draft = &place->drafts[i];
        AMP_TRY(fill_value(place, draft, &graph->values[i]));
        if (draft->maker != MADE_OUTSIDE) continue;
        *captured++ = draft->outside;
        *captured_as++ = i;
    }
    return amp_onnx_order(place);
}

/* Reading recurses. */
static amp_status check_depth(const amp_onnx_place *place) {
    if (place->reader->depth <= AMP_ONNX_MOST_GRAPH_DEPTH) return AMP_OK;
    return FAIL("%s: graphs and functions lie more than %d deep in each other", amp_onnx_place_words(place).text,
                AMP_ONNX_MOST_GRAPH_DEPTH);
}

static amp_status read_parts(amp_onnx_place *place, const amp_onnx_graph_proto *proto) {
    AMP_TRY(check_depth(place));
    AMP_TRY(add_initialisers(place, proto));
    AMP_TRY(add_inputs(place, proto));
    AMP_TRY(add_results(place));
    AMP_TRY(read_nodes(place));
    AMP_TRY(add_outputs(place, proto));
    return finish(place);
}

static amp_onnx_graph *end_place(amp_onnx_place *place, amp_status status) {
    place->reader->depth--;
    amp_onnx_names_end(&place->names);
    amp_free(place->drafts);
    return status == AMP_OK ? place->graph : NULL;
}

amp_onnx_graph *amp_onnx_read_graph(amp_onnx_reader *reader, const amp_onnx_graph_proto *proto, amp_onnx_place *outer) {
    amp_onnx_place place = {.reader = reader, .outer = outer, .node_count = proto->n_node, .node_protos = proto->node};
    place.graph = amp_onnx_get(reader, 1, sizeof *place.graph);
    if (!place.graph) return NULL;
    place.opsets = outer ? outer->opsets : &reader->opsets[reader->proto->n_functions];
    place.graph->name = amp_onnx_text_of(proto->name);
    if (outer) {
        place.call = outer->call;
        place.graph->outer = outer->graph;
    }
    reader->depth++;
    return end_place(&place, read_parts(&place, proto));
}

/* ---- Bodies of functions ---- */

static amp_status add_arguments(amp_onnx_place *place, const amp_onnx_function_proto *proto, const int *given) {
    int *inputs = amp_onnx_get(place->reader, proto->n_input, sizeof *inputs);
    if (!inputs) return amp_pending_error();
    place->graph->inputs = inputs;
    place->graph->input_count = (int)proto->n_input;
    for (size_t i = 0; i < proto->n_input; i++) {
        const char *name = proto->input[i];
        if (*name == '\0') return FAIL("input %zu of %s has no name", i, amp_onnx_place_words(place).text);
        if (given[i] != NO_VALUE) {
            AMP_TRY(add_value(place, name, MADE_BY_CALLER, &inputs[i]));
            continue;
        }
        if (amp_onnx_names_find(&place->names, name) >= 0) {
            return FAIL("value '%.200s' of %s is an input twice", name, amp_onnx_place_words(place).text);
        }
        AMP_TRY(new_value(place, name, MADE_BY_CALLER, &inputs[i]));
        AMP_TRY(give_name(place, name, ABSENT_VALUE));
    }
    return AMP_OK;
}

static amp_status add_returns(amp_onnx_place *place, const amp_onnx_function_proto *proto) {
    int *outputs = amp_onnx_get(place->reader, proto->n_output, sizeof *outputs);
    if (!outputs) return amp_pending_error();
    place->graph->outputs = outputs;
    place->graph->output_count = (int)proto->n_output;
    for (size_t i = 0; i < proto->n_output; i++) AMP_TRY(find_output(place, proto->output[i], &outputs[i]));
    return AMP_OK;
}

static amp_status read_body(amp_onnx_place *place, const int *given) {
    const amp_onnx_function_proto *proto = place->call->function;
    AMP_TRY(check_depth(place));
    AMP_TRY(add_arguments(place, proto, given));
    AMP_TRY(add_results(place));
    AMP_TRY(read_nodes(place));
    AMP_TRY(add_returns(place, proto));
    return finish(place);
}

amp_onnx_graph *amp_onnx_read_function(amp_onnx_reader *reader, const amp_onnx_call *call, const int *given) {
    const amp_onnx_function_proto *proto = call->function;
    amp_onnx_place place = {.reader = reader, .call = call, .node_count = proto->n_node, .node_protos = proto->node};
    place.graph = amp_onnx_get(reader, 1, sizeof *place.graph);
    if (!place.graph) return NULL;
    place.opsets = call->opsets;
    place.graph->name = amp_onnx_text_of(proto->name);
    reader->depth++;
    return end_place(&place, read_body(&place, given));
}
