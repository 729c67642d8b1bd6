/* The layer that writes calls down. */
#include "grad/record.h"

#include <pthread.h>

#include "amp/ops.h"
#include "call/backend.h"
#include "call/copy_args.h"
#include "core/hot.h"
#include "core/memory.h"
#include "core/thread.h"
#include "dispatch/layers.h"
#include "grad/history.h"
#include "policy/user_ops.h"

static __thread bool is_off AMP_INITIAL_EXEC; /* on this thread, nothing is recorded */

bool amp_grad_is_enabled(void) {
    return !is_off;
}

bool amp_grad_set_enabled(bool enabled) {
    const bool before = !is_off;
    is_off = !enabled;
    return before;
}

amp_region amp_grad_mode_open(bool enabled) {
    return (amp_region){.reserved = {amp_grad_set_enabled(enabled)}};
}

void amp_grad_mode_close(amp_region *region) {
    (void)amp_grad_set_enabled(region->reserved[0] != 0);
}

/* ---- What the table says ------------------------------------------------------------------------------------------ */
static void gradient_missing(amp_gradient *g) {
    (void)amp_fail(
        AMP_ERROR_NOT_IMPLEMENTED,
        "%s has no gradient yet; detach its result, or call it inside of amp_no_grad, if none is to lead through it",
        g->op->name);
}

static const amp_gradient_row missing = {.function = gradient_missing};

static bool is_known(const amp_gradient_row *row) {
    return row->function || row->is_parts;
}

/* NULL: there can be none. */
static const amp_gradient_row *row_of(const amp_op_info *op) {
    if (op->flags & AMP_OP_NOT_DIFFERENTIABLE) return NULL;
    const amp_gradient_row *row = amp_op_is_user(op) ? amp_user_op_gradient(op) : &amp_gradient_rows[op->id];
    if (!is_known(row) && op->alias_of) row = &amp_gradient_rows[amp_op_find(op->alias_of)->id];
    return is_known(row) ? row : &missing;
}

static bool requires(const amp_tensor *t) {
    int output = 0;
    const amp_tensor *source = t->source ? t->source : t;
    return __builtin_expect(source->history != NULL, 0) && amp_history_node(source, &output) != NULL;
}

AMP_HOT static bool any_requires(const amp_call *call) {
    for (int i = 0; i < call->op->arg_count; i++) {
        const amp_arg_info *arg = &call->op->args[i];
        if (arg->kind == AMP_ARG_TENSOR) {
            const amp_tensor *t = *amp_call_tensor(call, arg);
            if (t && requires(t)) return true;
        } else if (arg->kind == AMP_ARG_TENSOR_LIST) {
            const amp_tensor_list *list = amp_call_tensor_list(call, arg);
            for (int64_t k = 0; k < list->count; k++) {
                if (list->items[k] && requires(list->items[k])) return true;
            }
        }
    }
    return false;
}

/* ---- Before the call ---------------------------------------------------------------------------------------------- */
static int count_tensors(const amp_call *call) {
    int count = 0;
    for (int i = 0; i < call->op->arg_count; i++) {
        const amp_arg_info *arg = &call->op->args[i];
        if (arg->kind == AMP_ARG_TENSOR) count++;
        if (arg->kind == AMP_ARG_TENSOR_LIST) count += (int)amp_call_tensor_list(call, arg)->count;
    }
    return count;
}

/* Calls visit(…) of each tensor argument, absent ones too, with its number among them. */
typedef amp_status (*slot_visitor)(amp_call *call, amp_grad_node *node, int argument, int slot, amp_tensor *t);

static inline __attribute__((always_inline)) amp_status each_slot(amp_call *call, amp_grad_node *node,
                                                                  slot_visitor visit) {
    int slot = 0;
    for (int i = 0; i < call->op->arg_count; i++) {
        const amp_arg_info *arg = &call->op->args[i];
        if (arg->kind == AMP_ARG_TENSOR) {
            AMP_TRY(visit(call, node, i, slot++, *amp_call_tensor(call, arg)));
        } else if (arg->kind == AMP_ARG_TENSOR_LIST) {
            const amp_tensor_list *list = amp_call_tensor_list(call, arg);
            for (int64_t k = 0; k < list->count; k++) AMP_TRY(visit(call, node, i, slot++, list->items[k]));
        }
    }
    return AMP_OK;
}

static amp_status visit_edge(amp_call *call, amp_grad_node *node, int argument, int slot, amp_tensor *t) {
    (void)call;
    if (t) amp_grad_node_lead(node, slot, t);
    if (node->edges[slot].node) node->wanted |= 1u << argument;
    return AMP_OK;
}

static void find_needed(amp_grad_node *node) {
    for (int i = 0; i < node->row->need_count; i++) {
        const amp_gradient_need *need = &node->row->needs[i];
        if (need->wanted == 0 || (need->wanted & node->wanted) != 0) node->needed[need->is_result] |= 1u << need->index;
    }
}

