/* Totals, rates and advice of a report. */
#include "explain/summary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *amp_json_text(const json_t *object, const char *key, const char *otherwise) {
    const char *value = json_string_value(json_object_get(object, key));
    return value ? value : otherwise;
}

double amp_json_number(const json_t *object, const char *key) {
    return json_number_value(json_object_get(object, key));
}

static bool is_true(const json_t *object, const char *key) {
    return json_is_true(json_object_get(object, key));
}

static bool set(json_t *object, const char *key, json_t *value) {
    return json_object_set_new(object, key, value) == 0;
}

/* ---- Rates ------------------------------------------------------------------------------------------------------- */
/* Operations a second that the machine can do in the row's type; 0: not probed, or another device. f16 is computed in
 * f32; lanes of f64 are half as many. */
static double peak_of(const json_t *report, const json_t *row) {
    const json_t *dtypes = json_object_get(json_object_get(report, "peak"), "dtypes");
    const char *dtype = amp_json_text(row, "runs_in", "");
    if (strcmp(amp_json_text(row, "device", "cpu"), "cpu") != 0) return 0;
    return amp_json_number(dtypes, strcmp(dtype, "f16") == 0 ? "f32" : dtype);
}

/* Nanoseconds of the median call, or of the only one. */
static double typical_time(const json_t *row) {
    const json_t *median = json_object_get(row, "median_nanoseconds");
    return json_is_number(median) ? json_number_value(median) : amp_json_number(row, "first_nanoseconds");
}

static bool add_rate(const json_t *report, json_t *row) {
    const double operations = amp_json_number(row, "operations"), time = typical_time(row);
    const double rate = time > 0 ? operations / time : 0, peak = peak_of(report, row) * 1e-9;
    return set(row, "gflops", rate > 0 ? json_real(rate) : json_null()) &&
           set(row, "peak_share", rate > 0 && peak > 0 ? json_real(rate / peak) : json_null());
}

/* ---- Totals ------------------------------------------------------------------------------------------------------ */
typedef struct total {
    const char *name;
    double calls, nanoseconds, operations, at_peak; /* nanoseconds that the operations would take at the peak */
    bool unknown, no_peak;                          /* a row's operations, or its peak */
} total;

static void add_to_total(total *t, const json_t *report, const json_t *row) {
    const double calls = amp_json_number(row, "calls"), operations = calls * amp_json_number(row, "operations");
    const double peak = peak_of(report, row);
    t->calls += calls;
    t->nanoseconds += amp_json_number(row, "nanoseconds");
    t->operations += operations;
    t->unknown |= operations <= 0;
    t->no_peak |= peak <= 0;
    if (peak > 0) t->at_peak += operations / peak * 1e9;
}

static int slower_first(const void *a, const void *b) {
    const double x = ((const total *)a)->nanoseconds, y = ((const total *)b)->nanoseconds;
    return (x < y) - (x > y);
}

static json_t *total_json(const char *key, const total *t) {
    const bool known = !t->unknown && t->nanoseconds > 0;
    return json_pack("{s:s, s:I, s:I, s:o, s:o}", key, t->name, "calls", (json_int_t)t->calls, "nanoseconds",
                     (json_int_t)t->nanoseconds, "gflops",
                     known ? json_real(t->operations / t->nanoseconds) : json_null(), "peak_share",
                     known && !t->no_peak ? json_real(t->at_peak / t->nanoseconds) : json_null());
}

static total *find_total(total *totals, size_t *count, const char *name) {
    for (size_t i = 0; i < *count; i++)
        if (strcmp(totals[i].name, name) == 0) return &totals[i];
    totals[*count] = (total){.name = name};
    return &totals[(*count)++];
}

/* The rows added up by their `key`; NULL without memory. */
static json_t *totals_json(const json_t *report, const json_t *rows, const char *key) {
    size_t count = 0, i;
    json_t *row, *list = json_array();
    total *totals = calloc(json_array_size(rows) + 1, sizeof *totals);
    if (!totals || !list) {
        free(totals);
        json_decref(list);
        return NULL;
    }
    json_array_foreach(rows, i, row) {
        add_to_total(find_total(totals, &count, amp_json_text(row, key, "")), report, row);
    }
    qsort(totals, count, sizeof *totals, slower_first);
    for (i = 0; i < count; i++) json_array_append_new(list, total_json(key, &totals[i]));
    free(totals);
    return list;
}

static bool has_labels(const json_t *rows) {
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row) {
        if (json_is_string(json_object_get(row, "label"))) return true;
    }
    return false;
}

