/* Autocast regions: the stack of saved states of a thread. */
#include <string.h>

#include "core/memory.h"
#include "core/struct_size.h"
#include "core/thread.h"
#include "policy/cast_cache.h"
#include "policy/policy.h"
#include "policy/regions.h"
#include "policy/rules.h"

/* The dtypes that a region may lower to, the default first. */
static const amp_dtype lower_dtypes[AMP_DEVICE_COUNT][2] = {
    [AMP_DEVICE_CPU] = {AMP_BF16, AMP_F16},
    [AMP_DEVICE_CUDA] = {AMP_F16, AMP_BF16},
};

__thread amp_region_state amp_region_states[AMP_DEVICE_COUNT] = {
    [AMP_DEVICE_CPU] = {.cache_enabled = true, .dtype = AMP_BF16},
    [AMP_DEVICE_CUDA] = {.cache_enabled = true, .dtype = AMP_F16},
};

/* A saved state: of one device, or of all (a restored capture). */
enum { ALL_DEVICES = -2 };

typedef struct region_frame {
    int device;
    amp_region_state saved[AMP_DEVICE_COUNT];
    struct region_frame *outer;
} region_frame;

static __thread region_frame *innermost;
static __thread int nesting;
static __thread int lost_regions; /* entered without memory for a frame: only counted */

/* The dispatcher's bit is set while any device's region is enabled. */
static void publish(void) {
    bool any = false;
    for (int d = 0; d < AMP_DEVICE_COUNT; d++) any |= amp_region_states[d].enabled;
    if (any) {
        amp_this_thread.layers |= AMP_LAYER_AUTOCAST;
    } else {
        amp_this_thread.layers &= ~(unsigned)AMP_LAYER_AUTOCAST;
    }
}

static amp_status push(int device) {
    nesting++;
    region_frame *frame = lost_regions == 0 ? amp_alloc(sizeof *frame) : NULL;
    if (!frame) {
        lost_regions++;
        return amp_fail(AMP_ERROR_MEMORY, "autocast: no memory for a new region");
    }
    frame->device = device;
    memcpy(frame->saved, amp_region_states, sizeof frame->saved);
    frame->outer = innermost;
    innermost = frame;
    return AMP_OK;
}

static const char *frame_name(int device) {
    return device == ALL_DEVICES ? "a restored capture" : amp_device_name((amp_device)device);
}

static amp_status pop(int device, const char *what) {
    if (lost_regions > 0) {
        lost_regions--;
        nesting--;
        return amp_pending_error();
    }
    if (!innermost) return amp_fail(AMP_ERROR_INVALID, "%s: exit without an open region on this thread", what);
    if (innermost->device != device) {
        return amp_fail(AMP_ERROR_INVALID, "%s: exit from %s, but the innermost region is for %s", what,
                        frame_name(device), frame_name(innermost->device));
    }
    region_frame *frame = innermost;
    innermost = frame->outer;
    memcpy(amp_region_states, frame->saved, sizeof frame->saved);
    amp_free(frame);
    publish();
    if (--nesting == 0) amp_cast_cache_end_region();
    return amp_pending_error();
}

int amp_regions_unwind(int outer) {
    if (nesting < outer) return nesting - outer;
    const int count = nesting - outer;
    for (int i = 0; i < count; i++) (void)pop(innermost ? innermost->device : ALL_DEVICES, "autocast");
    return count;
}

/* What stands in *dtype, the outer region's or the device's own, stays unless another is given. */
static amp_status lower_dtype(amp_device device, amp_dtype given, amp_dtype *dtype) {
    const amp_dtype *accepted = lower_dtypes[device];
    if (given != AMP_DTYPE_NONE) *dtype = given;
    if (*dtype == accepted[0] || *dtype == accepted[1]) return AMP_OK;
    return amp_fail(AMP_ERROR_DTYPE, "autocast: %s cannot lower to %s; accepted are %s and %s", amp_device_name(device),
                    amp_dtype_name(*dtype), amp_dtype_name(accepted[0]), amp_dtype_name(accepted[1]));
}

static amp_status check_mark(const char *name, amp_opt_bool option) {
    return amp_struct_mark("autocast", name, option.set, !option.value);
}

static amp_status read_args(const amp_autocast_args *args, amp_region_state *state) {
    AMP_TRY(amp_policy_environment());
    AMP_TRY(lower_dtype(args->device, args->dtype, &state->dtype));
    AMP_TRY(amp_table_from_name(args->table, &state->table));
    state->enabled = true;
    if (args->cache_enabled.set) state->cache_enabled = args->cache_enabled.value;
    if (args->strict) state->strict = true;
    if (args->allow_banned) state->allow_banned = true;
    if (args->rules) state->rules = args->rules;
    return AMP_OK;
}

