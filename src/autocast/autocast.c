/* The autocast layer: eligibility, policy, casts. It only says which argument becomes which dtype; whoever needs the
 * bytes makes them (a kernel that converts on the way makes none). */
#include "autocast/autocast.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "amp/ops.h"
#include "autocast/eligibility.h"
#include "core/hot.h"
#include "core/memory.h"
#include "core/thread.h"
#include "dispatch/arguments.h"
#include "dispatch/layers.h"
#include "generated/op_ids.h"
#include "policy/cast_cache.h"
#include "policy/policy.h"
#include "policy/promotion.h"
#include "policy/rules.h"

/* ---- Casting one argument -------------------------------------------------------------------------------------- */

amp_cast_life amp_autocast_cast_life(const amp_region_state *region, const amp_tensor *t, amp_dtype dtype,
                                     bool weight) {
    if (!region->cache_enabled) return AMP_CAST_ONCE;
    const amp_cast_life life = amp_cast_life_of(t, weight);
    const bool cached_as_torch_does =
        dtype == region->dtype && t->dtype == AMP_F32 && t->requires_grad && t->is_leaf && !t->is_view;
    return life == AMP_CAST_ONCE && cached_as_torch_does ? AMP_CAST_REGION : life;
}

static atomic_bool tells_casts;

void amp_autocast_tell_casts(bool tells) {
    atomic_store(&tells_casts, tells);
}

static const char *apex_name(amp_dtype dtype) {
    return dtype == AMP_F32 ? "Float" : dtype == AMP_F16 || dtype == AMP_BF16 ? "Half" : amp_dtype_name(dtype);
}

static __attribute__((cold)) void tell_cast(const amp_call *call, amp_dtype from, amp_dtype to) {
    fprintf(stderr, "amp: %s to %s (%s)\n", apex_name(from), apex_name(to), amp_call_name(call));
}

AMP_HOT AMP_APART static amp_status cast_eligible(amp_call *call, amp_tensor **slot, amp_dtype dtype, bool weight) {
    amp_tensor *t = *slot;
    amp_tensor *pending = amp_call_pending_cast(call, t, dtype);
    if (!pending) return amp_pending_error();
    pending->cast_life = amp_autocast_cast_life(&amp_region_states[call->device], t, dtype, weight);
    call->note.weight_of_op |=
        weight && pending->cast_life == AMP_CAST_ONCE && amp_region_states[call->device].cache_enabled;
    *slot = pending;
    if (__builtin_expect(atomic_load_explicit(&tells_casts, memory_order_relaxed), 0)) tell_cast(call, t->dtype, dtype);
    return AMP_OK;
}

static inline amp_status cast_slot(amp_call *call, amp_tensor **slot, amp_dtype dtype, bool weight) {
    const amp_tensor *t = *slot;
    if (!amp_autocast_eligible(t, call->device) || t->dtype == dtype) return AMP_OK;
    return cast_eligible(call, slot, dtype, weight);
}

/* The caller's array is const: the casts go into a copy, whose holder belongs to the call's frame. */
static amp_status cast_list(amp_call *call, amp_tensor_list *list, amp_dtype dtype, bool weight) {
    AMP_TRY(amp_call_list(call, list->items, list->count));
    const amp_tensor_list copy = call->list;
    call->list = (amp_tensor_list){0};
    amp_tensor **items = copy.holder->storage->data;
    for (int64_t i = 0; i < copy.count; i++) AMP_TRY(cast_slot(call, &items[i], dtype, weight));
    list->items = copy.items;
    return AMP_OK;
}

AMP_HOT static amp_status cast_arguments(amp_call *call, amp_dtype dtype) {
    call->note.target = dtype;
    for (int i = 0; i < call->op->arg_count; i++) {
        const amp_arg_info *arg = &call->op->args[i];
        if (arg->flags & (AMP_ARG_MUTATED | AMP_ARG_UNCAST)) continue;
        const bool weight = (arg->flags & AMP_ARG_WEIGHT) != 0;
        if (arg->kind == AMP_ARG_TENSOR) AMP_TRY(cast_slot(call, amp_call_slot(call, arg), dtype, weight));
        if (arg->kind != AMP_ARG_TENSOR_LIST) continue;
        AMP_TRY(cast_list(call, amp_call_slot(call, arg), dtype, weight));
    }
    return AMP_OK;
}

