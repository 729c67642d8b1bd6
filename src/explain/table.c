/* The explain report as a table. */
#include "explain/table.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "amp/types.h"

static const char *text_of(const json_t *object, const char *key, const char *otherwise) {
    const char *value = json_string_value(json_object_get(object, key));
    return value ? value : otherwise;
}

static double number_of(const json_t *object, const char *key) {
    return json_number_value(json_object_get(object, key));
}

/* Whether an op has this key, and the word in it. */
static bool any_says(const json_t *ops, const char *key, const char *word) {
    size_t i;
    json_t *op;
    json_array_foreach(ops, i, op) {
        const char *text = text_of(op, key, NULL);
        if (text && strstr(text, word)) return true;
    }
    return false;
}

/* ---- Rows ------------------------------------------------------------------------------------------------------ */
enum { WIDTH = 120, INDENT = 6 }; /* the lines below a row, which are wrapped there */

enum { OP, LABEL, CALLS, MS, SHARE, FIRST, MEDIAN, IN, CASTS, POLICY, KERNEL, COLUMNS };

static const struct {
    const char *title;
    bool right;
} columns[COLUMNS] = {
    [OP] = {"op", false},        [LABEL] = {"label", false},   [CALLS] = {"calls", true},      [MS] = {"ms", true},
    [SHARE] = {"share", true},   [FIRST] = {"first us", true}, [MEDIAN] = {"median us", true}, [IN] = {"in", false},
    [CASTS] = {"casts*", false}, [POLICY] = {"policy", false}, [KERNEL] = {"kernel", false},
};

/* A line of the table: texts of the report, or here. */
typedef struct line {
    const char *cells[COLUMNS];
    char texts[COLUMNS][48], op[120];
} line;

__attribute__((format(printf, 3, 4))) static void write_cell(line *l, int column, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(l->texts[column], sizeof l->texts[column], format, args);
    va_end(args);
    l->cells[column] = l->texts[column];
}

static void write_time(line *l, double calls, double nanoseconds, double total) {
    write_cell(l, CALLS, "%.0f", calls);
    write_cell(l, MS, "%.3f", nanoseconds / 1e6);
    write_cell(l, SHARE, "%.1f%%", total > 0 ? 100 * nanoseconds / total : 0);
}

static void write_microseconds(line *l, int column, const json_t *nanoseconds) {
    if (json_is_number(nanoseconds)) write_cell(l, column, "%.2f", json_number_value(nanoseconds) / 1e3);
}

static void write_op(line *l, const json_t *op, double total) {
    const char *by = json_is_true(json_object_get(op, "overridden")) ? " (override)" : "";
    const char *device = text_of(op, "device", "cpu");
    const bool elsewhere = strcmp(device, "cpu") != 0;
    for (int i = 0; i < COLUMNS; i++) l->cells[i] = "-";
    snprintf(l->op, sizeof l->op, elsewhere ? "  %s (%s)" : "  %s", text_of(op, "op", "?"), device);
    l->cells[OP] = l->op;
    l->cells[LABEL] = text_of(op, "label", "");
    write_time(l, number_of(op, "calls"), number_of(op, "nanoseconds"), total);
    write_microseconds(l, FIRST, json_object_get(op, "first_nanoseconds"));
    write_microseconds(l, MEDIAN, json_object_get(op, "median_nanoseconds"));
    l->cells[IN] = text_of(op, "runs_in", "-");
    write_cell(l, CASTS, "%.0f/%.0f/%.0f", number_of(op, "casts_made"), number_of(op, "casts_cached"),
               number_of(op, "casts_fused"));
    write_cell(l, POLICY, "%s%s", text_of(op, "policy", "-"), by);
    l->cells[KERNEL] = text_of(op, "kernel", "-");
}

typedef struct table {
    FILE *out;
    const json_t *ops;
    double total, least; /* nanoseconds of all rows, and those below which a row is only counted */
    int widths[COLUMNS];
} table;

static bool is_shown(const table *t, const json_t *op) {
    return number_of(op, "nanoseconds") >= t->least || number_of(op, "failures") > 0;
}

static void widen(table *t, const line *l) {
    for (int i = 0; i < COLUMNS; i++) {
        const int width = (int)strlen(l->cells[i]);
        if (width > t->widths[i]) t->widths[i] = width;
    }
}

