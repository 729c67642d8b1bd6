/* The one way through: arguments, layers, device table, results. */
#include "call/call.h"

#include <string.h>

#include "call/ahead.h"
#include "call/backend.h"
#include "core/hot.h"
#include "dispatch/arguments.h"
#include "dispatch/layers.h"
#include "dispatch/results.h"
#include "dispatch/user_calls.h"
#include "machine/isa.h"
#include "policy/regions.h"

_Atomic unsigned amp_process_layers;

/* By bit number. Those that are missing are installed by the rooms above, or by tests. */
static amp_layer_function layer_functions[] = {
    amp_explain_layer,  /* AMP_LAYER_EXPLAIN */
    NULL,               /* AMP_LAYER_CAPTURE */
    amp_autocast_layer, /* AMP_LAYER_AUTOCAST */
    NULL,               /* AMP_LAYER_TRACE */
    NULL,               /* AMP_LAYER_GRAD */
    NULL,               /* AMP_LAYER_PLAN */
};

void amp_layer_install(unsigned layer, amp_layer_function run) {
    layer_functions[__builtin_ctz(layer)] = run;
}

void amp_layer_activate(unsigned layer, bool on) {
    if (on && layer_functions[__builtin_ctz(layer)]) {
        amp_this_thread.layers |= layer;
    } else {
        amp_this_thread.layers &= ~layer;
    }
}

void amp_layer_activate_everywhere(unsigned layer, bool on) {
    if (on) {
        atomic_fetch_or_explicit(&amp_process_layers, layer, memory_order_relaxed);
    } else {
        atomic_fetch_and_explicit(&amp_process_layers, ~layer, memory_order_relaxed);
    }
}

const char *amp_call_name(const amp_call *call) {
    if (call->form == AMP_FORM_FUNCTION) return call->op->name;
    amp_thread_text *text = amp_this_thread_text();
    char *name = text->names[text->next_name++ % 2];
    const char *suffix = call->form == AMP_FORM_INPLACE ? "_" : "_out";
    const size_t length = strnlen(call->op->name, sizeof text->names[0] - 5);
    memcpy(name, call->op->name, length);
    memcpy(name + length, suffix, strlen(suffix) + 1);
    return name;
}

/* ---- The device table ----------------------------------------------------------------------------------------- */
static amp_status check_one_device(const amp_call *call, const amp_arg_info *arg, amp_tensor *t) {
    const amp_storage *s = t->source ? t->source->storage : t->storage;
    if (s->device == call->device) return AMP_OK;
    return amp_fail(AMP_ERROR_DEVICE, "%s: '%s' is on %s, another argument on %s; all must be on one device",
                    amp_call_name(call), arg->name, amp_device_name(s->device), amp_device_name(call->device));
}

amp_status amp_call_each_tensor(const amp_call *call, amp_tensor_visitor visit) {
    for (int i = 0; i < call->op->arg_count; i++) {
        const amp_arg_info *arg = &call->op->args[i];
        if (arg->kind == AMP_ARG_TENSOR) {
            amp_tensor *t = *amp_call_tensor(call, arg);
            if (t) AMP_TRY(visit(call, arg, t));
        } else if (arg->kind == AMP_ARG_TENSOR_LIST) {
            const amp_tensor_list *list = amp_call_tensor_list(call, arg);
            for (int64_t k = 0; k < list->count; k++) {
                if (list->items[k]) AMP_TRY(visit(call, arg, list->items[k]));
            }
        }
    }
    return AMP_OK;
}

static amp_status visit_pending(const amp_call *call, const amp_arg_info *arg, amp_tensor *t) {
    (void)arg;
    return t->source ? amp_call_materialize((amp_call *)call, t) : AMP_OK; /* which counts it in the note */
}

static amp_status align_argument(const amp_call *call, const amp_arg_info *arg, amp_tensor *t) {
    const amp_tensor *memory = amp_tensor_memory(t);
    (void)call;
    (void)arg;
    return amp_tensor_lies_unaligned(memory) ? amp_storage_align(memory->storage) : AMP_OK;
}

