/* The layer that writes calls down. */
#include "graph/capture.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "amp/ops.h"
#include "call/ahead.h"
#include "call/backend.h"
#include "core/memory.h"
#include "core/thread.h"
#include "dispatch/layers.h"
#include "generated/op_ids.h"
#include "policy/place.h"
#include "policy/rules.h"
#include "policy/user_ops.h"

/* Larger results of constants are computed anew in each run, but for a few: a product would pack such weights each
 * time. */
enum { MOST_FOLDED_BYTES = 64 << 20, MOST_LARGE_BYTES = 512 << 20 };

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

/* ---- Elements --------------------------------------------------------------------------------------------------- */

static uint64_t depends_of(const amp_capture *c, const amp_tensor *t) {
    return c->net->values[t->mark & UINT32_MAX].depends;
}

/* Which of this thread's captures knows the tensor; NULL: none. */
static amp_capture *capture_of(const amp_tensor *t) {
    amp_capture *c = current;
    while (c && !is_marked(c, t)) c = c->outer;
    return c;
}

/* Another thread's values cannot be computed here, in the middle of its work. */
static amp_status settle_mine(const amp_tensor *t) {
    const amp_unsettled_list *list = amp_unsettled_in(t);
    const amp_capture *c = current;
    while (c && &c->unsettled != list) c = c->outer;
    if (c || !list) return amp_settle(t);
    return amp_fail(
        AMP_ERROR_INVALID,
        "graph: %s is not computed yet: it comes from a function that another thread captures, and only that "
        "thread can use it before the function has returned",
        amp_describe(t));
}

/* What has been called so far is computed with elements as they are now. */
static amp_status settle_before_writing(void) {
    for (amp_capture *c = current; c; c = c->outer) AMP_TRY(amp_settle_all(&c->unsettled));
    return AMP_OK;
}

/* The elements are looked at outside of ops: what the net is may hang on them. */
static bool note_read(const amp_tensor *t, bool decides) {
    amp_capture *c = capture_of(t);
    if (c && decides) c->reads |= depends_of(c, t);
    return settle_mine(t) == AMP_OK;
}

static bool takes(const amp_net *net, const amp_tensor *t) {
    for (int i = 0; i < net->value_count; i++) {
        if (net->values[i].constant && net->values[i].constant->storage == t->storage) return true;
    }
    return false;
}

static bool is_input(const amp_capture *c, const amp_tensor *t) {
    for (int i = 0; i < c->net->input_count; i++) {
        if (c->unsettled.inputs[i]->storage == t->storage) return true;
    }
    return false;
}

/* The elements that calls took, which were to compute later, are gone: the function has to be called again. */
static bool note_written(const amp_tensor *t) {
    for (amp_capture *c = current; c; c = c->outer) {
        const bool waits = amp_unsettled_any(&c->unsettled);
        if (!is_input(c, t) && !(waits && takes(c->net, t))) continue;
        c->is_late |= waits;
        give_up(c, "the function writes a tensor that it uses", NULL);
    }
    return true;
}

/* What a function writes before calls take it, such as a mask of its own, is a constant as it is then. */
static bool note_write(const amp_tensor *t, bool is_done) {
    if (is_done) return note_written(t);
    const bool is_taken = atomic_load_explicit(&t->storage->is_taken, memory_order_relaxed);
    amp_capture *c = capture_of(t);
    if (c && !c->net->values[t->mark & UINT32_MAX].constant)
        give_up(c, "the function writes elements of a result", NULL);
    for (c = current; c; c = c->outer) {
        if (is_input(c, t) || (is_taken && takes(c->net, t)))
            give_up(c, "the function writes a tensor that it uses", NULL);
    }
    return !(is_taken || t->storage->is_ahead) || settle_before_writing() == AMP_OK;
}

/* ---- Values ----------------------------------------------------------------------------------------------------- */

