/* Nodes behind those whose results they read: one search in depth, without recursion, over what a node waits for. */
#include <limits.h>
#include <string.h>

#include "core/memory.h"
#include "onnx/read/reader.h"

typedef enum state { UNSEEN, WAITING, DONE } state;

/* How far the search has looked at what a node reads: its inputs, then what its bodies capture. */
typedef struct cursor {
    int node, input, attribute, capture;
} cursor;

typedef struct search {
    const amp_onnx_place *place;
    unsigned char *states;
    cursor *stack;
    int *order; /* the nodes, sorted */
    int depth, count;
} search;

static const amp_onnx_graph *body_of(const amp_onnx_attribute *attribute) {
    return attribute->kind == AMP_ONNX_GRAPH ? attribute->as.graph : NULL;
}

/* The next value that the node reads; -1: that was all. Absent inputs are left out. */
static int next_value(const amp_onnx_node *node, cursor *c) {
    while (c->input < node->input_count) {
        const int value = node->inputs[c->input++];
        if (value >= 0) return value;
    }
    for (; c->attribute < node->attribute_count; c->attribute++, c->capture = 0) {
        const amp_onnx_graph *body = body_of(&node->attributes[c->attribute]);
        if (body && c->capture < body->capture_count) return body->captured[c->capture++];
    }
    return -1;
}

static amp_status fail_cycle(const search *s, int reader, int value) {
    const amp_onnx_place *place = s->place;
    const int maker = place->drafts[value].maker;
    const amp_onnx_words words = amp_onnx_node_words(place, (size_t)reader);
    if (maker == reader) {
        return amp_onnx_read_fail(place->reader, AMP_ERROR_INVALID, "%s reads '%.120s', its own result", words.text,
                                  place->drafts[value].name);
    }
    return amp_onnx_read_fail(place->reader, AMP_ERROR_INVALID,
                              "%s reads '%.120s' of %s, which waits for it in turn: a cycle", words.text,
                              place->drafts[value].name, amp_onnx_node_words(place, (size_t)maker).text);
}

static void begin_node(search *s, int node) {
    s->states[node] = WAITING;
    s->stack[s->depth++] = (cursor){.node = node};
}

/* A node and all that it waits for. */
static amp_status visit(search *s, int first) {
    begin_node(s, first);
    while (s->depth > 0) {
        cursor *top = &s->stack[s->depth - 1];
        const int value = next_value(&s->place->graph->nodes[top->node], top);
        if (value < 0) {
            s->states[top->node] = DONE;
            s->order[s->count++] = top->node;
            s->depth--;
            continue;
        }
        const int maker = s->place->drafts[value].maker;
        if (maker < 0 || s->states[maker] == DONE) continue;
        if (s->states[maker] == WAITING) return fail_cycle(s, top->node, value);
        begin_node(s, maker);
    }
    return AMP_OK;
}

static amp_status visit_all(search *s, int count) {
    for (int i = 0; i < count; i++) {
        if (s->states[i] == UNSEEN) AMP_TRY(visit(s, i));
    }
    return AMP_OK;
}

static amp_status take_order(const search *s) {
    amp_onnx_graph *graph = s->place->graph;
    amp_onnx_node *nodes = amp_onnx_get(s->place->reader, (size_t)graph->node_count, sizeof *nodes);
    if (!nodes) return amp_pending_error();
    for (int i = 0; i < graph->node_count; i++) nodes[i] = graph->nodes[s->order[i]];
    amp_onnx_give_back(&s->place->reader->memory->arena, graph->nodes);
    graph->nodes = nodes;
    return AMP_OK;
}

static bool is_sorted(const search *s) {
    for (int i = 0; i < s->count; i++) {
        if (s->order[i] != i) return false;
    }
    return true;
}

static amp_status sort_nodes(const amp_onnx_place *place) {
    const int count = place->graph->node_count;
    search s = {.place = place};
    s.states = amp_alloc_zeroed((size_t)count);
    s.stack = amp_alloc((size_t)count * sizeof *s.stack);
    s.order = amp_alloc((size_t)count * sizeof *s.order);
    amp_status status = s.states && s.stack && s.order ? visit_all(&s, count) : amp_onnx_no_memory(place->reader);
    if (status == AMP_OK && !is_sorted(&s)) status = take_order(&s);
    amp_free(s.states);
    amp_free(s.stack);
    amp_free(s.order);
    return status;
}

/* Backwards, so that what only nodes read whose results nobody does has no use either. */
static void fill_in_last_uses(amp_onnx_graph *graph) {
    for (int i = 0; i < graph->output_count; i++) graph->values[graph->outputs[i]].last_use = INT_MAX;
    for (int i = graph->node_count - 1; i >= 0; i--) {
        cursor c = {0};
        if (!amp_onnx_node_is_needed(graph, &graph->nodes[i])) continue;
        for (int value; (value = next_value(&graph->nodes[i], &c)) >= 0;) {
            if (graph->values[value].last_use < 0) graph->values[value].last_use = i;
        }
    }
}

amp_status amp_onnx_order(amp_onnx_place *place) {
    AMP_TRY(sort_nodes(place));
    fill_in_last_uses(place->graph);
    return AMP_OK;
}