/* A column that is empty in all lines is left out. The last cell is not padded, and empty ones behind the last that is not empty leave no blanks. */
static void print_line(const table *t, const line *l) {
    int last = COLUMNS - 1;
    while (last > 0 && !*l->cells[last]) last--;
    for (int i = 0; i <= last; i++) {
        if (t->widths[i] == 0) continue;
        const int width = i < last || columns[i].right ? t->widths[i] : 0;
        fprintf(t->out, "%s%*s", i ? "  " : "", columns[i].right ? width : -width, l->cells[i]);
    }
    fputc('\n', t->out);
}

/* Up to and with the comma behind an input. */
static int input_length(const char *text) {
    int length = 0, depth = 0;
    for (; text[length]; length++) {
        depth += (text[length] == '[') - (text[length] == ']');
        if (text[length] == ',' && depth == 0) return length + 1;
    }
    return length;
}

/* Lines that end behind an input. */
static void print_inputs(FILE *out, const char *text) {
    int column = fprintf(out, "%*s", INDENT - 1, "");
    while (*text) {
        const int length = input_length(text);
        if (column + 1 + length > WIDTH && column >= INDENT) column = fprintf(out, "\n%*s", INDENT - 1, "") - 1;
        column += fprintf(out, " %.*s", length, text);
        text += length;
        while (*text == ' ') text++;
    }
}

/* "; stride 2, padding (1, 0), attr relu" */
static void print_options(FILE *out, json_t *options) {
    const char *name, *before = "; ";
    json_t *values, *value;
    size_t i;
    json_object_foreach(options, name, values) {
        if (json_is_string(values)) {
            fprintf(out, "%s%s %s", before, name, json_string_value(values));
            before = ", ";
            continue;
        }
        const json_int_t first = json_integer_value(json_array_get(values, 0));
        bool equal = true;
        json_array_foreach(values, i, value) equal = equal && json_integer_value(value) == first;
        fprintf(out, "%s%s %s%lld", before, name, equal ? "" : "(", (long long)first);
        for (i = 1; !equal && i < json_array_size(values); i++)
            fprintf(out, ", %lld", (long long)json_integer_value(json_array_get(values, i)));
        if (!equal) fputc(')', out);
        before = ", ";
    }
}

static void print_below(FILE *out, const json_t *op) {
    const char *inputs = text_of(op, "inputs", ""), *bypass = text_of(op, "bypass", NULL);
    const double failures = number_of(op, "failures");
    if (*inputs) print_inputs(out, inputs);
    print_options(out, json_object_get(op, "options"));
    if (failures > 0) fprintf(out, "%*s(%.0f failed)", *inputs ? 2 : INDENT, "", failures);
    if (*inputs || failures > 0) fputc('\n', out);
    if (bypass) fprintf(out, "%*snot cast: %s\n", INDENT, "", bypass);
    if (json_is_true(json_object_get(op, "weight_of_op")) && failures < number_of(op, "calls")) {
        fprintf(
            out,
            "%*sits weight is cast anew at each call, for an op made it: amp_tensor_mark_parameter keeps the cast\n",
            INDENT, "");
    }
}

/* ---- Groups: the rows outside of regions, and those of each region dtype ----------------------------------------- */
static const char *group_of(const json_t *op) {
    return text_of(op, "region", text_of(op, "policy", NULL) ? "?" : "");
}

static void write_group(line *l, const table *t, const char *group) {
    double calls = 0, time = 0;
    size_t i;
    json_t *op;
    for (int c = 0; c < COLUMNS; c++) l->cells[c] = "";
    json_array_foreach(t->ops, i, op) {
        if (group && strcmp(group_of(op), group) != 0) continue;
        calls += number_of(op, "calls");
        time += number_of(op, "nanoseconds");
    }
    const char *title = !group ? "all" : *group ? "autocast to " : "outside of autocast";
    snprintf(l->op, sizeof l->op, "%s%s", title, group ? group : "");
    l->cells[OP] = l->op;
    write_time(l, calls, time, t->total);
}

static void print_group(const table *t, const char *group) {
    size_t i, folded = 0;
    json_t *op;
    double folded_time = 0;
    line l;
    write_group(&l, t, group);
    fputc('\n', t->out);
    print_line(t, &l);
    json_array_foreach(t->ops, i, op) {
        if (strcmp(group_of(op), group) != 0) continue;
        if (is_shown(t, op)) {
            write_op(&l, op, t->total);
            print_line(t, &l);
            print_below(t->out, op);
        } else {
            folded++;
            folded_time += number_of(op, "nanoseconds");
        }
    }
    if (folded)
        fprintf(t->out, "  %zu more, %.1f %% of the time; --all shows them\n", folded, 100 * folded_time / t->total);
}

