/* The explain report as a table for people and as JSON for programs. */
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "amp/autocast.h"
#include "amp/explain.h"
#include "amp/system.h"
#include "cpu/kernels.h"
#include "explain/record.h"
#include "policy/policy.h"

/* ---- The records, copied out and sorted ------------------------------------------------------------------------ */
typedef struct record_list {
    amp_record *items;
    size_t count, capacity;
    bool failed;
} record_list;

static void collect(const amp_record *r, void *context) {
    record_list *list = context;
    if (list->count == list->capacity) {
        const size_t capacity = list->capacity ? 2 * list->capacity : 64;
        amp_record *items = realloc(list->items, capacity * sizeof *items);
        if (!items) {
            list->failed = true;
            return;
        }
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->count++] = *r;
}

static int slower_first(const void *a, const void *b) {
    const uint64_t x = ((const amp_record *)a)->nanoseconds, y = ((const amp_record *)b)->nanoseconds;
    return (x < y) - (x > y);
}

static const char *form_suffix(unsigned form) {
    return form == AMP_FORM_INPLACE ? "_" : form == AMP_FORM_OUT ? "_out" : "";
}

/* One sentence: why the op ran in the type that it ran in. */
static void explain_type(const amp_record *r, char *text, size_t size) {
    const amp_call_note *n = &r->note;
    const char *by = n->overridden ? " (override)" : "";
    if (!n->in_region) {
        snprintf(text, size, "%s", n->bypass ? n->bypass : "no autocast region");
    } else if (n->bypass) {
        snprintf(text, size, "%s%s, not cast: %s", amp_policy_name(n->policy), by, n->bypass);
    } else {
        snprintf(text, size, "%s%s", amp_policy_name(n->policy), by);
    }
}

/* ---- JSON ------------------------------------------------------------------------------------------------------ */
static json_t *refusals_json(const char *kernel_name) {
    amp_kernel_refusal refusals[8];
    json_t *list = json_array();
    const amp_kernel *kernel = kernel_name ? amp_kernel_find(kernel_name) : NULL;
    if (!kernel) return list;
    int count = amp_kernel_refusals(kernel->family, kernel->in, kernel->out, NULL, refusals, 8);
    for (int i = 0; i < count && i < 8; i++) {
        json_array_append_new(
            list, json_pack("{s:s, s:s}", "kernel", refusals[i].kernel->name, "reason", refusals[i].reason));
    }
    return list;
}

static const char *kernel_isa(const char *kernel_name) {
    const amp_kernel *kernel = kernel_name ? amp_kernel_find(kernel_name) : NULL;
    return kernel ? amp_isa_name(kernel->isa) : NULL;
}

static json_t *record_json(const amp_record *r) {
    char name[80];
    snprintf(name, sizeof name, "%s%s", r->op->c_name, form_suffix(r->form));
    const amp_call_note *n = &r->note;
    return json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:s?, s:b, s:s?, s:s?, s:I, s:I, s:I, s:s?, s:s?, s:o}", "op",
                     name, "device", amp_device_name(r->device), "inputs", r->inputs, "calls", (json_int_t)r->calls,
                     "failures", (json_int_t)r->failures, "nanoseconds", (json_int_t)r->nanoseconds,
                     "fastest_nanoseconds", (json_int_t)r->fastest, "policy",
                     n->in_region ? amp_policy_name(n->policy) : NULL, "overridden", (int)n->overridden, "runs_in",
                     n->target != AMP_DTYPE_NONE ? amp_dtype_name(n->target) : NULL, "bypass", n->bypass, "casts_made",
                     (json_int_t)n->casts_made, "casts_cached", (json_int_t)n->casts_cached, "casts_fused",
                     (json_int_t)n->casts_fused, "kernel", n->kernel, "isa", kernel_isa(n->kernel), "refused",
                     refusals_json(n->kernel));
}

static json_t *quarantine_json(void) {
    amp_kernel_refusal rows[8];
    json_t *list = json_array();
    const int count = amp_kernel_quarantined(rows, 8);
    for (int i = 0; i < count && i < 8; i++) {
        json_array_append_new(list, json_pack("{s:s, s:s}", "kernel", rows[i].kernel->name, "reason", rows[i].reason));
    }
    return list;
}

