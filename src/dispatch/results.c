/* Where results go: fresh tensors, in-place and out= targets, second outputs, lists. */
#include "dispatch/results.h"

#include <stdio.h>
#include <string.h>

#include "core/hot.h"
#include "core/layout.h"
#include "core/memory.h"
#include "core/struct_size.h"
#include "dispatch/backend.h"
#include "policy/cast_cache.h"
#include "policy/promotion.h"
#include "policy/user_ops.h"

/* What the tensor is called that takes result number `index`. */
static const char *target_name(const amp_call *call, int index) {
    if (call->form == AMP_FORM_INPLACE) return call->op->args[0].name;
    if (index == 0) return call->op->result;
    return call->op->args[call->op->arg_count - call->op->output_count + index].name; /* further results stand last */
}

/* The tensor that takes result number `index`; NULL: the caller gave none. */
static amp_tensor *target_of(const amp_call *call, int index) {
    return call->outs ? call->outs[index] : index == 0 ? call->target : NULL;
}

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

static amp_status check_mutated(const amp_call *call) {
    for (int i = 0; i < call->op->arg_count; i++) {
        const amp_arg_info *arg = &call->op->args[i];
        if (!(arg->flags & AMP_ARG_MUTATED) || arg->kind != AMP_ARG_TENSOR) continue;
        const amp_tensor *t = *amp_call_tensor(call, arg);
        if (t) AMP_TRY(amp_tensor_check_writable(amp_call_name(call), arg->name, t));
    }
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
        amp_dtype *dtype = amp_call_field(call, &call->op->args[i]);
        if (*dtype == AMP_DTYPE_NONE) *dtype = call->target->dtype;
        AMP_TRY(amp_call_check_target_dtype(call, *dtype));
    }
    return AMP_OK;
}

static amp_status check_given(amp_call *call, int index) {
    const char *const op = amp_call_name(call), *const name = target_name(call, index);
    const amp_tensor *t = target_of(call, index);
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
                    target_name(call, first), target_name(call, second));
}

static amp_status check_outs(amp_call *call) {
    if (!call->outs) {
        return amp_fail(AMP_ERROR_INVALID, "%s: the argument '%s' is missing", amp_call_name(call),
                        target_name(call, 0));
    }
    for (int i = 0; i < call->op->output_count; i++) {
        AMP_TRY(check_given(call, i));
        for (int k = 0; k < i; k++) AMP_TRY(check_apart(call, k, i));
    }
    return AMP_OK;
}

AMP_HOT amp_status amp_results_check_targets(amp_call *call) {
    if (call->op->flags & AMP_OP_MUTATES) AMP_TRY(check_mutated(call));
    if (call->form == AMP_FORM_FUNCTION) return AMP_OK;
    if (!(call->op->forms & call->form)) return no_such_form(call);
    if (call->op->output_count > 1) return check_outs(call);
    if (call->form == AMP_FORM_INPLACE) call->target = *amp_call_tensor(call, &call->op->args[0]);
    return check_given(call, 0);
}

/* ---- Output tensors ------------------------------------------------------------------------------------------- */

/* The target can be written while this input is still read. */
static bool input_allows_direct(const amp_call *call, const amp_tensor *input) {
    const amp_tensor *memory = input && input->source ? input->source : input;
    if (!memory || !amp_tensor_overlaps(memory, call->target)) return true;
    return (call->op->flags & AMP_OP_ELEMENTWISE) && amp_same_elements(memory, call->target);
}

static bool writable_directly(const amp_call *call) {
    if (amp_op_is_user(call->op) && !amp_tensor_is_dense(call->target)) return false; /* as amp/user.h promises */
    for (int i = 0; i < call->op->arg_count; i++) {
        const amp_arg_info *arg = &call->op->args[i];
        if (arg->kind == AMP_ARG_TENSOR && !input_allows_direct(call, *amp_call_tensor(call, arg))) return false;
        if (arg->kind != AMP_ARG_TENSOR_LIST) continue;
        const amp_tensor_list *list = amp_call_tensor_list(call, arg);
        for (int64_t k = 0; k < list->count; k++) {
            if (!input_allows_direct(call, list->items[k])) return false;
        }
    }
    return true;
}