static bool is_needed(const amp_grad_node *node, int index, bool is_result) {
    return index < AMP_MAX_ARGS && (node->needed[is_result] >> index & 1u) != 0;
}

/* What a call is about to write over. */
static amp_tensor *before_writing(const amp_call *call, const amp_tensor *t) {
    amp_tensor *copy = amp_backend_tensor(call->device, call->op->name, t->dtype, t->rank, t->shape);
    return copy && amp_copy_tensor(copy, t) == AMP_OK ? copy : NULL;
}

/* What is saved of an activation is its cast, as the kernel reads it: smaller, and read again. Of a weight it is the
 * source. */
static amp_status visit_saved(amp_call *call, amp_grad_node *node, int argument, int slot, amp_tensor *t) {
    if (!t) return AMP_OK;
    const bool is_written = call->op->args[argument].flags & AMP_ARG_MUTATED && amp_call_mutates(call); /* statistics */
    const bool keep = is_needed(node, argument, false) && !is_written;
    if (keep && t->source && t->cast_life == AMP_CAST_ONCE) AMP_TRY(amp_call_materialize(call, t));
    amp_tensor *saved = keep && t == call->target ? before_writing(call, t) : t;
    if (!saved) return amp_pending_error();
    if (keep) {
        amp_grad_node_save(node, slot, saved);
    } else {
        amp_saved_take(&node->slots[slot], saved, false);
    }
    return AMP_OK;
}

static amp_status take_arguments(amp_call *call, amp_grad_node *node) {
    AMP_TRY(each_slot(call, node, visit_edge));
    find_needed(node);
    return each_slot(call, node, visit_saved);
}

static amp_grad_node *write_down(amp_call *call, const amp_gradient_row *row) {
    const amp_op_info *op = call->op;
    amp_grad_node *node = amp_grad_node_new(count_tensors(call), op->output_count, amp_args_bytes(op, call->args));
    if (!node) {
        amp_fail(AMP_ERROR_MEMORY, "%s: no memory to record the call", amp_call_name(call));
        return NULL;
    }
    node->row = row;
    node->op = op;
    node->name = op->name;
    node->device = call->device;
    amp_args_copy(op, call->args, node->args);
    const amp_status status = take_arguments(call, node);
    amp_grad_node_number(node);
    if (status == AMP_OK) return node;
    amp_grad_node_drop(node);
    return NULL;
}

static amp_status check_mutated(const amp_call *call, const amp_arg_info *arg, amp_tensor *t) {
    if (!(arg->flags & AMP_ARG_MUTATED) || !requires(t)) return AMP_OK;
    return amp_fail(
        AMP_ERROR_INVALID,
        "%s: it writes '%s', %s, which requires gradients, and no gradient leads through that; call it inside of "
        "amp_no_grad, or detach the tensor",
        amp_call_name(call), arg->name, amp_describe(t));
}

static amp_status check_writes(const amp_call *call) {
    if (call->form == AMP_FORM_OUT) {
        return amp_fail(
            AMP_ERROR_INVALID,
            "%s: an argument requires gradients, and none lead through out= forms; call the function itself, or "
            "call it inside of amp_no_grad",
            amp_call_name(call));
    }
    if (call->form == AMP_FORM_INPLACE) AMP_TRY(amp_history_check_writable(amp_call_name(call), call->target));
    return amp_call_mutates(call) ? amp_call_each_tensor(call, check_mutated) : AMP_OK;
}

/* ---- After it ----------------------------------------------------------------------------------------------------- */
static amp_tensor *first_tensor(const amp_call *call) {
    for (int i = 0; i < call->op->arg_count; i++) {
        const amp_arg_info *arg = &call->op->args[i];
        if (arg->kind == AMP_ARG_TENSOR && *amp_call_tensor(call, arg))
            return amp_grad_source(*amp_call_tensor(call, arg));
    }
    return NULL;
}

/* The tensor whose memory the result lies in; NULL: its own. */
static amp_tensor *viewed(const amp_call *call, const amp_tensor *t) {
    amp_tensor *first = first_tensor(call);
    return first && first != t && first->storage == t->storage ? first : NULL;
}

/* The result with a header of its own: what came back unchanged is a view. */
static amp_tensor *own_header(amp_call *call, amp_tensor *t) {
    if (t->source && amp_call_materialize(call, t) != AMP_OK) return NULL;
    if (!t->source && t->scope == amp_this_thread.scope && !t->history) return t;
    return amp_tensor_view(call->op->name, t, t->rank, t->shape, t->strides, t->offset);
}

static bool is_constant(const amp_grad_node *node, int index) {
    return node && index < AMP_MAX_OUTPUTS && (node->row->constants >> index & 1u) != 0;
}

static amp_status begin_result(amp_call *call, amp_grad_node *node, amp_tensor **result, int index, bool of_several) {
    amp_tensor *t = *result;
    if (!t) return AMP_OK;
    const bool keep = node && is_needed(node, index, true);
    if (amp_grad_is_possible(t) && !is_constant(node, index)) {
        t = *result = own_header(call, t);
        if (!t) return amp_pending_error();
        AMP_TRY(amp_history_begin(t, node, index, viewed(call, t), of_several));
    }
    if (node) amp_saved_take(&node->results[index], t, keep);
    return AMP_OK;
}

