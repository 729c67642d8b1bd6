/* Going back over the tape: from roots to leaves, or to the tensors that are asked about. */
#include "amp/grad.h"

#include <stdio.h>
#include <stdlib.h>

#include "amp/ops.h"
#include "call/call.h"
#include "core/hot.h"
#include "core/memory.h"
#include "core/struct_size.h"
#include "core/thread.h"
#include "grad/arrivals.h"
#include "grad/history.h"
#include "policy/user_ops.h"

typedef struct backward {
    const char *what; /* "backward", "grad" */
    amp_tensor_list outputs, gradients, inputs;
    bool retains, creates; /* the tape stays; what is called is recorded */
    bool is_selective;     /* only what leads to the inputs runs … */
    bool gives;            /* … and their gradients are results, not added to leaves */
    amp_tensor **found;    /* by input: the gradient, owned */
    amp_arrivals arrivals;
} backward;

/* ---- Sums --------------------------------------------------------------------------------------------------------- */
/* Nobody reads its memory but the `owners` of this header. */
static bool is_alone(const amp_tensor *t, int owners) {
    return atomic_load_explicit(&t->storage->references, memory_order_acquire) == 1 &&
           atomic_load_explicit(&t->references, memory_order_acquire) == owners && !t->storage->read_only;
}

/* Both, in the first where that is possible; owned by nobody. Takes the first. NULL with an error. */
static amp_tensor *add(const backward *b, amp_tensor *sum, amp_tensor *more) {
    if (!b->creates && is_alone(sum, 1) && amp_tensor_is_dense(sum) && sum->dtype == more->dtype) {
        return amp_add_(sum, more) ? sum : NULL;
    }
    amp_tensor *both = amp_keep(amp_add(sum, more));
    if (both) amp_tensor_drop(sum);
    return both;
}

/* ---- What a gradient function gave, as the argument needs it ------------------------------------------------------ */
static amp_tensor *sum_to(amp_tensor *t, const amp_saved *like) {
    amp_dims dims = {.set = AMP_PRESENT};
    const int extra = t->rank - like->rank;
    for (int i = 0; i < t->rank; i++) {
        if (i < extra || (like->shape[i - extra] == 1 && t->shape[i] != 1)) dims.values[dims.count++] = i;
    }
    if (extra < 0) return t;
    if (dims.count > 0) t = amp_sum(t, .dim = dims, .keepdim = true);
    if (!t || extra == 0) return t;
    amp_dims shape = {.set = AMP_PRESENT, .count = like->rank};
    memcpy(shape.values, like->shape, (size_t)like->rank * sizeof *shape.values);
    return amp_reshape(t, shape);
}

static amp_status fail_shape(const amp_grad_node *node, const amp_tensor *t, const amp_saved *like) {
    const bool is_ours = node->op && !amp_op_is_user(node->op);
    return amp_fail(is_ours ? AMP_ERROR_INTERNAL : AMP_ERROR_INVALID,
                    "backward of %s: a gradient is %s for an argument of shape %s", node->name, amp_describe(t),
                    amp_describe_shape(like->rank, like->shape));
}

static amp_tensor *fitted(const amp_grad_node *node, int slot, amp_tensor *t) {
    const amp_saved *like = &node->slots[slot];
    const amp_dtype dtype = node->edges[slot].dtype;
    if (!amp_has_shape(t, like->rank, like->shape)) t = sum_to(t, like);
    if (t && amp_dtype_is_complex(t->dtype) && !amp_dtype_is_complex(dtype)) t = amp_real(t);
    if (t && t->dtype != dtype) t = amp_to(t, dtype);
    if (!t || amp_has_shape(t, like->rank, like->shape)) return t;
    (void)fail_shape(node, t, like);
    return NULL;
}

