/* amp bench: the table, and the report for programs. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "amp/system.h"
#include "bench.h"

static const char *const names[RUN_KINDS] = {"f32", "bf16"};

/* ---- Figures ----------------------------------------------------------------------------------------------------- */
typedef double figure_function(const run_times *t);

static double load_of(const run_times *t) {
    return t->load + t->prepare;
}
static double first_of(const run_times *t) {
    return t->first;
}
static double memory_of(const run_times *t) {
    return t->peak_bytes / 1e6;
}
static double median_of(const run_times *t) {
    return run_quantile(t, 0.5);
}
static double fast_of(const run_times *t) {
    return run_quantile(t, 0.1);
}
static double slow_of(const run_times *t) {
    return run_quantile(t, 0.9);
}

static const struct {
    const char *title, *unit;
    figure_function *ask;
} figures[] = {
    {"load", "ms", load_of},     {"first", "ms", first_of}, {"peak", "MB", memory_of},
    {"median", "ms", median_of}, {"10 %", "ms", fast_of},   {"90 %", "ms", slow_of},
};

enum { FIGURES = sizeof figures / sizeof *figures, COLUMNS = FIGURES + 3 };

enum { MOST_CHARACTERS = 6 }; /* of a number, so that lines stay within 80 */

/* A column has the digits of its least number, as far as there is room for the largest. */
static int digits_of(const bench *b, figure_function *ask) {
    int digits = 0, room = MOST_CHARACTERS;
    for (int i = 0; i < bench_row_count(b); i++) {
        for (int kind = 0; kind < RUN_KINDS; kind++) {
            const run_times *t = &b->rows[i].times[kind];
            if (t->count == 0) continue;
            const int its = run_digits_of(ask(t)), left = MOST_CHARACTERS - 1 - snprintf(NULL, 0, "%.0f", ask(t));
            if (its > digits) digits = its;
            if (left < room) room = left > 0 ? left : 0;
        }
    }
    return digits < room ? digits : room;
}

/* What others are compared with: the first row of as many threads, in f32 where that ran. */
static const run_times *base_of(const bench *b, int row) {
    const bench_row *first = &b->rows[row % b->thread_count];
    return &first->times[b->options.wanted[RUN_F32] ? RUN_F32 : RUN_BF16];
}

/* ---- The table --------------------------------------------------------------------------------------------------- */
static void write_head(run_table *t) {
    run_cell(t, "%s", "");
    run_cell(t, "%s", "");
    for (int f = 0; f < FIGURES; f++) run_cell(t, "%s", figures[f].title);
    run_cell(t, "%s", "speed");
}

/* "2 threads", and the units. */
static void write_threads(run_table *t, int64_t threads) {
    run_cell(t, "%lld thread%s", (long long)threads, threads == 1 ? "" : "s");
    run_cell(t, "%s", "");
    for (int f = 0; f < FIGURES; f++) run_cell(t, "%s", figures[f].unit);
    run_cell(t, "%s", "");
}

static void write_row(run_table *t, const bench *b, int row, int kind, const int *digits) {
    const bench_row *r = &b->rows[row];
    const run_times *its = &r->times[kind];
    run_cell(t, "%s", r->isa);
    run_cell(t, "%s", names[kind]);
    for (int f = 0; f < FIGURES; f++) run_cell(t, "%.*f", digits[f], figures[f].ask(its));
    run_cell(t, "%.2fx", median_of(base_of(b, row)) / median_of(its));
}

/* All rows of one number of threads, then those of the other. */
static int print_rows(const bench *b) {
    static const bool right[COLUMNS] = {false, false, true, true, true, true, true, true, true};
    int digits[FIGURES];
    run_table t = {.columns = COLUMNS, .right = right};
    for (int f = 0; f < FIGURES; f++) digits[f] = digits_of(b, figures[f].ask);
    write_head(&t);
    for (int thread = 0; thread < b->thread_count; thread++) {
        write_threads(&t, b->threads[thread]);
        for (int isa = 0; isa < b->isa_count; isa++) {
            const int row = isa * b->thread_count + thread;
            for (int kind = 0; kind < RUN_KINDS; kind++) {
                if (b->rows[row].times[kind].count) write_row(&t, b, row, kind, digits);
            }
        }
    }
    return run_table_end(&t);
}

