/* Functions with a backward of the program's own: the forward runs unrecorded, and is one node. */
#include "amp/custom.h"

#include <limits.h>

#include "amp/grad.h"
#include "amp/ops.h"
#include "autocast/eligibility.h"
#include "core/memory.h"
#include "core/struct_size.h"
#include "grad/history.h"
#include "grad/program.h"
#include "grad/record.h"
#include "grad/regions.h"
#include "policy/regions.h"

/* What lives as long as the node: this, the context, and the place of each tensor that was saved. */
typedef struct record {
    amp_custom_function function;
    amp_autocast_state regions; /* of the backward, and with cast_inputs of the forward */
    int saved_count;
} record;

/* Places: a slot, or below 0 a result. */
enum { NO_PLACE = INT_MIN, MOST_CONTEXT = 1 << 20 };

struct amp_custom_call {
    record *record;
    const bool *wanted; /* by input */
    amp_tensor **saved; /* of a forward, in room for some, retained */
    int room;
    const amp_gradient *going; /* of a backward; NULL: the forward runs */
};

static size_t context_at(void) {
    return (sizeof(record) + 7) / 8 * 8;
}

static size_t places_at(const amp_custom_function *f) {
    return context_at() + (f->context_size + 7) / 8 * 8;
}

static int *places_of(const record *r) {
    return (int *)((char *)(uintptr_t)r + places_at(&r->function));
}

/* ---- What both functions ask ---------------------------------------------------------------------------------------- */
void *amp_custom_context(amp_custom_call *call) {
    return (char *)call->record + context_at();
}

bool amp_custom_wants(const amp_custom_call *call, int input) {
    return input >= 0 && input < call->record->function.inputs && call->wanted[input];
}

static bool make_room(amp_custom_call *call) {
    if (call->record->saved_count < call->room) return true;
    const int more = call->room ? 2 * call->room : 8;
    amp_tensor **larger = amp_alloc((size_t)more * sizeof(amp_tensor *));
    if (!larger) return false;
    if (call->room) memcpy(larger, call->saved, (size_t)call->room * sizeof(amp_tensor *));
    amp_free(call->saved);
    call->saved = larger;
    call->room = more;
    return true;
}

amp_status amp_custom_save(amp_custom_call *call, amp_tensor *t) {
    const char *name = call->record->function.name;
    AMP_TRY(amp_pending_error());
    if (call->going)
        return amp_fail(AMP_ERROR_INVALID, "%s: tensors are saved in the forward, not in the backward", name);
    if (t && !amp_tensor_is_live(t))
        return amp_fail(AMP_ERROR_INVALID, "%s: a tensor to be saved was released before", name);
    if (!make_room(call)) return amp_fail(AMP_ERROR_MEMORY, "%s: no memory to save a tensor", name);
    call->saved[call->record->saved_count++] = amp_retain(t);
    return AMP_OK;
}

amp_tensor *amp_custom_saved(amp_custom_call *call, int index) {
    const record *r = call->record;
    if (!call->going || index < 0 || index >= r->saved_count) {
        (void)amp_fail(AMP_ERROR_INVALID, "%s: saved tensor %d is asked for %s; there are %d", r->function.name, index,
                       call->going ? "in the backward" : "before the backward", r->saved_count);
        return NULL;
    }
    const int place = places_of(r)[index];
    if (place == NO_PLACE) return NULL;
    return place >= 0 ? call->going->saved[place] : call->going->results[-1 - place];
}

/* ---- Back ------------------------------------------------------------------------------------------------------------ */
static amp_status check_given(const record *r, const amp_gradient *g) {
    for (int i = 0; i < r->function.inputs; i++) {
        if (g->given[i] && !amp_tensor_is_live(g->given[i]))
            return amp_fail(AMP_ERROR_INVALID, "%s: the gradient of input %d was released before", r->function.name, i);
    }
    return AMP_OK;
}

static void gradient_of_custom(amp_gradient *g) {
    record *r = (record *)(uintptr_t)g->args;
    amp_custom_call call = {.record = r, .wanted = g->wanted, .going = g};
    const unsigned layers = amp_grad_regions_enter(&r->regions);
    const amp_grad_around before = amp_grad_look_around();
    const amp_status status =
        amp_grad_settle(r->function.name, "its backward", before, r->function.backward(&call, g->of, g->given));
    amp_grad_regions_leave(layers);
    if (status == AMP_OK) (void)check_given(r, g);
}

static const amp_gradient_row row = {.function = gradient_of_custom};

/* ---- The node -------------------------------------------------------------------------------------------------------- */
/* The forward's call as it ran. */
typedef struct forward {
    amp_custom_call call;
    amp_tensor *const *given; /* the inputs, and … */
    amp_tensor **inputs;      /* … as the forward got them */
    bool *wanted;
    amp_tensor **outputs;
} forward;