/* Which value an argument is. */
static int value_of(amp_capture *c, const amp_op_info *op, amp_tensor *t) {
    if (is_marked(c, t)) return (int)(t->mark & UINT32_MAX);
    /* An op made it, and nobody saw that: it may depend on the inputs. */
    if (!t->storage) return give_up(c, "an argument is a cast that a function of the program made", op);
    if (!c->is_programs && atomic_load_explicit(&t->storage->produced, memory_order_relaxed) &&
        !atomic_load_explicit(&t->storage->parameter, memory_order_relaxed))
        return give_up(c, "an argument comes from an op that was not seen", op);
    if (settle_mine(t) != AMP_OK) return give_up(c, "an argument has no elements", op); /* of an outer capture */
    const int value = amp_net_add_constant(c->net, t);
    if (value < 0) return give_up(c, "no memory", op);
    c->net->values[value].is_given = true;
    return value;
}

/* ---- Calls ----------------------------------------------------------------------------------------------------- */

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

/* A row of a dense f32 matrix, wherever it lies in a file, is all zeros. */
static bool is_row_of_zeros(const amp_tensor *t, int64_t row, int64_t length) {
    const char *at = (const char *)amp_storage_bytes(t->storage) + (t->offset + row * length) * (int64_t)sizeof(float);
    for (int64_t i = 0; i < length; i++) {
        float value;
        memcpy(&value, at + i * (int64_t)sizeof value, sizeof value);
        if (value != 0) return false;
    }
    return true;
}

/* Fourier transforms of overlapping windows, as exporters write them: a convolution of one line with K / 2 + 1 cosines
 * and as many sines, of which the first, of frequency 0, is 0: a row that no convolution which was learned has. stft is
 * in f32 on the CPU; so are they, for much of what is added up cancels. */
static bool is_transform(const amp_capture *c, const amp_call *call) {
    if (call->device != AMP_DEVICE_CPU || call->op->id != AMP_OP_ID_conv1d) return false;
    const amp_conv1d_args *a = call->args;
    const amp_tensor *w = a->weight;
    if (a->bias || w->rank != 3 || w->dtype != AMP_F32 || w->shape[1] != 1 || w->shape[2] <= 2) return false;
    const int64_t frequencies = w->shape[2] / 2 + 1;
    const bool has_elements =
        w->storage && !w->storage->is_ahead && amp_tensor_is_dense(w) && (!is_marked(c, w) || depends_of(c, w) == 0);
    return w->shape[0] == 2 * frequencies && has_elements && is_row_of_zeros(w, frequencies, w->shape[2]);
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
    amp_net_note_place(c->net, w.node, place);
    w.node->is_f32 =
        amp_rules_keep_f32(amp_region_rules(call->device), call->op, place) || (!c->is_exact && is_transform(c, call));
    add_operands(c, call, &w);
    if (w.depends != 0 && (call->op->flags & AMP_OP_SHAPED_BY_ELEMENTS)) /* a net is for one shape */
        give_up(c, "the size of a result depends on elements", call->op);
    return w;
}

/* ---- Results --------------------------------------------------------------------------------------------------- */

/* A result with a header of its own, as the dispatcher hands it out: what came back unchanged is a view. */
static amp_tensor *own_header(amp_capture *c, amp_call *call, amp_tensor *t) {
    if (t->source && amp_call_materialize(call, t) != AMP_OK) return NULL;
    if (!t->source && t->scope == amp_this_thread.scope && !is_marked(c, t)) return t;
    return amp_tensor_view(call->op->name, t, t->rank, t->shape, t->strides, t->offset);
}

/* A cast of an argument is none. */
static bool is_over(const amp_tensor *argument, const amp_tensor *t) {
    return argument && (argument->source ? argument->source : argument)->storage == t->storage;
}

static bool is_of_argument(const amp_call *call, const amp_tensor *t) {
    for (int i = 0; i < call->op->arg_count; i++) {
        const amp_arg_info *arg = &call->op->args[i];
        if (arg->kind == AMP_ARG_TENSOR && is_over(*amp_call_tensor(call, arg), t)) return true;
        if (arg->kind != AMP_ARG_TENSOR_LIST) continue;
        const amp_tensor_list *list = amp_call_tensor_list(call, arg);
        for (int64_t k = 0; k < list->count; k++) {
            if (is_over(list->items[k], t)) return true;
        }
    }
    return false;
}

/* What a call that ran ahead has made has no elements, but for views of arguments that have some. False: two results
 * are in one memory; or there is none. */
