/* Recording: a capture without passes, then each call once more by itself, to see what the region makes of it. */
#include "graph/record.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "core/thread.h"
#include "dispatch/layers.h"
#include "graph/capture.h"

/* ---- Capturing ------------------------------------------------------------------------------------------------- */

static amp_status capture(amp_record *record, amp_capture_kind kind, const amp_graph_source *s,
                          amp_tensor *const *inputs, amp_tensor **outputs) {
    amp_graph_source plain = *s;
    amp_capture c;
    plain.exact = true; /* not a bit else than the calls give */
    AMP_TRY(amp_capture_run(&c, kind, 0, &plain, inputs, outputs));
    record->net = c.net;
    record->reads = c.reads;
    if (record->net) return AMP_OK;
    return amp_fail(AMP_ERROR_NOT_IMPLEMENTED, "graph_save: %s: what it computes cannot be written down: %s%s%s",
                    s->name, c.failed, *c.at ? ": " : "", c.at);
}

static amp_status capture_all(amp_record *record, amp_capture_kind kind, const amp_graph_source *s,
                              amp_tensor *const *inputs) {
    amp_scope_frame frame;
    amp_tensor **outputs = amp_alloc_zeroed((size_t)s->output_count * sizeof *outputs);
    if (!outputs) return amp_fail(AMP_ERROR_MEMORY, "graph_save: %s: no memory for a run", s->name);
    amp_scope_push(&frame);
    const amp_status status = capture(record, kind, s, inputs, outputs);
    amp_scope_pop(&frame);
    amp_free(outputs);
    return status;
}

/* ---- What the region makes of a call ----------------------------------------------------------------------------- */

/* The call that is being looked at. */
typedef struct looking {
    const amp_net_node *node; /* NULL: seen */
    amp_recorded_call *call;
} looking;

static __thread looking *current;

static void see(const amp_call *call, const amp_net_node *node, amp_recorded_call *seen) {
    for (int i = 0; i < node->operand_count && i < AMP_RECORD_OPERANDS; i++) {
        const amp_net_operand *o = &node->operands[i];
        const amp_arg_info *arg = &call->op->args[o->argument];
        const amp_tensor *t = arg->kind == AMP_ARG_TENSOR ? *amp_call_tensor(call, arg)
                                                          : amp_call_tensor_list(call, arg)->items[o->place];
        seen->dtypes[i] = t ? t->dtype : AMP_DTYPE_NONE;
    }
    memcpy(seen->args, call->args, call->op->args_size);
}

static amp_status look(amp_call *call) {
    if (current && current->node && current->node->op == call->op) {
        see(call, current->node, current->call);
        current->node = NULL;
    }
    return amp_call_next(call);
}

static void install(void) {
    amp_layer_install(AMP_LAYER_TRACE, look);
}

static void drop(const amp_net *net, const amp_scope_frame *frame, amp_tensor **tensors, int k) {
    const amp_net_node *node = &net->nodes[k];
    for (int i = 0; i < node->operand_count + node->result_count; i++) {
        const int value = i < node->operand_count ? node->operands[i].value : node->results[i - node->operand_count];
        amp_tensor *t = value >= 0 && net->values[value].last_use <= k ? tensors[value] : NULL;
        if (!t || t->scope != frame) continue;
        amp_tensor_drop(t);
        tensors[value] = NULL;
    }
}

static amp_status look_at(amp_record *record, int k, amp_tensor **tensors) {
    const amp_net_node *node = &record->net->nodes[k];
    amp_recorded_call *call = &record->calls[k];
    call->args = amp_alloc(node->op->args_size);
    if (!call->args) return amp_fail(AMP_ERROR_MEMORY, "graph_save: no memory for a call of %s", node->op->name);
    memcpy(call->args, node->args, node->op->args_size);
    for (int i = 0; i < node->operand_count && i < AMP_RECORD_OPERANDS; i++) {
        const int value = node->operands[i].value;
        call->dtypes[i] = value >= 0 ? record->net->values[value].dtype : AMP_DTYPE_NONE;
    }
    looking l = {.node = node, .call = call}, *outer = current;
    current = &l;
    const amp_status status = amp_net_run_node(record->net, node, tensors);
    current = outer;
    return status;
}