/* ---- What stands below ------------------------------------------------------------------------------------------- */
static int count_least(const bench *b, int *processes) {
    int least = 0;
    *processes = 0;
    for (int i = 0; i < bench_row_count(b); i++) {
        for (int kind = 0; kind < RUN_KINDS; kind++) {
            const run_times *t = &b->rows[i].times[kind];
            if (t->count && (least == 0 || t->count < least)) least = t->count;
            if (t->count && (*processes == 0 || t->processes < *processes)) *processes = t->processes;
        }
    }
    return least;
}

static void write_machine(FILE *out, const bench *b) {
    int processes;
    const int least = count_least(b, &processes);
    const bool one = b->isa_count == 1 && !(b->options.wanted[RUN_F32] && b->options.wanted[RUN_BF16]);
    fprintf(out, "%s; at least %d run%s of each, in turns. ", amp_cpu()->model, least, least == 1 ? "" : "s");
    fprintf(out, "Load with what it prepares, first run and peak of memory: %s that did only that. ",
            processes == 1 ? "of a process" : "the least of a few processes");
    if (b->options.nodes->used > 1)
        fprintf(out, "All nodes ran at once; times are those of all, and together they run %d times as many. ",
                b->options.nodes->used);
    if (one) return;
    fprintf(out, "Speed: %s's %s with as many threads is 1.", b->rows[0].isa,
            names[b->options.wanted[RUN_F32] ? RUN_F32 : RUN_BF16]);
}

static int print_machine(const bench *b) {
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!out) return run_no_memory();
    write_machine(out, b);
    return run_print_paragraph(fclose(out) == 0 ? text : NULL, 0, 0);
}

/* Sets that are missing, and why: those below amx, whose reason often is that of the one before, once. */
static int print_missing(const bench *b) {
    int code = AMP_EXIT_OK;
    for (int i = 0; !code && !b->options.isa && i < AMP_ISA_COUNT; i++) {
        char line[256];
        if (amp_isa_usable((amp_isa)i)) continue;
        snprintf(line, sizeof line, "Not %s: %s.", amp_isa_name((amp_isa)i), amp_isa_reason((amp_isa)i));
        code = run_print_paragraph(strdup(line), 0, 0);
    }
    return code;
}

/* Runs that differ so much were kept waiting by others. */
static bool is_busy(const bench *b) {
    for (int i = 0; i < bench_row_count(b); i++) {
        for (int kind = 0; kind < RUN_KINDS; kind++) {
            const run_times *t = &b->rows[i].times[kind];
            if (t->count && slow_of(t) > 3 * fast_of(t)) return true;
        }
    }
    return false;
}

int bench_print_table(const bench *b) {
    int code = print_rows(b);
    putchar('\n');
    if (!code) code = print_machine(b);
    if (!code) code = print_missing(b);
    if (!code && is_busy(b)) puts("The runs differ by much: the machine has other work too.");
    return code;
}

/* ---- For programs ------------------------------------------------------------------------------------------------ */
static json_t *row_json(const bench *b, int row, int kind, const run_inputs *in) {
    const bench_row *its = &b->rows[row];
    const run_times *t = &its->times[kind];
    json_t *object = json_pack("{s:s, s:s, s:I, s:f}", "isa", its->isa, "dtype", names[kind], "threads",
                               (json_int_t)its->threads, "speed", median_of(base_of(b, row)) / median_of(t));
    json_t *times = run_json_times(t, in);
    json_object_update(object, times);
    json_decref(times);
    return object;
}

static json_t *missing_json(void) {
    json_t *list = json_array();
    for (int i = 0; i < AMP_ISA_COUNT; i++) {
        if (amp_isa_usable((amp_isa)i)) continue;
        json_array_append_new(
            list, json_pack("{s:s, s:s}", "isa", amp_isa_name((amp_isa)i), "reason", amp_isa_reason((amp_isa)i)));
    }
    return list;
}

int bench_print_json(const bench *b, const run_report *r) {
    json_t *root = run_json_begin(r), *rows = json_array();
    for (int i = 0; i < bench_row_count(b); i++) {
        for (int kind = 0; kind < RUN_KINDS; kind++) {
            if (b->rows[i].times[kind].count) json_array_append_new(rows, row_json(b, i, kind, r->inputs));
        }
    }
    json_object_set_new(root, "machine",
                        json_pack("{s:s, s:s, s:o}", "libamp", amp_version_string(), "cpu", amp_cpu()->model,
                                  "unusable", missing_json()));
    if (b->options.numa) json_object_set_new(root, "numa", run_json_nodes(b->options.nodes));
    json_object_set_new(root, "rows", rows);
    return run_print_root(root);
}
