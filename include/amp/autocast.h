/* Autocast regions: inside one, every op runs in the type that suits it. State is per thread and per device. */
#ifndef AMP_AUTOCAST_H
#define AMP_AUTOCAST_H

#include "amp/scope.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Rules of the user's, above the tables: amp_autocast_rules_load. */
typedef struct amp_autocast_rules amp_autocast_rules;

/* Options of a region. All but `device` may stay absent. */
typedef struct amp_autocast_args {
    size_t struct_size AMP_SIZE_OF_(amp_autocast_args);
    amp_device device;
    amp_dtype
        dtype; /* lower type: bf16 or f16. Default: that of the region around it; outermost, bf16 on the CPU, f16 on CUDA */
    amp_opt_bool enabled; /* default true; AMP_SET(false) switches autocast off for the block and validates nothing */
    amp_opt_bool
        cache_enabled; /* default: as around it, outermost true; false: neither uses nor fills the cast cache */
    /* An op that autocast would have cast and that bypasses it (in place, out=, f64, other device) is an error; so
     * where the outer one is. */
    bool strict;
    bool allow_banned; /* banned ops run in f32; so where the outer region allows them */
    unsigned char reserved[6];
    const char *table; /* policy table: "torch", "ipex", "apex". Default: the process's (AMP_TABLE, or torch) */
    const amp_autocast_rules *rules; /* above the table, and above overrides. Default: those of the region around it */
} amp_autocast_args;

/* Opens a region: saves the device's state on the thread's stack and sets the new one. A failure (unknown device,
 * dtype or table) is an error and changes no setting, but still counts as entered: every enter needs an exit. */
AMP_API amp_status amp_autocast_enter(const amp_autocast_args *args);
/* Closes the innermost region, which must be for this device. Leaving the outermost drops the casts that were cached
 * for sources that are not weights or parameters. */
AMP_API amp_status amp_autocast_exit(amp_device device);

/* amp_autocast_enter, and amp_autocast_exit of the device that was opened, for the block macro: an error stands, as
 * amp/error.h says, and the region counts as entered all the same. Not for direct use. */
AMP_API amp_region amp_autocast_open(const amp_autocast_args *args);
AMP_API void amp_autocast_close(amp_region *region);

/* amp_autocast_here(AMP_DEVICE_CPU); amp_autocast_here(AMP_DEVICE_CPU, .dtype = AMP_F16, .strict = true);
 * A declaration: from here to the end of the block that it stands in, however that is left (amp/scope.h says how, and
 * what must not jump). amp_autocast(AMP_DEVICE_CPU) { … } is a block of its own, a loop of one round as amp_scope is.
 * In C++ the options are positional, cache_enabled = true is "as around it": amp_autocast_here(AMP_DEVICE_CPU, AMP_F16,
 * enabled, cache_enabled, strict, allow_banned, table, rules); amp/amp.hpp has them by name. */
#ifndef __cplusplus
#define AMP_AUTOCAST_OPEN_(...)                                                                                        \
    AMP_CALL_(amp_autocast_open(                                                                                       \
        &(const amp_autocast_args){.struct_size = sizeof(amp_autocast_args), .device = __VA_ARGS__}))
#else
#define AMP_AUTOCAST_OPEN_(...) amp_autocast_open_cxx(__VA_ARGS__)
#endif

/* ---- State of this thread ----
 * It belongs to the thread: a new thread starts outside of any region, whatever is open where it was made, and takes a
 * state over by amp_autocast_capture and amp_autocast_restore. Regions of one thread must be left in the order in which
 * they were entered, innermost first; scopes and regions are counted apart and may cross. For a device that does not
 * exist the three questions answer false, AMP_DTYPE_NONE and false, with an error. */
AMP_API bool amp_autocast_is_enabled(amp_device device);
AMP_API amp_dtype amp_autocast_dtype(amp_device device);
AMP_API bool amp_autocast_cache_is_enabled(amp_device device);
/* Number of open regions, over all devices. */
AMP_API int amp_autocast_nesting(void);

/* The whole state of a thread, to be carried into another one: a plain value. */
typedef struct amp_autocast_state {
    struct {
        bool enabled, cache_enabled, strict, allow_banned;
        amp_dtype dtype;
        int table;
        int rules;       /* their number; 0: none */
        int reserved[4]; /* 0 */
    } device[AMP_DEVICE_COUNT];
} amp_autocast_state;

/* Fills the first `bytes` of *state, which is sizeof(amp_autocast_state): what this libamp does not know is 0.
 * AMP_ERROR_INVALID: state is NULL; bytes is 0. */
AMP_API amp_status amp_autocast_get_state(amp_autocast_state *state, size_t bytes);
/* Enters a region, for all devices, with a captured state; leave it with amp_autocast_restore_end. Where `bytes` tells
 * less than this libamp knows (an older header), the rest is as if no region were open. AMP_ERROR_INVALID: state is
 * NULL, bytes is no size; no state that was captured; something is set that this libamp does not know. Like every
 * enter it needs its exit even then. */
AMP_API amp_status amp_autocast_enter_state(const amp_autocast_state *state, size_t bytes);
AMP_API amp_status amp_autocast_restore_end(void);

/* ---- Policies ---- */

/* What an op ("linear", "add.scalar") would run in on this thread now: the region's dtype, f32, or AMP_DTYPE_NONE where
 * that depends on the arguments (promote, fallthrough, parts) or no region is open. *reason (may be NULL) gets one
 * sentence, valid until this thread asks the next time. Unknown op: an error, AMP_DTYPE_NONE. */
