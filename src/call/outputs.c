/* What an implementation writes: fresh tensors, the target of an in-place or out= call, lists; and the checks of types
 * and shapes that implementations share. */
#include "call/outputs.h"

#include <string.h>

#include "call/ahead.h"
#include "call/backend.h"
#include "core/hot.h"
#include "core/layout.h"
#include "policy/promotion.h"

const char *amp_target_name(const amp_call *call, int index) {
    if (call->form == AMP_FORM_INPLACE) return call->op->args[0].name;
    if (index == 0) return call->op->result;
    return call->op->args[call->op->arg_count - call->op->output_count + index].name; /* further results stand last */
}

amp_tensor *amp_target_of(const amp_call *call, int index) {
    return call->outs ? call->outs[index] : index == 0 ? call->target : NULL;
}

/* The target can be written while this input is still read. */
static bool input_allows_direct(const amp_call *call, const amp_tensor *input) {
    const amp_tensor *memory = input && input->source ? input->source : input;
    if (!memory || !amp_tensor_overlaps(memory, call->target)) return true;
    return (call->op->flags & AMP_OP_ELEMENTWISE) && amp_same_elements(memory, call->target);
}

static bool writable_directly(const amp_call *call) {
    if ((call->op->flags & AMP_OP_DENSE_TARGET) && !amp_tensor_is_dense(call->target)) return false;
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

static bool is_training(const amp_call *call) {
    for (int i = 0; i < call->op->arg_count; i++) {
        const amp_arg_info *arg = &call->op->args[i];
        if (arg->kind == AMP_ARG_BOOL && strcmp(arg->name, "training") == 0)
            return *(const bool *)amp_call_field(call, arg);
    }
    return true;
}

bool amp_call_mutates(const amp_call *call) {
    if (__builtin_expect(!(call->op->flags & AMP_OP_MUTATES), 1)) return false;
    for (int i = 0; i < call->op->arg_count; i++) {
        const amp_arg_info *arg = &call->op->args[i];
        const bool given =
            arg->kind == AMP_ARG_TENSOR_LIST || (arg->kind == AMP_ARG_TENSOR && *amp_call_tensor(call, arg));
        if (given && arg->flags & AMP_ARG_MUTATED) return is_training(call);
    }
    return false;
}

bool amp_call_wants(const amp_call *call, int index) {
    if (__builtin_expect(call->needed >> index & 1, 0)) return true;
    for (int i = 0, at = 0; i < call->op->arg_count; i++) {
        if (call->op->args[i].kind != AMP_ARG_OUTPUT || ++at != index) continue;
        return *(amp_tensor * *const *)amp_call_field(call, &call->op->args[i]) != NULL;
    }
    return true;
}

amp_status amp_check_target_shape(const amp_call *call, int index, int rank, const int64_t *shape) {
    const amp_tensor *t = amp_target_of(call, index);
    if (amp_has_shape(t, rank, shape)) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: '%s' is %s, but the result has shape %s", amp_call_name(call),
                    amp_target_name(call, index), amp_describe(t), amp_describe_shape(rank, shape));
}

amp_status amp_check_target(const amp_call *call, amp_dtype dtype, int rank, const int64_t *shape) {
    const amp_tensor *t = call->target;
    AMP_TRY(amp_check_target_shape(call, 0, rank, shape));
    if (!amp_can_cast(dtype, t->dtype)) {
        return amp_fail(AMP_ERROR_DTYPE,
                        "%s: '%s' is %s, and a result of %s cannot be written into it (in-place and "
                        "out= forms do not autocast)",
                        amp_call_name(call), amp_target_name(call, 0), amp_describe(t), amp_dtype_name(dtype));
    }
    return AMP_OK;
}

AMP_APART amp_status amp_check_result_dtype(const amp_call *call, int index, amp_dtype dtype) {
    const amp_tensor *t = amp_target_of(call, index);
    if (t->dtype == dtype) return AMP_OK;
    return amp_fail(AMP_ERROR_DTYPE,
                    "%s: '%s' is %s, but the result is %s; both must have the same dtype (in-place and out= forms do "
                    "not autocast)",
                    amp_call_name(call), amp_target_name(call, index), amp_describe(t), amp_dtype_name(dtype));
}

/* Once: an implementation that asks again still reads what it got before. */
static amp_tensor *place_of(const amp_call *call, int index, amp_dtype dtype, int rank, const int64_t *shape) {
    amp_tensor *t = call->fresh >> index & 1 ? NULL : call->places[index];
    size_t bytes = amp_element_sizes[dtype];
    for (int d = 0; d < rank; d++) bytes *= (size_t)shape[d];
    if (!t || t->storage->bytes != bytes) return NULL;
    t->dtype = dtype;
    t->rank = rank;
    t->offset = 0;
    for (int d = 0; d < rank; d++) t->shape[d] = shape[d];
    amp_dense_strides(rank, shape, t->strides);
    return t;
}

static inline amp_tensor *new_output(amp_call *call, int index, amp_dtype dtype, int rank, const int64_t *shape) {
    call->fresh |= 1u << index;
    amp_tensor *t = amp_backend_tensor(call->device, call->op->name, dtype, rank, shape);
    if (t && __builtin_expect(t->scope != call->frame, 0)) amp_scope_move(t, call->frame);
    if (t) atomic_store_explicit(&t->storage->produced, true, memory_order_relaxed);
    return call->outputs[index] = t;
}

