/* The explain report: the records as JSON, from which the table is printed too. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "amp/autocast.h"
#include "amp/explain.h"
#include "amp/system.h"
#include "cpu/registry/kernels.h"
#include "explain/followers.h"
#include "explain/record.h"
#include "explain/summary.h"
#include "explain/table.h"
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

/* ---- What a record says ---------------------------------------------------------------------------------------- */
static int by_value(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Of the calls behind the first, of which there is at least one. Sorts the samples. */
static uint64_t median(amp_record *r) {
    const size_t count = r->calls - 1 < AMP_RECORD_SAMPLES ? (size_t)(r->calls - 1) : AMP_RECORD_SAMPLES;
    qsort(r->samples, count, sizeof *r->samples, by_value);
    return (uint64_t)((r->samples[(count - 1) / 2] + r->samples[count / 2]) / 2);
}

static const char *layout_name(unsigned layout) {
    static const char *const names[] = {"contiguous", "channels-last", "strided"};
    return names[layout];
}

/* Whether a tensor argument before the i-th input is absent. */
static bool stands_apart(const amp_record_key *key, int i) {
    const int arg = key->inputs[i].arg;
    for (int k = i ? key->inputs[i - 1].arg + 1 : 0; k < arg; k++)
        if (key->op->args[k].kind == AMP_ARG_TENSOR) return true;
    return false;
}

/* "f32[2, 3], f32[8, 3] strided, … (30 in all)"; with its name where another might be meant: "scale f32[8]". */
static void print_inputs(FILE *out, const amp_record_key *key) {
    const int64_t *extents = key->extents;
    if (key->other_shapes) fputs("other shapes", out);
    for (int i = 0; i < key->stored_inputs; i++) {
        const amp_record_input *input = &key->inputs[i];
        if (i) fputs(", ", out);
        if (stands_apart(key, i)) fprintf(out, "%s ", key->op->args[input->arg].name);
        fprintf(out, "%s[", amp_dtype_name((amp_dtype)input->dtype));
        for (int d = 0; d < input->rank; d++) fprintf(out, d ? ", %lld" : "%lld", (long long)*extents++);
        fputc(']', out);
        if (input->layout != AMP_RECORD_CONTIGUOUS) fprintf(out, " %s", layout_name(input->layout));
    }
    if (key->stored_inputs == key->input_count) return;
    fprintf(out, "%s… (%d in all)", key->stored_inputs ? ", " : "", key->input_count);
}

/* The same for programs. */
static json_t *tensors_json(const amp_record_key *key) {
    const int64_t *extents = key->extents;
    json_t *list = json_array();
    for (int i = 0; i < key->stored_inputs; i++) {
        const amp_record_input *input = &key->inputs[i];
        json_t *shape = json_array();
        for (int d = 0; d < input->rank; d++) json_array_append_new(shape, json_integer((json_int_t)*extents++));
        json_array_append_new(list, json_pack("{s:s, s:s, s:o, s:s}", "argument", key->op->args[input->arg].name,
                                              "dtype", amp_dtype_name((amp_dtype)input->dtype), "shape", shape,
                                              "layout", layout_name(input->layout)));
    }
    return list;
}

static json_t *numbers_json(const int64_t *values, int64_t count) {
    json_t *list = json_array();
    for (int64_t i = 0; i < count; i++) json_array_append_new(list, json_integer((json_int_t)values[i]));
    return list;
}

/* {"stride": [2, 2], "groups": [4], "attr": "relu", "is_causal": true} */
static json_t *options_json(const amp_record_key *key) {
    json_t *options = json_object();
    for (int at = 0; at < key->option_words;) {
        const char *name = key->op->args[key->options[at]].name;
        const int64_t count = key->options[at + 1], words = count < 0 ? -count : count, *values = key->options + at + 2;
        const char *text = (const char *)values;
        json_object_set_new(options, name,
                            key->op->args[key->options[at]].kind == AMP_ARG_BOOL ? json_true()
                            : count < 0 ? json_stringn(text, strnlen(text, (size_t)words * sizeof *values))
                                        : numbers_json(values, count));
        at += 2 + (int)words;
    }
    return options;
}

/* ---- JSON ------------------------------------------------------------------------------------------------------ */
/* The instruction set, where it is that which cannot be used, and not the kernel that does not fit. */
static const char *refused_isa(const amp_kernel_refusal *refusal) {
    const amp_isa isa = refusal->kernel->isa;
    return strcmp(refusal->reason, amp_isa_reason(isa)) == 0 ? amp_isa_name(isa) : NULL;
}

static void add_refusals(json_t *list, const char *kernel_name) {
    enum { MOST = 8 };
    amp_kernel_refusal refusals[MOST];
    const amp_kernel *kernel = kernel_name ? amp_kernel_find(kernel_name) : NULL;
    const int count = kernel ? amp_kernel_passed_over(kernel, refusals, MOST) : 0;
    for (int i = 0; i < count && i < MOST; i++) {
        json_array_append_new(list, json_pack("{s:s, s:s, s:s?}", "kernel", refusals[i].kernel->name, "reason",
                                              refusals[i].reason, "isa", refused_isa(&refusals[i])));
    }
}

/* Those above the kernel that ran, or above those of the ops below. */
static json_t *refusals_json(const amp_call_note *note) {
    json_t *list = json_array();
    add_refusals(list, note->kernel);
    for (int i = 0; !note->kernel && i < AMP_NOTE_PARTS; i++) add_refusals(list, note->parts[i]);
    return list;
}

static json_t *parts_json(const amp_call_note *note) {
    json_t *list = json_array();
    for (int i = 0; !note->kernel && i < AMP_NOTE_PARTS && note->parts[i]; i++)
        json_array_append_new(list, json_string(note->parts[i]));
    return list;
}

/* The activation that alone reads the results, and the op that does both. */
static json_t *follower_json(const amp_record *r) {
    const char *attr = NULL, *fused = amp_follower_fused(r->key.op, r->follower, &attr);
    if (!fused) return json_null();
    return json_pack("{s:s, s:I, s:s, s:s}", "op", r->follower->c_name, "calls", (json_int_t)r->followed, "fused",
                     fused, "attr", attr);
}

static const char *kernel_isa(const char *kernel_name) {
    const amp_kernel *kernel = kernel_name ? amp_kernel_find(kernel_name) : NULL;
    return kernel ? amp_isa_name(kernel->isa) : NULL;
}

static json_t *inputs_json(const amp_record_key *key) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out) return NULL;
    print_inputs(out, key);
    json_t *json = fclose(out) == 0 ? json_string(text) : NULL;
    free(text);
    return json;
}