static amp_status look_at_all(amp_record *record, amp_tensor *const *inputs, amp_tensor **tensors) {
    const amp_net *net = record->net;
    amp_scope_frame frame;
    for (int i = 0; i < net->value_count; i++) tensors[i] = net->values[i].constant;
    for (int i = 0; i < net->input_count; i++) tensors[net->inputs[i]] = inputs[i];
    amp_status status = AMP_OK;
    amp_scope_push(&frame);
    amp_layer_activate(AMP_LAYER_TRACE, true);
    for (int k = 0; status == AMP_OK && k < net->node_count; k++) {
        status = look_at(record, k, tensors);
        drop(net, &frame, tensors, k);
    }
    amp_layer_activate(AMP_LAYER_TRACE, false);
    amp_scope_pop(&frame);
    return status;
}

static amp_status look_at_calls(amp_record *record, const char *name, amp_tensor *const *inputs) {
    amp_tensor **tensors = amp_alloc(((size_t)record->net->value_count + 1) * sizeof *tensors);
    record->calls = amp_alloc_zeroed(((size_t)record->net->node_count + 1) * sizeof *record->calls);
    const amp_status status =
        tensors && record->calls
            ? look_at_all(record, inputs, tensors)
            : amp_fail(AMP_ERROR_MEMORY, "graph_save: %s: no memory for %d calls", name, record->net->node_count);
    amp_free(tensors);
    return status;
}

/* ---- Calls on constants ------------------------------------------------------------------------------------------ */

static bool reads_constants(const amp_net *net, const amp_net_node *node) {
    for (int i = 0; i < node->operand_count; i++) {
        const int value = node->operands[i].value;
        if (value >= 0 && !net->values[value].constant) return false;
    }
    return true;
}

static amp_status fold(amp_net *net, int k, amp_tensor **tensors) {
    amp_net_node *node = &net->nodes[k];
    AMP_TRY(amp_net_run_node(net, node, tensors));
    for (int i = 0; i < node->result_count; i++) {
        const int value = node->results[i];
        if (value < 0) continue;
        net->values[value].constant = amp_retain(tensors[value]);
        net->values[value].version = amp_tensor_version(tensors[value]);
        net->values[value].node = AMP_NET_NONE;
    }
    node->result_count = 0; /* nobody's: amp_net_count takes it out */
    return AMP_OK;
}

static amp_status fold_all(amp_net *net, const bool *varies, amp_tensor **tensors) {
    amp_status status = AMP_OK;
    for (int i = 0; i < net->value_count; i++) tensors[i] = net->values[i].constant;
    for (int k = 0; status == AMP_OK && k < net->node_count; k++) {
        const amp_net_node *node = &net->nodes[k];
        if ((varies[k] && node->operand_count > 0) || !reads_constants(net, node)) continue;
        amp_scope_frame frame;
        amp_scope_push(&frame);
        status = fold(net, k, tensors);
        amp_scope_pop(&frame);
    }
    amp_net_count(net);
    return status;
}

static amp_status fold_constants(amp_record *record, const char *name, const bool *varies) {
    amp_tensor **tensors = amp_alloc(((size_t)record->net->value_count + 1) * sizeof *tensors);
    if (!tensors) return amp_fail(AMP_ERROR_MEMORY, "graph_save: %s: no memory for a run", name);
    const amp_status status = fold_all(record->net, varies, tensors);
    amp_free(tensors);
    return status;
}

/* ---- Both ------------------------------------------------------------------------------------------------------ */

static void install_once(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, install);
}

amp_status amp_record_make(amp_record *record, const amp_graph *graph, amp_tensor *const *inputs, int input_count) {
    install_once();
    *record = (amp_record){0};
    const amp_graph_source *s = amp_graph_source_of(graph);
    AMP_TRY(amp_graph_check_inputs(graph, inputs, input_count));
    AMP_TRY(capture_all(record, AMP_CAPTURE_FOLDED, s, inputs));
    return look_at_calls(record, s->name, inputs);
}

amp_status amp_record_capture(amp_record *record, const amp_graph *graph, amp_tensor *const *inputs, int input_count) {
    install_once();
    *record = (amp_record){0};
    AMP_TRY(amp_graph_check_inputs(graph, inputs, input_count));
    return capture_all(record, AMP_CAPTURE_WHOLE, amp_graph_source_of(graph), inputs);
}

amp_status amp_record_finish(amp_record *record, const char *name, amp_tensor *const *inputs, const bool *varies) {
    AMP_TRY(fold_constants(record, name, varies));
    return look_at_calls(record, name, inputs);
}

void amp_record_end(amp_record *record) {
    for (int k = 0; record->calls && k < record->net->node_count; k++) amp_free(record->calls[k].args);
    amp_free(record->calls);
    amp_net_free(record->net);
    *record = (amp_record){0};
}