/* ---- Sending ------------------------------------------------------------------------------------------------------ */
/* Adds a gradient, which is in the scope, to what waits at result `output` of a node. */
static amp_status send(backward *b, amp_grad_node *node, int output, amp_tensor *gradient) {
    const int number = amp_arrivals_of(&b->arrivals, node);
    amp_arrival *arrival = number >= 0 ? &b->arrivals.items[number] : NULL;
    if (arrival && !arrival->gradients)
        arrival->gradients = amp_alloc_zeroed((size_t)node->result_count * sizeof(amp_tensor *));
    if (!arrival || !arrival->gradients) return amp_fail(AMP_ERROR_MEMORY, "%s: no memory for a gradient", b->what);
    amp_tensor **place = &arrival->gradients[output];
    const amp_dtype dtype = node->results[output].dtype; /* of a cast that was saved, the edge knows another */
    if (gradient->dtype != dtype) gradient = amp_to(gradient, dtype);
    if (!gradient) return amp_pending_error();
    amp_tensor *sum = *place ? add(b, *place, gradient) : amp_keep(amp_tensor_same(b->what, gradient));
    if (!sum) return amp_pending_error();
    if (!*place && gradient->history)
        (void)amp_history_begin(sum, gradient->history->node, gradient->history->output, NULL, false);
    *place = sum;
    amp_arrivals_queue(&b->arrivals, number);
    return AMP_OK;
}

static bool is_needed(const backward *b, const amp_grad_node *node) {
    if (!node) return false;
    if (!b->is_selective) return true;
    const int number = amp_arrivals_find(&b->arrivals, node);
    return number >= 0 && b->arrivals.items[number].is_needed;
}

/* ---- One node ----------------------------------------------------------------------------------------------------- */
/* What a gradient function gets, in one allocation. */
typedef struct unpacked {
    amp_gradient gradient;
    amp_tensor **results, **given, **items;
    amp_dtype *dtypes;
    bool *wanted;
} unpacked;

static int longest(int a, int b) {
    return a > b ? a : b;
}

static bool make_room(unpacked *u, const amp_grad_node *node, size_t args_bytes, void **args) {
    const size_t slots = (size_t)longest(node->slot_count, 1), results = (size_t)longest(node->result_count, 1);
    const size_t tensors = (2 * slots + results) * sizeof(amp_tensor *);
    char *room = amp_alloc_zeroed(tensors + args_bytes + slots * (sizeof(amp_dtype) + sizeof(bool)));
    if (!room) return false;
    u->given = (amp_tensor **)room;
    u->items = u->given + slots;
    u->results = u->items + slots;
    *args = u->results + results;
    u->dtypes = (amp_dtype *)(void *)((char *)*args + args_bytes);
    u->wanted = (bool *)(u->dtypes + slots);
    return true;
}

/* The tensor of an argument or a result, with the history that it had, for what is recorded of the backward. */
static amp_tensor *restore(const amp_saved *saved, const amp_grad_node *node, const char *name, amp_grad_node *from,
                           int output, bool creates) {
    if (!saved->is_present) return NULL;
    amp_tensor *t = amp_saved_tensor(saved, node, name);
    if (t && creates && from) (void)amp_history_begin(amp_grad_source(t), from, output, NULL, false);
    return t;
}

static amp_status restore_arguments(const backward *b, const amp_grad_node *node, unpacked *u, void *args) {
    int slot = 0;
    for (int i = 0; node->op && i < node->op->arg_count; i++) {
        const amp_arg_info *arg = &node->op->args[i];
        void *field = (char *)args + arg->offset;
        const bool is_list = arg->kind == AMP_ARG_TENSOR_LIST;
        if (!is_list && arg->kind != AMP_ARG_TENSOR) continue;
        const int count = is_list ? (int)((amp_tensor_list *)field)->count : 1;
        amp_tensor **places = is_list ? &u->items[slot] : field;
        if (is_list) ((amp_tensor_list *)field)->items = places;
        for (int k = 0; k < count; k++, slot++) {
            const amp_grad_edge *edge = &node->edges[slot];
            places[k] = restore(&node->slots[slot], node, arg->name, edge->node, edge->output, b->creates);
        }
    }
    return amp_pending_error();
}

