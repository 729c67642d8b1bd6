/* What a program asks of tensors, and tells them, about gradients. */
#include "amp/grad.h"

#include "amp/ops.h"
#include "core/memory.h"
#include "grad/history.h"
#include "grad/record.h"

static amp_status check(const char *what, const amp_tensor *t) {
    if (!t) return amp_fail(AMP_ERROR_INVALID, "%s: the tensor is NULL", what);
    if (amp_tensor_is_live(t)) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: the tensor was released before (a scope that ended, or amp_release)", what);
}

static amp_grad_node *node_of(const amp_tensor *t) {
    int output = 0;
    return amp_history_node(t, &output);
}

static amp_status make_leaf(amp_tensor *t) {
    amp_grad_install();
    amp_history *h = amp_history_of(t);
    if (!h) return amp_pending_error();
    if (!h->cell) h->cell = amp_grad_cell_new();
    if (h->cell) h->node = amp_grad_leaf_new(h->cell);
    if (h->node) amp_saved_take(&h->node->results[0], t, false);
    if (!h->node)
        return amp_fail(AMP_ERROR_MEMORY, "tensor_set_requires_grad: no memory for the gradient of %s",
                        amp_describe(t));
    h->output = 0;
    t->is_leaf = t->requires_grad = true; /* nothing that it was made of requires any */
    return AMP_OK;
}

static amp_status unmake_leaf(amp_tensor *t) {
    amp_history *h = t->history;
    if (h->node->row) {
        return amp_fail(
            AMP_ERROR_INVALID,
            "tensor_set_requires_grad: this tensor, %s, was made of one that requires gradients, and requires "
            "them with it; only a leaf can cease to: detach it",
            amp_describe(t));
    }
    amp_grad_node_drop(h->node);
    h->node = NULL;
    t->requires_grad = false;
    return AMP_OK;
}

amp_status amp_tensor_set_requires_grad(amp_tensor *t, bool requires_grad) {
    AMP_TRY(check("tensor_set_requires_grad", t));
    if (requires_grad && !amp_grad_is_possible(t)) {
        return amp_fail(
            AMP_ERROR_DTYPE,
            "tensor_set_requires_grad: only floating point and complex tensors have gradients; this one is %s",
            amp_describe(t));
    }
    if (requires_grad == (node_of(t) != NULL)) return amp_pending_error();
    const amp_status status = requires_grad ? make_leaf(t) : unmake_leaf(t);
    return status == AMP_OK ? amp_pending_error() : status;
}

bool amp_tensor_requires_grad(const amp_tensor *t) {
    return t && check("tensor_requires_grad", t) == AMP_OK && node_of(t) != NULL;
}

bool amp_tensor_is_leaf(const amp_tensor *t) {
    const amp_grad_node *node = t && amp_tensor_is_live(t) ? node_of(t) : NULL;
    return !node || !node->row;
}

amp_tensor *amp_tensor_grad(const amp_tensor *t) {
    if (!t || check("tensor_grad", t) != AMP_OK) return NULL;
    return t->history && t->history->cell ? atomic_load(&t->history->cell->gradient) : NULL;
}

static amp_status check_fits(const amp_tensor *t, const amp_tensor *gradient) {
    AMP_TRY(check("tensor_set_grad", gradient));
    if (amp_same_shape(t, gradient) && t->dtype == gradient->dtype && t->storage->device == gradient->storage->device)
        return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "tensor_set_grad: the gradient is %s on %s, the tensor %s on %s; both are one",
                    amp_describe(gradient), amp_device_name(gradient->storage->device), amp_describe(t),
                    amp_device_name(t->storage->device));
}

amp_status amp_tensor_set_grad(amp_tensor *t, amp_tensor *gradient) {
    if (!gradient && t && amp_tensor_is_live(t) && (!t->history || !t->history->cell)) return amp_pending_error();
    AMP_TRY(check("tensor_set_grad", t));
    if (gradient) AMP_TRY(check_fits(t, gradient));
    amp_history *h = amp_history_of(t);
    if (h && !h->cell) h->cell = amp_grad_cell_new();
    if (!h || !h->cell) return amp_fail(AMP_ERROR_MEMORY, "tensor_set_grad: no memory");
    amp_tensor_on_history_end = amp_history_drop;
    amp_grad_cell_set(h->cell, gradient ? amp_keep(amp_tensor_same("tensor_set_grad", gradient)) : NULL);
    return amp_pending_error();
}

amp_status amp_tensor_zero_grad(amp_tensor *t) {
    return amp_tensor_set_grad(t, NULL);
}

static amp_status check_requires(const char *what, const amp_tensor *t) {
    AMP_TRY(check(what, t));
    if (node_of(t)) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: the tensor, %s, requires no gradients", what, amp_describe(t));
}

amp_status amp_tensor_retain_grad(amp_tensor *t) {
    AMP_TRY(check_requires("tensor_retain_grad", t));
    amp_history *h = t->history;
    const bool had_cell = h->cell != NULL; /* a gradient may have been set before */
    if (had_cell && amp_grad_node_fills(h->node, h->cell)) return AMP_OK;
    if (!had_cell) h->cell = amp_grad_cell_new();
    if (h->cell && amp_grad_hook_add_cell(h->node, h->output, h->cell)) return AMP_OK;
    if (!had_cell) {
        amp_grad_cell_drop(h->cell);
        h->cell = NULL;
    }
    return amp_fail(AMP_ERROR_MEMORY, "tensor_retain_grad: no memory");
}

static amp_status register_hook(amp_tensor *t, amp_gradient_hook hook, void *context, void (*release)(void *)) {
    AMP_TRY(check_requires("tensor_register_hook", t));
    if (!hook) return amp_fail(AMP_ERROR_INVALID, "tensor_register_hook: the hook is NULL");
    if (amp_grad_hook_add(t->history->node, t->history->output, hook, context, release)) return AMP_OK;
    return amp_fail(AMP_ERROR_MEMORY, "tensor_register_hook: no memory");
}

amp_status amp_tensor_register_hook(amp_tensor *t, amp_gradient_hook hook, void *context) {
    return register_hook(t, hook, context, NULL);
}

amp_status amp_tensor_register_hook_owned(amp_tensor *t, amp_gradient_hook hook, void *context,
                                          void (*release)(void *context)) {
    const amp_status status = register_hook(t, hook, context, release);
    if (status != AMP_OK && release) release(context);
    return status;
}
