/* The layer that writes calls down. */
#include "graph/capture.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "core/memory.h"
#include "core/thread.h"
#include "dispatch/layers.h"
#include "policy/place.h"
#include "policy/rules.h"

enum { MOST_FOLDED_BYTES = 64 << 20 }; /* larger results of constants are computed anew in each run */

static __thread amp_capture *current;
static atomic_uint_fast32_t captures;

/* ---- Marks ----------------------------------------------------------------------------------------------------- */

static uint64_t mark_of(const amp_capture *c, int value) {
    return c->number << 32 | (uint64_t)value;
}

static bool is_marked(const amp_capture *c, const amp_tensor *t) {
    return t->mark >> 32 == c->number;
}

static int give_up(amp_capture *c, const char *why, const amp_op_info *op) {
    if (!c->failed) c->at = op ? op->name : "";
    if (!c->failed) c->failed = why;
    return AMP_NET_NONE;
}

/* The elements are looked at outside of ops: what the net is may hang on them. */
static void note_read(const amp_tensor *t) {
    amp_capture *c = current;
    if (c && is_marked(c, t)) c->reads |= c->net->values[t->mark & UINT32_MAX].depends;
}

/* Which value an argument is. */
static int value_of(amp_capture *c, const amp_op_info *op, amp_tensor *t) {
    if (is_marked(c, t)) return (int)(t->mark & UINT32_MAX);
    /* An op made it, and nobody saw that: it may depend on the inputs. */
    if (!t->storage) return give_up(c, "an argument is a cast that a function of the program made", op);
    if (!c->is_programs && atomic_load_explicit(&t->storage->produced, memory_order_relaxed) &&
        !atomic_load_explicit(&t->storage->parameter, memory_order_relaxed))
        return give_up(c, "an argument comes from an op that was not seen", op);
    const int value = amp_net_add_constant(c->net, t);
    if (value < 0) return give_up(c, "no memory", op);
    c->net->values[value].is_given = true;
    return value;
}

/* ---- Calls ----------------------------------------------------------------------------------------------------- */

/* Ops whose results have a size that depends on elements, which a net for one shape cannot have. */
static bool sizes_by_elements(const amp_call *call) {
    static const char *const names[] = {
        "nonzero",           "masked_select", "unique", "unique_consecutive", "bincount", "one_hot",
        "repeat_interleave", "narrow",        "index",  "tensor_split"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(call->op->name, names[i]) == 0) return strcmp(names[i], "narrow") != 0 || *call->op->overload;
    }
    return false;
}

static const char *why_not(const amp_capture *c, const amp_call *call) {
    if (memcmp(c->regions, amp_region_states, sizeof c->regions) != 0) return "the function opens a region";
    if (call->form != AMP_FORM_FUNCTION) return "a call writes its arguments";
    if (amp_call_mutates(call)) return "a call writes its arguments";
    for (int i = 0; i < call->op->arg_count; i++) {
        if (call->op->args[i].kind == AMP_ARG_GENERATOR) return "a call takes random numbers";
    }
    return NULL;
}

static int count_operands(const amp_call *call) {
    int count = 0;
    for (int i = 0; i < call->op->arg_count; i++) {
        const amp_arg_info *arg = &call->op->args[i];
        if (arg->kind == AMP_ARG_TENSOR) count += *amp_call_tensor(call, arg) != NULL;
        if (arg->kind == AMP_ARG_TENSOR_LIST) count += (int)amp_call_tensor_list(call, arg)->count;
    }
    return count;
}

/* An op's arguments before autocast puts others in their place. */
typedef struct written {
    amp_net_node *node; /* NULL: not written down */
    uint64_t depends;
} written;

static void add_operand(amp_capture *c, const amp_call *call, written *w, int *at, int argument, int place,
                        amp_tensor *t) {
    const int value = t ? value_of(c, call->op, t) : AMP_NET_NONE;
    w->node->operands[(*at)++] = (amp_net_operand){(short)argument, (short)place, value};
    if (value >= 0) w->depends |= c->net->values[value].depends;
}