/* The distinct groups, none before the regions. */
static int list_groups(const json_t *ops, const char *groups[AMP_DTYPE_COUNT]) {
    int count = 0;
    size_t i;
    json_t *op;
    for (int regions = 0; regions < 2; regions++) {
        json_array_foreach(ops, i, op) {
            const char *group = group_of(op);
            bool known = count == AMP_DTYPE_COUNT || (*group != '\0') != regions;
            for (int k = 0; k < count; k++) known |= strcmp(groups[k], group) == 0;
            if (!known) groups[count++] = group;
        }
    }
    return count;
}

static void print_groups(table *t) {
    const char *groups[AMP_DTYPE_COUNT];
    const int count = list_groups(t->ops, groups);
    size_t i;
    json_t *op;
    line head, l;
    for (int c = 0; c < COLUMNS; c++) head.cells[c] = columns[c].title;
    if (!any_says(t->ops, "label", "")) head.cells[LABEL] = "";
    widen(t, &head);
    json_array_foreach(t->ops, i, op) {
        write_op(&l, op, t->total);
        if (is_shown(t, op)) widen(t, &l);
    }
    for (int k = -1; k < count; k++) {
        write_group(&l, t, k < 0 ? NULL : groups[k]);
        widen(t, &l);
    }
    print_line(t, &head);
    for (int k = 0; k < count; k++) print_group(t, groups[k]);
    if (count <= 1) return;
    write_group(&l, t, NULL);
    fputc('\n', t->out);
    print_line(t, &l);
}

/* ---- Below the table --------------------------------------------------------------------------------------------- */
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
            fprintf(out, "%s ran instead of %s, because %s\n", kernel, text_of(row, "kernel", "?"),
                    text_of(row, "reason", "?"));
        }
    }
}

static void print_host_time(FILE *out, const json_t *ops) {
    double host = 0;
    size_t i;
    json_t *op;
    json_array_foreach(ops, i, op) {
        if (strcmp(text_of(op, "device", ""), "cuda") == 0) host += number_of(op, "host_nanoseconds");
    }
    fprintf(
        out,
        "  (cuda): times on the device, from the end of what it did before to the end of the call's work; where it\n"
        "  waits for the program they hold that too. The program took %.3f ms to enqueue these calls\n",
        host / 1e6);
}

static void print_legend(FILE *out, const json_t *ops) {
    fputs("\n* casts and packings: made / from the cache / avoided, converted by the kernel on the way\n"
          "  ms: of all threads together, from a call to its end; with more threads than cores also what they waited\n"
          "  first us: the row's first call, in which kernels are tested and weights packed; median us: of the later "
          "ones\n"
          "  in: the widest type among the arguments, once cast; kernel -: plain loops, or LAPACK\n",
          out);
    if (any_says(ops, "device", "cuda")) print_host_time(out, ops);
    if (any_says(ops, "inputs", "channels-last")) fputs("  channels-last: in memory the channels vary fastest\n", out);
    if (any_says(ops, "inputs", "other shapes"))
        fputs("  other shapes: the report keeps 4096 rows; shapes that came later share one per op and way\n", out);
    if (any_says(ops, "inputs", "strided"))
        fputs("  strided: in memory not row by row, as after a transposition\n", out);
    print_policies(out, ops);
}

static void print_report(FILE *out, const json_t *report, double least_share) {
    const json_t *ops = json_object_get(report, "ops"), *cache = json_object_get(report, "cast_cache");
    table t = {.out = out, .ops = ops};
    size_t i;
    json_t *row;
    json_array_foreach(ops, i, row) t.total += number_of(row, "nanoseconds");
    t.least = least_share * t.total;
    fprintf(out, "libamp %s on %s, %s, %.0f threads\n", text_of(report, "libamp", "?"), text_of(report, "cpu", "?"),
            text_of(report, "isa", "?"), number_of(report, "threads"));
    fprintf(out, "cast cache: %.0f hits, %.0f misses, %.0f evictions, %.1f MB in %.0f entries at the end\n\n",
            number_of(cache, "hits"), number_of(cache, "misses"), number_of(cache, "evictions"),
            number_of(cache, "bytes") / 1e6, number_of(cache, "entries"));
    print_groups(&t);
    print_legend(out, ops);
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