AMP_API amp_dtype amp_autocast_dtype_for(const char *op, amp_device device, const char **reason);
/* The policy of an op in a table version: "lower", "fp32", "fp32_set_opt_dtype", "fp32_append_dtype", "promote",
 * "fallthrough", "parts" (the ops that it is made of have their own), "banned". table NULL: the process's default.
 * Without overrides. NULL with an error if unknown. */
AMP_API const char *amp_autocast_policy(const char *op, amp_device device, const char *table);

typedef enum amp_override {
    AMP_OVERRIDE_NONE = 0, /* back to the table */
    AMP_OVERRIDE_ALLOW,    /* run in the lower type */
    AMP_OVERRIDE_DENY,     /* run in f32 */
    AMP_OVERRIDE_CLEAR     /* leave it alone: run in the argument types */
} amp_override;

/* Overrides an op's policy on a device, for the process, above every table. All overloads of the name, or one
 * ("add.scalar"). The environment does the same at start for every device: AMP_ALLOW, AMP_DENY, AMP_CLEAR,
 * each a comma-separated list of names; of an op in several of them DENY goes over ALLOW, and CLEAR over both. The last
 * call of this function goes over all. In-place and out= forms are never cast, whatever the override. */
AMP_API amp_status amp_autocast_override(const char *op, amp_device device, amp_override override);
/* Table version of regions that name none. */
AMP_API amp_status amp_autocast_set_table(const char *table);

/* ---- Rules ----
 * What a region does otherwise than its table, as a text of lines; what stands behind # is a comment:
 *
 *     amp-policy 1                      # first of all: the format and its version
 *     f32   layer_norm                  # an op, or one overload of it ("add.scalar"): AMP_OVERRIDE_DENY
 *     lower softmax                     # AMP_OVERRIDE_ALLOW
 *     keep  add                         # AMP_OVERRIDE_CLEAR
 *     f32   node "/encoder/0/MatMul"    # calls made at one place, and inside of it: "/encoder/0/MatMul/…"
 *
 * A place is the name of a model's node (where it has none, that of its first output), or else the label that the thread
 * is under (amp/explain.h). In a name, \" and \\ stand for " and \. Of two rules for an op the last holds; one for a place
 * goes over those for ops. What a graph has made of several calls, of which one is kept in f32, runs in f32 as a whole. `amp audit` writes such files.
 *
 * Rules may serve any number of regions and threads; they must outlive the regions, and the states captured in them. NULL with an error that
 * names the file and the line: a file that cannot be read, a line that is none of these, an op that does not exist. */
AMP_API amp_autocast_rules *amp_autocast_rules_load(const char *path);
/* The same from a text; `name` is for messages. */
AMP_API amp_autocast_rules *amp_autocast_rules_parse(const char *text, const char *name);
/* The first place among them where no call was made so far, under these rules: a name that is written otherwise, maybe.
 * NULL: there is none. */
AMP_API const char *amp_autocast_rules_unmet(const amp_autocast_rules *rules);
/* Gives them back; NULL is allowed. */
AMP_API void amp_autocast_rules_release(amp_autocast_rules *rules);

/* ---- Cast cache ---- */
typedef struct amp_cast_cache_stats {
    uint64_t hits, misses, evictions;
    size_t bytes, budget, entries;
} amp_cast_cache_stats;

/* Fills the first `bytes` of *stats, which is sizeof(amp_cast_cache_stats), as amp_memory_get_statistics does. */
AMP_API amp_status amp_cast_cache_get_statistics(amp_cast_cache_stats *stats, size_t bytes);
/* Most bytes that cached casts may take; the least recently used go first. Default: no limit (SIZE_MAX). */
AMP_API void amp_cast_cache_set_budget(size_t bytes);
/* Drops every cached cast. */
AMP_API void amp_cast_cache_clear(void);

#ifdef __cplusplus
} /* extern "C" */

static inline amp_region amp_autocast_open_cxx(amp_device device, amp_dtype dtype = AMP_DTYPE_NONE, bool enabled = true,
                                               bool cache_enabled = true, bool strict = false,
                                               bool allow_banned = false, const char *table = nullptr,
                                               const amp_autocast_rules *rules = nullptr) {
    amp_autocast_args args = {};
    args.struct_size = sizeof args;
    args.device = device;
    args.dtype = dtype;
    args.enabled = {enabled, AMP_PRESENT};
    if (!cache_enabled) args.cache_enabled = {false, AMP_PRESENT};
    args.strict = strict;
    args.allow_banned = allow_banned;
    args.table = table;
    args.rules = rules;
    return amp_autocast_open(&args);
}
#endif

/* The three with structs as values, of the size that the program was compiled with. */
static inline amp_autocast_state amp_autocast_capture(void) {
    amp_autocast_state state;
    (void)amp_autocast_get_state(&state, sizeof state);
    return state;
}
static inline amp_status amp_autocast_restore(const amp_autocast_state *state) {
    return amp_autocast_enter_state(state, sizeof *state);
}
static inline amp_cast_cache_stats amp_cast_cache_statistics(void) {
    amp_cast_cache_stats stats;
    (void)amp_cast_cache_get_statistics(&stats, sizeof stats);
    return stats;
}

/* The region of a declaration and that of a block, see above. */
#define amp_autocast_here(...) AMP_REGION_HERE_(AMP_AUTOCAST_OPEN_(__VA_ARGS__), amp_autocast_close)
#define amp_autocast(...) AMP_REGION_BLOCK_(AMP_AUTOCAST_OPEN_(__VA_ARGS__), amp_autocast_close)

#endif /* AMP_AUTOCAST_H */
