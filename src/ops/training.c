/* The ops of training, over lists: gradients unscaled, measured and clipped, and what an optimizer may update; tensors
 * whose elements lie otherwise. */
#include <math.h>

#include "amp/ops.h"
#include "call/backend.h"
#include "core/layout.h"
#include "core/memory.h"
#include "core/near_name.h"
#include "steps/steps.h"

/* ---- foreach_non_finite_check_and_unscale ---------------------------------------------------------------------------- */

static amp_status check_number(const amp_call *call, const char *name, const amp_tensor *t) {
    if (t->dtype == AMP_F32 && amp_tensor_elements(t) == 1) return AMP_OK;
    return amp_fail(t->dtype == AMP_F32 ? AMP_ERROR_INVALID : AMP_ERROR_DTYPE,
                    "%s: '%s' is %s; expected one f32 element", amp_call_name(call), name, amp_describe(t));
}

static amp_status check_gradients(const amp_call *call, const amp_tensor_list *grads, bool may_be_complex) {
    for (int64_t i = 0; i < grads->count; i++) {
        const amp_tensor *t = grads->items[i];
        if (amp_dtype_is_floating(t->dtype) || (may_be_complex && amp_dtype_is_complex(t->dtype))) continue;
        return amp_fail(AMP_ERROR_DTYPE, "%s: a tensor of 'grads' is %s; expected a floating%s dtype",
                        amp_call_name(call), amp_describe(t), may_be_complex ? " or complex" : "");
    }
    return AMP_OK;
}

amp_status amp_op_foreach_non_finite_check_and_unscale(amp_call *call) {
    const amp_foreach_non_finite_check_and_unscale_args *a = call->args;
    AMP_TRY(check_number(call, "found_inf", a->found_inf));
    AMP_TRY(check_number(call, "inv_scale", a->inv_scale));
    AMP_TRY(check_gradients(call, &a->grads, false));
    AMP_TRY(amp_steps_of(call)->unscale(call, &a->grads, a->found_inf, a->inv_scale));
    call->outputs[0] = a->found_inf;
    return AMP_OK;
}

/* The result is made before anything is written: else a step that was done could still fail. */
static amp_status give(amp_call *call, amp_tensor *t) {
    call->outputs[0] = amp_tensor_view(amp_call_name(call), t, t->rank, t->shape, t->strides, t->offset);
    return call->outputs[0] ? AMP_OK : amp_pending_error();
}

/* ---- foreach_norm, foreach_clip --------------------------------------------------------------------------------------- */

/* A complex number as its two parts: they have its norm of order 2, and are scaled as it is. */
static amp_tensor *parts_of(amp_tensor *t) {
    return t && amp_dtype_is_complex(t->dtype) ? amp_view_as_real(t) : t;
}

/* A block of memory: the tensor's, or where that has gaps a dense copy's. */
static amp_tensor *block_of(amp_tensor *t) {
    return parts_of(amp_fills_memory(t) ? t : amp_contiguous(t));
}

/* What `change` makes of each, for amp_free; NULL with an error. */
static amp_tensor **changed(const amp_call *call, const amp_tensor_list *list, amp_tensor *(*change)(amp_tensor *)) {
    amp_tensor **items = amp_alloc((size_t)list->count * sizeof(amp_tensor *));
    if (!items) (void)amp_fail(AMP_ERROR_MEMORY, "%s: no memory", amp_call_name(call));
    for (int64_t i = 0; items && i < list->count; i++) {
        items[i] = change(list->items[i]);
        if (items[i]) continue;
        amp_free(items);
        return NULL;
    }
    return items;
}

static amp_status norm_all(amp_call *call, const amp_tensor_list *grads, amp_tensor *out) {
    amp_tensor **blocks = changed(call, grads, block_of);
    if (!blocks) return amp_pending_error();
    const amp_tensor_list list = {.items = blocks, .count = grads->count};
    const amp_status status = amp_steps_of(call)->norms(call, &list, out);
    amp_free(blocks);
    return status;
}

static amp_status norm_each(const amp_tensor_list *grads, double ord, amp_tensor *out) {
    for (int64_t i = 0; i < grads->count; i++) {
        const amp_dtype wide = amp_dtype_is_complex(grads->items[i]->dtype) ? AMP_C128 : AMP_F64;
        amp_tensor *norm = amp_linalg_vector_norm(grads->items[i], .ord = amp_float(ord), .dtype = wide);
        amp_tensor *place = norm ? amp_select(out, 0, i) : NULL;
        if (!place) return amp_pending_error();
        AMP_TRY(amp_copy_tensor(place, norm));
    }
    return AMP_OK;
}