/* Of a node of no op: only what has elements. */
static amp_status restore_saved(const backward *b, const amp_grad_node *node, unpacked *u) {
    for (int i = 0; i < node->slot_count; i++) {
        const amp_grad_edge *edge = &node->edges[i];
        const char *name = edge->node ? "its input" : "what it saved";
        if (node->slots[i].storage)
            u->items[i] = restore(&node->slots[i], node, name, edge->node, edge->output, b->creates);
    }
    return amp_pending_error();
}

static amp_status restore_results(const backward *b, amp_grad_node *node, unpacked *u) {
    for (int i = 0; i < node->result_count; i++) {
        if (node->op || node->results[i].storage)
            u->results[i] = restore(&node->results[i], node, "its result", node, i, b->creates);
    }
    return amp_pending_error();
}

/* ---- NaN ---------------------------------------------------------------------------------------------------------- */
static __thread bool detects AMP_INITIAL_EXEC;

bool amp_detect_anomaly(bool enabled) {
    const bool before = detects;
    detects = enabled;
    return before;
}

static bool has_nan(amp_tensor *t) {
    return t && amp_item(amp_sum(amp_isnan(t))) > 0;
}

/* The argument that slot `slot` is of. */
static const char *slot_name(const amp_grad_node *node, int slot) {
    for (int i = 0, at = 0; node->op && i < node->op->arg_count; i++) {
        const amp_arg_info *arg = &node->op->args[i];
        if (arg->kind == AMP_ARG_TENSOR) at++;
        if (arg->kind == AMP_ARG_TENSOR_LIST)
            at += (int)((const amp_tensor_list *)((char *)node->args + arg->offset))->count;
        if (at > slot) return arg->name;
    }
    return "its input";
}

static amp_status check_nan(const amp_grad_node *node, const unpacked *u, int slot, amp_tensor *made) {
    if (!has_nan(made)) return AMP_OK;
    for (int i = 0; i < node->result_count; i++) {
        if (has_nan(u->gradient.of[i])) return AMP_OK; /* it came so */
    }
    return amp_fail(AMP_ERROR_INVALID,
                    "backward of %s: the gradient of '%s', %s, has NaN, and what it was made of has none", node->name,
                    slot_name(node, slot), amp_describe(made));
}

static amp_status send_given(backward *b, const amp_grad_node *node, const unpacked *u) {
    for (int i = 0; i < node->slot_count; i++) {
        if (!u->wanted[i] || !u->given[i]) continue;
        amp_tensor *t = fitted(node, i, u->given[i]);
        if (!t) return amp_pending_error();
        if (__builtin_expect(detects, 0)) AMP_TRY(check_nan(node, u, i, t));
        AMP_TRY(send(b, node->edges[i].node, node->edges[i].output, t));
    }
    return AMP_OK;
}

static amp_status fail_in(const amp_grad_node *node) {
    char name[96];
    snprintf(name, sizeof name, "backward of %.70s", node->name);
    amp_fail_within(name);
    return amp_pending_error();
}

static amp_status run_function(backward *b, amp_grad_node *node, unpacked *u, void *args) {
    if (node->op) {
        memcpy(args, node->args, node->op->args_size);
        AMP_TRY(restore_arguments(b, node, u, args));
    } else if (node->reaches_leaves && b->is_selective) {
        return amp_fail(
            AMP_ERROR_NOT_IMPLEMENTED,
            "%s: there is a %s on the way, whose function goes back to every leaf; call amp_backward without "
            ".inputs",
            b->what, node->name);
    } else if (b->creates && !node->may_create) {
        return amp_fail(AMP_ERROR_NOT_IMPLEMENTED, "%s: %s has no gradient of its gradient", b->what, node->name);
    } else {
        AMP_TRY(restore_saved(b, node, u));
    }
    AMP_TRY(restore_results(b, node, u));
    node->row->function(&u->gradient);
    return amp_failed() ? fail_in(node) : send_given(b, node, u);
}