AMP_APART static amp_tensor *placed_output(amp_call *call, int index, amp_dtype dtype, int rank, const int64_t *shape) {
    amp_tensor *place = place_of(call, index, dtype, rank, shape);
    if (!place) return new_output(call, index, dtype, rank, shape);
    call->fresh |= 1u << index;
    return call->outputs[index] = place;
}

AMP_HOT static amp_tensor *fresh_output(amp_call *call, int index, amp_dtype dtype, int rank, const int64_t *shape) {
    return call->places ? placed_output(call, index, dtype, rank, shape) : new_output(call, index, dtype, rank, shape);
}

AMP_APART static amp_tensor *target_output(amp_call *call, amp_dtype dtype, int rank, const int64_t *shape) {
    if (amp_check_target(call, dtype, rank, shape) != AMP_OK) return NULL;
    if (call->target->dtype == dtype && writable_directly(call)) return call->outputs[0] = call->target;
    return fresh_output(call, 0, dtype, rank, shape);
}

AMP_APART static amp_tensor *no_such_output(const amp_call *call, int index) {
    amp_fail(AMP_ERROR_INTERNAL, "%s: the implementation makes result number %d", amp_call_name(call), index);
    return NULL;
}

AMP_HOT amp_tensor *amp_call_output(amp_call *call, int index, amp_dtype dtype, int rank, const int64_t *shape) {
    if (__builtin_expect((unsigned)index >= AMP_MAX_OUTPUTS, 0)) return no_such_output(call, index);
    if (__builtin_expect(call->ahead != 0, 0)) return amp_ahead_output(call, index, dtype, rank, shape);
    if (index == 0 && call->target) return target_output(call, dtype, rank, shape);
    return fresh_output(call, index, dtype, rank, shape);
}

AMP_APART static amp_tensor *dense_target_output(amp_call *call, amp_dtype dtype, int rank, const int64_t *shape) {
    amp_tensor *t = amp_call_output(call, 0, dtype, rank, shape);
    if (!t || t != call->target || amp_tensor_is_dense(t)) return t;
    return fresh_output(call, 0, dtype, rank, shape);
}

AMP_HOT amp_tensor *amp_call_dense_output(amp_call *call, amp_dtype dtype, int rank, const int64_t *shape) {
    return call->target ? dense_target_output(call, dtype, rank, shape) : amp_call_output(call, 0, dtype, rank, shape);
}

amp_tensor *amp_call_output_like(amp_call *call, int index, amp_dtype dtype, int rank, const int64_t *shape,
                                 const amp_tensor *like) {
    amp_tensor *t = amp_call_output(call, index, dtype, rank, shape), *made = call->outputs[index];
    if (made && like && (index > 0 || made != call->target)) amp_take_layout(made, like);
    return t;
}

amp_call amp_call_step(const amp_call *call) {
    amp_call step = *call;
    step.form = AMP_FORM_FUNCTION;
    step.target = NULL;
    step.outs = NULL;
    step.places = NULL;
    step.fresh = 0;
    memset(step.outputs, 0, sizeof step.outputs);
    return step;
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

AMP_APART static amp_status dtypes_differ(const amp_call *call, const char *name_a, const amp_tensor *a,
                                          const char *name_b, const amp_tensor *b) {
    const char *hint = call->form == AMP_FORM_FUNCTION ? "" : " (in-place and out= forms do not autocast)";
    return amp_fail(AMP_ERROR_DTYPE, "%s: '%s' is %s, '%s' is %s; both must have the same dtype%s", amp_call_name(call),
                    name_a, amp_describe(a), name_b, amp_describe(b), hint);
}

AMP_HOT amp_status amp_call_check_same_dtype(const amp_call *call, const char *name_a, const amp_tensor *a,
                                             const char *name_b, const amp_tensor *b) {
    if (a->dtype == b->dtype || call->inner_layers) return AMP_OK; /* the parts cast, and check, their own */
    return dtypes_differ(call, name_a, a, name_b, b);
}

amp_status amp_call_check_shape(const amp_call *call, const char *name, const amp_tensor *t, int rank,
                                const int64_t *shape) {
    if (amp_has_shape(t, rank, shape)) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: '%s' is %s; expected %s", amp_call_name(call), name, amp_describe(t),
                    amp_describe_shape(rank, shape));
}

amp_status amp_call_check_gradient(const amp_call *call, const amp_tensor *t, int rank, const int64_t *shape) {
    AMP_TRY(amp_call_check_shape(call, "grad_output", t, rank, shape));
    if (amp_dtype_is_floating(t->dtype)) return AMP_OK;
    return amp_fail(AMP_ERROR_DTYPE, "%s: 'grad_output' is %s; expected a floating dtype", amp_call_name(call),
                    amp_describe(t));
}

AMP_HOT amp_status amp_call_check_target_dtype(const amp_call *call, amp_dtype dtype) {
    return call->target ? amp_check_result_dtype(call, 0, dtype) : AMP_OK;
}