static void add_operands(amp_capture *c, const amp_call *call, written *w) {
    int at = 0;
    for (int i = 0; i < call->op->arg_count && !c->failed; i++) {
        const amp_arg_info *arg = &call->op->args[i];
        if (arg->kind == AMP_ARG_TENSOR && *amp_call_tensor(call, arg))
            add_operand(c, call, w, &at, i, 0, *amp_call_tensor(call, arg));
        if (arg->kind != AMP_ARG_TENSOR_LIST) continue;
        const amp_tensor_list *list = amp_call_tensor_list(call, arg);
        for (int64_t k = 0; k < list->count; k++) add_operand(c, call, w, &at, i, (int)k, list->items[k]);
    }
}

static written write_down(amp_capture *c, const amp_call *call) {
    written w = {NULL, 0};
    const char *why = why_not(c, call);
    const int operands = count_operands(call);
    const bool is_list = (call->op->flags & AMP_OP_RETURNS_LIST) != 0;
    if (why) give_up(c, why, call->op);
    if (operands > SHRT_MAX) give_up(c, "a list has more than 32,767 tensors", call->op);
    if (c->failed) return w;
    w.node = amp_net_add_node(c->net, call->op, call->args, operands, is_list ? 0 : call->op->output_count);
    if (!w.node) {
        give_up(c, "no memory", call->op);
        return w;
    }
    const char *place = amp_place ? amp_place : amp_label_path();
    amp_net_note_place(w.node, place);
    w.node->is_f32 = amp_rules_keep_f32(amp_region_rules(call->device), call->op, place);
    add_operands(c, call, &w);
    if (w.depends != 0 && sizes_by_elements(call)) give_up(c, "the size of a result depends on elements", call->op);
    return w;
}

/* ---- Results --------------------------------------------------------------------------------------------------- */

/* A result with a header of its own, as the dispatcher hands it out: what came back unchanged is a view. */
static amp_tensor *own_header(amp_capture *c, amp_call *call, amp_tensor *t) {
    if (t->source && amp_call_materialize(call, t) != AMP_OK) return NULL;
    if (!t->source && t->scope == amp_this_thread.scope && !is_marked(c, t)) return t;
    return amp_tensor_view(call->op->name, t, t->rank, t->shape, t->strides, t->offset);
}

/* The value that the node makes; AMP_NET_NONE where it makes none: what came back unchanged is the value that it was, and results of
 * constants are constants, which serve as weights do. */
static int note_result(amp_capture *c, amp_call *call, uint64_t depends, amp_tensor **result) {
    amp_tensor *t = own_header(c, call, *result);
    if (!t) return give_up(c, "no memory", call->op);
    const uint64_t mark = is_marked(c, *result) ? (*result)->mark : 0;
    *result = t;
    if (mark) {
        t->mark = mark;
        return AMP_NET_NONE;
    }
    const bool folds = depends == 0 && t->storage->bytes <= MOST_FOLDED_BYTES;
    if (folds && amp_dtype_is_floating(t->dtype)) (void)amp_tensor_mark_parameter(t);
    const int value = folds ? amp_net_add_constant(c->net, t) : amp_net_add_value(c->net, t, depends);
    if (value < 0) return give_up(c, "no memory", call->op);
    t->mark = mark_of(c, value);
    return folds ? AMP_NET_NONE : value;
}

static bool is_wanted(const amp_call *call, int index) {
    for (int i = 0, at = 0; i < call->op->arg_count; i++) {
        if (call->op->args[i].kind != AMP_ARG_OUTPUT || ++at != index) continue;
        return *(amp_tensor * *const *)amp_call_field(call, &call->op->args[i]) != NULL;
    }
    return true;
}

