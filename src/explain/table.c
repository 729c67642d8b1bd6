/* The explain report as a table. */
#include "explain/table.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "amp/types.h"
#include "explain/summary.h"
#include "explain/table_text.h"

/* Whether an op has this key, and the word in it. */
static bool any_says(const json_t *ops, const char *key, const char *word) {
    size_t i;
    json_t *op;
    json_array_foreach(ops, i, op) {
        const char *text = amp_json_text(op, key, NULL);
        if (text && strstr(text, word)) return true;
    }
    return false;
}

static bool any_number(const json_t *rows, const char *key) {
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row) {
        if (json_is_number(json_object_get(row, key))) return true;
    }
    return false;
}

/* ---- Lines ------------------------------------------------------------------------------------------------------- */
enum { WIDTH = 120, INDENT = 6 }; /* of lines where nothing else is asked for; of what stands below a row */

enum { OP, LABEL, CALLS, MS, SHARE, FIRST, MEDIAN, RATE, PEAK, IN, CASTS, POLICY, KERNEL, COLUMNS };

static const struct {
    const char *title;
    bool right;
    const char *below; /* what its cell is called below the row, where the table has no room for the column */
} columns[COLUMNS] = {
    [OP] = {"op", false, NULL},
    [LABEL] = {"label", false, "label"},
    [CALLS] = {"calls", true, NULL},
    [MS] = {"ms", true, NULL},
    [SHARE] = {"share", true, NULL},
    [FIRST] = {"first us", true, "first us"},
    [MEDIAN] = {"median us", true, "median us"},
    [RATE] = {"GFLOP/s", true, NULL},
    [PEAK] = {"peak", true, NULL},
    [IN] = {"in", false, NULL},
    [CASTS] = {"casts*", false, "casts*"},
    [POLICY] = {"policy", false, "policy"},
    [KERNEL] = {"kernel", false, "kernel"},
};

/* The order in which columns make room for the others. */
static const int movable[] = {POLICY, FIRST, CASTS, KERNEL, LABEL, MEDIAN};
enum { MOVABLE = sizeof movable / sizeof *movable };

/* A line of the table: texts of the report, or here. An empty cell is blank. */
typedef struct line {
    const char *cells[COLUMNS];
    char texts[COLUMNS][48], op[120], kernel[120];
} line;

typedef struct table {
    FILE *out;
    const json_t *rows;
    double total, least; /* nanoseconds of all rows, and those below which a row is only counted */
    int width, widths[COLUMNS];
    bool moved[COLUMNS]; /* below the row */
} table;

static void clear(line *l) {
    for (int i = 0; i < COLUMNS; i++) l->cells[i] = "";
}

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
    l->cells[column] = "-";
    if (json_is_number(nanoseconds)) write_cell(l, column, "%.2f", json_number_value(nanoseconds) / 1e3);
}

/* The two are columns only where a row has them. */
static void write_rates(line *l, const json_t *rows, const json_t *row) {
    const json_t *rate = json_object_get(row, "gflops"), *peak = json_object_get(row, "peak_share");
    if (any_number(rows, "gflops")) l->cells[RATE] = "-";
    if (any_number(rows, "peak_share")) l->cells[PEAK] = "-";
    if (json_is_number(rate)) {
        const double value = json_number_value(rate);
        write_cell(l, RATE, "%.*f", value < 9.95 ? 2 : value < 99.5 ? 1 : 0, value);
    }
    if (json_is_number(peak)) write_cell(l, PEAK, "%.0f%%", 100 * json_number_value(peak));
}

/* The kernel that ran, or the first of those of the ops below: "gemm_f32_avx512 +1". */
static void write_kernel(line *l, const json_t *op) {
    const json_t *parts = json_object_get(op, "parts");
    const char *first = json_string_value(json_array_get(parts, 0));
    const size_t count = json_array_size(parts);
    l->cells[KERNEL] = amp_json_text(op, "kernel", first ? first : "-");
    if (!first || count < 2 || json_is_string(json_object_get(op, "kernel"))) return;
    snprintf(l->kernel, sizeof l->kernel, "%.90s +%u", first, (unsigned)count - 1);
    l->cells[KERNEL] = l->kernel;
}