/* ---- Instruction sets that could not be used --------------------------------------------------------------------- */
static json_t *group_of(json_t *groups, const char *isa, const char *reason) {
    size_t i;
    json_t *group;
    json_array_foreach(groups, i, group) {
        if (strcmp(amp_json_text(group, "isa", ""), isa) == 0 &&
            strcmp(amp_json_text(group, "reason", ""), reason) == 0)
            return group;
    }
    group = json_pack("{s:s, s:s, s:[]}", "isa", isa, "reason", reason, "kernels");
    return json_array_append_new(groups, group) == 0 ? group : NULL;
}

static void add_name(json_t *list, const char *name) {
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item) {
        if (strcmp(json_string_value(item), name) == 0) return;
    }
    json_array_append_new(list, json_string(name));
}

static json_t *refused_json(const json_t *rows) {
    json_t *groups = json_array(), *row, *refusal;
    size_t i, k;
    json_array_foreach(rows, i, row) {
        json_array_foreach(json_object_get(row, "refused"), k, refusal) {
            const char *isa = amp_json_text(refusal, "isa", NULL);
            json_t *group = isa ? group_of(groups, isa, amp_json_text(refusal, "reason", "?")) : NULL;
            if (group) add_name(json_object_get(group, "kernels"), amp_json_text(refusal, "kernel", "?"));
        }
    }
    return groups;
}

/* ---- Advice: only what the rows prove ---------------------------------------------------------------------------- */
/* An image in NCHW whose convolution works on channels that vary fastest: it was laid out anew (cpu/conv). */
static bool wants_channels_last(const json_t *row) {
    const json_t *image = json_array_get(json_object_get(row, "tensors"), 0), *shape = json_object_get(image, "shape");
    const size_t rank = json_array_size(shape);
    const char *kernel = amp_json_text(row, "kernel", "");
    json_int_t pixels = 1;
    if (strncmp(amp_json_text(row, "op", ""), "conv", 4) != 0 || !*kernel || strcmp(kernel, "loops") == 0) return false;
    if (strcmp(amp_json_text(image, "layout", ""), "contiguous") != 0 || (rank != 4 && rank != 5)) return false;
    for (size_t i = 2; i < rank; i++) pixels *= json_integer_value(json_array_get(shape, i));
    return strcmp(amp_json_text(row, "device", ""), "cpu") == 0 && pixels > 1 &&
           json_integer_value(json_array_get(shape, 1)) > 1 && json_integer_value(json_array_get(shape, 0)) > 0;
}

/* Extent i of tensor argument `name`; 0: not known. */
static json_int_t extent_of(const json_t *row, const char *name, size_t i) {
    size_t k;
    json_t *tensor;
    json_array_foreach(json_object_get(row, "tensors"), k, tensor) {
        if (strcmp(amp_json_text(tensor, "argument", ""), name) == 0)
            return json_integer_value(json_array_get(json_object_get(tensor, "shape"), i));
    }
    return 0;
}

static double elements_of(const json_t *tensor) {
    double elements = 1;
    size_t i;
    json_t *extent;
    json_array_foreach(json_object_get(tensor, "shape"), i, extent) elements *= (double)json_integer_value(extent);
    return elements;
}

/* Where one call was never slower than two. CPU time of both, one thread of a Zen 4, f32 and bf16 (docs/benchmarks.md,
 * "An activation fused or apart"): of relu 0.84 … 1.01 with 16 channels out or more, 0.98 … 1.07 with 8 or fewer, of
 * linear layers 0.73 … 1.00. Of GELU 0.75 … 1.00 for linear layers with few results, where a call counts; else up to
 * 1.15, and up to 1.73 for convolutions. Transposed ones, and a GPU, were not measured. */
static bool fusing_pays(const json_t *row) {
    enum { LEAST_CHANNELS = 16, MOST_RESULTS = 2048 };
    const bool relu = strcmp(amp_json_text(json_object_get(row, "follower"), "attr", ""), "relu") == 0;
    const char *op = amp_json_text(row, "op", "");
    const json_int_t out = extent_of(row, "weight", 0), in = extent_of(row, "weight", 1);
    if (strcmp(amp_json_text(row, "device", ""), "cpu") != 0) return false;
    if (strncmp(op, "conv_transpose", strlen("conv_transpose")) == 0) return false;
    if (strcmp(op, "linear") != 0) return relu && out >= LEAST_CHANNELS;
    const double values = elements_of(json_array_get(json_object_get(row, "tensors"), 0));
    return relu || (in > 0 && values / (double)in * (double)out <= MOST_RESULTS);
}