static bool note_unsettled(amp_capture *c, const amp_call *call, const amp_tensor *t, int value) {
    if (!call->ahead || is_of_argument(call, t)) return true;
    return !t->storage->kept[AMP_KEEPER_GRAPHS] && amp_unsettled_add(&c->unsettled, t, value) == AMP_OK;
}

size_t amp_capture_large_bytes(const amp_net *net) {
    size_t bytes = 0;
    for (int i = 0; i < net->value_count; i++) {
        const amp_tensor *t = net->values[i].constant;
        if (t && t->storage && t->storage->bytes > MOST_FOLDED_BYTES && t->storage->produced)
            bytes += t->storage->bytes;
    }
    return bytes;
}

/* Whether there is room for a result of constants; it is taken. */
static bool take_room(amp_capture *c, const amp_tensor *t, uint64_t depends) {
    const size_t bytes = t->storage->bytes;
    if (depends != 0 || c->is_whole) return false;
    if (bytes <= MOST_FOLDED_BYTES) return true;
    if (c->large_bytes > MOST_LARGE_BYTES || bytes > MOST_LARGE_BYTES - c->large_bytes) return false;
    c->large_bytes += bytes;
    return true;
}

/* *value: what the node makes; AMP_NET_NONE where it makes none: what came back unchanged is the value that it was, and
 * results of constants are constants, which serve as weights do. False: no memory. */
static bool note_result(amp_capture *c, amp_call *call, uint64_t depends, amp_tensor **result, int *value) {
    *value = AMP_NET_NONE;
    amp_tensor *t = own_header(c, call, *result);
    if (!t) return false;
    const uint64_t mark = is_marked(c, *result) ? (*result)->mark : 0;
    *result = t;
    t->mark = mark;
    if (mark) return true;
    const bool is_constant = take_room(c, t, depends);
    if (is_constant && amp_dtype_is_floating(t->dtype)) (void)amp_tensor_mark_parameter(t);
    const int made = is_constant ? amp_net_add_constant(c->net, t) : amp_net_add_value(c->net, t, depends);
    if (made < 0) return false;
    t->mark = mark_of(c, made);
    if (!is_constant) *value = made;
    return note_unsettled(c, call, t, made);
}

static bool note_list(amp_capture *c, amp_call *call, const written *w) {
    amp_tensor **items = call->list.holder ? call->list.holder->storage->data : NULL;
    amp_net_node *node = w->node;
    const int64_t count = items ? call->list.count : 0;
    int *results = count <= INT_MAX ? amp_pool_take(&c->net->pool, (size_t)count * sizeof *results) : NULL;
    if (!results) return false;
    node->results = results;
    node->result_count = (int)count;
    for (int64_t i = 0; i < count; i++) {
        if (!note_result(c, call, w->depends, &items[i], &results[i])) return false;
    }
    return true;
}

static bool note_results(amp_capture *c, amp_call *call, const written *w) {
    if (call->op->flags & AMP_OP_RETURNS_LIST) return note_list(c, call, w);
    for (int i = 0; i < call->op->output_count; i++) {
        w->node->results[i] = AMP_NET_NONE;
        if (!call->outputs[i] || !amp_call_wants(call, i)) continue;
        if (!note_result(c, call, w->depends, &call->outputs[i], &w->node->results[i])) return false;
    }
    return true;
}

/* ---- The layer -------------------------------------------------------------------------------------------------- */

static bool may_run_ahead(const amp_call *call, const written *w) {
    return w->depends != 0 && call->device == AMP_DEVICE_CPU && !amp_op_is_user(call->op);
}

static void take_back(amp_call *call, const amp_call *before, const void *args) {
    for (int i = before->cast_count; i < call->cast_count; i++) amp_tensor_end_at(&call->casts[i]);
    *call = *before;
    memcpy((void *)(uintptr_t)call->args, args, call->op->args_size);
}

/* The call itself, which a node in f32 computes there. */
static amp_status call_next(amp_call *call, const written *w) {
    const bool was_pinned = amp_pin(w->node->is_f32);
    const amp_status status = amp_call_next(call);
    amp_pinned = was_pinned;
    return status;
}