static void write_op(line *l, const table *t, const json_t *op) {
    const char *by = json_is_true(json_object_get(op, "overridden")) ? " (override)" : "";
    const char *device = amp_json_text(op, "device", "cpu");
    const bool elsewhere = strcmp(device, "cpu") != 0;
    clear(l);
    snprintf(l->op, sizeof l->op, elsewhere ? "  %s (%s)" : "  %s", amp_json_text(op, "op", "?"), device);
    l->cells[OP] = l->op;
    l->cells[LABEL] = amp_json_text(op, "label", "");
    write_time(l, amp_json_number(op, "calls"), amp_json_number(op, "nanoseconds"), t->total);
    write_microseconds(l, FIRST, json_object_get(op, "first_nanoseconds"));
    write_microseconds(l, MEDIAN, json_object_get(op, "median_nanoseconds"));
    write_rates(l, t->rows, op);
    l->cells[IN] = amp_json_text(op, "runs_in", "-");
    write_cell(l, CASTS, "%.0f/%.0f/%.0f", amp_json_number(op, "casts_made"), amp_json_number(op, "casts_cached"),
               amp_json_number(op, "casts_fused"));
    write_cell(l, POLICY, "%s%s", amp_json_text(op, "policy", "-"), by);
    write_kernel(l, op);
}

static bool is_shown(const table *t, const json_t *row) {
    return amp_json_number(row, "nanoseconds") >= t->least || amp_json_number(row, "failures") > 0;
}

static void widen(table *t, const line *l) {
    for (int i = 0; i < COLUMNS; i++) {
        const int width = amp_text_width(l->cells[i]);
        if (width > t->widths[i]) t->widths[i] = width;
    }
}

/* Columns move below the rows until a line is no longer than it may be. */
static void fit(table *t) {
    int length = -2;
    for (int i = 0; i < COLUMNS; i++) length += t->widths[i] ? t->widths[i] + 2 : 0;
    for (int k = 0; k < MOVABLE && length > t->width; k++) {
        if (t->widths[movable[k]] == 0) continue;
        t->moved[movable[k]] = true;
        length -= t->widths[movable[k]] + 2;
    }
}

/* A column that is empty in all lines is left out. The last cell is not padded, and empty ones behind the last that is
 * not empty leave no blanks. */
static void print_line(const table *t, const line *l) {
    int last = COLUMNS - 1;
    while (last > 0 && (!*l->cells[last] || t->moved[last])) last--;
    for (int i = 0; i <= last; i++) {
        if (t->widths[i] == 0 || t->moved[i]) continue;
        if (i) fputs("  ", t->out);
        amp_print_padded(t->out, l->cells[i], i < last || columns[i].right ? t->widths[i] : 0, columns[i].right);
    }
    fputc('\n', t->out);
}

/* ---- Below a row -------------------------------------------------------------------------------------------------- */
/* "stride 2, padding (1, 0), attr relu" */
static void print_option(FILE *out, const char *name, const json_t *values) {
    const json_int_t first = json_integer_value(json_array_get(values, 0));
    bool equal = true;
    size_t i;
    json_t *value;
    if (!json_is_array(values)) { /* a word, or true */
        fprintf(out, "%s%s%s", name, json_is_string(values) ? " " : "",
                json_is_string(values) ? json_string_value(values) : "");
        return;
    }
    json_array_foreach(values, i, value) equal = equal && json_integer_value(value) == first;
    fprintf(out, "%s %s%lld", name, equal ? "" : "(", (long long)first);
    for (i = 1; !equal && i < json_array_size(values); i++)
        fprintf(out, ", %lld", (long long)json_integer_value(json_array_get(values, i)));
    if (!equal) fputc(')', out);
}

static void print_options(FILE *out, json_t *options, const char *before) {
    const char *name;
    json_t *values;
    json_object_foreach(options, name, values) {
        fputs(before, out);
        print_option(out, name, values);
        before = ", ";
    }
}

/* Whether a cell that moved says anything. */
static bool tells(const table *t, const line *l, int column) {
    const char *cell = l->cells[column];
    return t->moved[column] && *cell && strcmp(cell, "-") != 0 && strcmp(cell, "0/0/0") != 0;
}