/* ---- The policies ---------------------------------------------------------------------------------------------- */
AMP_HOT static amp_status run_lower(amp_call *call) {
    return cast_arguments(call, amp_region_states[call->device].dtype);
}

static amp_status run_fp32(amp_call *call) {
    return cast_arguments(call, AMP_F32);
}

static amp_status run_fallthrough(amp_call *call) {
    (void)call;
    return AMP_OK;
}

/* An op that is made of others is left to them, as in PyTorch, where they are dispatched one by one: from here on the
 * layers see its parts in its place. */
static amp_status run_parts(amp_call *call) {
    if (call->form != AMP_FORM_FUNCTION) return AMP_OK;
    call->inner_layers = AMP_LAYER_AUTOCAST | call->layers;
    call->layers = 0;
    return AMP_OK;
}

static const amp_tensor *first_tensor(const amp_call *call) {
    for (int i = 0; i < call->op->arg_count; i++) {
        if (call->op->args[i].kind == AMP_ARG_TENSOR) return *amp_call_tensor(call, &call->op->args[i]);
    }
    return NULL;
}

static amp_dtype *dtype_option(const amp_call *call) {
    for (int i = 0; i < call->op->arg_count; i++) {
        const amp_arg_info *arg = &call->op->args[i];
        if (arg->kind == AMP_ARG_DTYPE && strcmp(arg->name, "dtype") == 0) return amp_call_slot(call, arg);
    }
    return NULL;
}

static amp_status run_set_opt_dtype(amp_call *call) {
    amp_dtype *dtype = dtype_option(call);
    if (dtype && *dtype == AMP_DTYPE_NONE && amp_autocast_eligible(first_tensor(call), call->device)) {
        *dtype = call->note.target = AMP_F32;
    }
    return AMP_OK;
}

static amp_status run_append_dtype(amp_call *call) {
    amp_dtype *dtype = dtype_option(call);
    const amp_tensor *first = first_tensor(call);
    if (!dtype || *dtype != AMP_DTYPE_NONE || !first) return AMP_OK;
    *dtype = amp_autocast_eligible(first, call->device) ? AMP_F32 : first->dtype;
    call->note.target = *dtype;
    return AMP_OK;
}

static amp_status widen(const amp_call *call, const amp_arg_info *arg, const amp_tensor *t, amp_dtype *widest) {
    const amp_region_state *region = &amp_region_states[call->device];
    if (!amp_autocast_eligible(t, call->device)) return AMP_OK;
    if (region->strict && t->dtype != AMP_F32 && t->dtype != region->dtype) {
        return amp_fail(AMP_ERROR_DTYPE, "%s: '%s' is %s in a strict %s region; a promoting op takes %s and f32 there",
                        amp_call_name(call), arg->name, amp_describe(t), amp_dtype_name(region->dtype),
                        amp_dtype_name(region->dtype));
    }
    *widest = amp_promote(*widest, t->dtype);
    return AMP_OK;
}

static amp_status run_promote(amp_call *call) {
    amp_dtype widest = amp_region_states[call->device].dtype;
    for (int i = 0; i < call->op->arg_count; i++) {
        const amp_arg_info *arg = &call->op->args[i];
        if (arg->kind == AMP_ARG_TENSOR) AMP_TRY(widen(call, arg, *amp_call_tensor(call, arg), &widest));
        if (arg->kind != AMP_ARG_TENSOR_LIST) continue;
        const amp_tensor_list *list = amp_call_tensor_list(call, arg);
        for (int64_t k = 0; k < list->count; k++) AMP_TRY(widen(call, arg, list->items[k], &widest));
    }
    return cast_arguments(call, widest);
}