static int place_among(amp_tensor *const *tensors, int count, const amp_tensor *t) {
    for (int i = 0; i < count; i++) {
        if (tensors[i] == t) return i;
    }
    return NO_PLACE;
}

/* Where a saved tensor lies in the node; those that are neither inputs nor results have slots behind the inputs'. */
static int place_of(const forward *f, const amp_tensor *t, int *others) {
    const amp_custom_function *of = &f->call.record->function;
    if (!t) return NO_PLACE;
    const int input = place_among(f->inputs, of->inputs, t), output = place_among(f->outputs, of->outputs, t);
    if (input >= 0) return input;
    return output >= 0 ? -1 - output : of->inputs + (*others)++;
}

static amp_status fill(amp_grad_node *node, const forward *f) {
    const record *r = f->call.record;
    node->row = &row;
    node->name = r->function.name;
    node->may_create = true;
    memcpy(node->args, r, places_at(&r->function));
    for (int i = 0; i < r->function.inputs; i++) {
        if (!f->given[i]) continue;
        amp_grad_node_lead(node, i, f->given[i]);
        amp_saved_take(&node->slots[i], f->inputs[i], false);
    }
    amp_grad_node_number(node);
    return amp_pending_error();
}

static void keep_saved(amp_grad_node *node, const forward *f) {
    int *places = places_of(node->args), others = 0;
    for (int i = 0; i < f->call.record->saved_count; i++) {
        places[i] = place_of(f, f->call.saved[i], &others);
        if (places[i] == NO_PLACE) continue;
        const bool is_slot = places[i] >= 0;
        amp_saved *at = is_slot ? &node->slots[places[i]] : &node->results[-1 - places[i]];
        if (at->storage) continue;
        if (is_slot) {
            amp_grad_node_save(node, places[i], f->call.saved[i]);
        } else {
            amp_saved_take(at, f->call.saved[i], true);
        }
    }
}

static amp_status write_down(const forward *f) {
    const record *r = f->call.record;
    const size_t bytes = places_at(&r->function) + (size_t)r->saved_count * sizeof(int);
    int others = 0;
    for (int i = 0; i < r->saved_count; i++) (void)place_of(f, f->call.saved[i], &others);
    amp_grad_install();
    amp_grad_node *node = amp_grad_node_new(r->function.inputs + others, r->function.outputs, bytes);
    if (!node) return amp_fail(AMP_ERROR_MEMORY, "%s: no memory to record the call", r->function.name);
    amp_status status = fill(node, f);
    if (status == AMP_OK) keep_saved(node, f);
    if (status == AMP_OK) status = amp_grad_begin_results(node, f->outputs);
    amp_grad_node_drop(node);
    return status;
}

/* ---- Forward --------------------------------------------------------------------------------------------------------- */
static amp_status cast_inputs(const forward *f) {
    const amp_custom_function *of = &f->call.record->function;
    for (int i = 0; i < of->inputs; i++) {
        const amp_tensor *t = f->inputs[i];
        if (!t || !amp_autocast_eligible(t, amp_tensor_device(t)) || !amp_autocast_is_enabled(amp_tensor_device(t)))
            continue;
        f->inputs[i] = amp_to(f->inputs[i], of->cast_inputs);
        if (!f->inputs[i]) return amp_pending_error();
    }
    return AMP_OK;
}

static amp_status run_forward(forward *f) {
    const record *r = f->call.record;
    const amp_grad_around before = amp_grad_look_around();
    return amp_grad_settle(r->function.name, "its forward", before,
                           r->function.forward(&f->call, f->inputs, f->outputs));
}

static amp_status run_function(forward *f) {
    const record *r = f->call.record;
    if (r->function.cast_inputs == AMP_DTYPE_NONE) return run_forward(f);
    AMP_TRY(cast_inputs(f));
    const unsigned layers = amp_grad_regions_enter(&r->regions);
    const amp_status status = run_forward(f);
    amp_grad_regions_leave(layers);
    return status;
}

static amp_status check_outputs(const forward *f) {
    const amp_custom_function *of = &f->call.record->function;
    for (int i = 0; i < of->outputs; i++) {
        if (!f->outputs[i]) return amp_fail(AMP_ERROR_INVALID, "%s: its forward did not set output %d", of->name, i);
        if (!amp_tensor_is_live(f->outputs[i]))
            return amp_fail(AMP_ERROR_INVALID, "%s: output %d was released before", of->name, i);
    }
    return AMP_OK;
}

static amp_status run_unrecorded(forward *f) {
    const bool was_on = amp_grad_set_enabled(false);
    const amp_status status = run_function(f);
    (void)amp_grad_set_enabled(was_on);
    return status == AMP_OK ? check_outputs(f) : status;
}