/* "; kernels gemm_f32_avx512, softmax_f32_avx512" where the row has but the first. */
static void print_parts(FILE *out, const json_t *op, const char *before) {
    const json_t *parts = json_object_get(op, "parts");
    size_t i;
    json_t *part;
    if (json_array_size(parts) < 2 || json_is_string(json_object_get(op, "kernel"))) return;
    fprintf(out, "%skernels ", before);
    json_array_foreach(parts, i, part) fprintf(out, "%s%s", i ? ", " : "", json_string_value(part));
}

/* "label layer1; f32[2, 3], f32[4, 3]; stride 2; policy lower; kernel gemm_f32_avx512" */
static void print_facts(FILE *out, const table *t, const line *l, const json_t *op) {
    const char *inputs = amp_json_text(op, "inputs", ""), *before = "";
    if (t->moved[LABEL] && *l->cells[LABEL]) {
        fprintf(out, "label %s", l->cells[LABEL]);
        before = "; ";
    }
    if (*inputs) {
        fprintf(out, "%s%s", before, inputs);
        before = "; ";
    }
    print_options(out, json_object_get(op, "options"), before);
    if (json_object_size(json_object_get(op, "options"))) before = "; ";
    for (int k = 0; k < MOVABLE; k++) {
        const int c = movable[k];
        const bool several = c == KERNEL && l->cells[c] == l->kernel;
        if (c == LABEL || several || !tells(t, l, c)) continue;
        fprintf(out, "%s%s %s", before, columns[c].below, l->cells[c]);
        before = "; ";
    }
    print_parts(out, op, before);
    if (amp_json_number(op, "failures") > 0)
        fprintf(out, "%s(%.0f failed)", *before ? "  " : "", amp_json_number(op, "failures"));
}

static void print_below(const table *t, const line *l, const json_t *op) {
    const char *bypass = amp_json_text(op, "bypass", NULL);
    char *text = NULL;
    size_t size = 0;
    FILE *facts = open_memstream(&text, &size);
    if (facts) {
        print_facts(facts, t, l, op);
        if (fclose(facts) == 0 && *text) amp_print_wrapped(t->out, text, t->width, INDENT, INDENT, true);
        free(text);
    }
    if (!bypass) return;
    fprintf(t->out, "%*snot cast:", INDENT, "");
    amp_print_wrapped(t->out, bypass, t->width - INDENT - 10, 1, INDENT + 2, false);
}

/* ---- Totals ------------------------------------------------------------------------------------------------------- */
static void write_total(line *l, const table *t, const json_t *total, const char *key) {
    const char *name = amp_json_text(total, key, "");
    clear(l);
    snprintf(l->op, sizeof l->op, "  %.100s", *name ? name : "(none)");
    l->cells[OP] = l->op;
    write_time(l, amp_json_number(total, "calls"), amp_json_number(total, "nanoseconds"), t->total);
    write_rates(l, t->rows, total);
}

/* A table of its own, where it tells more than the rows do. */
static void print_totals(const table *whole, const json_t *totals, const char *key, const char *title) {
    table t = {.out = whole->out, .rows = totals, .total = whole->total, .least = whole->least, .width = whole->width};
    line head, l;
    size_t i, folded = 0;
    json_t *total;
    clear(&head);
    head.cells[OP] = title;
    for (int c = CALLS; c <= SHARE; c++) head.cells[c] = columns[c].title;
    if (any_number(totals, "gflops")) head.cells[RATE] = columns[RATE].title;
    if (any_number(totals, "peak_share")) head.cells[PEAK] = columns[PEAK].title;
    widen(&t, &head);
    json_array_foreach(totals, i, total) {
        write_total(&l, &t, total, key);
        if (is_shown(&t, total)) widen(&t, &l);
    }
    print_line(&t, &head);
    json_array_foreach(totals, i, total) {
        write_total(&l, &t, total, key);
        if (is_shown(&t, total)) print_line(&t, &l);
        folded += !is_shown(&t, total);
    }
    if (folded) fprintf(t.out, "  %zu more; --all shows them\n", folded);
    fputc('\n', t.out);
}

/* ---- Groups: the rows outside of regions, and those of each region dtype ----------------------------------------- */
static const char *group_of(const json_t *op) {
    return amp_json_text(op, "region", amp_json_text(op, "policy", NULL) ? "?" : "");
}