static amp_status run_banned(amp_call *call) {
    if (amp_region_states[call->device].allow_banned) return cast_arguments(call, AMP_F32);
    return amp_fail(AMP_ERROR_BANNED, "%s: banned under autocast on %s: %s", amp_call_name(call),
                    amp_device_name(call->device),
                    call->op->banned_message ? call->op->banned_message : "call it outside of the region");
}

static amp_status (*const policies[AMP_POLICY_COUNT])(amp_call *call) = {
    [AMP_POLICY_FALLTHROUGH] = run_fallthrough,
    [AMP_POLICY_PARTS] = run_parts,
    [AMP_POLICY_LOWER] = run_lower,
    [AMP_POLICY_FP32] = run_fp32,
    [AMP_POLICY_FP32_SET_OPT_DTYPE] = run_set_opt_dtype,
    [AMP_POLICY_FP32_APPEND_DTYPE] = run_append_dtype,
    [AMP_POLICY_PROMOTE] = run_promote,
    [AMP_POLICY_BANNED] = run_banned,
};

/* ---- Bypasses -------------------------------------------------------------------------------------------------- */
static bool casts_arguments(amp_policy policy, const amp_region_state *region) {
    if (policy == AMP_POLICY_BANNED) return region->allow_banned;
    return policy != AMP_POLICY_FALLTHROUGH && policy != AMP_POLICY_PARTS;
}

/* An enabled region of another device that would cast for this op, while the call's own device has none. */
static const amp_region_state *other_region(const amp_call *call) {
    for (int d = 0; d < AMP_DEVICE_COUNT; d++) {
        const amp_region_state *region = &amp_region_states[d];
        if (d == (int)call->device || !region->enabled) continue;
        const amp_policy policy = amp_policy_of(call->op, (amp_device)d, region->table, call->args).policy;
        if (casts_arguments(policy, region) && amp_autocast_any_eligible(call)) return region;
    }
    return NULL;
}

static amp_status note_bypass(amp_call *call, const amp_region_state *region, const char *why) {
    if (!why) return AMP_OK;
    call->note.bypass = why;
    if (!region->strict) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: the strict region does not let an op bypass autocast, and %s",
                    amp_call_name(call), why);
}

/* Whether anybody reads the call's note. */
static bool is_explained(void) {
    const unsigned layers = amp_this_thread.layers | atomic_load_explicit(&amp_process_layers, memory_order_relaxed);
    return (layers & AMP_LAYER_EXPLAIN) != 0;
}

static amp_policy_choice policy_of(const amp_call *call, const amp_region_state *region) {
    const amp_policy_choice choice = amp_policy_of(call->op, call->device, region->table, call->args);
    return region->rules || amp_pinned ? amp_rules_choose(region->rules, call->op, choice) : choice;
}

AMP_HOT amp_status amp_autocast_layer(amp_call *call) {
    const amp_region_state *region = &amp_region_states[call->device];
    if (!region->enabled) {
        const amp_region_state *other = other_region(call);
        if (other) AMP_TRY(note_bypass(call, other, "the region is for another device"));
        return amp_call_next(call);
    }
    const amp_policy_choice choice = policy_of(call, region);
    call->note.in_region = true;
    call->note.region = region->dtype;
    call->note.policy = choice.policy;
    call->note.overridden = choice.overridden;
    const bool casts = casts_arguments(choice.policy, region);
    if (casts && call->form != AMP_FORM_FUNCTION) {
        AMP_TRY(note_bypass(call, region, amp_autocast_form_bypass(call)));
        return amp_call_next(call);
    }
    if (casts && (region->strict || is_explained()))
        AMP_TRY(note_bypass(call, region, amp_autocast_argument_bypass(call)));
    const bool as_it_is = casts && is_explained() && amp_autocast_runs_as_it_is(call);
    AMP_TRY(policies[choice.policy](call));
    if (as_it_is) {
        call->note.target = AMP_DTYPE_NONE;
        if (!call->note.bypass) call->note.bypass = "no argument is f32, f16 or bf16";
    }
    return amp_call_next(call);
}
