/* Where results go: checked targets, copies over them, second outputs, lists; home to the caller's scope. */
#include "dispatch/results.h"

#include <stdio.h>
#include <string.h>

#include "call/backend.h"
#include "call/outputs.h"
#include "core/hot.h"
#include "core/layout.h"
#include "core/memory.h"
#include "core/struct_size.h"
#include "dispatch/arguments.h"
#include "policy/user_ops.h"

static bool is_target(const amp_call *call, const amp_tensor *t) {
    if (__builtin_expect(!call->outs, 1)) return t == call->target;
    for (int i = 0; i < call->op->output_count; i++) {
        if (t == call->outs[i]) return true;
    }
    return false;
}

/* An in-place form that changes shape and strides of its argument, and no element. */
static bool reshapes_in_place(const amp_call *call) {
    return call->form == AMP_FORM_INPLACE && call->op->flags & AMP_OP_VIEW;
}

/* Of an argument that the op writes. */
static amp_status check_mutated(const amp_call *call, const amp_arg_info *arg, amp_tensor *t) {
    const bool in_list = arg->kind == AMP_ARG_TENSOR_LIST;
    if (!(arg->flags & AMP_ARG_MUTATED)) return AMP_OK;
    AMP_TRY(amp_tensor_check_writable(amp_call_name(call), arg->name, t));
    return in_list ? amp_tensor_check_separate(amp_call_name(call), "a tensor of ", arg->name, t) : AMP_OK;
}

static amp_status tell_mutated(const amp_call *call, const amp_arg_info *arg, amp_tensor *t) {
    (void)call;
    if (arg->flags & AMP_ARG_MUTATED) amp_tensor_written(t);
    return AMP_OK;
}

static amp_status no_such_form(const amp_call *call) {
    const char *name = call->op->name;
    char other[96];
    snprintf(other, sizeof other, "the form %.64s%s", name, call->form == AMP_FORM_INPLACE ? "_out" : "_");
    const unsigned others = call->op->forms & ~(unsigned)AMP_FORM_FUNCTION;
    return amp_fail(AMP_ERROR_INVALID, "%s: there is no such form of %s, which has %s", amp_call_name(call), name,
                    others ? other : "no in-place and no out= form");
}

/* An op that makes tensors of numbers makes them as its target has them, unless it is told otherwise. */
static amp_status place_like_target(amp_call *call) {
    if (call->device == AMP_DEVICE_CPU) call->device = call->target->storage->device;
    for (int i = 0; i < call->op->arg_count; i++) {
        if (call->op->args[i].kind != AMP_ARG_DTYPE) continue;
        amp_dtype *dtype = amp_call_slot(call, &call->op->args[i]);
        if (*dtype == AMP_DTYPE_NONE) *dtype = call->target->dtype;
        AMP_TRY(amp_call_check_target_dtype(call, *dtype));
    }
    return AMP_OK;
}

static amp_status check_given(amp_call *call, int index) {
    const char *const op = amp_call_name(call), *const name = amp_target_name(call, index);
    const amp_tensor *t = amp_target_of(call, index);
    if (!t) return amp_fail(AMP_ERROR_INVALID, "%s: the argument '%s' is missing", op, name);
    if (!amp_tensor_is_live(t)) {
        return amp_fail(AMP_ERROR_INVALID, "%s: the argument '%s' was released before", op, name);
    }
    if (reshapes_in_place(call)) return AMP_OK;
    if (call->op->flags & AMP_OP_PLACED) AMP_TRY(place_like_target(call));
    if (__builtin_expect(t->storage->device != call->device, 0)) {
        return amp_fail(AMP_ERROR_DEVICE, "%s: '%s' is on %s, the arguments are on %s; all must be on one device", op,
                        name, amp_device_name(t->storage->device), amp_device_name(call->device));
    }
    AMP_TRY(amp_tensor_check_writable(op, name, t));
    return amp_tensor_check_separate(op, "", name, t);
}

/* Elements of the two may lie between each other. */
static amp_status check_apart(const amp_call *call, int first, int second) {
    const amp_tensor *a = call->outs[first], *b = call->outs[second];
    if (!amp_tensor_shares_elements(a, b)) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: '%s' and '%s' share memory; each result needs its own", amp_call_name(call),
                    amp_target_name(call, first), amp_target_name(call, second));
}