/* The results and how many there are; of a list its own array. */
static amp_tensor **results_of(amp_call *call, int64_t *count) {
    const bool is_list = (call->op->flags & AMP_OP_RETURNS_LIST) != 0;
    *count = is_list ? call->list.count : call->op->output_count;
    if (!is_list) return call->outputs;
    return call->list.holder ? call->list.holder->storage->data : NULL;
}

static amp_status finish(amp_call *call, amp_grad_node *node) {
    int64_t count = 0;
    amp_tensor **results = results_of(call, &count);
    node->random = call->note.random;
    if (!amp_grad_node_make_results(node, count))
        return amp_fail(AMP_ERROR_MEMORY, "%s: no memory to record the call", amp_call_name(call));
    if (call->form == AMP_FORM_INPLACE) {
        amp_saved_take(&node->results[0], call->target, is_needed(node, 0, true));
        return amp_history_rewrite(call->target, node, (call->op->flags & AMP_OP_VIEW) != 0);
    }
    for (int64_t i = 0; i < count; i++) AMP_TRY(begin_result(call, node, &results[i], (int)i, count > 1));
    return AMP_OK;
}

/* Results that require no gradients yet may be views of what will. */
static amp_status note_views(amp_call *call) {
    int64_t count = 0;
    amp_tensor **results = results_of(call, &count);
    for (int64_t i = 0; i < count; i++) {
        if (results[i] && viewed(call, results[i])) AMP_TRY(begin_result(call, NULL, &results[i], (int)i, count > 1));
    }
    return AMP_OK;
}

/* ---- The layer ---------------------------------------------------------------------------------------------------- */
static amp_status record(amp_call *call, const amp_gradient_row *row) {
    AMP_TRY(check_writes(call));
    amp_grad_node *node = write_down(call, row);
    if (!node) return amp_pending_error();
    call->needed = node->needed[true];
    call->packs_once = amp_grad_node_keeps_alone(node);
    amp_status status = amp_call_next(call);
    if (status == AMP_OK) status = finish(call, node);
    amp_grad_node_drop(node); /* the results have it */
    return status;
}

/* No argument requires gradients: nor do the results, but what they share memory with is noted. */
static amp_status pass(amp_call *call, bool is_view) {
    AMP_TRY(amp_call_next(call));
    return is_view ? note_views(call) : AMP_OK;
}

/* The op has no gradient, and its results require none: what it writes in place has no history then. */
static amp_status pass_without(amp_call *call) {
    const bool writes = call->form == AMP_FORM_INPLACE;
    if (writes) AMP_TRY(amp_history_check_writable(amp_call_name(call), call->target));
    AMP_TRY(amp_call_next(call));
    return writes && call->target->history ? amp_history_rewrite(call->target, NULL, false) : AMP_OK;
}

/* What it is made of is recorded in its place. */
static amp_status pass_to_parts(amp_call *call) {
    AMP_TRY(check_writes(call));
    if (call->form == AMP_FORM_INPLACE) {
        return amp_fail(AMP_ERROR_NOT_IMPLEMENTED,
                        "%s: in place it has no gradient yet; call %s, or call it inside of amp_no_grad",
                        amp_call_name(call), call->op->name);
    }
    call->inner_layers |= AMP_LAYER_GRAD;
    return amp_call_next(call);
}

/* A tensor that a call is to write and that has a gradient of its own would keep that. */
static amp_status check_targets(const amp_call *call) {
    for (int i = 0; i < call->op->output_count; i++) {
        const amp_tensor *t = call->outs ? call->outs[i] : call->target;
        if (!t || !requires(t)) continue;
        return amp_fail(
            AMP_ERROR_INVALID,
            "%s: the tensor to be written, %s, requires gradients, and none lead through out= forms; write to "
            "another, or inside of amp_no_grad",
            amp_call_name(call), amp_describe(t));
    }
    return AMP_OK;
}

AMP_HOT static amp_status grad_layer(amp_call *call) {
    if (is_off || call->ahead) return amp_call_next(call);
    if (call->form == AMP_FORM_OUT) AMP_TRY(check_targets(call));
    const bool is_view = call->form == AMP_FORM_FUNCTION && call->op->flags & AMP_OP_VIEW;
    if (__builtin_expect(!any_requires(call), 1)) return pass(call, is_view);
    const amp_gradient_row *row = row_of(call->op);
    if (!row) return pass_without(call);
    return row->is_parts ? pass_to_parts(call) : record(call, row);
}

static void install(void) {
    amp_layer_install(AMP_LAYER_GRAD, grad_layer);
    amp_tensor_on_history_end = amp_history_drop;
    amp_layer_activate_everywhere(AMP_LAYER_GRAD, true);
}

void amp_grad_install(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, install);
}
