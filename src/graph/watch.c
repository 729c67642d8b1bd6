/* A net with somebody who looks on: the loop of execute.c with a callback behind each step, and beside it, where that
 * is asked for, the same steps in f32. */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include <string.h>
#include <time.h>

#include "amp/autocast.h"
#include "amp/ops.h"
#include "core/memory.h"
#include "core/thread.h"
#include "graph/hand_out.h"
#include "graph/net.h"

typedef struct watch {
    const amp_net *net;
    const amp_graph_watcher *watcher;
    amp_device device;
    amp_dtype lower;       /* of the region; AMP_DTYPE_NONE: there is none */
    amp_tensor **values;   /* as the region has them */
    amp_tensor **f32;      /* beside_f32, without the region; … */
    amp_tensor **local;    /* … and of this step, of operands without it */
    amp_scope_frame frame; /* owns all those */
} watch;

/* ---- Running --------------------------------------------------------------------------------------------------- */

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void leave_region(const watch *w) {
    (void)amp_autocast_enter(
        &(amp_autocast_args){.struct_size = sizeof(amp_autocast_args), .device = w->device, .enabled = AMP_SET(false)});
}

static bool is_lower(const watch *w, const amp_tensor *t) {
    return t && w->lower != AMP_DTYPE_NONE && t->dtype == w->lower;
}

/* Importers bring results back to the type that they found, which in the region may have been the lower one. Without it
 * such a call would round what nothing else rounds. */
static bool only_rounds(const watch *w, const amp_net_node *node) {
    const amp_dtype *dtype = strcmp(node->op->name, "to") == 0 ? amp_net_field(node, "dtype") : NULL;
    const int value = dtype ? amp_net_operand_of(node, "input") : AMP_NET_NONE;
    return value >= 0 && *dtype == w->lower && w->f32[value] && w->f32[value]->dtype == AMP_F32;
}

static amp_status run_without(watch *w, const amp_net_node *node) {
    if (w->lower != AMP_DTYPE_NONE && only_rounds(w, node)) {
        w->f32[node->results[0]] = amp_tensor_same("graph", w->f32[amp_net_operand_of(node, "input")]);
        return amp_pending_error();
    }
    leave_region(w);
    const amp_status status = amp_net_run_node(w->net, node, w->f32);
    (void)amp_autocast_exit(w->device);
    return status;
}

static amp_status run_local(watch *w, const amp_net_node *node) {
    for (int i = 0; i < node->operand_count; i++) {
        const int value = node->operands[i].value;
        if (value >= 0) w->local[value] = w->net->values[value].constant ? w->values[value] : w->f32[value];
    }
    return amp_net_run_node(w->net, node, w->local);
}

/* ---- Telling --------------------------------------------------------------------------------------------------- */

static int number_in(const int *list, int count, int value) {
    for (int i = 0; i < count; i++) {
        if (list[i] == value) return i;
    }
    return -1;
}

static amp_graph_operand describe(const watch *w, const char *argument, int value) {
    amp_graph_operand o = {.argument = argument, .value = value, .input = -1, .output = -1};
    if (value < 0) return o;
    o.input = number_in(w->net->inputs, w->net->input_count, value);
    o.output = number_in(w->net->outputs, w->net->output_count, value);
    o.is_constant = w->net->values[value].constant != NULL;
    o.tensor = w->values[value];
    o.f32 = w->f32 ? w->f32[value] : NULL;
    return o;
}

static const char *result_name(const amp_op_info *op, int index) {
    if (index == 0 || (op->flags & AMP_OP_RETURNS_LIST)) return op->result ? op->result : "";
    for (int i = 0; i < op->arg_count; i++) {
        if (op->args[i].kind == AMP_ARG_OUTPUT && --index == 0) return op->args[i].name;
    }
    return "";
}

static void describe_all(const watch *w, const amp_net_node *node, amp_graph_operand *operands) {
    for (int i = 0; i < node->operand_count; i++) {
        const amp_net_operand *o = &node->operands[i];
        operands[i] = describe(w, node->op->args[o->argument].name, o->value);
    }
    operands += node->operand_count;
    for (int i = 0; i < node->result_count; i++) {
        operands[i] = describe(w, result_name(node->op, i), node->results[i]);
        if (w->local && node->results[i] >= 0) operands[i].local = w->local[node->results[i]];
    }
}

/* The lines of a text, which becomes their end by end. */
static int split(char *text, const char **lines) {
    int count = 0;
    for (char *at = text; at && *at;) {
        lines[count++] = at;
        at += strcspn(at, "\n");
        if (*at) *at++ = '\0';
    }
    return count;
}

static amp_status call_watcher(const watch *w, const amp_graph_step *step) {
    amp_scope_frame frame;
    amp_scope_push(&frame);
    leave_region(w);
    const amp_status status = amp_failed() ? amp_pending_error() : w->watcher->step(w->watcher->context, step);
    (void)amp_autocast_exit(w->device);
    amp_scope_pop(&frame);
    if (status == AMP_OK) return amp_pending_error();
    return amp_failed() ? amp_pending_error() : amp_fail(status, "graph_watch: the watcher ended the run");
}