static amp_status run_node(backward *b, const amp_arrival *arrival) {
    amp_grad_node *node = arrival->node;
    unpacked u = {0};
    void *args = NULL;
    if (node->is_spent) {
        return amp_fail(
            AMP_ERROR_INVALID,
            "%s: the record of %s was gone over before, and what it saved has gone; pass .retain_graph = true to "
            "all but the last backward over it",
            b->what, node->name);
    }
    if (!make_room(&u, node, node->op ? node->op->args_size : 0, &args))
        return amp_fail(AMP_ERROR_MEMORY, "%s: no memory for the gradients of %s", b->what, node->name);
    for (int i = 0; i < node->slot_count; i++) {
        u.wanted[i] = is_needed(b, node->edges[i].node);
        u.dtypes[i] = node->edges[i].dtype;
    }
    u.gradient = (amp_gradient){.op = node->op,
                                .args = node->op ? args : node->args,
                                .results = u.results,
                                .of = arrival->gradients,
                                .result_count = node->result_count,
                                .device = node->device,
                                .random = node->random,
                                .wanted = u.wanted,
                                .dtypes = u.dtypes,
                                .given = u.given,
                                .saved = u.items};
    const amp_status status = run_function(b, node, &u, args);
    amp_free(u.given);
    if (b->retains) return status;
    if (b->is_selective) {
        amp_grad_node_spend(node); /* nobody says that weights change after it */
    } else {
        amp_grad_node_spend_casts(node);
    }
    return status;
}

/* ---- Arriving ----------------------------------------------------------------------------------------------------- */
/* A gradient that a cell can keep, which the backward holds too: memory that others read is copied. */
static amp_tensor *own(amp_tensor *gradient) {
    return is_alone(gradient, 2) && amp_tensor_is_dense(gradient) ? amp_retain(gradient)
                                                                  : amp_keep(amp_clone(amp_contiguous(gradient)));
}

/* Both, owned: where nothing of the backward is recorded, in the place of the first. */
static amp_tensor *added(const backward *b, amp_tensor *old, amp_tensor *more) {
    if (!b->creates) return amp_add_(old, more) ? amp_retain(old) : NULL;
    return amp_keep(amp_add(old, more));
}

/* Whoever takes what is there puts it back with its own; several threads may arrive at a time. */
static amp_status add_to_cell(const backward *b, amp_grad_cell *cell, amp_tensor *gradient) {
    amp_tensor *mine = amp_retain(gradient), *none = NULL;
    for (amp_tensor *old; (old = atomic_exchange(&cell->gradient, NULL)) != NULL;) {
        amp_tensor *sum = added(b, old, mine);
        amp_release(mine);
        if (!sum) {
            amp_grad_cell_set(cell, old);
            return amp_pending_error();
        }
        amp_release(old);
        if (atomic_compare_exchange_strong(&cell->gradient, &none, sum)) return AMP_OK;
        mine = sum;
        none = NULL;
    }
    amp_tensor *kept = own(mine);
    amp_release(mine);
    if (!kept) return amp_pending_error();
    if (atomic_compare_exchange_strong(&cell->gradient, &none, kept)) return AMP_OK;
    const amp_status status = add_to_cell(b, cell, kept);
    amp_release(kept);
    return status;
}

static amp_status check_hooked(const amp_tensor *before, const amp_tensor *after) {
    if (amp_same_shape(before, after) && before->dtype == after->dtype) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "backward: a hook made %s of a gradient that is %s", amp_describe(after),
                    amp_describe(before));
}

static amp_status run_hooks(const backward *b, const amp_arrival *arrival) {
    for (const amp_grad_hook *hook = arrival->node->hooks; hook; hook = hook->next) {
        amp_tensor **place = &arrival->gradients[hook->output];
        if (!*place) continue;
        if (hook->cell) {
            AMP_TRY(add_to_cell(b, hook->cell, amp_tensor_same(b->what, *place)));
            continue;
        }
        amp_tensor *other = hook->call(hook->context, *place);
        AMP_TRY(amp_pending_error());
        if (!other || other == *place) continue;
        AMP_TRY(check_hooked(*place, other));
        amp_tensor *own = amp_retain(other);
        amp_tensor_drop(*place);
        *place = own;
    }
    return AMP_OK;
}