static amp_status check_outs(amp_call *call) {
    if (!call->outs) {
        return amp_fail(AMP_ERROR_INVALID, "%s: the argument '%s' is missing", amp_call_name(call),
                        amp_target_name(call, 0));
    }
    for (int i = 0; i < call->op->output_count; i++) {
        AMP_TRY(check_given(call, i));
        for (int k = 0; k < i; k++) AMP_TRY(check_apart(call, k, i));
    }
    return AMP_OK;
}

AMP_APART static amp_status check_written(amp_call *call) {
    if (amp_call_mutates(call)) AMP_TRY(amp_call_each_tensor(call, check_mutated));
    if (call->form == AMP_FORM_FUNCTION) return AMP_OK;
    if (!(call->op->forms & call->form)) return no_such_form(call);
    if (call->op->output_count > 1) return check_outs(call);
    if (call->form == AMP_FORM_INPLACE) call->target = *amp_call_tensor(call, &call->op->args[0]);
    return check_given(call, 0);
}

AMP_HOT amp_status amp_results_check_targets(amp_call *call) {
    const bool writes = call->form != AMP_FORM_FUNCTION || call->op->flags & AMP_OP_MUTATES;
    return writes ? check_written(call) : AMP_OK;
}

/* ---- After the kernel ----------------------------------------------------------------------------------------- */
/* On the device of the call, which the backend has left by now. */
static amp_status copy_over(amp_call *call, amp_tensor *const *targets) {
    const amp_backend *backend = NULL;
    AMP_TRY(amp_backend_for(call->device, amp_call_name(call), &backend));
    amp_status status = backend->begin ? backend->begin(call) : AMP_OK;
    for (int i = 0; i < call->op->output_count && status == AMP_OK; i++) {
        status = backend->copy(targets[i], call->outputs[i]);
        call->outputs[i] = targets[i];
    }
    if (backend->end && !(amp_this_thread.layers & AMP_INSIDE_OP)) backend->end();
    return status;
}

static amp_status copy_to_target(amp_call *call) {
    const amp_tensor *made = call->outputs[0];
    AMP_TRY(amp_check_target(call, made->dtype, made->rank, made->shape));
    return copy_over(call, &call->target);
}

/* All of the results or none: what does not fit is found before the first is written. */
static amp_status copy_to_outs(amp_call *call) {
    for (int i = 0; i < call->op->output_count; i++) {
        const amp_tensor *made = call->outputs[i];
        if (!made) {
            return amp_fail(AMP_ERROR_INTERNAL, "%s: the implementation on %s made no '%s'", amp_call_name(call),
                            amp_device_name(call->device), amp_target_name(call, i));
        }
        AMP_TRY(amp_check_target_shape(call, i, made->rank, made->shape));
        AMP_TRY(amp_check_result_dtype(call, i, made->dtype));
    }
    const amp_status status = copy_over(call, call->outs);
    for (int i = 0; i < call->op->output_count; i++) amp_tensor_written(call->outs[i]);
    return status;
}

/* The target becomes the view of itself that the op made. */
static void take_geometry(amp_call *call) {
    const amp_tensor *view = call->outputs[0];
    amp_tensor *t = call->target;
    t->rank = view->rank;
    memcpy(t->shape, view->shape, sizeof t->shape);
    memcpy(t->strides, view->strides, sizeof t->strides);
    t->offset = view->offset;
    call->outputs[0] = t;
    amp_tensor_written(t);
}

void amp_results_written(amp_call *call) {
    if (call->target && !reshapes_in_place(call)) amp_tensor_written(call->target);
    if (amp_call_mutates(call)) (void)amp_call_each_tensor(call, tell_mutated);
}

static amp_status finish_target(amp_call *call) {
    if (call->outputs[0] == call->target) return AMP_OK;
    if (!reshapes_in_place(call)) return copy_to_target(call);
    take_geometry(call);
    return AMP_OK;
}

AMP_APART static amp_status no_result(const amp_call *call) {
    return amp_fail(AMP_ERROR_INTERNAL, "%s: the implementation on %s made no result", amp_call_name(call),
                    amp_device_name(call->device));
}