static json_t *name_or_null(amp_dtype dtype) {
    return dtype != AMP_DTYPE_NONE ? json_string(amp_dtype_name(dtype)) : json_null();
}

static json_t *times_json(amp_record *r) {
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "calls", (json_int_t)r->calls, "failures",
                     (json_int_t)r->failures, "nanoseconds", (json_int_t)r->nanoseconds, "host_nanoseconds",
                     (json_int_t)r->host_nanoseconds, "fastest_nanoseconds", (json_int_t)r->fastest,
                     "first_nanoseconds", (json_int_t)r->first, "median_nanoseconds",
                     r->calls > 1 ? json_integer((json_int_t)median(r)) : json_null());
}

static json_t *way_json(const amp_record_key *key) {
    const amp_call_note *n = &key->note;
    return json_pack("{s:o, s:s?, s:b, s:o, s:s?, s:I, s:I, s:I, s:b, s:s?, s:o, s:s?, s:o}", "region",
                     name_or_null(n->region), "policy", n->in_region ? amp_policy_name(n->policy) : NULL, "overridden",
                     (int)n->overridden, "runs_in", name_or_null(key->runs_in), "bypass", n->bypass, "casts_made",
                     (json_int_t)n->casts_made, "casts_cached", (json_int_t)n->casts_cached, "casts_fused",
                     (json_int_t)n->casts_fused, "weight_of_op", (int)n->weight_of_op, "kernel", n->kernel, "parts",
                     parts_json(n), "isa", kernel_isa(n->kernel), "refused", refusals_json(n));
}

/* A name that is no UTF-8, which JSON cannot hold, is only known to be there. */
static json_t *label_json(const char *label) {
    json_t *json = *label ? json_string(label) : json_null();
    return json ? json : json_string("?");
}

static json_t *record_json(amp_record *r) {
    char name[80];
    snprintf(name, sizeof name, "%s%s", r->key.op->c_name, form_suffix(r->key.form));
    json_t *row = json_pack("{s:s, s:o, s:s, s:o, s:o, s:o, s:b, s:o, s:o}", "op", name, "label",
                            label_json(r->key.label), "device", amp_device_name(r->key.device), "inputs",
                            inputs_json(&r->key), "tensors", tensors_json(&r->key), "options", options_json(&r->key),
                            "other_shapes", (int)r->key.other_shapes, "operations",
                            r->operations > 0 ? json_real(r->operations) : json_null(), "follower", follower_json(r));
    json_t *times = times_json(r), *way = way_json(&r->key);
    const bool whole = row && json_object_update(row, times) == 0 && json_object_update(row, way) == 0;
    json_decref(times);
    json_decref(way);
    if (whole) return row;
    json_decref(row);
    return NULL;
}

static json_t *quarantine_json(void) {
    enum { MOST = 256 };
    amp_kernel_refusal rows[MOST];
    json_t *list = json_array();
    const int count = amp_kernel_quarantined(rows, MOST);
    for (int i = 0; i < count && i < MOST; i++) {
        json_array_append_new(list, json_pack("{s:s, s:s}", "kernel", rows[i].kernel->name, "reason", rows[i].reason));
    }
    return list;
}

static json_t *report_json(record_list *list) {
    const amp_cast_cache_stats cache = amp_cast_cache_statistics();
    json_t *ops = json_array();
    for (size_t i = 0; i < list->count; i++) json_array_append_new(ops, record_json(&list->items[i]));
    return json_pack("{s:s, s:s, s:s, s:i, s:I, s:{s:I, s:I, s:I, s:I, s:I}, s:o, s:o}", "libamp", amp_version_string(),
                     "cpu", amp_cpu()->model, "isa", amp_isa_name(amp_isa_best()), "threads", amp_get_num_threads(),
                     "wall_nanoseconds", (json_int_t)amp_records_wall_time(), "cast_cache", "hits",
                     (json_int_t)cache.hits, "misses", (json_int_t)cache.misses, "evictions",
                     (json_int_t)cache.evictions, "entries", (json_int_t)cache.entries, "bytes",
                     (json_int_t)cache.bytes, "quarantined", quarantine_json(), "ops", ops);
}

char *amp_explain_report(amp_explain_format format) {
    record_list list = {0};
    char *text = NULL;
    amp_records_for_each(collect, &list);
    if (list.count > 1) qsort(list.items, list.count, sizeof *list.items, slower_first);
    json_t *report = list.failed ? NULL : report_json(&list);
    const bool whole = report && amp_explain_complete(report);
    if (whole) text = format == AMP_EXPLAIN_JSON ? json_dumps(report, JSON_INDENT(1)) : amp_explain_table(report, 0, 0);
    json_decref(report);
    free(list.items);
    if (!text) amp_fail(AMP_ERROR_MEMORY, "explain_report: no memory for the report");
    return text;
}

void amp_explain_free(char *report) {
    free(report);
}
