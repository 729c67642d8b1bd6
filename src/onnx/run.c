/* A model's nodes, one after another. A graph's run has a frame that owns its values; each node has one of its own
 * inside, from which its results move out. So whatever goes wrong, everything goes with the frames. */
#include "onnx/run.h"

#include <string.h>

#include "amp/ops.h"
#include "core/memory.h"
#include "core/thread.h"
#include "graph/hand_out.h"
#include "onnx/node_name.h"
#include "onnx/run_state.h"
#include "onnx/step.h"
#include "policy/place.h"

enum { MOST_DEPTH = 64, MOST_ROUNDS = 1000000 };

/* A graph while it runs. */
typedef struct environment {
    const amp_onnx_graph *graph;
    amp_tensor **values;
    amp_scope_frame frame; /* owns what nodes made */
} environment;

/* ---- Values ---------------------------------------------------------------------------------------------------- */

static void drop_value(environment *e, int value) {
    amp_tensor *t = e->values[value];
    if (t && t->scope == &e->frame) amp_tensor_drop(t);
    e->values[value] = NULL;
}

/* Those that node k was the last to read. */
static void drop_unneeded(environment *e, const amp_onnx_node *node, int k) {
    for (int i = 0; i < node->input_count; i++) {
        const int value = node->inputs[i];
        if (value >= 0 && e->graph->values[value].last_use == k) drop_value(e, value);
    }
    for (int a = 0; a < node->attribute_count; a++) {
        if (node->attributes[a].kind != AMP_ONNX_GRAPH) continue;
        const amp_onnx_graph *body = node->attributes[a].as.graph;
        for (int i = 0; i < body->capture_count; i++) {
            if (e->graph->values[body->captured[i]].last_use == k) drop_value(e, body->captured[i]);
        }
    }
}

/* Where the run's inputs are: weights go there, in a call that a capture computes once; integers, which mostly say
 * shapes, stay on the host. */
static amp_tensor *place_constant(const struct amp_onnx_run *run, amp_tensor *t) {
    const bool stays = !t || run->device == AMP_DEVICE_CPU || !amp_dtype_is_floating(t->dtype);
    return stays ? t : amp_to_device(t, run->device);
}

static void place_inputs(const struct amp_onnx_run *run, environment *e, amp_tensor *const *outer,
                         amp_tensor *const *inputs) {
    const amp_onnx_graph *g = e->graph;
    for (int i = 0; i < g->value_count; i++) e->values[i] = place_constant(run, g->values[i].constant);
    for (int i = 0; i < g->input_count; i++) e->values[g->inputs[i]] = inputs[i];
    for (int i = 0; outer && i < g->capture_count; i++) e->values[g->captured_as[i]] = outer[g->captured[i]];
}

static amp_status check_outputs(const environment *e) {
    const amp_onnx_graph *g = e->graph;
    for (int i = 0; i < g->output_count; i++) {
        if (!e->values[g->outputs[i]])
            return amp_fail(AMP_ERROR_INVALID, "the output '%s' was not computed", g->values[g->outputs[i]].name);
    }
    return AMP_OK;
}

/* ---- Nodes ----------------------------------------------------------------------------------------------------- */

static amp_status run_function(amp_onnx_step *s) {
    amp_tensor *inputs[AMP_ONNX_MOST_PLACES];
    const amp_onnx_graph *f = s->node->function;
    if (f->input_count > AMP_ONNX_MOST_PLACES || f->output_count > s->node->output_count)
        return amp_fail(AMP_ERROR_INVALID, "the function has %d inputs and %d outputs", f->input_count,
                        f->output_count);
    for (int i = 0; i < f->input_count; i++) inputs[i] = amp_onnx_input(s, i);
    return amp_onnx_run_body(s, f, inputs, s->results);
}

/* A node's results leave its frame. */
static void take_results(environment *e, const amp_onnx_node *node, amp_tensor *const *results) {
    for (int i = 0; i < node->output_count; i++) {
        const int value = node->outputs[i];
        if (value < 0 || !results[i] || e->graph->values[value].last_use < 0) continue;
        amp_scope_move(results[i], &e->frame);
        e->values[value] = results[i];
    }
}