AMP_APART static amp_status finish_written(amp_call *call) {
    const amp_status status = call->target ? finish_target(call) : call->outs ? copy_to_outs(call) : AMP_OK;
    if (call->target || call->op->flags & AMP_OP_MUTATES) amp_results_written(call);
    return status;
}

AMP_HOT amp_status amp_results_finish(amp_call *call) {
    if (call->op->flags & AMP_OP_RETURNS_LIST) return AMP_OK;
    if (!call->outputs[0]) return no_result(call);
    return call->target || call->outs || call->op->flags & AMP_OP_MUTATES ? finish_written(call) : AMP_OK;
}

/* Results that this call made move; an argument that came back unchanged (contiguous of a contiguous tensor) is
 * returned as a view, for every result has an owner of its own. */
static amp_tensor *own_result(amp_call *call, amp_tensor *t) {
    if (is_target(call, t)) return t;
    /* an argument that autocast put in the place of the caller's, and that came back */
    if (t->source && amp_call_materialize(call, t) != AMP_OK) return NULL;
    if (!t->source && t->scope == amp_this_thread.scope) return t;
    return amp_tensor_view(call->op->name, t, t->rank, t->shape, t->strides, t->offset);
}

/* Moves them home one after the other, so that a tensor that stands there twice is a view the second time; or none. */
AMP_HOT static amp_status move_home(amp_call *call, amp_tensor **results, int64_t count, amp_scope_frame *home) {
    for (int64_t i = 0; i < count; i++) {
        amp_tensor *own = results[i] ? own_result(call, results[i]) : NULL;
        if (__builtin_expect(results[i] && !own, 0)) {
            while (--i >= 0) { /* they go with the frame of the call */
                if (results[i] && !is_target(call, results[i])) amp_scope_move(results[i], call->frame);
            }
            return amp_pending_error();
        }
        results[i] = own;
        if (own && !is_target(call, own)) amp_scope_move(own, home);
    }
    return AMP_OK;
}

static amp_status move_list_home(amp_call *call, amp_scope_frame *home) {
    if (!call->list.holder) return AMP_OK;
    AMP_TRY(move_home(call, call->list.holder->storage->data, call->list.count, home));
    amp_scope_move(call->list.holder, home);
    return AMP_OK;
}

/* Where the caller wants result number index + 1; NULL: nowhere. */
static void find_wanted(const amp_call *call, amp_tensor **wanted[AMP_MAX_OUTPUTS]) {
    int index = 0;
    for (int i = 0; i < call->op->arg_count; i++) {
        const amp_arg_info *arg = &call->op->args[i];
        if (arg->kind == AMP_ARG_OUTPUT) wanted[index++] = *(amp_tensor * *const *)amp_call_field(call, arg);
    }
}

AMP_HOT amp_status amp_results_move_home(amp_call *call, amp_scope_frame *home) {
    const int further = call->op->output_count - 1;
    if (call->op->flags & AMP_OP_RETURNS_LIST) return move_list_home(call, home);
    if (further == 0) return move_home(call, call->outputs, 1, home);
    amp_tensor **wanted[AMP_MAX_OUTPUTS] = {0};
    find_wanted(call, wanted);
    for (int i = 0; i < further; i++) {
        if (!wanted[i]) call->outputs[i + 1] = NULL;
    }
    AMP_TRY(move_home(call, call->outputs, 1 + further, home));
    for (int i = 0; i < further; i++) {
        if (wanted[i]) *wanted[i] = call->outputs[i + 1];
    }
    return AMP_OK;
}

void amp_results_clear(const amp_call *call, const void *given) {
    size_t size = 0;
    if (!given) return;
    memcpy(&size, given, sizeof size);
    if (size > AMP_MAX_STRUCT_BYTES) size = 0; /* no size: nothing in the struct can be believed */
    for (int i = 0; i < call->op->arg_count; i++) {
        const amp_arg_info *arg = &call->op->args[i];
        if (arg->kind != AMP_ARG_OUTPUT || arg->offset + sizeof(amp_tensor **) > size) continue;
        amp_tensor **wanted;
        memcpy(&wanted, (const char *)given + arg->offset, sizeof wanted);
        if (wanted) *wanted = NULL;
    }
}
