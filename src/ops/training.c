/* The ops of training: what may be unscaled, and what an optimizer may update; tensors whose elements lie otherwise. */
#include "amp/ops.h"
#include "call/backend.h"
#include "core/near_name.h"
#include "steps/steps.h"

/* ---- foreach_non_finite_check_and_unscale ---------------------------------------------------------------------------- */

static amp_status check_number(const amp_call *call, const char *name, const amp_tensor *t) {
    if (t->dtype == AMP_F32 && amp_tensor_elements(t) == 1) return AMP_OK;
    return amp_fail(t->dtype == AMP_F32 ? AMP_ERROR_INVALID : AMP_ERROR_DTYPE,
                    "%s: '%s' is %s; expected one f32 element", amp_call_name(call), name, amp_describe(t));
}

static amp_status check_gradient(const amp_call *call, const amp_tensor *t) {
    if (amp_dtype_is_floating(t->dtype)) return AMP_OK;
    return amp_fail(AMP_ERROR_DTYPE, "%s: a tensor of 'grads' is %s; expected a floating dtype", amp_call_name(call),
                    amp_describe(t));
}

amp_status amp_op_foreach_non_finite_check_and_unscale(amp_call *call) {
    const amp_foreach_non_finite_check_and_unscale_args *a = call->args;
    AMP_TRY(check_number(call, "found_inf", a->found_inf));
    AMP_TRY(check_number(call, "inv_scale", a->inv_scale));
    for (int64_t i = 0; i < a->grads.count; i++) AMP_TRY(check_gradient(call, a->grads.items[i]));
    AMP_TRY(amp_steps_of(call)->unscale(call, &a->grads, a->found_inf, a->inv_scale));
    call->outputs[0] = a->found_inf;
    return AMP_OK;
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
static bool has_states(amp_update_kind which, const double *numbers, int64_t count) {
    const kind *k = &kinds[which];
    if (which == AMP_UPDATE_RMSPROP) return count == 1 + (numbers[5] != 0) + (numbers[6] != 0);
    return count >= k->least_states && count <= k->most_states;
}

static amp_status check(const amp_call *call, const amp_optimizer_update_args *a, amp_update_kind *which) {
    AMP_TRY(find_kind(call, a->algorithm, which));
    const kind *k = &kinds[*which];
    if (a->numbers.count != k->numbers)
        return amp_fail(AMP_ERROR_INVALID, "%s: 'numbers' has %d; expected the %d of %s", amp_call_name(call),
                        a->numbers.count, k->numbers, k->name);
    if (!has_states(*which, a->numbers.values, a->state.count))
        return amp_fail(AMP_ERROR_INVALID, "%s: 'state' has %lld tensors, which %s has not with these numbers",
                        amp_call_name(call), (long long)a->state.count, k->name);
    AMP_TRY(check_tensor(call, "input", a->input, a->input, false));
    AMP_TRY(check_tensor(call, "grad", a->grad, a->input, false));
    for (int64_t i = 0; i < a->state.count; i++)
        AMP_TRY(check_tensor(call, "state", a->state.items[i], a->input, true));
    return a->copy ? check_tensor(call, "copy", a->copy, a->input, false) : AMP_OK;
}

enum { MOST_TENSORS = 3 + AMP_UPDATE_STATES, PARAMETER = 0, GRADIENT, COPY, STATES };

/* The elements fill their memory, in whichever order of dimensions. */
static bool fills_memory(const amp_tensor *t) {
    int64_t reach = 1;
    for (int d = 0; d < t->rank; d++) {
        if (t->shape[d] > 1 && t->strides[d] <= 0) return false;
        reach += (t->shape[d] - 1) * t->strides[d];
    }
    return reach == amp_tensor_elements(t);
}

static bool lie_alike(amp_tensor *const *tensors) {
    if (!fills_memory(tensors[PARAMETER])) return false;
    for (int i = 1; i < MOST_TENSORS; i++) {
        if (tensors[i] && !amp_same_layout(tensors[i], tensors[PARAMETER])) return false;
    }
    return true;
}

static amp_status update(amp_call *call, amp_update *u, amp_tensor *const *tensors) {
    u->parameter = tensors[PARAMETER];
    u->gradient = tensors[GRADIENT];
    u->copy = tensors[COPY];
    for (int k = 0; k < AMP_UPDATE_STATES; k++) u->states[k] = tensors[STATES + k];
    return amp_steps_of(call)->update(call, u);
}

/* By way of dense copies of those that are not, which are then copied back. */
static amp_status update_copies(amp_call *call, amp_update *u, amp_tensor *const *tensors) {
    amp_tensor *dense[MOST_TENSORS] = {NULL};
    for (int i = 0; i < MOST_TENSORS; i++) {
        if (!tensors[i]) continue;
        dense[i] = amp_tensor_is_dense(tensors[i]) ? tensors[i] : amp_contiguous(tensors[i]);
        if (!dense[i]) return amp_pending_error();
    }
    AMP_TRY(update(call, u, dense));
    for (int i = 0; i < MOST_TENSORS; i++) {
        if (i == GRADIENT || dense[i] == tensors[i]) continue;
        if (!amp_copy_(tensors[i], dense[i])) return amp_pending_error();
    }
    return AMP_OK;
}

amp_status amp_op_optimizer_update(amp_call *call) {
    const amp_optimizer_update_args *a = call->args;
    amp_update u = {.kind = AMP_UPDATE_SGD};
    AMP_TRY(check(call, a, &u.kind));
    memcpy(u.numbers, a->numbers.values, sizeof u.numbers);
    amp_tensor *tensors[MOST_TENSORS] = {[PARAMETER] = a->input, [GRADIENT] = a->grad, [COPY] = a->copy};
    for (int64_t i = 0; i < a->state.count; i++) tensors[STATES + i] = a->state.items[i];
    AMP_TRY((lie_alike(tensors) ? update : update_copies)(call, &u, tensors));
    call->outputs[0] = a->input;
    return AMP_OK;
}