/* False: the call is as it was before, and is to compute. What went wrong is no error yet. */
static bool run_ahead(amp_capture *c, amp_call *call, const written *w) {
    const amp_call before = *call;
    const int values = c->net->value_count;
    char args[AMP_MAX_ARGS_BYTES];
    memcpy(args, call->args, call->op->args_size);
    call->ahead = AMP_LAYER_CAPTURE;
    const bool was_trying = amp_this_thread.is_trying; /* a graph inside of another's run */
    amp_this_thread.is_trying = true;
    const bool done = call_next(call, w) == AMP_OK && note_results(c, call, w);
    amp_this_thread.is_trying = was_trying;
    if (done) return true;
    amp_this_thread.error = AMP_OK;
    amp_unsettled_drop_from(&c->unsettled, values);
    take_back(call, &before, args);
    return false;
}

static amp_status settle_argument(const amp_call *call, const amp_arg_info *arg, amp_tensor *t) {
    (void)call;
    (void)arg;
    return settle_mine(amp_tensor_memory(t));
}

static amp_status settle_before(amp_call *call) {
    if (call->form != AMP_FORM_FUNCTION || amp_call_mutates(call)) AMP_TRY(settle_before_writing());
    return amp_call_each_tensor(call, settle_argument);
}

static amp_status compute(amp_call *call) {
    AMP_TRY(settle_before(call));
    return amp_call_next(call);
}

static amp_status compute_and_note(amp_capture *c, amp_call *call, const written *w) {
    amp_status status = settle_before(call);
    if (status == AMP_OK) status = call_next(call, w);
    if (status != AMP_OK) {
        give_up(c, "a call failed", call->op);
    } else if (!c->failed && !note_results(c, call, w)) {
        give_up(c, "no memory", call->op);
    }
    return status;
}

static amp_status note_taken(const amp_call *call, const amp_arg_info *arg, amp_tensor *t) {
    (void)call;
    (void)arg;
    if (t->storage) atomic_store_explicit(&t->storage->is_taken, true, memory_order_relaxed);
    return AMP_OK;
}

static amp_status capture_layer(amp_call *call) {
    amp_capture *c = current;
    if (!c) return amp_call_next(call);
    if (amp_this_thread.layers & AMP_INSIDE_OP) return amp_ahead_run_part(call);
    if (c->failed) return compute(call);
    const written w = write_down(c, call);
    if (c->failed) return compute(call);
    if (w.depends != 0 || c->is_whole) (void)amp_call_each_tensor(call, note_taken);
    if (!may_run_ahead(call, &w) || !run_ahead(c, call, &w)) AMP_TRY(compute_and_note(c, call, &w));
    if (!c->failed) c->unsettled.nodes = c->net->node_count;
    return AMP_OK;
}

/* ---- Begin and end --------------------------------------------------------------------------------------------- */

static void install(void) {
    amp_layer_install(AMP_LAYER_CAPTURE, capture_layer);
    amp_tensor_on_read = note_read;
    amp_tensor_on_write = note_write;
}

/* Inputs as the function is to see them, and values of the net. */
static amp_status lend_views(amp_capture *c, amp_tensor *const *inputs, amp_tensor **views) {
    for (int i = 0; i < c->net->input_count; i++) {
        amp_tensor *t = inputs[i];
        AMP_TRY(settle_mine(t)); /* of an outer capture */
        views[i] = amp_tensor_view("graph", t, t->rank, t->shape, t->strides, t->offset);
        if (!views[i]) return amp_pending_error();
        c->net->inputs[i] = amp_net_add_value(c->net, t, (uint64_t)1 << (i < 63 ? i : 63));
        if (c->net->inputs[i] < 0) return amp_fail(AMP_ERROR_MEMORY, "graph: no memory for a net");
        views[i]->mark = mark_of(c, c->net->inputs[i]);
    }
    return AMP_OK;
}