static amp_status align_unless_weight(const amp_call *call, const amp_arg_info *arg, amp_tensor *t) {
    return arg->flags & AMP_ARG_WEIGHT ? AMP_OK : align_argument(call, arg, t);
}

/* Views look at no element, nor do calls that run ahead. */
amp_status amp_call_align(const amp_call *call, const amp_backend_op *row) {
    if (row->takes_unaligned == AMP_UNALIGNED_ALL || call->op->flags & AMP_OP_VIEW || call->ahead) return AMP_OK;
    return amp_call_each_tensor(call,
                                row->takes_unaligned == AMP_UNALIGNED_NONE ? align_argument : align_unless_weight);
}

/* The backends' tables are constant, and one comes with a module that may be loaded after a program has defined its
 * ops: those have one row for all, which finds the implementation itself. */
static amp_backend_op find_row(const amp_backend *backend, const amp_call *call, bool is_alias) {
    if (__builtin_expect(amp_op_is_user(call->op), 0)) return amp_user_row(call);
    return backend->find(is_alias ? amp_op_find(call->op->alias_of) : call->op);
}

static void add_part(amp_call_note *whole, const char *kernel) {
    for (int i = 0; kernel && i < AMP_NOTE_PARTS; i++) {
        if (whole->parts[i] == kernel) return;
        if (whole->parts[i]) continue;
        whole->parts[i] = kernel;
        return;
    }
}

/* An op that others call is a part of them: their report names its kernels, and counts its casts. */
AMP_APART static void note_part(amp_call_note *whole, const amp_call_note *part) {
    add_part(whole, part->kernel);
    for (int i = 0; i < AMP_NOTE_PARTS && !part->kernel; i++) add_part(whole, part->parts[i]);
    whole->casts_made += part->casts_made;
    whole->casts_cached += part->casts_cached;
    whole->casts_fused += part->casts_fused;
    whole->weight_of_op |= part->weight_of_op;
    if (whole->policy == AMP_POLICY_PARTS && whole->target == AMP_DTYPE_NONE) whole->target = part->target;
}

/* What happens between the backend's begin and end. */
AMP_HOT static amp_status run_row(amp_call *call, const amp_backend *backend) {
    /* An alias keeps its name and runs the op that it stands for: their argument structs are laid out alike. */
    const bool is_alias = __builtin_expect(call->op->alias_of != NULL, 0);
    AMP_TRY(amp_isa_status()); /* a wrong AMP_MAX_ISA stops the first op, whichever it is */
    const amp_backend_op row = find_row(backend, call, is_alias);
    if (!row.run) {
        return amp_fail(AMP_ERROR_NOT_IMPLEMENTED, "%s: not implemented on %s yet", amp_call_name(call), backend->name);
    }
    if (__builtin_expect(call->has_unaligned, 0)) AMP_TRY(amp_call_align(call, &row));
    if (!row.takes_pending_casts && (call->note.in_region || call->has_pending))
        AMP_TRY(amp_call_each_tensor(call, visit_pending));
    /* What the implementation calls is part of this op: no layer sees it, unless autocast left the op to its parts. */
    const unsigned layers = amp_this_thread.layers;
    amp_call_note *const whole = amp_this_thread.note;
    amp_this_thread.layers = AMP_INSIDE_OP | (call->inner_layers | call->ahead) << AMP_INNER_LAYERS;
    amp_this_thread.note = &call->note;
    amp_status status = row.run(call);
    amp_this_thread.note = whole;
    amp_this_thread.layers = layers;
    if (__builtin_expect(whole != NULL, 0)) note_part(whole, &call->note);
    if (status == AMP_OK) status = amp_pending_error();
    if (__builtin_expect(status != AMP_OK, 0)) {
        if (amp_ahead_ended(call)) return AMP_OK;
        amp_results_written(call); /* as far as it came */
        if (!(layers & AMP_INSIDE_OP)) amp_fail_within(call->op->name);
    }
    return status;
}

