/* A net through the dispatcher: explain, autocast and the devices see its calls as a program's. The first such run
 * makes the plan by which later ones run. */
#include <limits.h>
#include <stdalign.h>
#include <string.h>

#include "call/call.h"
#include "core/debug.h"
#include "core/memory.h"
#include "core/thread.h"
#include "graph/hand_out.h"
#include "graph/plan.h"
#include "policy/place.h"
#include "policy/rules.h"
#include "policy/user_ops.h"

enum { ITEMS = 64 }; /* of lists in one call; more are on the heap */

typedef struct execution {
    const amp_net *net;
    amp_tensor **values;
    amp_scope_frame frame; /* owns what nodes make */
    amp_plan_recorder *recorder;
} execution;

/* ---- One call -------------------------------------------------------------------------------------------------- */

typedef struct arguments {
    union {
        char bytes[AMP_MAX_ARGS_BYTES];
        max_align_t align;
    } args;
    amp_tensor *further[AMP_MAX_OUTPUTS]; /* second, third, … results */
    amp_tensor *few[ITEMS], **items;
} arguments;

/* Tensors into the struct; of lists, which stand in the operands by place, the first begins one. */
static void fill_operands(const execution *e, const amp_net_node *node, arguments *a) {
    amp_tensor_list *list = NULL;
    for (int i = 0; i < node->operand_count; i++) {
        const amp_net_operand *o = &node->operands[i];
        const amp_arg_info *arg = &node->op->args[o->argument];
        amp_tensor *t = o->value >= 0 ? e->values[o->value] : NULL;
        void *field = a->args.bytes + arg->offset;
        a->items[i] = t;
        if (arg->kind == AMP_ARG_TENSOR) {
            *(amp_tensor **)field = t;
            continue;
        }
        list = field;
        if (o->place == 0) *list = (amp_tensor_list){.items = &a->items[i]};
        list->count = o->place + 1;
    }
}

static void point_results(const amp_net_node *node, arguments *a) {
    int index = 0;
    for (int i = 0; i < node->op->arg_count; i++) {
        if (node->op->args[i].kind != AMP_ARG_OUTPUT) continue;
        amp_tensor ***field = (amp_tensor ***)(void *)(a->args.bytes + node->op->args[i].offset);
        *field = node->results[index + 1] >= 0 ? &a->further[index] : NULL;
        index++;
    }
}

static amp_status call_single(execution *e, const amp_net_node *node, arguments *a) {
    point_results(node, a);
    amp_tensor *first = amp_dispatch(node->op, AMP_FORM_FUNCTION, &a->args, NULL);
    if (!first) return amp_pending_error();
    for (int i = 0; i < node->result_count; i++) {
        if (node->results[i] >= 0) e->values[node->results[i]] = i == 0 ? first : a->further[i - 1];
    }
    return AMP_OK;
}

static amp_status call_list(execution *e, const amp_net_node *node, arguments *a) {
    const amp_tensor_list list = amp_dispatch_list(node->op, &a->args);
    if (amp_failed()) return amp_pending_error();
    for (int i = 0; i < node->result_count && i < list.count; i++) {
        if (node->results[i] >= 0) e->values[node->results[i]] = list.items[i];
    }
    return AMP_OK; /* the list goes with the frame */
}

static amp_status run_node(execution *e, const amp_net_node *node) {
    arguments a;
    memcpy(a.args.bytes, node->args, node->op->args_size);
    a.items = node->operand_count <= ITEMS ? a.few : amp_alloc((size_t)node->operand_count * sizeof *a.items);
    if (!a.items) return amp_fail(AMP_ERROR_MEMORY, "%s: no memory for a list", node->op->name);
    fill_operands(e, node, &a);
    const bool is_list = (node->op->flags & AMP_OP_RETURNS_LIST) != 0;
    const bool was_pinned = amp_pin(node->is_f32);
    const char *const place = amp_place;
    if (!amp_op_is_user(node->op)) amp_place = ""; /* where the call was made was asked when it was captured */
    const amp_status status = is_list ? call_list(e, node, &a) : call_single(e, node, &a);
    amp_place = place;
    amp_pinned = was_pinned;
    if (a.items != a.few) amp_free(a.items);
    return status;
}

amp_status amp_net_run_node(const amp_net *net, const amp_net_node *node, amp_tensor **values) {
    execution e = {.net = net, .values = values};
    return run_node(&e, node);
}

/* ---- All of them ----------------------------------------------------------------------------------------------- */

static void drop_value(execution *e, int value, int k) {
    amp_tensor *t = value >= 0 && e->net->values[value].last_use == k ? e->values[value] : NULL;
    if (!t || t->scope != &e->frame) return;
    amp_tensor_drop(t);
    e->values[value] = NULL;
}