amp_status amp_op_foreach_norm(amp_call *call) {
    const amp_foreach_norm_args *a = call->args;
    AMP_TRY(check_gradients(call, &a->grads, true));
    amp_tensor *out = amp_call_output(call, 0, AMP_F64, 1, &a->grads.count);
    if (!out) return amp_pending_error();
    const bool by_blocks = a->ord == 2 && amp_steps_of(call)->norms;
    return by_blocks ? norm_all(call, &a->grads, out) : norm_each(&a->grads, a->ord, out);
}

static amp_status clip_each(amp_call *call, const amp_tensor_list *grads, double factor, double limit) {
    (void)call;
    for (int64_t i = 0; i < grads->count; i++) {
        amp_tensor *g = grads->items[i];
        if (factor != 1 && !amp_mul_scalar_(g, amp_float(factor))) return amp_pending_error();
        if (limit < INFINITY && !amp_clamp_(g, .min = amp_float(-limit), .max = amp_float(limit)))
            return amp_pending_error();
    }
    return AMP_OK;
}

amp_status amp_op_foreach_clip(amp_call *call) {
    const amp_foreach_clip_args *a = call->args;
    AMP_TRY(check_gradients(call, &a->grads, a->limit == INFINITY));
    if (a->grads.count == 0)
        return amp_fail(AMP_ERROR_INVALID, "%s: the argument 'grads' is an empty list of tensors", amp_call_name(call));
    AMP_TRY(give(call, a->grads.items[0]));
    amp_tensor **parts = changed(call, &a->grads, parts_of);
    if (!parts) return amp_pending_error();
    const amp_tensor_list list = {.items = parts, .count = a->grads.count};
    const bool by_step = amp_steps_of(call)->clip != NULL;
    const amp_status status = (by_step ? amp_steps_of(call)->clip : clip_each)(call, &list, a->factor, a->limit);
    amp_free(parts);
    return status;
}

/* ---- optimizer_update -------------------------------------------------------------------------------------------------- */
typedef struct kind {
    const char *name;
    int least_states, most_states, numbers;
} kind;

static const kind kinds[AMP_UPDATE_KINDS] = {
    [AMP_UPDATE_SGD] = {"sgd", 0, 1, 7},           [AMP_UPDATE_ADAM] = {"adam", 2, 3, 8},
    [AMP_UPDATE_ADAGRAD] = {"adagrad", 1, 1, 4},   [AMP_UPDATE_RMSPROP] = {"rmsprop", 1, 3, 7},
    [AMP_UPDATE_ADADELTA] = {"adadelta", 2, 2, 5}, [AMP_UPDATE_NADAM] = {"nadam", 2, 2, 8},
    [AMP_UPDATE_RADAM] = {"radam", 2, 2, 8},       [AMP_UPDATE_ADAMAX] = {"adamax", 2, 2, 6},
};

static amp_status find_kind(const amp_call *call, const char *name, amp_update_kind *found) {
    amp_near_name near = {.wanted = name};
    for (int i = 0; i < AMP_UPDATE_KINDS; i++) {
        *found = (amp_update_kind)i;
        if (!strcmp(kinds[i].name, name)) return AMP_OK;
        amp_near_name_offer(&near, kinds[i].name);
    }
    return amp_fail(AMP_ERROR_INVALID, "%s: there is no algorithm '%.100s'; did you mean '%s'?", amp_call_name(call),
                    name, near.nearest ? near.nearest : kinds[0].name);
}

static amp_status check_tensor(const amp_call *call, const char *name, const amp_tensor *t, const amp_tensor *input,
                               bool of_its_dtype) {
    if (of_its_dtype ? t->dtype != input->dtype : !amp_dtype_is_floating(t->dtype)) {
        return amp_fail(AMP_ERROR_DTYPE, "%s: '%s' is %s; expected %s", amp_call_name(call), name, amp_describe(t),
                        of_its_dtype ? amp_dtype_name(input->dtype) : "a floating dtype");
    }
    if (amp_same_shape(t, input)) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: '%s' is %s, 'input' %s; expected one shape", amp_call_name(call), name,
                    amp_describe(t), amp_describe(input));
}

/* RMSprop has a state for each of momentum and centering. */
static bool has_states(amp_update_kind which, const double *numbers, int64_t kinds_of_state) {
    const kind *k = &kinds[which];
    if (which == AMP_UPDATE_RMSPROP) return kinds_of_state == 1 + (numbers[5] != 0) + (numbers[6] != 0);
    return kinds_of_state >= k->least_states && kinds_of_state <= k->most_states;
}