/* What the node's calls are known by: its name, else its first output's. */
static const char *place_of(const environment *e, const amp_onnx_node *node) {
    for (int i = 0; !*node->name && i < node->output_count; i++) {
        if (node->outputs[i] >= 0) return e->graph->values[node->outputs[i]].name;
    }
    return node->name;
}

static amp_status run_node(struct amp_onnx_run *run, environment *e, const amp_onnx_node *node) {
    amp_tensor *results[AMP_ONNX_MOST_PLACES];
    amp_scope_frame frame;
    if (run->limits.cancel && *run->limits.cancel) return amp_fail(AMP_ERROR_INVALID, "the run was cancelled");
    memset(results, 0, (size_t)node->output_count * sizeof *results);
    amp_onnx_step step = {.run = run, .node = node, .values = e->values, .results = results};
    amp_scope_push(&frame);
    const char *outer = amp_place;
    amp_place = place_of(e, node);
    amp_status status = node->function ? run_function(&step) : node->op->run(&step);
    amp_place = outer;
    if (status == AMP_OK) status = amp_pending_error();
    if (status == AMP_OK) take_results(e, node, results);
    amp_scope_pop(&frame);
    return status;
}

static amp_status run_nodes(struct amp_onnx_run *run, environment *e) {
    for (int k = 0; k < e->graph->node_count; k++) {
        const amp_onnx_node *node = &e->graph->nodes[k];
        if (!amp_onnx_node_is_needed(e->graph, node)) continue;
        const amp_status status = run_node(run, e, node);
        if (status != AMP_OK) {
            amp_fail_within(amp_onnx_node_name(node, (char[AMP_ONNX_NAME_BYTES]){0}));
            return status;
        }
        drop_unneeded(e, node, k);
    }
    return AMP_OK;
}

static amp_status run_graph(struct amp_onnx_run *run, const amp_onnx_graph *g, amp_tensor *const *outer,
                            amp_tensor *const *inputs, amp_tensor **outputs) {
    environment e = {.graph = g};
    if (run->depth >= MOST_DEPTH) return amp_fail(AMP_ERROR_INVALID, "graphs in each other, %d deep", run->depth);
    e.values = amp_alloc((size_t)g->value_count * sizeof(amp_tensor *));
    if (!e.values) return amp_fail(AMP_ERROR_MEMORY, "no memory for the %d values of a graph", g->value_count);
    run->depth++;
    amp_scope_push(&e.frame);
    place_inputs(run, &e, outer, inputs);
    amp_status status = amp_failed() ? amp_pending_error() : run_nodes(run, &e);
    if (status == AMP_OK) status = check_outputs(&e);
    if (status == AMP_OK) status = amp_hand_out(&e.frame, e.values, g->outputs, g->output_count, outputs);
    amp_scope_pop(&e.frame);
    run->depth--;
    amp_free(e.values);
    return status;
}

amp_status amp_onnx_run_body(amp_onnx_step *s, const amp_onnx_graph *body, amp_tensor *const *inputs,
                             amp_tensor **outputs) {
    for (int i = 0; i < body->output_count; i++) outputs[i] = NULL;
    return run_graph(s->run, body, s->values, inputs, outputs);
}

amp_status amp_onnx_run_model(const amp_onnx_model *model, const amp_onnx_limits *limits, amp_tensor *const *inputs,
                              amp_tensor **outputs) {
    struct amp_onnx_run run = {.depth = 0};
    if (limits) run.limits = *limits;
    if (run.limits.most_rounds <= 0) run.limits.most_rounds = MOST_ROUNDS;
    for (int i = 0; i < model->graph->output_count; i++) outputs[i] = NULL;
    if (amp_failed()) return amp_pending_error();
    run.device = model->graph->input_count > 0 ? amp_tensor_device(inputs[0]) : AMP_DEVICE_CPU;
    return run_graph(&run, model->graph, NULL, inputs, outputs);
}
