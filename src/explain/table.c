/* The explain report as a table. */
#include "explain/table.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *text_of(const json_t *object, const char *key, const char *otherwise) {
    const char *value = json_string_value(json_object_get(object, key));
    return value ? value : otherwise;
}

static double number_of(const json_t *object, const char *key) {
    return json_number_value(json_object_get(object, key));
}

/* Why the op ran in the type that it ran in. */
static void print_why(FILE *out, const json_t *op) {
    const char *bypass = text_of(op, "bypass", NULL), *policy = text_of(op, "policy", NULL);
    const char *by = json_is_true(json_object_get(op, "overridden")) ? " (override)" : "";
    if (policy) fprintf(out, "%s%s", policy, by);
    if (policy && bypass) fprintf(out, ", not cast: %s", bypass);
    if (!policy) fputs(bypass ? bypass : "no autocast region", out);
    fputc('\n', out);
}

static void print_op(FILE *out, const json_t *op, double total) {
    char casts[40];
    const double ns = number_of(op, "nanoseconds"), calls = number_of(op, "calls");
    snprintf(casts, sizeof casts, "%.0f/%.0f/%.0f", number_of(op, "casts_made"), number_of(op, "casts_cached"),
             number_of(op, "casts_fused"));
    fprintf(out, "%-30.30s %7.0f %10.3f %5.1f%% %10.2f  %-5s %-12s %-28.28s ", text_of(op, "op", "?"), calls, ns / 1e6,
            total > 0 ? 100 * ns / total : 0, calls > 0 ? ns / 1e3 / calls : 0, text_of(op, "runs_in", "-"), casts,
            text_of(op, "kernel", "-"));
    print_why(out, op);
    const char *inputs = text_of(op, "inputs", "");
    const double failures = number_of(op, "failures");
    if (*inputs || failures > 0) fprintf(out, "    %s", inputs);
    if (failures > 0) fprintf(out, "%s(%.0f failed)", *inputs ? "  " : "", failures);
    if (*inputs || failures > 0) fputc('\n', out);
    if (json_is_true(json_object_get(op, "weight_of_op")) && failures < calls) {
        fputs("    its weight is cast anew at each call, for an op made it: amp_tensor_mark_parameter keeps the cast\n",
              out);
    }
}

/* True when an earlier op of the report ran by the same kernel. */
static bool seen_before(const json_t *ops, size_t index, const char *kernel) {
    for (size_t i = 0; i < index; i++) {
        if (strcmp(text_of(json_array_get(ops, i), "kernel", ""), kernel) == 0) return true;
    }
    return false;
}

/* What the policies mean that the report shows. */
static void print_policies(FILE *out, const json_t *ops) {
    static const struct {
        const char *policy, *meaning;
    } legend[] = {
        {"lower", "runs in the region's dtype, its arguments are cast to it"},
        {"fp32", "runs in f32, its arguments are cast to it"},
        {"fp32_set_opt_dtype", "computes in f32 from the argument as it is, unless the call names a dtype"},
        {"fp32_append_dtype", "computes in f32 from the argument as it is, unless the call names a dtype"},
        {"promote", "runs in the widest of the region's dtype and its arguments', which are cast to it"},
        {"fallthrough", "autocast leaves it alone, it runs in its arguments' dtypes"},
        {"banned", "refused in a region, or run in f32 where the region allows it"},
    };
    size_t i;
    json_t *op;
    for (size_t k = 0; k < sizeof legend / sizeof *legend; k++) {
        bool shown = false;
        json_array_foreach(ops, i, op) shown |= strcmp(text_of(op, "policy", ""), legend[k].policy) == 0;
        if (shown) fprintf(out, "  %s: %s\n", legend[k].policy, legend[k].meaning);
    }
}

/* Each kernel that ran, and the better ones that could not. */
static void print_refusals(FILE *out, const json_t *ops) {
    size_t i, k;
    json_t *op, *row;
    json_array_foreach(ops, i, op) {
        const char *kernel = text_of(op, "kernel", "");
        if (!*kernel || seen_before(ops, i, kernel)) continue;
        json_array_foreach(json_object_get(op, "refused"), k, row) {
            fprintf(out, "%s ran; not %s: %s\n", kernel, text_of(row, "kernel", "?"), text_of(row, "reason", "?"));
        }
    }
}

/* The report lists the slowest first, but a file may not. */
static void print_ops(FILE *out, const json_t *ops, double total, double least_share) {
    size_t i, folded = 0;
    json_t *op;
    double folded_time = 0;
    json_array_foreach(ops, i, op) {
        const double time = number_of(op, "nanoseconds");
        if (time >= least_share * total || number_of(op, "failures") > 0) {
            print_op(out, op, total);
        } else {
            folded++;
            folded_time += time;
        }
    }
    if (folded) fprintf(out, "%zu more, %.1f %% of the time; --all shows them\n", folded, 100 * folded_time / total);
}

static void print_report(FILE *out, const json_t *report, double least_share) {
    const json_t *ops = json_object_get(report, "ops"), *cache = json_object_get(report, "cast_cache");
    size_t i;
    json_t *row;
    double total = 0;
    json_array_foreach(ops, i, row) total += number_of(row, "nanoseconds");
    fprintf(out, "libamp %s on %s, %s, %.0f threads\n", text_of(report, "libamp", "?"), text_of(report, "cpu", "?"),
            text_of(report, "isa", "?"), number_of(report, "threads"));
    fprintf(out, "cast cache: %.0f hits, %.0f misses, %.0f evictions, %.1f MB in %.0f entries at the end\n\n",
            number_of(cache, "hits"), number_of(cache, "misses"), number_of(cache, "evictions"),
            number_of(cache, "bytes") / 1e6, number_of(cache, "entries"));
    fprintf(out, "%-30s %7s %10s %6s %10s  %-5s %-12s %-28s %s\n", "op", "calls", "ms", "share", "us/call", "in",
            "conversions*", "kernel", "policy");
    print_ops(out, ops, total, least_share);
    fputs("\n* casts and packings: made / from the cache / avoided, converted by the kernel on the way\n"
          "  in is the widest type among the arguments, once cast; kernel - is plain loops, or LAPACK\n"
          "  us/call is the mean of all calls, the first included, in which weights are packed and kernels tested\n",
          out);
    print_policies(out, ops);
    print_refusals(out, ops);
    json_array_foreach(json_object_get(report, "quarantined"), i, row) {
        fprintf(out, "quarantined: %s: %s\n", text_of(row, "kernel", "?"), text_of(row, "reason", "?"));
    }
}

char *amp_explain_table(const json_t *report, double least_share) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out) return NULL;
    print_report(out, report, least_share);
    if (fclose(out) == 0) return text;
    free(text);
    return NULL;
}