static void note_list(amp_capture *c, amp_call *call, const written *w) {
    amp_tensor **items = call->list.holder ? call->list.holder->storage->data : NULL;
    amp_net_node *node = w->node;
    const int64_t count = items ? call->list.count : 0;
    int *results = amp_alloc((size_t)count * sizeof *results);
    if (!results || count > INT_MAX) {
        amp_free(results);
        give_up(c, "no memory", call->op);
        return;
    }
    amp_free(node->results);
    node->results = results;
    node->result_count = (int)count;
    for (int64_t i = 0; i < count; i++) results[i] = note_result(c, call, w->depends, &items[i]);
}

static void note_results(amp_capture *c, amp_call *call, const written *w) {
    if (call->op->flags & AMP_OP_RETURNS_LIST) {
        note_list(c, call, w);
        return;
    }
    for (int i = 0; i < call->op->output_count; i++) {
        const bool there = call->outputs[i] && is_wanted(call, i);
        w->node->results[i] = there ? note_result(c, call, w->depends, &call->outputs[i]) : AMP_NET_NONE;
    }
}

static amp_status capture_layer(amp_call *call) {
    amp_capture *c = current;
    if (!c || c->failed) return amp_call_next(call);
    const written w = write_down(c, call);
    AMP_TRY(amp_call_next(call));
    if (!c->failed) note_results(c, call, &w);
    return AMP_OK;
}

/* ---- Begin and end --------------------------------------------------------------------------------------------- */

static void install(void) {
    amp_layer_install(AMP_LAYER_CAPTURE, capture_layer);
    amp_tensor_on_read = note_read;
}

/* An input as the function is to see it. Images with channels last, where results may differ in the last bit: convolutions of
 * rows take several times as long, and what they compute now goes. */
static amp_tensor *lend(amp_capture *c, amp_tensor *t, bool exact) {
    enum { IMAGE = 4 };
    if (exact || c->is_programs || t->rank != IMAGE)
        return amp_tensor_view("graph", t, t->rank, t->shape, t->strides, t->offset);
    c->is_approximate = true;
    return amp_channels_last(t);
}

static amp_status lend_views(amp_capture *c, amp_tensor *const *inputs, bool exact, amp_tensor **views) {
    for (int i = 0; i < c->net->input_count; i++) {
        const amp_tensor *t = inputs[i];
        views[i] = lend(c, inputs[i], exact);
        if (!views[i]) return amp_pending_error();
        c->net->inputs[i] = amp_net_add_value(c->net, t, (uint64_t)1 << (i < 63 ? i : 63));
        if (c->net->inputs[i] < 0) return amp_fail(AMP_ERROR_MEMORY, "graph: no memory for a net");
        views[i]->mark = mark_of(c, c->net->inputs[i]);
    }
    return AMP_OK;
}

amp_status amp_capture_begin(amp_capture *c, const amp_graph_source *source, amp_tensor *const *inputs,
                             amp_tensor **views) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, install);
    *c = (amp_capture){.is_programs = source->is_programs, .outer = current};
    c->net = amp_net_new(source->input_count, source->output_count);
    memcpy(c->regions, amp_region_states, sizeof c->regions);
    if (!c->net) return amp_fail(AMP_ERROR_MEMORY, "graph: no memory for a net");
    c->net->keeps_given = source->is_programs;
    c->number = 1 + (atomic_fetch_add(&captures, 1) & (UINT32_MAX >> 1));
    const amp_status status = lend_views(c, inputs, source->exact, views);
    if (status != AMP_OK) {
        amp_net_free(c->net);
        return status;
    }
    current = c;
    amp_layer_activate(AMP_LAYER_CAPTURE, true);
    return AMP_OK;
}

amp_net *amp_capture_end(amp_capture *c, amp_tensor *const *outputs) {
    current = c->outer;
    amp_layer_activate(AMP_LAYER_CAPTURE, current != NULL);
    for (int i = 0; outputs && i < c->net->output_count && !c->failed; i++)
        c->net->outputs[i] = value_of(c, NULL, outputs[i]);
    if (outputs && !c->failed) {
        amp_net_count(c->net);
        return c->net;
    }
    if (!c->failed) c->failed = "the run failed";
    amp_net_free(c->net);
    c->net = NULL;
    return NULL;
}