static amp_status check_target_shape(const amp_call *call, int index, int rank, const int64_t *shape) {
    const amp_tensor *t = target_of(call, index);
    if (amp_has_shape(t, rank, shape)) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: '%s' is %s, but the result has shape %s", amp_call_name(call),
                    target_name(call, index), amp_describe(t), amp_describe_shape(rank, shape));
}

static amp_status check_target(const amp_call *call, amp_dtype dtype, int rank, const int64_t *shape) {
    const amp_tensor *t = call->target;
    AMP_TRY(check_target_shape(call, 0, rank, shape));
    if (!amp_can_cast(dtype, t->dtype)) {
        return amp_fail(AMP_ERROR_DTYPE,
                        "%s: '%s' is %s, and a result of %s cannot be written into it (in-place and "
                        "out= forms do not autocast)",
                        amp_call_name(call), target_name(call, 0), amp_describe(t), amp_dtype_name(dtype));
    }
    return AMP_OK;
}

static amp_status check_target_dtype(const amp_call *call, int index, amp_dtype dtype) {
    const amp_tensor *t = target_of(call, index);
    if (t->dtype == dtype) return AMP_OK;
    return amp_fail(AMP_ERROR_DTYPE,
                    "%s: '%s' is %s, but the result is %s; both must have the same dtype (in-place and out= forms do "
                    "not autocast)",
                    amp_call_name(call), target_name(call, index), amp_describe(t), amp_dtype_name(dtype));
}

AMP_HOT static amp_tensor *fresh_output(amp_call *call, int index, amp_dtype dtype, int rank, const int64_t *shape) {
    amp_tensor *t = amp_backend_tensor(call->device, call->op->name, dtype, rank, shape);
    if (t && __builtin_expect(t->scope != call->frame, 0)) amp_scope_move(t, call->frame);
    if (t) atomic_store_explicit(&t->storage->produced, true, memory_order_relaxed);
    return call->outputs[index] = t;
}

AMP_HOT amp_tensor *amp_call_output(amp_call *call, int index, amp_dtype dtype, int rank, const int64_t *shape) {
    if (__builtin_expect((unsigned)index >= AMP_MAX_OUTPUTS, 0)) {
        amp_fail(AMP_ERROR_INTERNAL, "%s: the implementation makes result number %d", amp_call_name(call), index);
        return NULL;
    }
    if (index == 0 && call->target) {
        if (check_target(call, dtype, rank, shape) != AMP_OK) return NULL;
        if (call->target->dtype == dtype && writable_directly(call)) return call->outputs[0] = call->target;
    }
    return fresh_output(call, index, dtype, rank, shape);
}

AMP_HOT amp_tensor *amp_call_dense_output(amp_call *call, amp_dtype dtype, int rank, const int64_t *shape) {
    amp_tensor *t = amp_call_output(call, 0, dtype, rank, shape);
    if (!t || t != call->target || amp_tensor_is_dense(t)) return t;
    return fresh_output(call, 0, dtype, rank, shape);
}

amp_tensor *amp_call_output_like(amp_call *call, int index, amp_dtype dtype, int rank, const int64_t *shape,
                                 const amp_tensor *like) {
    amp_tensor *t = amp_call_output(call, index, dtype, rank, shape);
    if (t && like && (index > 0 || t != call->target)) amp_take_layout(t, like);
    return t;
}

void amp_results_take(const amp_call *call, amp_tensor *t) {
    for (amp_scope_frame *f = amp_this_thread.scope; f && f != call->frame; f = f->outer) {
        if (t->scope != f) continue;
        amp_scope_move(t, call->frame);
        return;
    }
}