/* The gradient as answer number i: an input that is there twice has two. */
static amp_tensor *once_more(const backward *b, int64_t i, amp_tensor *gradient) {
    for (int64_t k = 0; gradient && k < i; k++) {
        if (b->found[k] != gradient) continue;
        amp_tensor *same = amp_keep(amp_tensor_same(b->what, gradient));
        if (same && gradient->history)
            (void)amp_history_begin(same, gradient->history->node, gradient->history->output, NULL, false);
        return same;
    }
    return amp_retain(gradient);
}

/* The gradients that were asked for. */
static void keep_asked(backward *b, const amp_arrival *arrival) {
    for (int64_t i = 0; i < b->inputs.count && b->found; i++) {
        int output = 0;
        if (amp_history_node(b->inputs.items[i], &output) != arrival->node || !arrival->gradients[output]) continue;
        b->found[i] = once_more(b, i, arrival->gradients[output]);
    }
}

static amp_status arrive(backward *b, int number) {
    const amp_arrival arrival = b->arrivals.items[number]; /* which moves as others come */
    AMP_TRY(run_hooks(b, &arrival));
    if (arrival.is_asked) keep_asked(b, &arrival);
    if (arrival.node->row) return !b->is_selective || arrival.is_needed ? run_node(b, &arrival) : AMP_OK;
    return b->gives ? AMP_OK : add_to_cell(b, arrival.node->cell, arrival.gradients[0]);
}

static void let_go(backward *b, int number) {
    amp_arrival *arrival = &b->arrivals.items[number];
    for (int i = 0; i < arrival->node->result_count; i++) {
        if (arrival->gradients[i]) amp_release(arrival->gradients[i]);
        arrival->gradients[i] = NULL;
    }
}

static amp_status run_all(backward *b) {
    amp_status status = AMP_OK;
    for (int number; status == AMP_OK && (number = amp_arrivals_next(&b->arrivals)) >= 0;) {
        amp_scope_frame frame;
        amp_scope_push(&frame);
        status = arrive(b, number);
        let_go(b, number);
        amp_scope_pop(&frame);
    }
    return status;
}

/* ---- Roots and inputs --------------------------------------------------------------------------------------------- */
static amp_status fail_no_node(const backward *b, const char *role, int64_t i, const amp_tensor *t) {
    return amp_fail(AMP_ERROR_INVALID, "%s: %s %lld, %s, requires no gradient, and nothing that it was made of does",
                    b->what, role, (long long)i, amp_describe(t));
}

static amp_status check_tensor(const backward *b, const char *role, int64_t i, const amp_tensor *t,
                               amp_grad_node **node, int *output) {
    if (!t) return amp_fail(AMP_ERROR_INVALID, "%s: %s %lld is NULL", b->what, role, (long long)i);
    if (!amp_tensor_is_live(t))
        return amp_fail(AMP_ERROR_INVALID, "%s: %s %lld was released before", b->what, role, (long long)i);
    *node = amp_history_node(t, output);
    AMP_TRY(amp_pending_error());
    return *node ? AMP_OK : fail_no_node(b, role, i, t);
}

/* What goes in at an output. */
static amp_tensor *seed(const backward *b, int64_t i) {
    amp_tensor *t = b->outputs.items[i], *given = b->gradients.count ? b->gradients.items[i] : NULL;
    if (!given && amp_tensor_elements(t) != 1) {
        amp_fail(
            AMP_ERROR_INVALID,
            "%s: the result is %s, which has no gradient of its own unless it has one element; pass .gradient, or take "
            "its sum or mean",
            b->what, amp_describe(t));
        return NULL;
    }
    if (!given) return amp_ones_like(t);
    if (!amp_tensor_is_live(given) || !amp_same_shape(given, t)) {
        amp_fail(AMP_ERROR_INVALID, "%s: the gradient is %s, the result %s; they have one shape", b->what,
                 amp_tensor_is_live(given) ? amp_describe(given) : "a released tensor", amp_describe(t));
        return NULL;
    }
    return given->dtype == t->dtype ? given : amp_to(given, t->dtype);
}