amp_status amp_autocast_enter(const amp_autocast_args *given) {
    amp_autocast_args args;
    AMP_TRY(
        push(given ? (int)given->device : AMP_DEVICE_CPU)); /* whatever else is wrong: the exit asks for the device */
    const size_t least = offsetof(amp_autocast_args, dtype);
    AMP_TRY(amp_struct_read("autocast", "amp_autocast_args", &args, sizeof args, least, given));
    AMP_TRY(amp_struct_reserved("autocast", args.reserved, sizeof args.reserved));
    AMP_TRY(amp_device_check("autocast", args.device));
    amp_region_state state = amp_region_states[args.device];
    state.enabled = false;
    AMP_TRY(check_mark("enabled", args.enabled));
    AMP_TRY(check_mark("cache_enabled", args.cache_enabled));
    if (!args.enabled.set || args.enabled.value) AMP_TRY(read_args(&args, &state));
    amp_region_states[args.device] = state;
    publish();
    return amp_pending_error();
}

amp_status amp_autocast_exit(amp_device device) {
    return pop((int)device, "autocast");
}

amp_region amp_autocast_open(const amp_autocast_args *args) {
    (void)amp_autocast_enter(args);
    return (amp_region){.device = args ? args->device : AMP_DEVICE_CPU};
}

void amp_autocast_close(amp_region *region) {
    (void)amp_autocast_exit(region->device);
}

/* ---- State ---------------------------------------------------------------------------------------------------- */
static const amp_region_state *state_of(amp_device device) {
    return amp_device_check("autocast", device) == AMP_OK ? &amp_region_states[device] : NULL;
}

bool amp_autocast_is_enabled(amp_device device) {
    const amp_region_state *s = state_of(device);
    return s && s->enabled;
}

amp_dtype amp_autocast_dtype(amp_device device) {
    const amp_region_state *s = state_of(device);
    return s ? s->dtype : AMP_DTYPE_NONE;
}

bool amp_autocast_cache_is_enabled(amp_device device) {
    const amp_region_state *s = state_of(device);
    return s && s->cache_enabled;
}

int amp_autocast_nesting(void) {
    return nesting;
}

amp_status amp_autocast_get_state(amp_autocast_state *state, size_t bytes) {
    amp_autocast_state captured;
    memset(&captured, 0, sizeof captured);
    for (int d = 0; d < AMP_DEVICE_COUNT; d++) {
        const amp_region_state *s = &amp_region_states[d];
        captured.device[d].enabled = s->enabled;
        captured.device[d].cache_enabled = s->cache_enabled;
        captured.device[d].strict = s->strict;
        captured.device[d].allow_banned = s->allow_banned;
        captured.device[d].dtype = s->dtype;
        captured.device[d].table = (int)s->table;
        captured.device[d].rules = amp_rules_number(s->rules);
    }
    return amp_struct_write("autocast_get_state", state, bytes, &captured, sizeof captured);
}

static bool is_reserved_zero(const amp_autocast_state *state, int device) {
    static const int zero[sizeof state->device[0].reserved / sizeof(int)];
    return memcmp(state->device[device].reserved, zero, sizeof zero) == 0;
}

amp_status amp_autocast_enter_state(const amp_autocast_state *given, size_t bytes) {
    amp_autocast_state state;
    amp_region_state restored[AMP_DEVICE_COUNT];
    AMP_TRY(push(ALL_DEVICES));
    AMP_TRY(amp_struct_take("autocast_restore", "amp_autocast_state", &state, sizeof state, given, bytes));
    for (int d = 0; d < AMP_DEVICE_COUNT; d++) {
        if ((size_t)(d + 1) * sizeof state.device[d] > bytes) { /* a device that the program does not know */
            restored[d] = (amp_region_state){.cache_enabled = true, .dtype = lower_dtypes[d][0]};
            continue;
        }
        if ((unsigned)state.device[d].table >= AMP_TABLE_COUNT || !is_reserved_zero(&state, d)) {
            return amp_fail(AMP_ERROR_INVALID, "autocast_restore: the state was not made by amp_autocast_capture");
        }
        restored[d] = (amp_region_state){
            .enabled = state.device[d].enabled,
            .cache_enabled = state.device[d].cache_enabled,
            .strict = state.device[d].strict,
            .allow_banned = state.device[d].allow_banned,
            .table = (amp_table)state.device[d].table,
            .rules = amp_rules_of_number(state.device[d].rules),
        };
        if (state.device[d].rules != 0 && !restored[d].rules)
            return amp_fail(AMP_ERROR_INVALID, "autocast_restore: the rules of the state were released");
        AMP_TRY(lower_dtype((amp_device)d, state.device[d].dtype, &restored[d].dtype));
    }
    memcpy(amp_region_states, restored, sizeof restored);
    publish();
    return amp_pending_error();
}

amp_status amp_autocast_restore_end(void) {
    return pop(ALL_DEVICES, "autocast_restore_end");
}
