/* cat, stack: whole tensors moved into place. */
#include <string.h>

#include "amp/ops.h"
#include "call/backend.h"
#include "policy/promotion.h"
#include "steps/shape_rules.h"

/* ---- cat, stack ----------------------------------------------------------------------------------------------- */

static amp_status check_list(const amp_call *call, const amp_tensor_list *list) {
    if (list->count < 1) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'tensors' is empty; expected at least one tensor", amp_call_name(call));
    }
    for (int64_t i = 0; i < list->count; i++) {
        if (list->items[i]) continue;
        return amp_fail(AMP_ERROR_INVALID, "%s: tensor %lld of 'tensors' is missing", amp_call_name(call),
                        (long long)i);
    }
    return AMP_OK;
}

static amp_dtype list_dtype(const amp_tensor_list *list) {
    amp_dtype dtype = AMP_DTYPE_NONE;
    for (int64_t i = 0; i < list->count; i++) dtype = amp_promote(dtype, list->items[i]->dtype);
    return dtype;
}

/* Copies each tensor behind the one before, along dimension d of `out`; with `stacked` each is one index of it. */
static amp_status place(const amp_tensor_list *list, amp_tensor *out, int d, bool stacked) {
    int64_t at = 0;
    for (int64_t i = 0; i < list->count; i++) {
        const amp_tensor *t = list->items[i];
        if (!stacked && t->rank != out->rank) continue; /* the empty vector that cat ignores */
        amp_tensor part = *out;
        part.shape[d] = stacked ? 1 : t->shape[d];
        part.offset += at * out->strides[d];
        at += part.shape[d];
        if (stacked) {
            for (int k = d; k + 1 < part.rank; k++) {
                part.shape[k] = part.shape[k + 1];
                part.strides[k] = part.strides[k + 1];
            }
            part.rank--;
        }
        AMP_TRY(amp_copy_tensor(&part, t));
    }
    return AMP_OK;
}

static bool is_ignored(const amp_tensor *t) {
    return t->rank == 1 && t->shape[0] == 0;
}

amp_status cpu_cat(amp_call *call) {
    const amp_cat_args *a = call->args;
    const amp_tensor_list *list = &a->tensors;
    int d;
    AMP_TRY(check_list(call, list));
    int64_t model = 0; /* the tensor that the others must agree with */
    while (model + 1 < list->count && is_ignored(list->items[model])) model++;
    const amp_tensor *first = list->items[model];
    if (first->rank == 0) {
        return amp_fail(AMP_ERROR_INVALID, "%s: a tensor is %s, which has no dimension to join along; stack makes one",
                        amp_call_name(call), amp_describe(first));
    }
    AMP_TRY(amp_wrap_dim(call, "dim", is_ignored(first) ? 0 : a->dim, first->rank, &d)); /* as in PyTorch */
    int64_t shape[AMP_MAX_RANK];
    memcpy(shape, first->shape, (size_t)first->rank * sizeof *shape);
    shape[d] = 0;
    for (int64_t i = 0; i < list->count; i++) {
        const amp_tensor *t = list->items[i];
        if (is_ignored(t) && first->rank != 1) continue;
        bool fits = t->rank == first->rank;
        for (int k = 0; fits && k < t->rank; k++) fits = k == d || t->shape[k] == shape[k];
        if (!fits || __builtin_add_overflow(shape[d], t->shape[d], &shape[d])) {
            return amp_fail(
                AMP_ERROR_INVALID, "%s: tensor %lld is %s, tensor %lld is %s; all but dimension %d must agree",
                amp_call_name(call), (long long)i, amp_describe(t), (long long)model, amp_describe(first), d);
        }
    }
    amp_tensor *out = amp_call_output_like(call, 0, list_dtype(list), first->rank, shape, first);
    return out ? place(list, out, d, false) : amp_pending_error();
}

amp_status cpu_stack(amp_call *call) {
    const amp_stack_args *a = call->args;
    const amp_tensor_list *list = &a->tensors;
    int d;
    AMP_TRY(check_list(call, list));
    const amp_tensor *first = list->items[0];
    AMP_TRY(amp_wrap_dim(call, "dim", a->dim, first->rank + 1, &d));
    if (first->rank == AMP_MAX_RANK) {
        return amp_fail(AMP_ERROR_INVALID, "%s: tensor 0 is %s; one more dimension would be too many (at most %d)",
                        amp_call_name(call), amp_describe(first), AMP_MAX_RANK);
    }
    for (int64_t i = 1; i < list->count; i++) {
        const amp_tensor *t = list->items[i];
        if (amp_same_shape(t, first)) continue;
        return amp_fail(AMP_ERROR_INVALID, "%s: tensor %lld is %s, tensor 0 is %s; expected equal shapes",
                        amp_call_name(call), (long long)i, amp_describe(t), amp_describe(first));
    }
    int64_t shape[AMP_MAX_RANK];
    for (int k = 0; k <= first->rank; k++)
        shape[k] = k < d ? first->shape[k] : k == d ? list->count : first->shape[k - 1];
    amp_tensor *out = amp_call_output(call, 0, list_dtype(list), first->rank + 1, shape);
    return out ? place(list, out, d, true) : amp_pending_error();
}