static amp_status send_roots(backward *b) {
    for (int64_t i = 0; i < b->outputs.count; i++) {
        amp_grad_node *node = NULL;
        int output = 0;
        AMP_TRY(check_tensor(b, "result", i, b->outputs.items[i], &node, &output));
        amp_tensor *gradient = seed(b, i);
        if (!gradient) return amp_pending_error();
        AMP_TRY(send(b, node, output, gradient));
    }
    return AMP_OK;
}

/* Every node that a gradient may reach. */
static amp_status reach(backward *b) {
    amp_arrivals *a = &b->arrivals;
    for (int at = 0; at < a->count; at++) {
        for (int i = 0; i < a->items[at].node->slot_count; i++) {
            amp_grad_node *before = a->items[at].node->edges[i].node;
            if (before && amp_arrivals_of(a, before) < 0)
                return amp_fail(AMP_ERROR_MEMORY, "%s: no memory for a list of nodes", b->what);
        }
    }
    return AMP_OK;
}

static int by_sequence(const void *first, const void *second) {
    const amp_arrival *const *one = first, *const *other = second;
    return (*one)->node->sequence < (*other)->node->sequence ? -1 : (*one)->node->sequence > (*other)->node->sequence;
}

/* Marks, earliest first, what leads to a node that is asked about. */
static amp_status mark_needed(backward *b) {
    amp_arrivals *a = &b->arrivals;
    amp_arrival **order = amp_alloc((size_t)a->count * sizeof *order);
    if (!order) return amp_fail(AMP_ERROR_MEMORY, "%s: no memory for a list of nodes", b->what);
    for (int i = 0; i < a->count; i++) order[i] = &a->items[i];
    qsort(order, (size_t)a->count, sizeof *order, by_sequence);
    for (int i = 0; i < a->count; i++) {
        const amp_grad_node *node = order[i]->node;
        order[i]->is_needed = order[i]->is_asked;
        for (int k = 0; k < node->slot_count && !order[i]->is_needed; k++)
            order[i]->is_needed = is_needed(b, node->edges[k].node);
    }
    amp_free(order);
    return AMP_OK;
}

/* A node that is only asked about is not run: its own arguments may lead nowhere. */
static amp_status choose(backward *b) {
    b->is_selective = true;
    AMP_TRY(reach(b));
    for (int64_t i = 0; i < b->inputs.count; i++) {
        amp_grad_node *node = NULL;
        int output = 0;
        AMP_TRY(check_tensor(b, "input", i, b->inputs.items[i], &node, &output));
        const int number = amp_arrivals_find(&b->arrivals, node);
        if (number >= 0) b->arrivals.items[number].is_asked = true;
    }
    return mark_needed(b);
}

/* ---- Entry -------------------------------------------------------------------------------------------------------- */
/* An error stands: the tape goes, as it would have. */
static void spend_all(backward *b) {
    for (int64_t i = 0; i < b->outputs.count; i++) {
        const amp_tensor *t = b->outputs.items[i];
        if (t && amp_tensor_is_live(t) && t->history && t->history->node)
            (void)amp_arrivals_of(&b->arrivals, t->history->node);
    }
    amp_arrivals *a = &b->arrivals;
    for (int at = 0; at < a->count; at++) {
        amp_grad_node *node = a->items[at].node;
        for (int i = 0; i < node->slot_count; i++) {
            if (node->edges[i].node) (void)amp_arrivals_of(a, node->edges[i].node);
        }
        amp_grad_node_spend(node);
    }
}

static amp_status check_lists(const backward *b) {
    if (b->outputs.count < 1) return amp_fail(AMP_ERROR_INVALID, "%s: the result is missing", b->what);
    if (b->gradients.count == 0 || b->gradients.count == b->outputs.count) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: there are %lld gradients for %lld results", b->what,
                    (long long)b->gradients.count, (long long)b->outputs.count);
}

static amp_status go_back(backward *b) {
    AMP_TRY(check_lists(b));
    AMP_TRY(send_roots(b));
    if (b->inputs.count > 0) AMP_TRY(choose(b));
    return run_all(b);
}