static void drop_unneeded(execution *e, const amp_net_node *node, int k) {
    for (int i = 0; i < node->operand_count; i++) drop_value(e, node->operands[i].value, k);
    for (int i = 0; i < node->result_count; i++) drop_value(e, node->results[i], k);
}

static amp_status run_all(execution *e, amp_tensor *const *inputs, amp_tensor **outputs) {
    const amp_net *net = e->net;
    for (int i = 0; i < net->value_count; i++) e->values[i] = net->values[i].constant;
    for (int i = 0; i < net->input_count; i++) e->values[net->inputs[i]] = inputs[i];
    for (int k = 0; k < net->node_count; k++) {
        if (e->recorder) amp_plan_before(e->recorder, k, e->values);
        AMP_TRY(run_node(e, &net->nodes[k]));
        if (e->recorder) amp_plan_after(e->recorder, k, e->values);
        drop_unneeded(e, &net->nodes[k], k);
    }
    return amp_hand_out(&e->frame, e->values, net->outputs, net->output_count, outputs);
}

/* One run at a time: others meanwhile go through the dispatcher, as this one does. */
static amp_plan_recorder *begin_recording(amp_net *net, amp_tensor *const *inputs) {
    if (amp_debug || atomic_load_explicit(&net->is_recorded, memory_order_relaxed)) return NULL;
    if (amp_plan_is_watched() || atomic_exchange(&net->is_recorded, true)) return NULL;
    amp_plan_recorder *recorder = amp_plan_begin(net, inputs);
    if (!recorder) atomic_store(&net->is_recorded, false);
    return recorder;
}

static amp_status dispatch(const amp_net *net, amp_plan_recorder *recorder, amp_tensor *const *inputs,
                           amp_tensor **outputs) {
    execution e = {.net = net, .recorder = recorder};
    e.values = amp_alloc_zeroed((size_t)net->value_count * sizeof *e.values);
    if (!e.values) return amp_fail(AMP_ERROR_MEMORY, "graph: no memory for %d values", net->value_count);
    amp_scope_push(&e.frame);
    const amp_status status = run_all(&e, inputs, outputs);
    amp_scope_pop(&e.frame);
    amp_free(e.values);
    return status;
}

amp_status amp_net_dispatch(const amp_net *net, amp_tensor *const *inputs, amp_tensor **outputs) {
    return dispatch(net, NULL, inputs, outputs);
}

static amp_status dispatch_and_record(amp_net *net, amp_tensor *const *inputs, amp_tensor **outputs) {
    amp_plan_recorder *recorder = begin_recording(net, inputs);
    const amp_status status = dispatch(net, recorder, inputs, outputs);
    if (recorder) {
        atomic_store(&net->plan, amp_plan_end(recorder, status == AMP_OK));
        if (status != AMP_OK) atomic_store(&net->is_recorded, false);
    }
    return status;
}

amp_status amp_net_execute(amp_net *net, amp_tensor *const *inputs, amp_tensor *const *into, amp_tensor **outputs) {
    amp_status status = AMP_OK;
    amp_plan *plan = atomic_load_explicit(&net->plan, memory_order_acquire);
    if (plan && amp_plan_run(plan, inputs, into, outputs, &status)) return status;
    return dispatch_and_record(net, inputs, outputs);
}

/* ---- Getting ready --------------------------------------------------------------------------------------------- */

static bool calls_program(const amp_net *net) {
    for (int k = 0; k < net->node_count; k++) {
        if (amp_op_is_user(net->nodes[k].op)) return true;
    }
    return false;
}

static amp_status run_unread(amp_net *net, amp_tensor *const *inputs, amp_tensor **outputs) {
    if (calls_program(net) || amp_plan_is_watched()) return amp_net_execute(net, inputs, NULL, outputs);
    amp_this_thread.is_preparing = true;
    const amp_status status = dispatch_and_record(net, inputs, outputs);
    amp_this_thread.is_preparing = false;
    return status;
}

/* Outputs go before the arena is taken, so that it finds the room that they and other results had. */
amp_status amp_net_prepare(amp_net *net, amp_tensor *const *inputs) {
    amp_scope_frame frame;
    amp_tensor **outputs = amp_alloc_zeroed((size_t)net->output_count * sizeof *outputs);
    if (!outputs) return amp_fail(AMP_ERROR_MEMORY, "graph: no memory for %d outputs", net->output_count);
    amp_scope_push(&frame);
    const amp_status status = run_unread(net, inputs, outputs);
    amp_scope_pop(&frame);
    amp_free(outputs);
    amp_plan *plan = atomic_load_explicit(&net->plan, memory_order_acquire);
    if (status == AMP_OK && plan) amp_plan_warm(plan);
    return status;
}