static bool any_wanted(const forward *f) {
    for (int i = 0; i < f->call.record->function.inputs; i++) {
        if (f->wanted[i]) return true;
    }
    return false;
}

/* In a scope of its own, of which the results are left. */
static amp_status run_scoped(forward *f) {
    amp_scope_frame frame;
    amp_scope_push(&frame);
    amp_status status = run_unrecorded(f);
    if (status == AMP_OK && any_wanted(f)) status = write_down(f);
    for (int i = 0; i < f->call.record->function.outputs; i++) {
        if (status == AMP_OK && f->outputs[i]->scope == &frame) amp_scope_move(f->outputs[i], frame.outer);
        if (status != AMP_OK) f->outputs[i] = NULL;
    }
    for (int i = 0; f->call.saved && i < f->call.record->saved_count; i++) amp_release(f->call.saved[i]);
    amp_scope_pop(&frame);
    return status;
}

/* ---- Entry ----------------------------------------------------------------------------------------------------------- */
static amp_status check_function(const amp_custom_function *f, amp_tensor *const *inputs, amp_tensor **outputs) {
    if (!f->name || !f->forward || !f->backward)
        return amp_fail(AMP_ERROR_INVALID, "custom_apply: the function has no %s",
                        !f->name      ? "name"
                        : !f->forward ? "forward"
                                      : "backward");
    if (f->inputs < 0 || f->outputs < 1 || !outputs || (f->inputs > 0 && !inputs))
        return amp_fail(AMP_ERROR_INVALID, "%s: it takes its %d inputs, and room for at least one output", f->name,
                        f->inputs);
    if (f->context_size > MOST_CONTEXT)
        return amp_fail(AMP_ERROR_INVALID, "%s: context_size is %zu; expected at most %d", f->name, f->context_size,
                        MOST_CONTEXT);
    if (f->cast_inputs != AMP_DTYPE_NONE && !amp_dtype_is_floating(f->cast_inputs))
        return amp_fail(AMP_ERROR_DTYPE, "%s: cast_inputs is %s; expected a floating dtype", f->name,
                        amp_dtype_name(f->cast_inputs));
    for (int i = 0; i < f->inputs; i++) {
        if (inputs[i] && !amp_tensor_is_live(inputs[i]))
            return amp_fail(AMP_ERROR_INVALID, "%s: input %d was released before", f->name, i);
    }
    return AMP_OK;
}

static amp_status find_wanted(const forward *f) {
    for (int i = 0; i < f->call.record->function.inputs; i++) {
        int output = 0;
        f->inputs[i] = f->given[i];
        f->wanted[i] = f->given[i] && amp_grad_is_enabled() && amp_history_node(f->given[i], &output) != NULL;
    }
    return amp_pending_error();
}

static amp_status find_regions(record *r) {
    AMP_TRY(amp_autocast_get_state(&r->regions, sizeof r->regions));
    for (int d = 0; d < AMP_DEVICE_COUNT && r->function.cast_inputs != AMP_DTYPE_NONE; d++)
        r->regions.device[d].enabled = false;
    return AMP_OK;
}

/* All that a call needs but its saved tensors, in one allocation: record, context, inputs, marks. */
static amp_status apply(const amp_custom_function *function, const void *context, amp_tensor *const *inputs,
                        amp_tensor **outputs) {
    const size_t count = (size_t)function->inputs, at = places_at(function);
    char *room = amp_alloc_zeroed(at + count * (sizeof(amp_tensor *) + sizeof(bool)));
    if (!room) return amp_fail(AMP_ERROR_MEMORY, "%s: no memory for the call", function->name);
    record *r = (record *)room;
    r->function = *function;
    forward f = {.call = {.record = r}, .given = inputs, .inputs = (amp_tensor **)(room + at), .outputs = outputs};
    f.wanted = (bool *)(f.inputs + count);
    f.call.wanted = f.wanted;
    if (context && function->context_size) memcpy(amp_custom_context(&f.call), context, function->context_size);
    amp_status status = find_regions(r);
    if (status == AMP_OK) status = find_wanted(&f);
    if (status == AMP_OK) status = run_scoped(&f);
    amp_free(f.call.saved);
    amp_free(room);
    return status;
}

amp_status amp_custom_apply(const amp_custom_function *given, const void *context, amp_tensor *const *inputs,
                            amp_tensor **outputs) {
    amp_custom_function f;
    const amp_status read =
        amp_struct_read("custom_apply", "amp_custom_function", &f, sizeof f, sizeof f.struct_size, given);
    for (int i = 0; read == AMP_OK && outputs && i < f.outputs; i++) outputs[i] = NULL;
    AMP_TRY(read);
    AMP_TRY(amp_pending_error());
    AMP_TRY(check_function(&f, inputs, outputs));
    return apply(&f, context, inputs, outputs);
}
