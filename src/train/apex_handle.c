/* The handle that amp_init gives, apex's API before amp_initialize. */
#include "amp/grad_scaler.h"
#include "autocast/autocast.h"
#include "autocast/registration.h"
#include "core/memory.h"
#include "core/struct_size.h"
#include "train/apex.h"
#include "train/apex_scaling.h"

static amp_status read_option(const char *name, amp_opt_bool given, bool *value) {
    AMP_TRY(amp_struct_mark("init", name, given.set, !given.value));
    if (given.set) *value = given.value;
    return AMP_OK;
}

static amp_status read_init(const amp_init_args *given, amp_init_args *a, amp_dtype *half) {
    AMP_TRY(amp_struct_read("init", "amp_init_args", a, sizeof *a, sizeof a->struct_size, given));
    AMP_TRY(amp_struct_reserved("init", a->reserved, sizeof a->reserved));
    return amp_apex_read_device("init", a->device, a->half, half);
}

amp_apex *amp_init_call(const amp_init_args *given) {
    amp_init_args a;
    amp_dtype half = AMP_DTYPE_NONE;
    bool enabled = true, caches = true;
    if (amp_failed() || read_init(given, &a, &half) != AMP_OK) return NULL;
    if (read_option("enabled", a.enabled, &enabled) != AMP_OK) return NULL;
    if (read_option("enable_caching", a.enable_caching, &caches) != AMP_OK) return NULL;
    amp_apex *handle = amp_apex_new("init", 1, 0);
    if (!handle) return NULL;
    handle->is_handle = true;
    handle->has_cache = caches && enabled;
    handle->allow_banned = a.allow_banned;
    handle->device = a.device;
    handle->half = half;
    handle->properties = (amp_apex_properties){
        .enabled = enabled, .level = "O1", .patch = enabled ? AMP_APEX_YES : AMP_APEX_NO, .num_losses = 1};
    handle->scalers[0] = amp_loss_scaler_dynamic(0, 16777216);
    handle->tells_casts = enabled && a.verbose;
    if (handle->tells_casts) amp_autocast_tell_casts(true);
    amp_registration_take(enabled);
    return handle;
}

bool amp_apex_is_active(const amp_apex *apex) {
    return apex && apex->properties.enabled;
}

bool amp_apex_has_cache(const amp_apex *apex) {
    return apex && apex->has_cache;
}

/* ---- Losses --------------------------------------------------------------------------------------------------------- */
static amp_status check_given(const char *what, const void *handle, const void *given, const char *called) {
    AMP_TRY(amp_pending_error());
    if (handle && given) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: %s is NULL", what, handle ? called : "the handle");
}

static amp_status check_handle(const char *what, const amp_apex *handle, const amp_optimizer *o) {
    if (!handle->is_handle)
        return amp_fail(AMP_ERROR_INVALID, "%s: the handle is amp_initialize's; amp_scale_loss is what goes with it",
                        what);
    if (o->apex && o->apex != handle) return amp_fail(AMP_ERROR_INVALID, "%s: the optimizer is another handle's", what);
    if (!o->master_weights) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: the optimizer has master weights; amp_initialize goes with those", what);
}

amp_scaled_loss amp_handle_scale_loss_open(amp_apex *handle, amp_tensor *loss, amp_optimizer *o) {
    static const char what[] = "handle_scale_loss";
    amp_scaled_loss l = {0};
    if (check_given(what, handle, loss && o ? loss : NULL, loss ? "the optimizer" : "the loss") != AMP_OK) return l;
    if (!handle->properties.enabled) return (amp_scaled_loss){.loss = loss};
    if (check_handle(what, handle, o) != AMP_OK) return l;
    if (handle->has_wrapped) {
        (void)amp_fail(AMP_ERROR_INVALID,
                       "%s: an optimizer was wrapped; from then on amp_wrapped_scale_loss is what scales", what);
        return l;
    }
    l.apex = handle;
    l.optimizer = o;
    return amp_scaled_loss_begin(l, loss, false);
}

/* ---- Wrapped optimizers --------------------------------------------------------------------------------------------- */
static amp_optimizer_wrapper *wrapper_new(amp_apex *handle, amp_optimizer *o, int num_loss) {
    amp_optimizer_wrapper *w = amp_alloc_zeroed(sizeof *w);
    if (!w) return NULL;
    *w = (amp_optimizer_wrapper){.apex = handle, .optimizer = o, .count = num_loss};
    w->scalers = amp_alloc_zeroed((size_t)num_loss * sizeof *w->scalers);
    w->skips = amp_alloc_zeroed((size_t)num_loss * sizeof *w->skips);
    const bool has_room = w->scalers && w->skips &&
                          amp_make_room((void **)&handle->wrappers, handle->wrapper_count, &handle->wrapper_capacity,
                                        sizeof *handle->wrappers);
    if (!has_room) {
        amp_free(w->scalers);
        amp_free(w->skips);
        amp_free(w);
        return NULL;
    }
    for (int i = 0; i < num_loss; i++) w->scalers[i] = amp_loss_scaler_dynamic(0, 16777216);
    return handle->wrappers[handle->wrapper_count++] = w;
}

amp_optimizer_wrapper *amp_wrap_optimizer(amp_apex *handle, amp_optimizer *o, int num_loss) {
    static const char what[] = "wrap_optimizer";
    if (check_given(what, handle, o, "the optimizer") != AMP_OK || check_handle(what, handle, o) != AMP_OK) return NULL;
    if (num_loss < 1 || o->apex) {
        (void)(o->apex ? amp_fail(AMP_ERROR_INVALID, "%s: the optimizer was wrapped before", what)
                       : amp_fail(AMP_ERROR_INVALID, "%s: num_loss is %d; expected at least 1", what, num_loss));
        return NULL;
    }
    amp_optimizer_wrapper *w = wrapper_new(handle, o, num_loss);
    if (!w) {
        (void)amp_fail(AMP_ERROR_MEMORY, "%s: no memory", what);
        return NULL;
    }
    handle->has_wrapped = true;
    o->apex = handle;
    return w;
}

amp_scaled_loss amp_wrapped_scale_loss_open(amp_optimizer_wrapper *w, amp_tensor *loss) {
    static const char what[] = "wrapped_scale_loss";
    amp_scaled_loss l = {0};
    if (check_given(what, w, loss && w && w->optimizer ? loss : NULL, loss ? "the wrapper's optimizer" : "the loss") !=
        AMP_OK)
        return l;
    if (!w->apex->properties.enabled) return (amp_scaled_loss){.loss = loss};
    if (w->next == w->count) {
        (void)amp_fail(AMP_ERROR_INVALID, "%s: %d losses since the last step; amp_wrap_optimizer was told of %d", what,
                       w->next + 1, w->count);
        return l;
    }
    l.apex = w->apex;
    l.wrapper = w;
    l.optimizer = w->optimizer;
    l.scaler = w->next++;
    return amp_scaled_loss_begin(l, loss, false);
}

int amp_wrapped_step(amp_optimizer_wrapper *w) {
    bool skips = false;
    if (check_given("wrapped_step", w, w ? w->optimizer : NULL, "the wrapper's optimizer") != AMP_OK)
        return AMP_STEP_FAILED;
    for (int i = 0; i < w->count; i++) {
        skips |= w->skips[i];
        w->skips[i] = false;
    }
    w->next = 0;
    if (skips) {
        w->optimizer->skips_next = false;
        return AMP_SKIPPED;
    }
    return amp_optimizer_step(w->optimizer) == AMP_OK ? AMP_STEPPED : AMP_STEP_FAILED;
}
