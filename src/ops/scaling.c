/* amp/scaling.h: what may be unscaled, on every device. */
#include "amp/scaling.h"
#include "call/backend.h"

static const char op[] = "foreach_non_finite_check_and_unscale";

static amp_status check_tensor(const char *name, const amp_tensor *t, const amp_tensor *first) {
    if (!t) return amp_fail(AMP_ERROR_INVALID, "%s: '%s' is NULL", op, name);
    if (!amp_tensor_is_live(t)) return amp_fail(AMP_ERROR_INVALID, "%s: '%s' was released before", op, name);
    if (t->storage->device == first->storage->device) return AMP_OK;
    return amp_fail(AMP_ERROR_DEVICE, "%s: '%s' is on %s, 'found_inf' on %s; all must be on one device", op, name,
                    amp_device_name(t->storage->device), amp_device_name(first->storage->device));
}

static amp_status check_number(const char *name, const amp_tensor *t, const amp_tensor *first) {
    AMP_TRY(check_tensor(name, t, first));
    if (t->dtype == AMP_F32 && amp_tensor_elements(t) == 1) return AMP_OK;
    return amp_fail(t->dtype == AMP_F32 ? AMP_ERROR_INVALID : AMP_ERROR_DTYPE,
                    "%s: '%s' is %s; expected one f32 element", op, name, amp_describe(t));
}

static amp_status check_gradient(const amp_tensor *t, const amp_tensor *first) {
    AMP_TRY(check_tensor("grads", t, first));
    if (!amp_dtype_is_floating(t->dtype)) {
        return amp_fail(AMP_ERROR_DTYPE, "%s: a tensor of 'grads' is %s; expected a floating dtype", op,
                        amp_describe(t));
    }
    AMP_TRY(amp_tensor_check_separate(op, "a tensor of ", "grads", t));
    return amp_tensor_check_writable(op, "a tensor of 'grads'", t);
}

amp_status amp_foreach_non_finite_check_and_unscale(amp_tensor *const *grads, int64_t count, amp_tensor *found_inf,
                                                    const amp_tensor *inv_scale) {
    const amp_backend *backend;
    if (amp_failed()) return amp_pending_error();
    if (count < 0 || (count > 0 && !grads)) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'grads' is %s of %lld tensors; expected 0 or more", op,
                        grads ? "a list" : "NULL, a list", (long long)count);
    }
    AMP_TRY(check_number("found_inf", found_inf, found_inf));
    AMP_TRY(amp_tensor_check_writable(op, "found_inf", found_inf));
    AMP_TRY(check_number("inv_scale", inv_scale, found_inf));
    for (int64_t i = 0; i < count; i++) AMP_TRY(check_gradient(grads[i], found_inf));
    AMP_TRY(amp_backend_for(found_inf->storage->device, op, &backend));
    if (!backend->unscale) {
        return amp_fail(AMP_ERROR_NOT_IMPLEMENTED, "%s: not implemented on %s yet", op, backend->name);
    }
    AMP_TRY(backend->unscale(op, grads, count, found_inf, inv_scale));
    for (int64_t i = 0; i < count; i++) amp_tensor_written(grads[i]);
    amp_tensor_written(found_inf);
    return AMP_OK;
}