amp_status amp_call_list(amp_call *call, amp_tensor *const *items, int64_t count) {
    if (__builtin_expect(count < 0 || count > INT64_MAX / (int64_t)sizeof(void *) || (count > 0 && !items), 0)) {
        return amp_fail(AMP_ERROR_INTERNAL, "%s: call_list: %s'count' is %lld", amp_call_name(call),
                        items || count < 0 ? "" : "'items' is NULL, ", (long long)count);
    }
    const int64_t bytes[1] = {count * (int64_t)sizeof(void *)};
    amp_tensor *holder = amp_tensor_new(call->op->name, AMP_U8, 1, bytes);
    if (!holder) return amp_pending_error();
    if (count > 0) memcpy(holder->storage->data, items, (size_t)bytes[0]);
    amp_results_take(call, holder);
    for (int64_t i = 0; i < count; i++) {
        if (items[i] && amp_tensor_is_live(items[i])) amp_results_take(call, items[i]);
    }
    call->list = (amp_tensor_list){.items = holder->storage->data, .count = count, .holder = holder};
    return AMP_OK;
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
    AMP_TRY(check_target(call, made->dtype, made->rank, made->shape));
    return copy_over(call, &call->target);
}

/* All of the results or none: what does not fit is found before the first is written. */
static amp_status copy_to_outs(amp_call *call) {
    for (int i = 0; i < call->op->output_count; i++) {
        const amp_tensor *made = call->outputs[i];
        if (!made) {
            return amp_fail(AMP_ERROR_INTERNAL, "%s: the implementation on %s made no '%s'", amp_call_name(call),
                            amp_device_name(call->device), target_name(call, i));
        }
        AMP_TRY(check_target_shape(call, i, made->rank, made->shape));
        AMP_TRY(check_target_dtype(call, i, made->dtype));
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
}

void amp_results_written(amp_call *call) {
    if (call->target && !reshapes_in_place(call)) amp_tensor_written(call->target);
    for (int i = 0; i < call->op->arg_count; i++) {
        const amp_arg_info *arg = &call->op->args[i];
        if (!(arg->flags & AMP_ARG_MUTATED) || arg->kind != AMP_ARG_TENSOR) continue;
        amp_tensor *t = *amp_call_tensor(call, arg);
        if (t) amp_tensor_written(t);
    }
}

static amp_status finish_target(amp_call *call) {
    if (call->outputs[0] == call->target) return AMP_OK;
    if (!reshapes_in_place(call)) return copy_to_target(call);
    take_geometry(call);
    return AMP_OK;
}

AMP_HOT amp_status amp_results_finish(amp_call *call) {
    if (call->op->flags & AMP_OP_RETURNS_LIST) return AMP_OK;
    if (!call->outputs[0]) {
        return amp_fail(AMP_ERROR_INTERNAL, "%s: the implementation on %s made no result", amp_call_name(call),
                        amp_device_name(call->device));
    }
    const amp_status status = call->target ? finish_target(call) : call->outs ? copy_to_outs(call) : AMP_OK;
    if (call->target || call->op->flags & AMP_OP_MUTATES) amp_results_written(call);
    return status;
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
        if (arg->kind == AMP_ARG_OUTPUT) wanted[index++] = *(amp_tensor ***)amp_call_field(call, arg);
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

/* ---- Pending casts -------------------------------------------------------------------------------------------- */
static amp_tensor *build_dense(const amp_tensor *source, amp_dtype dtype, void *context) {
    const amp_backend *backend = context;
    amp_tensor *made = amp_backend_tensor(source->storage->device, "cast", dtype, source->rank, source->shape);
    if (!made || backend->copy(made, source) == AMP_OK) return made;
    amp_tensor_drop(made);
    return NULL;
}

/* The tensor gets memory that holds its elements densely. */
static void give_memory(amp_tensor *t, amp_storage *memory) {
    t->storage = amp_storage_retain(memory);
    t->offset = 0;
    amp_dense_strides(t->rank, t->shape, t->strides);
}

static amp_status materialize_cached(const amp_backend *backend, amp_tensor *t, bool *cached) {
    amp_cast *cast =
        amp_cast_obtain(t->source, t->dtype, AMP_LAYOUT_DENSE, t->cast_life, build_dense, (void *)backend, cached);
    if (!cast) return amp_pending_error();
    give_memory(t, cast->memory);
    amp_cast_release(cast);
    return AMP_OK;
}

amp_tensor *amp_cached_cast(const char *op, amp_tensor *source, amp_dtype dtype, amp_cast_life life) {
    const amp_backend *backend = NULL;
    bool cached = false;
    if (amp_backend_for(source->storage->device, op, &backend) != AMP_OK) return NULL;
    amp_tensor *t = amp_tensor_pending_cast(op, source, dtype);
    if (!t) return NULL;
    t->cast_life = life;
    const amp_status status = materialize_cached(backend, t, &cached);
    t->source = NULL;
    if (status == AMP_OK) return t;
    amp_tensor_drop(t);
    return NULL;
}

static amp_status materialize_once(const amp_call *call, const amp_backend *backend, amp_tensor *t) {
    amp_tensor *made = amp_backend_tensor(call->device, call->op->name, t->dtype, t->rank, t->shape);
    if (!made) return amp_pending_error();
    amp_take_layout(made, t->source);
    AMP_TRY(backend->copy(made, t->source));
    atomic_store_explicit(&made->storage->produced, true, memory_order_relaxed);
    give_memory(t, made->storage);
    amp_take_layout(t, made);
    amp_tensor_drop(made);
    return AMP_OK;
}

AMP_HOT amp_tensor *amp_call_pending_cast(amp_call *call, amp_tensor *source, amp_dtype dtype) {
    if (!call->casts || call->cast_count == AMP_CALL_CASTS) {
        return amp_tensor_pending_cast(call->op->name, source, dtype);
    }
    amp_tensor *t = &call->casts[call->cast_count++];
    amp_tensor_pending_cast_at(t, source, dtype);
    return t;
}

AMP_HOT amp_status amp_call_materialize(amp_call *call, amp_tensor *t) {
    if (!t->source || t->storage) return AMP_OK;
    const amp_backend *backend = NULL;
    bool cached = false;
    AMP_TRY(amp_backend_for(call->device, amp_call_name(call), &backend));
    if (t->cast_life == AMP_CAST_ONCE) {
        AMP_TRY(materialize_once(call, backend, t));
    } else {
        AMP_TRY(materialize_cached(backend, t, &cached));
    }
    call->note.casts_cached += cached;
    call->note.casts_made += !cached;
    return AMP_OK;
}

AMP_HOT amp_status amp_call_check_same_dtype(const amp_call *call, const char *name_a, const amp_tensor *a,
                                             const char *name_b, const amp_tensor *b) {
    if (a->dtype == b->dtype || call->inner_layers) return AMP_OK; /* the parts cast, and check, their own */
    const char *hint = call->form == AMP_FORM_FUNCTION ? "" : " (in-place and out= forms do not autocast)";
    return amp_fail(AMP_ERROR_DTYPE, "%s: '%s' is %s, '%s' is %s; both must have the same dtype%s", amp_call_name(call),
                    name_a, amp_describe(a), name_b, amp_describe(b), hint);
}

amp_status amp_call_check_shape(const amp_call *call, const char *name, const amp_tensor *t, int rank,
                                const int64_t *shape) {
    if (amp_has_shape(t, rank, shape)) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: '%s' is %s; expected %s", amp_call_name(call), name, amp_describe(t),
                    amp_describe_shape(rank, shape));
}

amp_status amp_call_check_target_dtype(const amp_call *call, amp_dtype dtype) {
    return call->target ? check_target_dtype(call, 0, dtype) : AMP_OK;
}
