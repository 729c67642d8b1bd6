/* amp_autocast_dtype_for: what an op would run in, and why. */
#include <stdio.h>
#include <string.h>

#include "core/thread.h"
#include "policy/policy.h"
#include "policy/regions.h"
#include "policy/rules.h"

typedef struct verdict {
    amp_dtype dtype;
    const char *why; /* the dtype's name follows where it ends with a blank */
} verdict;

static verdict judge(const amp_region_state *region, amp_policy policy) {
    switch (policy) {
    case AMP_POLICY_LOWER: return (verdict){region->dtype, "every floating argument but f64 is cast to "};
    case AMP_POLICY_FP32: return (verdict){AMP_F32, "every floating argument but f64 is cast to "};
    case AMP_POLICY_FP32_SET_OPT_DTYPE: return (verdict){AMP_F32, "its dtype option is set to f32 if absent"};
    case AMP_POLICY_FP32_APPEND_DTYPE: return (verdict){AMP_F32, "it is asked for an f32 result"};
    case AMP_POLICY_PROMOTE: return (verdict){AMP_DTYPE_NONE, "the widest of its arguments decides"};
    case AMP_POLICY_BANNED:
        if (region->allow_banned) return (verdict){AMP_F32, "the region allows banned ops, in f32"};
        return (verdict){AMP_DTYPE_NONE, "it is an error there"};
    case AMP_POLICY_PARTS: return (verdict){AMP_DTYPE_NONE, "the ops that it is made of have their own"};
    default: return (verdict){AMP_DTYPE_NONE, "it runs in the types of its arguments"};
    }
}

amp_dtype amp_autocast_dtype_for(const char *name, amp_device device, const char **reason) {
    char *reason_text = amp_this_thread_text()->reason;
    const size_t room = sizeof amp_this_thread_text()->reason;
    if (reason) *reason = reason_text;
    reason_text[0] = '\0';
    if (amp_device_check("autocast_dtype_for", device) != AMP_OK) return AMP_DTYPE_NONE;
    const amp_op_info *op = name ? amp_op_find(name) : NULL;
    if (!op) {
        amp_op_unknown("autocast_dtype_for", name);
        return AMP_DTYPE_NONE;
    }
    const amp_region_state *region = &amp_region_states[device];
    if (!region->enabled) {
        snprintf(reason_text, room, "%s: no enabled region for %s on this thread", name, amp_device_name(device));
        return AMP_DTYPE_NONE;
    }
    const amp_policy_choice above = amp_policy_of(op, device, region->table, NULL);
    const amp_policy_choice choice = amp_rules_choose(region->rules, op, above);
    const verdict v = judge(region, choice.policy);
    const bool names_dtype = v.why[strlen(v.why) - 1] == ' ';
    snprintf(reason_text, room, "%s: policy %s of %s on %s: %s%s", name, amp_policy_name(choice.policy),
             choice.overridden ? "an override" : amp_table_name(region->table), amp_device_name(device), v.why,
             names_dtype ? amp_dtype_name(v.dtype) : "");
    return v.dtype;
}