static amp_status check_counts(const amp_call *call, const amp_optimizer_update_args *a, amp_update_kind which) {
    const kind *k = &kinds[which];
    const char *const op = amp_call_name(call);
    const int64_t count = a->input.count;
    if (count == 0) return amp_fail(AMP_ERROR_INVALID, "%s: the argument 'input' is an empty list of tensors", op);
    if (a->grad.count != count || (a->copy.count != 0 && a->copy.count != count))
        return amp_fail(AMP_ERROR_INVALID, "%s: 'input' has %lld tensors, 'grad' %lld, 'copy' %lld; expected as many",
                        op, (long long)count, (long long)a->grad.count, (long long)a->copy.count);
    if (a->numbers.count != k->numbers)
        return amp_fail(AMP_ERROR_INVALID, "%s: 'numbers' has %d; expected the %d of %s", op, a->numbers.count,
                        k->numbers, k->name);
    if (a->state.count % count != 0 || !has_states(which, a->numbers.values, a->state.count / count))
        return amp_fail(AMP_ERROR_INVALID, "%s: 'state' has %lld tensors for %lld, which %s has not with these numbers",
                        op, (long long)a->state.count, (long long)count, k->name);
    return AMP_OK;
}

static amp_status check_list(const amp_call *call, const char *name, const amp_tensor_list *list,
                             const amp_tensor_list *inputs, bool of_their_dtypes) {
    for (int64_t i = 0; i < list->count; i++)
        AMP_TRY(check_tensor(call, name, list->items[i], inputs->items[i % inputs->count], of_their_dtypes));
    return AMP_OK;
}

static amp_status check(const amp_call *call, const amp_optimizer_update_args *a, amp_update_kind *which) {
    AMP_TRY(find_kind(call, a->algorithm, which));
    AMP_TRY(check_counts(call, a, *which));
    AMP_TRY(check_list(call, "input", &a->input, &a->input, false));
    AMP_TRY(check_list(call, "grad", &a->grad, &a->input, false));
    AMP_TRY(check_list(call, "state", &a->state, &a->input, true));
    return check_list(call, "copy", &a->copy, &a->input, false);
}

/* The lists one behind the other, each with a tensor for every parameter. */
enum { GRADIENTS = 1, STATES };

/* How many; the last may be of copies. */
static int lists_of(const amp_optimizer_update_args *a) {
    return (int)(2 + (a->state.count + a->copy.count) / a->input.count);
}

static void gather(const amp_optimizer_update_args *a, amp_tensor **all) {
    const amp_tensor_list *const lists[] = {&a->input, &a->grad, &a->state, &a->copy};
    for (int k = 0; k < 4; k++) {
        for (int64_t i = 0; i < lists[k]->count; i++) *all++ = lists[k]->items[i];
    }
}

static bool lie_alike(amp_tensor *const *all, int lists, int64_t count, int64_t index) {
    if (!amp_fills_memory(all[index])) return false;
    for (int k = 1; k < lists; k++) {
        if (!amp_same_layout(all[k * count + index], all[index])) return false;
    }
    return true;
}

/* In the place of tensors that do not lie alike come dense copies of those that are not dense. */
static amp_status make_alike(amp_tensor **all, int lists, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        if (lie_alike(all, lists, count, i)) continue;
        for (int k = 0; k < lists; k++) {
            amp_tensor **t = &all[k * count + i];
            if (!amp_tensor_is_dense(*t)) *t = amp_contiguous(*t);
            if (!*t) return amp_pending_error();
        }
    }
    return AMP_OK;
}

static amp_status copy_back(const amp_tensor_list *to, amp_tensor *const *from) {
    for (int64_t i = 0; i < to->count; i++) {
        if (to->items[i] != from[i]) AMP_TRY(amp_copy_tensor(to->items[i], from[i]));
    }
    return AMP_OK;
}

static amp_status update(amp_call *call, amp_update_kind which, amp_tensor **all) {
    const amp_optimizer_update_args *a = call->args;
    const int64_t count = a->input.count, states = a->state.count / count;
    amp_update u = {.kind = which, .count = count, .parameters = all, .gradients = all + GRADIENTS * count};
    memcpy(u.numbers, a->numbers.values, sizeof u.numbers);
    for (int64_t k = 0; k < states; k++) u.states[k] = all + (STATES + k) * count;
    amp_tensor *const *copies = all + (STATES + states) * count;
    if (a->copy.count) u.copies = copies;
    gather(a, all);
    AMP_TRY(make_alike(all, lists_of(a), count));
    AMP_TRY(amp_steps_of(call)->update(call, &u));
    AMP_TRY(copy_back(&a->input, u.parameters));
    AMP_TRY(copy_back(&a->state, all + STATES * count));
    return copy_back(&a->copy, copies);
}

amp_status amp_op_optimizer_update(amp_call *call) {
    const amp_optimizer_update_args *a = call->args;
    amp_update_kind which = AMP_UPDATE_SGD;
    AMP_TRY(check(call, a, &which));
    AMP_TRY(give(call, a->input.items[0]));
    amp_tensor **all = amp_alloc((size_t)lists_of(a) * (size_t)a->input.count * sizeof(amp_tensor *));
    if (!all) return amp_fail(AMP_ERROR_MEMORY, "%s: no memory", amp_call_name(call));
    const amp_status status = update(call, which, all);
    amp_free(all);
    return status;
}