static amp_status begin(amp_capture *c, amp_capture_kind kind, const amp_graph_source *source,
                        amp_tensor *const *inputs, amp_tensor **views) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, install);
    *c = (amp_capture){.is_whole = kind == AMP_CAPTURE_WHOLE,
                       .is_exact = source->exact,
                       .is_programs = source->is_programs,
                       .at = "",
                       .outer = current};
    c->net = amp_net_new(source->input_count, source->output_count);
    if (!c->net) return amp_fail(AMP_ERROR_MEMORY, "graph: no memory for a net");
    memcpy(c->regions, amp_region_states, sizeof c->regions);
    c->unsettled = (amp_unsettled_list){.net = c->net,
                                        .inputs = inputs,
                                        .regions = c->regions,
                                        .layers = amp_this_thread.layers & ~(unsigned)AMP_LAYER_CAPTURE};
    c->net->keeps_given = source->is_programs;
    c->number = 1 + (atomic_fetch_add(&captures, 1) & (UINT32_MAX >> 1));
    AMP_TRY(lend_views(c, inputs, views));
    current = c;
    amp_layer_activate(AMP_LAYER_CAPTURE, true);
    return AMP_OK;
}

/* The net's outputs; or the function's, computed. */
static amp_status take_outputs(amp_capture *c, const amp_scope_frame *frame, amp_tensor **outputs) {
    for (int i = 0; i < c->net->output_count && !c->failed; i++) c->net->outputs[i] = value_of(c, NULL, outputs[i]);
    AMP_TRY(amp_pending_error());
    for (int i = 0; i < c->net->output_count; i++) {
        if (c->failed) AMP_TRY(settle_mine(outputs[i]));
    }
    for (int i = 0; i < c->net->output_count; i++) {
        if (c->failed && outputs[i]->scope == frame) amp_scope_move(outputs[i], frame->outer);
        if (!c->failed) outputs[i] = NULL;
    }
    return AMP_OK;
}

/* What decided something here does so for a capture outside of this one too. */
static amp_status tell_outer(const amp_capture *c) {
    for (int i = 0; i < c->net->input_count && c->reads != 0; i++) {
        const bool decided = c->reads >> (i < 63 ? i : 63) & 1;
        if (decided && !amp_tensor_read(c->unsettled.inputs[i])) return amp_pending_error();
    }
    return AMP_OK;
}

/* What the function made goes with its scope; what is still there then was kept, and gets its elements. */
static amp_status end(amp_capture *c, amp_scope_frame *frame, amp_status status) {
    current = c->outer;
    amp_layer_activate(AMP_LAYER_CAPTURE, current != NULL);
    amp_scope_pop(frame);
    if (status == AMP_OK) status = amp_settle_all(&c->unsettled);
    if (status == AMP_OK) status = tell_outer(c);
    amp_unsettled_free(&c->unsettled);
    if (status != AMP_OK && !c->failed) c->failed = "the run failed";
    if (!c->failed) {
        amp_net_count(c->net);
        return AMP_OK;
    }
    if (c->outer) give_up(c->outer, "a graph inside of it runs op by op", NULL);
    amp_net_free(c->net);
    c->net = NULL;
    return status;
}

static amp_status run(amp_capture *c, const amp_graph_source *source, amp_tensor *const *inputs,
                      amp_tensor *const *views, amp_tensor **outputs) {
    amp_scope_frame frame;
    amp_scope_push(&frame);
    amp_status status = source->compute(source->context, views, outputs);
    if (!c->failed && !amp_net_is_fresh(c->net)) give_up(c, "the function writes a tensor that it uses", NULL);
    if (status == AMP_OK && !c->is_late) status = take_outputs(c, &frame, outputs);
    status = end(c, &frame, status);
    return status == AMP_OK && c->is_late ? source->compute(source->context, inputs, outputs) : status;
}

amp_status amp_capture_run(amp_capture *c, amp_capture_kind kind, size_t large_bytes, const amp_graph_source *source,
                           amp_tensor *const *inputs, amp_tensor **outputs) {
    amp_tensor **views = amp_alloc((size_t)source->input_count * sizeof *views);
    if (!views) return amp_fail(AMP_ERROR_MEMORY, "%s: no memory for %d inputs", source->name, source->input_count);
    amp_status status = begin(c, kind, source, inputs, views);
    c->large_bytes = large_bytes;
    if (status == AMP_OK) {
        status = run(c, source, inputs, views, outputs);
    } else {
        amp_net_free(c->net);
    }
    amp_free(views);
    return status;
}