static char *report_json(const record_list *list) {
    const amp_cast_cache_stats cache = amp_cast_cache_statistics();
    json_t *ops = json_array();
    for (size_t i = 0; i < list->count; i++) json_array_append_new(ops, record_json(&list->items[i]));
    json_t *root = json_pack(
        "{s:s, s:s, s:s, s:i, s:{s:I, s:I, s:I, s:I, s:I}, s:o, s:o}", "libamp", amp_version_string(), "cpu",
        amp_cpu()->model, "isa", amp_isa_name(amp_isa_best()), "threads", amp_get_num_threads(), "cast_cache", "hits",
        (json_int_t)cache.hits, "misses", (json_int_t)cache.misses, "evictions", (json_int_t)cache.evictions, "entries",
        (json_int_t)cache.entries, "bytes", (json_int_t)cache.bytes, "quarantined", quarantine_json(), "ops", ops);
    char *text = root ? json_dumps(root, JSON_INDENT(1)) : NULL;
    json_decref(root);
    return text;
}

/* ---- Table ----------------------------------------------------------------------------------------------------- */
static void print_row(FILE *out, const amp_record *r, uint64_t total) {
    char name[80], why[200], casts[40];
    const amp_call_note *n = &r->note;
    explain_type(r, why, sizeof why);
    snprintf(name, sizeof name, "%s%s", r->op->c_name, form_suffix(r->form));
    snprintf(casts, sizeof casts, "%d/%d/%d", n->casts_made, n->casts_cached, n->casts_fused);
    fprintf(out, "%-30.30s %7llu %10.3f %5.1f%% %10.2f  %-5s %-11s %-28.28s %s\n", name, (unsigned long long)r->calls,
            (double)r->nanoseconds / 1e6, total ? 100.0 * (double)r->nanoseconds / (double)total : 0.0,
            (double)r->nanoseconds / 1e3 / (double)r->calls,
            n->target != AMP_DTYPE_NONE ? amp_dtype_name(n->target) : "-", casts, n->kernel ? n->kernel : "-", why);
    fprintf(out, "    %s%s\n", r->inputs, r->failures ? "  (failed)" : "");
}

/* Each kernel that ran, and the better ones that could not. */
static void print_refusals(FILE *out, const record_list *list) {
    const char *seen[64];
    size_t seen_count = 0;
    for (size_t i = 0; i < list->count; i++) {
        const char *name = list->items[i].note.kernel;
        const amp_kernel *kernel = name ? amp_kernel_find(name) : NULL;
        bool known = !kernel;
        for (size_t k = 0; !known && k < seen_count; k++) known = strcmp(seen[k], name) == 0;
        if (known || seen_count == 64) continue;
        seen[seen_count++] = name;
        amp_kernel_refusal refusals[8];
        const int count = amp_kernel_refusals(kernel->family, kernel->in, kernel->out, NULL, refusals, 8);
        for (int k = 0; k < count && k < 8; k++) {
            fprintf(out, "%s was chosen; %s was not: %s\n", name, refusals[k].kernel->name, refusals[k].reason);
        }
    }
}

static char *report_table(const record_list *list) {
    char *text = NULL;
    size_t size = 0;
    uint64_t total = 0;
    const amp_cast_cache_stats cache = amp_cast_cache_statistics();
    FILE *out = open_memstream(&text, &size);
    if (!out) return NULL;
    for (size_t i = 0; i < list->count; i++) total += list->items[i].nanoseconds;
    fprintf(out, "libamp %s on %s, %s, %d threads\n", amp_version_string(), amp_cpu()->model,
            amp_isa_name(amp_isa_best()), amp_get_num_threads());
    fprintf(out, "cast cache: %llu hits, %llu misses, %llu evictions, %.1f MB in %zu entries\n\n",
            (unsigned long long)cache.hits, (unsigned long long)cache.misses, (unsigned long long)cache.evictions,
            (double)cache.bytes / 1e6, cache.entries);
    fprintf(out, "%-30s %7s %10s %6s %10s  %-5s %-11s %-28s %s\n", "op", "calls", "ms", "share", "us/call", "in",
            "casts*", "kernel", "policy");
    for (size_t i = 0; i < list->count; i++) print_row(out, &list->items[i], total);
    fprintf(out, "\n* made / from the cache / avoided: converted by the kernel on the way\n");
    print_refusals(out, list);
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

char *amp_explain_report(amp_explain_format format) {
    record_list list = {0};
    amp_records_for_each(collect, &list);
    if (list.count > 1) qsort(list.items, list.count, sizeof *list.items, slower_first);
    char *text = NULL;
    if (!list.failed) text = format == AMP_EXPLAIN_JSON ? report_json(&list) : report_table(&list);
    free(list.items);
    if (!text) amp_fail(AMP_ERROR_MEMORY, "explain_report: no memory for the report");
    return text;
}

void amp_explain_free(char *report) {
    free(report);
}