static void write_group(line *l, const table *t, const char *group) {
    double calls = 0, time = 0;
    size_t i;
    json_t *op;
    clear(l);
    json_array_foreach(t->rows, i, op) {
        if (group && strcmp(group_of(op), group) != 0) continue;
        calls += amp_json_number(op, "calls");
        time += amp_json_number(op, "nanoseconds");
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
    json_array_foreach(t->rows, i, op) {
        if (strcmp(group_of(op), group) != 0) continue;
        if (is_shown(t, op)) {
            write_op(&l, t, op);
            print_line(t, &l);
            print_below(t, &l, op);
        } else {
            folded++;
            folded_time += amp_json_number(op, "nanoseconds");
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

static void write_head(line *head, const table *t) {
    for (int c = 0; c < COLUMNS; c++) head->cells[c] = columns[c].title;
    if (!any_says(t->rows, "label", "")) head->cells[LABEL] = "";
    if (!any_number(t->rows, "gflops")) head->cells[RATE] = "";
    if (!any_number(t->rows, "peak_share")) head->cells[PEAK] = "";
}

static void print_groups(table *t) {
    const char *groups[AMP_DTYPE_COUNT];
    const int count = list_groups(t->rows, groups);
    size_t i;
    json_t *op;
    line head, l;
    write_head(&head, t);
    widen(t, &head);
    json_array_foreach(t->rows, i, op) {
        write_op(&l, t, op);
        if (is_shown(t, op)) widen(t, &l);
    }
    for (int k = -1; k < count; k++) {
        write_group(&l, t, k < 0 ? NULL : groups[k]);
        widen(t, &l);
    }
    fit(t);
    print_line(t, &head);
    for (int k = 0; k < count; k++) print_group(t, groups[k]);
    if (count <= 1) return;
    write_group(&l, t, NULL);
    fputc('\n', t->out);
    print_line(t, &l);
}

/* ---- Below the table --------------------------------------------------------------------------------------------- */
__attribute__((format(printf, 3, 4))) static void print_note(FILE *out, int width, const char *format, ...) {
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    amp_print_wrapped(out, text, width, 2, 4, false);
}

/* " of f32[1, 64, 56, 56], f32[64, 64, 3, 3] and of 3 other shapes": the slowest call first. */
static void write_shapes(FILE *out, const json_t *inputs) {
    const size_t count = json_array_size(inputs);
    if (count == 0) return;
    fprintf(out, " of %s", json_string_value(json_array_get(inputs, 0)));
    if (count > 1) fprintf(out, " and of %zu other shape%s", count - 1, count > 2 ? "s" : "");
}

/* malloc'ed; NULL without memory. */
static char *shapes_text(const json_t *inputs) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out) return NULL;
    write_shapes(out, inputs);
    if (fclose(out) == 0) return text;
    free(text);
    return NULL;
}

static void print_advice(const table *t, const json_t *advice) {
    size_t i;
    json_t *item;
    bool any = false;
    json_array_foreach(advice, i, item) {
        const double time = amp_json_number(item, "nanoseconds");
        if (time < t->least) continue;
        if (!any) fputs("\nadvice\n", t->out);
        any = true;
        char *shapes = shapes_text(json_object_get(item, "inputs"));
        print_note(t->out, t->width, "%s%s, %.0f call%s, %.1f %% of the time: %s", amp_json_text(item, "op", "?"),
                   shapes ? shapes : "", amp_json_number(item, "calls"), amp_json_number(item, "calls") == 1 ? "" : "s",
                   t->total > 0 ? 100 * time / t->total : 0, amp_json_text(item, "text", "?"));
        free(shapes);
    }
}

/* True when an earlier op of the report ran by the same kernel. */
static bool seen_before(const json_t *ops, size_t index, const char *kernel) {
    for (size_t i = 0; i < index; i++) {
        if (strcmp(amp_json_text(json_array_get(ops, i), "kernel", ""), kernel) == 0) return true;
    }
    return false;
}

/* What the policies mean that the report shows. */
static void print_policies(const table *t) {
    static const struct {
        const char *policy, *meaning;
    } legend[] = {
        {"lower", "runs in the region's dtype, its arguments are cast to it"},
        {"fp32", "runs in f32, its arguments are cast to it"},
        {"fp32_set_opt_dtype", "computes in f32 from the argument as it is, unless the call names a dtype"},
        {"fp32_append_dtype", "computes in f32 from the argument as it is, unless the call names a dtype"},
        {"promote", "runs in the widest of the region's dtype and its arguments', which are cast to it"},
        {"fallthrough", "autocast leaves it alone, it runs in its arguments' dtypes"},
        {"parts", "autocast looks at the ops that it is made of"},
        {"banned", "refused in a region, or run in f32 where the region allows it"},
    };
    size_t i;
    json_t *op;
    for (size_t k = 0; k < sizeof legend / sizeof *legend; k++) {
        bool shown = false;
        json_array_foreach(t->rows, i, op) shown |= strcmp(amp_json_text(op, "policy", ""), legend[k].policy) == 0;
        if (shown) print_note(t->out, t->width, "%s: %s", legend[k].policy, legend[k].meaning);
    }
}

/* "amx is not used: the CPU has no AMX-BF16 (gemm_bf16_amx, attention_bf16_amx)" */
static void print_isas(const table *t, const json_t *refused) {
    size_t i, k;
    json_t *group, *name;
    json_array_foreach(refused, i, group) {
        char names[512] = "";
        size_t used = 0;
        json_array_foreach(json_object_get(group, "kernels"), k, name) {
            const size_t left = sizeof names - used;
            const int length = snprintf(names + used, left, "%s%s", used ? ", " : "", json_string_value(name));
            if (length < 0 || (size_t)length >= left) break;
            used += (size_t)length;
        }
        names[used] = '\0';
        print_note(t->out, t->width, "%s is not used: %s; that would be %s", amp_json_text(group, "isa", "?"),
                   amp_json_text(group, "reason", "?"), names);
    }
}

/* Each kernel that ran, and the better ones that could not for another reason than their instruction set. */
static void print_refusals(const table *t) {
    size_t i, k;
    json_t *op, *row;
    json_array_foreach(t->rows, i, op) {
        const char *kernel = amp_json_text(op, "kernel", "");
        if (!*kernel || seen_before(t->rows, i, kernel)) continue;
        json_array_foreach(json_object_get(op, "refused"), k, row) {
            if (json_is_string(json_object_get(row, "isa"))) continue;
            print_note(t->out, t->width, "%s ran instead of %s, because %s", kernel, amp_json_text(row, "kernel", "?"),
                       amp_json_text(row, "reason", "?"));
        }
    }
}

static void print_unused(const table *t, const json_t *refused) {
    char *text = NULL;
    size_t size = 0;
    table below = *t;
    below.out = open_memstream(&text, &size);
    if (!below.out) return;
    print_isas(&below, refused);
    print_refusals(&below);
    if (fclose(below.out) == 0 && *text) fprintf(t->out, "\nfaster kernels that did not run\n%s", text);
    free(text);
}

static void print_host_time(const table *t) {
    double host = 0;
    size_t i;
    json_t *op;
    json_array_foreach(t->rows, i, op) {
        if (strcmp(amp_json_text(op, "device", ""), "cuda") == 0) host += amp_json_number(op, "host_nanoseconds");
    }
    print_note(t->out, t->width,
               "(cuda): times on the device, from the end of what it did before to the end of the call's work; where "
               "it waits for the program they hold that too. The program took %.3f ms to enqueue these calls",
               host / 1e6);
}

static void print_legend(const table *t, const json_t *peak) {
    FILE *out = t->out;
    const json_t *ops = t->rows;
    fputs("\nwhat the columns mean\n", out);
    print_note(out, t->width,
               "ms: of all threads together, from a call to its end; with more threads than cores also "
               "what they waited");
    print_note(out, t->width,
               "first us: the row's first call, in which kernels are tested and weights packed; median "
               "us: of the later ones");
    if (any_number(ops, "gflops"))
        print_note(out, t->width,
                   "GFLOP/s: multiplications and additions of the products, in the median call of a row, "
                   "in all calls of an op");
    if (any_number(ops, "peak_share"))
        print_note(out, t->width,
                   "peak: share of what %.0f threads at once reach in the type without memory, probed "
                   "after the program had ended",
                   amp_json_number(peak, "threads"));
    print_note(out, t->width, "in: the widest type among the arguments, once cast");
    print_note(out, t->width,
               "casts*: casts and packings made / from the cache / avoided, converted by the kernel on "
               "the way");
    print_note(out, t->width,
               "kernel: of the op, or of those that it calls (+1: one more, listed below); -: plain "
               "loops, or LAPACK");
    if (any_says(ops, "device", "cuda")) print_host_time(t);
    if (any_says(ops, "inputs", "channels-last"))
        print_note(out, t->width, "channels-last: in memory the channels vary fastest");
    if (any_says(ops, "inputs", "other shapes"))
        print_note(out, t->width,
                   "other shapes: the report keeps 4096 rows; shapes that came later share one per op "
                   "and way");
    if (any_says(ops, "inputs", "strided"))
        print_note(out, t->width, "strided: in memory not row by row, as after a transposition");
    print_policies(t);
}

/* ---- All of it --------------------------------------------------------------------------------------------------- */
static void print_peak(FILE *out, const json_t *peak) {
    const char *dtype, *before = " ";
    const double threads = amp_json_number(peak, "threads");
    json_t *rate;
    if (!peak) return;
    fprintf(out, "peak of %.0f thread%s:", threads, threads == 1 ? "" : "s");
    json_object_foreach(json_object_get(peak, "dtypes"), dtype, rate) {
        fprintf(out, "%s%s %.0f", before, dtype, json_number_value(rate) / 1e9);
        before = ", ";
    }
    fputs(" GFLOP/s\n", out);
}

static void print_machine(const table *t, const json_t *report) {
    const json_t *cache = json_object_get(report, "cast_cache"), *wall = json_object_get(report, "wall_nanoseconds");
    const double threads = amp_json_number(report, "threads");
    char text[512];
    snprintf(text, sizeof text, "libamp %.40s on %.120s, %.40s, %.0f thread%s", amp_json_text(report, "libamp", "?"),
             amp_json_text(report, "cpu", "?"), amp_json_text(report, "isa", "?"), threads, threads == 1 ? "" : "s");
    amp_print_wrapped(t->out, text, t->width, 0, 4, false);
    if (json_is_number(wall))
        fprintf(t->out, "recorded for %.3f ms; in ops %.3f ms\n", json_number_value(wall) / 1e6, t->total / 1e6);
    print_peak(t->out, json_object_get(report, "peak"));
    snprintf(text, sizeof text,
             "cast cache: %.0f hits, %.0f misses, %.0f evictions, %.1f MB in %.0f entries at the end",
             amp_json_number(cache, "hits"), amp_json_number(cache, "misses"), amp_json_number(cache, "evictions"),
             amp_json_number(cache, "bytes") / 1e6, amp_json_number(cache, "entries"));
    amp_print_wrapped(t->out, text, t->width, 0, 4, false);
    fputc('\n', t->out);
}

static void print_report(FILE *out, const json_t *report, double least_share, int width) {
    const json_t *ops = json_object_get(report, "ops"), *totals = json_object_get(report, "totals");
    table t = {.out = out, .rows = ops, .width = width > 0 ? width : WIDTH};
    size_t i;
    json_t *row;
    t.total = amp_json_number(report, "nanoseconds");
    t.least = least_share * t.total;
    print_machine(&t, report);
    if (json_array_size(totals) < json_array_size(ops)) print_totals(&t, totals, "op", "per op");
    if (json_array_size(json_object_get(report, "labels")) > 1)
        print_totals(&t, json_object_get(report, "labels"), "label", "per label");
    print_groups(&t);
    print_advice(&t, json_object_get(report, "advice"));
    print_unused(&t, json_object_get(report, "refused"));
    json_array_foreach(json_object_get(report, "quarantined"), i, row) {
        fprintf(out, "  quarantined: %s: %s\n", amp_json_text(row, "kernel", "?"), amp_json_text(row, "reason", "?"));
    }
    print_legend(&t, json_object_get(report, "peak"));
}

char *amp_explain_table(json_t *report, double least_share, int width) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = amp_explain_complete(report) ? open_memstream(&text, &size) : NULL;
    if (!out) return NULL;
    print_report(out, report, least_share, width);
    if (fclose(out) == 0) return text;
    free(text);
    return NULL;
}