static amp_status run_elsewhere(amp_call *call) {
    const amp_backend *backend = NULL;
    AMP_TRY(amp_call_each_tensor(call, check_one_device));
    AMP_TRY(amp_backend_for(call->device, amp_call_name(call), &backend));
    amp_status status = backend->begin ? backend->begin(call) : AMP_OK;
    if (status == AMP_OK) status = run_row(call, backend);
    if (backend->end && !(amp_this_thread.layers & AMP_INSIDE_OP)) backend->end();
    return status;
}

/* Results are finished here, before any layer sees them: copied over, or the target's new geometry, versions
 * stepped. */
AMP_HOT static amp_status run_on_device(amp_call *call) {
    AMP_TRY(__builtin_expect(call->device != AMP_DEVICE_CPU, 0) ? run_elsewhere(call)
                                                                : run_row(call, &amp_cpu_backend));
    return amp_results_finish(call);
}

AMP_HOT amp_status amp_call_next(amp_call *call) {
    while (call->layers) {
        const int bit = __builtin_ctz(call->layers);
        call->layers &= call->layers - 1;
        if (layer_functions[bit]) return layer_functions[bit](call);
    }
    return run_on_device(call);
}

/* ---- Entry ---------------------------------------------------------------------------------------------------- */
static amp_status run_call(amp_call *call, const void *args) {
    AMP_TRY(amp_arguments_prepare(call, args));
    AMP_TRY(amp_results_check_targets(call));
    return amp_call_next(call);
}

AMP_HOT static amp_status run(amp_call *call, unsigned layers, const void *args) {
    if (amp_this_thread.error != AMP_OK) {
        amp_results_clear(call, args);
        return amp_this_thread.error;
    }
    union {
        char bytes[AMP_MAX_ARGS_BYTES];
        max_align_t align;
    } copy;
    amp_scope_frame frame;
    amp_tensor casts[AMP_CALL_CASTS];
    call->args = &copy;
    call->casts = casts;
    call->may_cache = amp_region_states[AMP_DEVICE_CPU].cache_enabled;
    call->layers = layers;
    amp_scope_push(&frame);
    call->frame = &frame;
    amp_status status = run_call(call, args);
    if (status == AMP_OK) status = amp_results_move_home(call, frame.outer);
    if (status != AMP_OK) amp_results_clear(call, args);
    amp_scope_pop(&frame);
    for (int i = 0; i < call->cast_count; i++) amp_tensor_end_at(&casts[i]);
    return status;
}

static unsigned active_layers(void) {
    const unsigned layers = amp_this_thread.layers;
    if (layers & AMP_INSIDE_OP) return (layers & ~(unsigned)AMP_INSIDE_OP) >> AMP_INNER_LAYERS;
    return layers | atomic_load_explicit(&amp_process_layers, memory_order_relaxed);
}

AMP_HOT amp_tensor *amp_dispatch(const amp_op_info *op, unsigned form, const void *args, amp_tensor *target) {
    amp_call call = {.op = op, .form = form, .target = target};
    return run(&call, active_layers(), args) == AMP_OK ? call.outputs[0] : NULL;
}

amp_tensor *amp_dispatch_outs(const amp_op_info *op, const void *args, amp_tensor *const *outs) {
    amp_call call = {.op = op, .form = AMP_FORM_OUT, .outs = outs};
    return run(&call, active_layers(), args) == AMP_OK ? call.outputs[0] : NULL;
}

amp_tensor_list amp_dispatch_list(const amp_op_info *op, const void *args) {
    amp_call call = {.op = op, .form = AMP_FORM_FUNCTION};
    if (run(&call, active_layers(), args) != AMP_OK) return (amp_tensor_list){0};
    return call.list;
}

amp_tensor *amp_dispatch_below(unsigned layers, const amp_op_info *op, const void *args) {
    amp_call call = {.op = op, .form = AMP_FORM_FUNCTION};
    return run(&call, layers, args) == AMP_OK ? call.outputs[0] : NULL;
}