/* In no region, by no layer but explain's, and recorded only where that is asked for. */
static amp_status run(backward *b) {
    if (amp_failed()) {
        if (!b->retains) spend_all(b);
        amp_arrivals_free(&b->arrivals);
        return amp_pending_error();
    }
    amp_scope_frame frame;
    const unsigned layers = amp_this_thread.layers;
    const bool was_on = amp_grad_set_enabled(b->creates);
    amp_this_thread.layers = layers & AMP_LAYER_EXPLAIN;
    amp_scope_push(&frame);
    const amp_status status = go_back(b);
    amp_arrivals_free(&b->arrivals);
    amp_scope_pop(&frame);
    amp_this_thread.layers = layers;
    (void)amp_grad_set_enabled(was_on);
    return status;
}

amp_status amp_backward_all_call(const amp_backward_all_args *given) {
    amp_backward_all_args args;
    AMP_TRY(amp_struct_read("backward", "amp_backward_all_args", &args, sizeof args, sizeof args.struct_size, given));
    backward b = {.what = "backward",
                  .outputs = args.outputs,
                  .gradients = args.gradients,
                  .inputs = args.inputs,
                  .retains = args.retain_graph || args.create_graph,
                  .creates = args.create_graph};
    return run(&b);
}

amp_status amp_backward_call(const amp_backward_args *given) {
    amp_backward_args args;
    AMP_TRY(amp_struct_read("backward", "amp_backward_args", &args, sizeof args, sizeof args.struct_size, given));
    return amp_backward_all_call(&(const amp_backward_all_args){.struct_size = sizeof(amp_backward_all_args),
                                                                .outputs = {&args.loss, 1, NULL},
                                                                .gradients = {&args.gradient, 1, NULL},
                                                                .inputs = args.inputs,
                                                                .retain_graph = args.retain_graph,
                                                                .create_graph = args.create_graph});
}

static amp_status check_found(const backward *b, bool allow_unused) {
    for (int64_t i = 0; i < b->inputs.count && !allow_unused; i++) {
        if (b->found[i]) continue;
        return amp_fail(
            AMP_ERROR_INVALID,
            "grad: no result depends on input %lld, %s; pass .allow_unused = true to get NULL for such inputs",
            (long long)i, amp_describe(b->inputs.items[i]));
    }
    return AMP_OK;
}

/* The list as ops give lists: its array in a tensor of its own. */
static amp_tensor_list hand_out(backward *b) {
    const int64_t bytes[1] = {b->inputs.count * (int64_t)sizeof(amp_tensor *)};
    amp_tensor *holder = amp_tensor_new("grad", AMP_U8, 1, bytes);
    if (!holder) return (amp_tensor_list){0};
    memcpy(holder->storage->data, b->found, (size_t)bytes[0]);
    for (int64_t i = 0; i < b->inputs.count; i++) {
        if (b->found[i]) amp_scope_move(b->found[i], amp_this_thread.scope);
        b->found[i] = NULL;
    }
    return (amp_tensor_list){.items = holder->storage->data, .count = b->inputs.count, .holder = holder};
}

amp_tensor_list amp_grad_call(const amp_grad_args *given) {
    amp_grad_args args;
    amp_tensor_list list = {0};
    if (amp_struct_read("grad", "amp_grad_args", &args, sizeof args, sizeof args.struct_size, given) != AMP_OK)
        return list;
    backward b = {.what = "grad",
                  .outputs = args.outputs,
                  .gradients = args.gradients,
                  .inputs = args.inputs,
                  .retains = args.retain_graph || args.create_graph,
                  .creates = args.create_graph,
                  .gives = true};
    if (!amp_failed() && args.inputs.count < 1) amp_fail(AMP_ERROR_INVALID, "grad: there are no inputs to ask about");
    b.found = amp_alloc_zeroed((size_t)(args.inputs.count > 0 ? args.inputs.count : 1) * sizeof *b.found);
    if (!b.found) amp_fail(AMP_ERROR_MEMORY, "grad: no memory for a list of %lld", (long long)args.inputs.count);
    if (run(&b) == AMP_OK && check_found(&b, args.allow_unused) == AMP_OK) list = hand_out(&b);
    for (int64_t i = 0; b.found && i < args.inputs.count; i++) amp_release(b.found[i]);
    amp_free(b.found);
    return list;
}