/* Nothing but one activation ever read what it made. */
static bool wants_fusion(const json_t *row) {
    const double follows = amp_json_number(json_object_get(row, "follower"), "calls");
    return follows > 0 && follows == amp_json_number(row, "calls") - amp_json_number(row, "failures") &&
           fusing_pays(row);
}

/* One call alone does not show that there are others. */
static bool wants_mark(const json_t *row) {
    return is_true(row, "weight_of_op") && amp_json_number(row, "calls") - amp_json_number(row, "failures") > 1;
}

/* A product: other ops convert as they read. */
static bool wants_bf16(const json_t *row) {
    return strcmp(amp_json_text(row, "runs_in", ""), "f16") == 0 && amp_json_number(row, "operations") > 0 &&
           strcmp(amp_json_text(row, "device", ""), "cpu") == 0;
}

static void say_fusion(FILE *out, const json_t *row) {
    const json_t *follower = json_object_get(row, "follower");
    fprintf(out, "%s is all that reads its results: amp_%s(…, .attr = \"%s\") does both in one pass",
            amp_json_text(follower, "op", "?"), amp_json_text(follower, "fused", "?"),
            amp_json_text(follower, "attr", "?"));
}

static void say_channels_last(FILE *out, const json_t *row) {
    (void)row;
    fputs("its images came in NCHW and were laid out anew at each call: amp_channels_last(images) before the first "
          "convolution, and results stay so",
          out);
}

static void say_mark(FILE *out, const json_t *row) {
    (void)row;
    fputs("its weight is cast anew at each call, for an op made it: amp_tensor_mark_parameter keeps the cast", out);
}

static void say_bf16(FILE *out, const json_t *row) {
    (void)row;
    fputs("f16 has no kernels of its own on the CPU and is computed in f32: bf16 is what the CPU has", out);
}

static const struct {
    const char *kind;
    bool (*holds)(const json_t *row);
    void (*say)(FILE *out, const json_t *row);
} advice[] = {
    {"channels_last", wants_channels_last, say_channels_last},
    {"fuse", wants_fusion, say_fusion},
    {"mark_parameter", wants_mark, say_mark},
    {"f16", wants_bf16, say_bf16},
};

enum { ADVICE = sizeof advice / sizeof *advice };

/* malloc'ed; NULL without memory. */
static char *advice_text(int kind, const json_t *row) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out) return NULL;
    advice[kind].say(out, row);
    if (fclose(out) == 0) return text;
    free(text);
    return NULL;
}

/* That of the same kind and text for the same op, or a new one. */
static json_t *find_advice(json_t *list, int kind, const char *op, const char *text) {
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item) {
        if (strcmp(amp_json_text(item, "op", ""), op) == 0 && strcmp(amp_json_text(item, "text", ""), text) == 0)
            return item;
    }
    item = json_pack("{s:s, s:s, s:I, s:I, s:s, s:[]}", "kind", advice[kind].kind, "op", op, "calls", (json_int_t)0,
                     "nanoseconds", (json_int_t)0, "text", text, "inputs");
    return item && json_array_append_new(list, item) == 0 ? item : NULL;
}

static void advise(json_t *list, int kind, const json_t *row) {
    char *text = advice_text(kind, row);
    json_t *item = text ? find_advice(list, kind, amp_json_text(row, "op", "?"), text) : NULL;
    if (item) {
        const double calls = amp_json_number(item, "calls") + amp_json_number(row, "calls");
        const double time = amp_json_number(item, "nanoseconds") + amp_json_number(row, "nanoseconds");
        set(item, "calls", json_integer((json_int_t)calls));
        set(item, "nanoseconds", json_integer((json_int_t)time));
        add_name(json_object_get(item, "inputs"), amp_json_text(row, "inputs", "?"));
    }
    free(text);
}

static json_t *advice_json(const json_t *rows) {
    json_t *list = json_array(), *row;
    size_t i;
    for (int kind = 0; kind < ADVICE; kind++) {
        json_array_foreach(rows, i, row) {
            if (advice[kind].holds(row)) advise(list, kind, row);
        }
    }
    return list;
}

/* ---- All of it --------------------------------------------------------------------------------------------------- */
bool amp_explain_complete(json_t *report) {
    const json_t *rows = json_object_get(report, "ops");
    double sum = 0;
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row) {
        sum += amp_json_number(row, "nanoseconds");
        if (!add_rate(report, row)) return false;
    }
    return set(report, "nanoseconds", json_integer((json_int_t)sum)) &&
           set(report, "totals", totals_json(report, rows, "op")) &&
           set(report, "labels", has_labels(rows) ? totals_json(report, rows, "label") : json_array()) &&
           set(report, "refused", refused_json(rows)) && set(report, "advice", advice_json(rows));
}
