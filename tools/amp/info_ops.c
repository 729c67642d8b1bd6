/* amp info --ops: every op, the library's and those of --load, with its policies and where it runs; of one that is
 * named, how it is called. */
#include <fnmatch.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "call/backend.h"
#include "command.h"
#include "info_signature.h"
#include "policy/policy.h"
#include "policy/user_ops.h"

static const char *key_of(const amp_op_info *op, char *room, size_t bytes) {
    snprintf(room, bytes, op->overload[0] ? "%s.%s" : "%s", op->name, op->overload);
    return room;
}

static bool runs_on_cpu(const amp_op_info *op) {
    if (amp_op_is_user(op)) return amp_user_op_run(op, AMP_DEVICE_CPU) != NULL;
    return amp_cpu_backend.find(op->alias_of ? amp_op_find(op->alias_of) : op).run != NULL;
}

static const char *forms_of(const amp_op_info *op) {
    static const char *const names[] = {"", "_", "out", "_ out"};
    return names[!!(op->forms & AMP_FORM_INPLACE) + 2 * !!(op->forms & AMP_FORM_OUT)];
}

static const char *policy_of(const amp_op_info *op, amp_table table, amp_device device) {
    return amp_policy_name(op->policy[table][device].policy);
}

/* Runs `visit` for the ops that the pattern matches, by name or key; false if there is none. */
static bool for_each(const char *pattern, void (*visit)(const amp_op_info *op, const char *key, void *context),
                     void *context) {
    bool any = false;
    for (int i = 0;; i++) {
        const amp_op_info *op = i < amp_op_count ? &amp_op_table[i] : amp_user_op_at(i - amp_op_count);
        char key[128];
        if (!op) return any;
        if (pattern && fnmatch(pattern, key_of(op, key, sizeof key), 0) && fnmatch(pattern, op->name, 0)) continue;
        any = true;
        visit(op, key_of(op, key, sizeof key), context);
    }
}

static void print_row(const amp_op_info *op, const char *key, void *context) {
    (void)context;
    printf("%-36s %-12s %-18s %-18s %-18s %-5s %s\n", key, runs_on_cpu(op) ? "yes" : "not yet",
           policy_of(op, AMP_TABLE_TORCH, AMP_DEVICE_CPU), policy_of(op, AMP_TABLE_TORCH, AMP_DEVICE_CUDA),
           policy_of(op, AMP_TABLE_APEX, AMP_DEVICE_CPU), forms_of(op),
           amp_op_is_user(op) ? "(defined by --load)" : "");
}

/* Below the table, where one name is asked for: the schema and the call, which `docs/ops.md` has of all. */
static void print_signature(const amp_op_info *op, const char *key, void *context) {
    (void)context;
    printf("\n%s: %s\n    %s\n", key, op->doc && *op->doc ? op->doc : "defined by --load", op->schema);
    if (amp_op_is_user(op)) return;
    fputs("    ", stdout);
    amp_write_call(stdout, op);
    if (op->forms & (AMP_FORM_INPLACE | AMP_FORM_OUT)) {
        fputs("\n    ", stdout);
        amp_write_forms(stdout, op);
    }
    putchar('\n');
}

/* The call as text, malloc'ed; NULL for an op that has no macro, or without memory. */
static char *call_text(const amp_op_info *op) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = amp_op_is_user(op) ? NULL : open_memstream(&text, &size);
    if (!out) return NULL;
    amp_write_call(out, op);
    if (fclose(out) == 0) return text;
    free(text);
    return NULL;
}

static void append_row(const amp_op_info *op, const char *key, void *list) {
    json_t *policies = json_object();
    for (int t = 0; t < AMP_TABLE_COUNT; t++) {
        const amp_table table = (amp_table)t;
        json_object_set_new(policies, amp_table_name(table),
                            json_pack("{s:s, s:s}", "cpu", policy_of(op, table, AMP_DEVICE_CPU), "cuda",
                                      policy_of(op, table, AMP_DEVICE_CUDA)));
    }
    char *call = call_text(op);
    json_array_append_new(list, json_pack("{s:s, s:s, s:s?, s:s, s:b, s:s, s:b, s:o}", "op", key, "schema", op->schema,
                                          "call", call, "doc", op->doc, "runs_on_cpu", (int)runs_on_cpu(op), "forms",
                                          forms_of(op), "user", (int)amp_op_is_user(op), "policies", policies));
    free(call);
}

int amp_print_ops(const char *pattern, bool json) {
    bool any;
    if (json) {
        json_t *list = json_array();
        any = for_each(pattern, append_row, list);
        char *text = json_dumps(list, JSON_INDENT(1));
        if (any && text) puts(text);
        free(text);
        json_decref(list);
    } else {
        printf("%-36s %-12s %-18s %-18s %-18s %s\n", "op", "runs on cpu", "policy on cpu", "on cuda", "in table apex",
               "forms");
        any = for_each(pattern, print_row, NULL);
        if (pattern && !strpbrk(pattern, "*?[")) for_each(pattern, print_signature, NULL);
    }
    if (any) return AMP_EXIT_OK;
    fprintf(stderr, "amp info: no op matches '%s'\n", pattern);
    return AMP_EXIT_FAILED;
}
