/* Policy look-up: the tables of ops.def, and per-op overrides above them. */
#include "policy/policy.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "amp/autocast.h"
#include "core/hot.h"
#include "core/near_name.h"
#include "policy/user_ops.h"

static const char *const policy_names[AMP_POLICY_COUNT] = {
    [AMP_POLICY_FALLTHROUGH] = "fallthrough",
    [AMP_POLICY_PARTS] = "parts",
    [AMP_POLICY_LOWER] = "lower",
    [AMP_POLICY_FP32] = "fp32",
    [AMP_POLICY_FP32_SET_OPT_DTYPE] = "fp32_set_opt_dtype",
    [AMP_POLICY_FP32_APPEND_DTYPE] = "fp32_append_dtype",
    [AMP_POLICY_PROMOTE] = "promote",
    [AMP_POLICY_BANNED] = "banned",
};

static const char *const table_names[AMP_TABLE_COUNT] = {
    [AMP_TABLE_TORCH] = "torch", [AMP_TABLE_IPEX] = "ipex", [AMP_TABLE_APEX] = "apex"};

static const amp_policy override_policies[] = {
    [AMP_OVERRIDE_ALLOW] = AMP_POLICY_LOWER,
    [AMP_OVERRIDE_DENY] = AMP_POLICY_FP32,
    [AMP_OVERRIDE_CLEAR] = AMP_POLICY_FALLTHROUGH,
};

/* What stands above the tables: 1 + amp_policy, 0 for nothing. An override goes over a registration. */
enum { NO_POLICY = 0 };
static _Atomic unsigned char forced[AMP_MAX_OP_ID][AMP_DEVICE_COUNT];
static _Atomic unsigned char registered[AMP_MAX_OP_ID]; /* in force from the end of registration on */
static atomic_uint changes;                             /* of the two */
static atomic_int default_table = AMP_TABLE_TORCH;

unsigned amp_policy_version(void) {
    return atomic_load_explicit(&changes, memory_order_relaxed);
}

const char *amp_policy_name(amp_policy policy) {
    return (unsigned)policy < AMP_POLICY_COUNT ? policy_names[policy] : "?";
}

const char *amp_table_name(amp_table table) {
    return (unsigned)table < AMP_TABLE_COUNT ? table_names[table] : "?";
}

amp_status amp_table_from_name(const char *name, amp_table *table) {
    if (!name) {
        *table = (amp_table)atomic_load_explicit(&default_table, memory_order_relaxed);
        return AMP_OK;
    }
    for (int i = 0; i < AMP_TABLE_COUNT; i++) {
        if (strcmp(name, table_names[i]) == 0) {
            *table = (amp_table)i;
            return AMP_OK;
        }
    }
    return amp_fail(AMP_ERROR_INVALID, "autocast: there is no policy table '%s'; the tables are torch, ipex and apex",
                    name);
}

amp_status amp_device_check(const char *what, amp_device device) {
    if ((unsigned)device < AMP_DEVICE_COUNT) return AMP_OK;
    return amp_fail(AMP_ERROR_DEVICE, "%s: %d is no device; expected AMP_DEVICE_CPU or AMP_DEVICE_CUDA", what,
                    (int)device);
}

static bool cell_holds(const amp_op_info *op, const amp_policy_cell *cell, const void *args) {
    if (!cell->argument) return true;
    for (int i = 0; args && i < op->arg_count; i++) {
        const amp_arg_info *arg = &op->args[i];
        if (arg->kind != AMP_ARG_STRING || strcmp(arg->name, cell->argument) != 0) continue;
        const char *word = *(const char *const *)(const void *)((const char *)args + arg->offset);
        return (word && strcmp(word, cell->value) == 0) == cell->if_equal;
    }
    return !cell->if_equal;
}

AMP_HOT amp_policy_choice amp_policy_of(const amp_op_info *op, amp_device device, amp_table table, const void *args) {
    const unsigned char above = atomic_load_explicit(&forced[op->id][device], memory_order_relaxed);
    if (above != NO_POLICY) return (amp_policy_choice){(amp_policy)(above - 1), true};
    const amp_policy_cell *cell = &op->policy[table][device];
    return (amp_policy_choice){cell_holds(op, cell, args) ? cell->policy : AMP_POLICY_FALLTHROUGH, false};
}

