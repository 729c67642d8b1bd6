/* User functions in the manner of apex.amp: annotated C functions, and policies registered by name. */
#include <string.h>

#include "amp/ops.h"
#include "autocast/autocast.h"
#include "autocast/eligibility.h"
#include "autocast/registration.h"
#include "call/pending_casts.h"
#include "core/lock.h"
#include "core/struct_size.h"
#include "core/thread.h"
#include "policy/policy.h"
#include "policy/promotion.h"
#include "policy/user_ops.h"

/* ---- Annotated functions --------------------------------------------------------------------------------------- */

/* The region that casts a tensor; NULL: it stays as it is. */
static const amp_region_state *casting_region(const amp_tensor *t) {
    if (!t || !t->storage || amp_this_thread.layers & AMP_INSIDE_OP) return NULL;
    const amp_region_state *region = &amp_region_states[t->storage->device];
    return region->enabled && amp_autocast_eligible(t, t->storage->device) ? region : NULL;
}

static amp_status check_arguments(amp_tensor **const *arguments, int count) {
    if (count < 0 || count > AMP_FUNCTION_TENSORS || (count > 0 && !arguments)) {
        return amp_fail(AMP_ERROR_INVALID, "function: %d tensors to cast; at most %d are allowed", count,
                        AMP_FUNCTION_TENSORS);
    }
    for (int i = 0; i < count; i++) {
        if (!arguments[i]) return amp_fail(AMP_ERROR_INVALID, "function: pointer %d to a tensor is NULL", i);
        if (!*arguments[i] || amp_tensor_is_live(*arguments[i])) continue;
        return amp_fail(AMP_ERROR_INVALID, "function: tensor %d was released before", i);
    }
    return AMP_OK;
}

/* The widest dtype among the arguments that a region of the device would cast. */
static amp_dtype widest(amp_tensor **const *arguments, int count, amp_device device) {
    amp_dtype dtype = AMP_DTYPE_NONE;
    for (int i = 0; i < count; i++) {
        const amp_tensor *t = *arguments[i];
        if (casting_region(t) && t->storage->device == device) dtype = amp_promote(dtype, t->dtype);
    }
    return dtype;
}

static amp_tensor *cast(amp_tensor *t, amp_dtype dtype, const amp_region_state *region) {
    const amp_cast_life life = amp_autocast_cast_life(region, t, dtype, false);
    /* trace and grad must see the cast */
    const bool seen = amp_this_thread.layers & (AMP_LAYER_TRACE | AMP_LAYER_GRAD);
    if (life != AMP_CAST_ONCE && !seen) return amp_cached_cast("function", t, dtype, life);
    const amp_to_args args = {.struct_size = sizeof args, .input = t, .dtype = dtype};
    return amp_to_call(&args);
}

amp_function_casts amp_function_begin(amp_function_rule rule, amp_tensor **const *arguments, int count) {
    amp_function_casts casts = {.count = 0};
    if (amp_failed() || check_arguments(arguments, count) != AMP_OK) return casts;
    amp_dtype promoted[AMP_DEVICE_COUNT];
    for (int d = 0; d < AMP_DEVICE_COUNT; d++) promoted[d] = widest(arguments, count, (amp_device)d);
    for (int i = 0; i < count; i++) {
        amp_tensor *t = *arguments[i];
        const amp_region_state *region = casting_region(t);
        if (!region) continue;
        amp_dtype dtype = rule == AMP_FUNCTION_HALF ? region->dtype : AMP_F32;
        if (rule == AMP_FUNCTION_PROMOTE) dtype = promoted[t->storage->device];
        if (t->dtype == dtype) continue;
        amp_tensor *made = cast(t, dtype, region);
        if (!made) break;
        *arguments[i] = made;
        if (!made->scope) casts.made[casts.count++] = made;
    }
    return casts;
}

void amp_function_end(amp_function_casts *casts) {
    for (int i = 0; i < casts->count; i++) amp_release(casts->made[i]);
    casts->count = 0;
}

/* ---- Policies by name ------------------------------------------------------------------------------------------ */
static unsigned char waiting[AMP_MAX_OP_ID]; /* 1 + amp_policy, until registration ends */
static bool initialised;

static amp_status too_late(const char *what, const char *name) {
    return amp_fail(AMP_ERROR_INVALID,
                    "%s: '%s' comes after the end of registration (amp_register_end, amp_initialize or amp_init); "
                    "register before it",
                    what, name);
}

static amp_status register_function(const char *what, const char *name, amp_policy policy) {
    if (amp_failed()) return amp_pending_error();
    const amp_op_info *op = name ? amp_op_find(name) : NULL;
    if (!op) return amp_op_unknown(what, name);
    const bool one_overload = amp_op_names_one(name, op);
    amp_lock(AMP_LOCK_USER_FUNCTIONS);
    const bool late = initialised;
    for (const amp_op_info *o = op; o && !late; o = one_overload ? NULL : amp_op_next_overload(o)) {
        waiting[o->id] = (unsigned char)(1 + policy);
    }
    amp_unlock(AMP_LOCK_USER_FUNCTIONS);
    return late ? too_late(what, name) : AMP_OK;
}

amp_status amp_register_half_function(const char *name) {
    return register_function("register_half_function", name, AMP_POLICY_LOWER);
}

amp_status amp_register_float_function(const char *name) {
    return register_function("register_float_function", name, AMP_POLICY_FP32);
}

amp_status amp_register_promote_function(const char *name) {
    return register_function("register_promote_function", name, AMP_POLICY_PROMOTE);
}

/* Number `id` of all ops. */
static const amp_op_info *op_at(int id) {
    return id < AMP_OP_ID_COUNT ? &amp_op_table[id] : amp_user_op_at(id - AMP_OP_ID_COUNT);
}

/* Under the lock. */
static void apply_registrations(void) {
    for (int id = 0; id < AMP_MAX_OP_ID; id++) {
        if (waiting[id]) amp_policy_register(op_at(id), (amp_policy)(waiting[id] - 1));
    }
}

static amp_status read_end_args(const amp_register_end_args *given, bool *enabled) {
    amp_register_end_args args;
    *enabled = true;
    if (!given) return AMP_OK;
    AMP_TRY(
        amp_struct_read("register_end", "amp_register_end_args", &args, sizeof args, sizeof args.struct_size, given));
    AMP_TRY(amp_struct_mark("register_end", "enabled", args.enabled.set, !args.enabled.value));
    if (args.enabled.set) *enabled = args.enabled.value;
    return AMP_OK;
}

/* True: it was ended before. */
static bool end_registration(bool enabled) {
    amp_lock(AMP_LOCK_USER_FUNCTIONS);
    const bool again = initialised;
    if (!again && enabled) apply_registrations();
    initialised = true;
    amp_unlock(AMP_LOCK_USER_FUNCTIONS);
    return again;
}

void amp_registration_take(bool enabled) {
    (void)end_registration(enabled);
}

amp_status amp_register_end(const amp_register_end_args *args) {
    bool enabled = true;
    if (amp_failed()) return amp_pending_error();
    AMP_TRY(amp_policy_environment());
    AMP_TRY(read_end_args(args, &enabled));
    return end_registration(enabled) ? amp_fail(AMP_ERROR_INVALID, "register_end: registration ended before") : AMP_OK;
}