static amp_status tell(const watch *w, int k, double seconds) {
    const amp_net_node *node = &w->net->nodes[k];
    const size_t count = (size_t)node->operand_count + (size_t)node->result_count;
    const size_t bytes = node->places ? strlen(node->places) + 1 : 1;
    amp_graph_operand *operands = amp_alloc(count * sizeof *operands);
    char *places = amp_alloc(bytes);
    const char **lines = amp_alloc(bytes * sizeof *lines);
    amp_status status = AMP_ERROR_MEMORY;
    if (operands && places && lines) {
        memcpy(places, node->places ? node->places : "", bytes);
        describe_all(w, node, operands);
        const amp_graph_step step = {.struct_size = sizeof step,
                                     .number = k,
                                     .count = w->net->node_count,
                                     .op = node->op->name,
                                     .overload = node->op->overload,
                                     .places = lines,
                                     .place_count = split(places, lines),
                                     .operand_count = node->operand_count,
                                     .result_count = node->result_count,
                                     .operands = operands,
                                     .results = operands + node->operand_count,
                                     .seconds = seconds};
        status = call_watcher(w, &step);
    } else {
        (void)amp_fail(AMP_ERROR_MEMORY, "graph_watch: no memory for a step");
    }
    amp_free(operands);
    amp_free(places);
    amp_free(lines);
    return status;
}

/* ---- All of them ----------------------------------------------------------------------------------------------- */

static void drop(watch *w, amp_tensor **values, int value) {
    amp_tensor *t = values ? values[value] : NULL;
    if (t && t->scope == &w->frame) amp_tensor_drop(t);
    if (values) values[value] = NULL;
}

static void drop_value(watch *w, int value, int k) {
    if (value < 0) return;
    if (w->net->values[value].node == k) drop(w, w->local, value);
    if (w->net->values[value].last_use != k) return;
    drop(w, w->values, value);
    drop(w, w->f32, value);
}

static amp_status run_step(watch *w, int k) {
    const amp_net_node *node = &w->net->nodes[k];
    const double begin = now();
    AMP_TRY(amp_net_run_node(w->net, node, w->values));
    const double seconds = now() - begin;
    if (w->f32) {
        AMP_TRY(run_without(w, node));
        AMP_TRY(run_local(w, node));
    }
    if (w->watcher->step) AMP_TRY(tell(w, k, seconds));
    for (int i = 0; i < node->operand_count; i++) drop_value(w, node->operands[i].value, k);
    for (int i = 0; i < node->result_count; i++) drop_value(w, node->results[i], k);
    return AMP_OK;
}

/* What is of the lower type because the region made it so stands in f32 beside it: ops want their arguments alike. */
static amp_status place(watch *w, int value, amp_tensor *t) {
    w->values[value] = t;
    if (!w->f32) return AMP_OK;
    w->f32[value] = t;
    if (!is_lower(w, t)) return AMP_OK;
    leave_region(w);
    w->f32[value] = amp_to(t, AMP_F32);
    (void)amp_autocast_exit(w->device);
    return amp_pending_error();
}

static amp_status run_all(watch *w, amp_tensor *const *inputs, amp_tensor **outputs) {
    const amp_net *net = w->net;
    for (int i = 0; i < net->value_count; i++) AMP_TRY(place(w, i, net->values[i].constant));
    for (int i = 0; i < net->input_count; i++) AMP_TRY(place(w, net->inputs[i], inputs[i]));
    for (int k = 0; k < net->node_count; k++) AMP_TRY(run_step(w, k));
    return amp_hand_out(&w->frame, w->values, net->outputs, net->output_count, outputs);
}

static void tell_passes(const amp_net *net, const amp_graph_watcher *watcher) {
    for (int i = 0; watcher->pass && i < net->change_count; i++) {
        const amp_net_change *c = &net->changes[i];
        watcher->pass(watcher->context, c->pass, c->places, c->before, c->after);
    }
}

amp_status amp_net_watch(const amp_net *net, amp_tensor *const *inputs, amp_tensor **outputs,
                         const amp_graph_watcher *watcher) {
    const size_t count = (size_t)net->value_count;
    amp_tensor **tables = amp_alloc_zeroed(3 * count * sizeof *tables);
    if (!tables) return amp_fail(AMP_ERROR_MEMORY, "graph_watch: no memory for %d values", net->value_count);
    watch w = {.net = net, .watcher = watcher, .values = tables};
    w.device = net->input_count > 0 ? amp_tensor_device(inputs[0]) : AMP_DEVICE_CPU;
    w.lower = amp_autocast_is_enabled(w.device) ? amp_autocast_dtype(w.device) : AMP_DTYPE_NONE;
    if (watcher->beside_f32) w.f32 = tables + count;
    if (watcher->beside_f32) w.local = tables + 2 * count;
    tell_passes(net, watcher);
    amp_scope_push(&w.frame);
    const amp_status status = run_all(&w, inputs, outputs);
    amp_scope_pop(&w.frame);
    amp_free(tables);
    return status;
}