/* ---- Overrides ------------------------------------------------------------------------------------------------ */
static amp_status set_override(const char *name, amp_device device, amp_override override) {
    const amp_op_info *op = name ? amp_op_find(name) : NULL;
    if (!op) return amp_op_unknown("autocast_override", name);
    const bool one_overload = amp_op_names_one(name, op);
    for (const amp_op_info *o = op; o; o = amp_op_next_overload(o)) {
        unsigned char above = atomic_load_explicit(&registered[o->id], memory_order_relaxed);
        if (override != AMP_OVERRIDE_NONE) above = (unsigned char)(1 + override_policies[override]);
        atomic_store_explicit(&forced[o->id][device], above, memory_order_relaxed);
        if (one_overload) break;
    }
    atomic_fetch_add_explicit(&changes, 1, memory_order_relaxed);
    return AMP_OK;
}

void amp_policy_register(const amp_op_info *op, amp_policy policy) {
    const unsigned char above = (unsigned char)(1 + policy);
    atomic_store_explicit(&registered[op->id], above, memory_order_relaxed);
    for (int d = 0; d < AMP_DEVICE_COUNT; d++) {
        unsigned char nothing = NO_POLICY;
        atomic_compare_exchange_strong(&forced[op->id][d], &nothing, above);
    }
    atomic_fetch_add_explicit(&changes, 1, memory_order_relaxed);
}

amp_status amp_autocast_override(const char *op, amp_device device, amp_override override) {
    AMP_TRY(amp_device_check("autocast_override", device));
    AMP_TRY(amp_policy_environment());
    if ((unsigned) override > AMP_OVERRIDE_CLEAR) {
        return amp_fail(AMP_ERROR_INVALID, "autocast_override: %d is no override of '%s'", (int) override,
                        op ? op : "NULL");
    }
    return set_override(op, device, override);
}

amp_status amp_autocast_set_table(const char *name) {
    amp_table table = AMP_TABLE_TORCH;
    AMP_TRY(amp_policy_environment());
    AMP_TRY(amp_table_from_name(name, &table));
    atomic_store_explicit(&default_table, (int)table, memory_order_relaxed);
    return AMP_OK;
}

/* ---- Environment ---------------------------------------------------------------------------------------------- */
enum { NAME_BYTES = 64 };

static const struct {
    const char *variable;
    amp_override override;
} environment_lists[] = {
    {"AMP_ALLOW", AMP_OVERRIDE_ALLOW}, {"AMP_DENY", AMP_OVERRIDE_DENY}, {"AMP_CLEAR", AMP_OVERRIDE_CLEAR}};

static pthread_once_t environment_once = PTHREAD_ONCE_INIT;
static char environment_error[224]; /* written once, by read_environment */

static void override_everywhere(const char *variable, const char *name, amp_override override) {
    if (!amp_op_find(name)) {
        snprintf(environment_error, sizeof environment_error, "autocast: %s names '%s', which is no op%s", variable,
                 name, amp_near_name_hint(amp_op_near(name)));
        return;
    }
    for (int device = 0; device < AMP_DEVICE_COUNT; device++) (void)set_override(name, (amp_device)device, override);
}

static void read_list(const char *variable, amp_override override) {
    const char *list = getenv(variable);
    while (list && *list) {
        const size_t length = strcspn(list, ", ");
        char name[NAME_BYTES];
        snprintf(name, sizeof name, "%.*s", (int)length, list);
        if (length > 0) override_everywhere(variable, name, override);
        list += length + strspn(list + length, ", ");
    }
}

static void read_table(void) {
    const char *name = getenv("AMP_TABLE");
    if (!name || !*name) return;
    for (int i = 0; i < AMP_TABLE_COUNT; i++) {
        if (strcmp(name, table_names[i]) == 0) {
            atomic_store_explicit(&default_table, i, memory_order_relaxed);
            return;
        }
    }
    snprintf(environment_error, sizeof environment_error,
             "autocast: AMP_TABLE is '%.60s'; the tables are torch, ipex and apex", name);
}

static void read_environment(void) {
    for (size_t i = 0; i < sizeof environment_lists / sizeof environment_lists[0]; i++) {
        read_list(environment_lists[i].variable, environment_lists[i].override);
    }
    read_table();
}

amp_status amp_policy_environment(void) {
    pthread_once(&environment_once, read_environment);
    return environment_error[0] ? amp_fail(AMP_ERROR_INVALID, "%s", environment_error) : AMP_OK;
}

const char *amp_autocast_policy(const char *name, amp_device device, const char *table_name) {
    amp_table table = AMP_TABLE_TORCH;
    if (amp_device_check("autocast_policy", device) || amp_policy_environment() ||
        amp_table_from_name(table_name, &table)) {
        return NULL;
    }
    const amp_op_info *op = name ? amp_op_find(name) : NULL;
    if (!op) {
        amp_op_unknown("autocast_policy", name);
        return NULL;
    }
    return amp_policy_name(op->policy[table][device].policy);
}
