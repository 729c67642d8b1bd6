/* amp run: how long it took, for people. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "amp/system.h"
#include "run_replicas.h"

static const char *const names[RUN_KINDS] = {"f32", "bf16"};

typedef double figure_function(const run_report *r, run_kind kind);

static double load_of(const run_report *r, run_kind kind) {
    return r->results->times[kind].load;
}
static double prepare_of(const run_report *r, run_kind kind) {
    return r->results->times[kind].prepare;
}
static double first_of(const run_report *r, run_kind kind) {
    return r->results->times[kind].first;
}
static double median_of(const run_report *r, run_kind kind) {
    return run_quantile(&r->results->times[kind], 0.5);
}
static double fast_of(const run_report *r, run_kind kind) {
    return run_quantile(&r->results->times[kind], 0.1);
}
static double slow_of(const run_report *r, run_kind kind) {
    return run_quantile(&r->results->times[kind], 0.9);
}
static double rate_of(const run_report *r, run_kind kind) {
    return 1e3 * (double)run_items(r->inputs).count / median_of(r, kind);
}
static double memory_of(const run_report *r, run_kind kind) {
    return r->results->times[kind].peak_bytes / 1e6;
}

static const struct {
    const char *title;
    figure_function *ask;
} figures[] = {
    {"load, ms", load_of},           {"prepare, ms", prepare_of},   {"first run, ms", first_of},
    {"peak memory, MB", memory_of},  {"median run, ms", median_of}, {"10 % are under, ms", fast_of},
    {"90 % are under, ms", slow_of},
};

enum { FIGURES = sizeof figures / sizeof *figures };

int run_digits_of(double value) {
    int digits = 0;
    for (; value < 999.5 && digits < 6; value *= 10) digits++;
    return digits;
}

/* A row has the digits of its least number. */
static void write_row(run_table *t, const run_report *r, figure_function *ask) {
    int digits = 0;
    for (int kind = 0; kind < RUN_KINDS; kind++) {
        const int its = r->options->wanted[kind] ? run_digits_of(ask(r, (run_kind)kind)) : 0;
        if (its > digits) digits = its;
    }
    for (int kind = 0; kind < RUN_KINDS; kind++) {
        if (r->options->wanted[kind]) run_cell(t, "%.*f", digits, ask(r, (run_kind)kind));
        if (!r->options->wanted[kind]) run_cell(t, "%s", "");
    }
}

static void write_rate(run_table *t, const run_report *r) {
    const run_unit unit = run_items(r->inputs);
    if (unit.count == 0) return;
    if (unit.count == 1) run_cell(t, "%s a second", unit.name);
    if (unit.count > 1) run_cell(t, "%s a second, %" PRId64 " a run", unit.name, unit.count);
    write_row(t, r, rate_of);
}

static void write_speed_up(run_table *t, const run_report *r) {
    run_cell(t, "%s", "speed-up");
    run_cell(t, "%s", "");
    run_cell(t, "%.2fx", median_of(r, RUN_F32) / median_of(r, RUN_BF16));
}

/* Empty where there is none. */
static void write_figure(run_table *t, bool is_there, double value) {
    if (is_there) run_cell(t, "%.*f", run_digits_of(value), value);
    if (!is_there) run_cell(t, "%s", "");
}

/* What each further node took, and what all do together. */
static void write_nodes(run_table *t, const run_report *r) {
    const run_unit unit = run_items(r->inputs);
    double sums[RUN_KINDS] = {0};
    for (int i = 0; i < r->replicas->count; i++) {
        const run_replica *its = &r->replicas->items[i];
        run_cell(t, "median run on node %d, ms", its->node->number);
        for (int kind = 0; kind < RUN_KINDS; kind++) {
            const run_times *times = &its->times[kind];
            const double median = times->count ? run_quantile(times, 0.5) : 0;
            write_figure(t, times->count, median);
            if (times->count) sums[kind] += 1e3 * (double)unit.count / median;
        }
    }
    if (r->replicas->count == 0 || unit.count == 0) return;
    run_cell(t, "%s a second on %d nodes", unit.name, r->replicas->count + 1);
    for (int kind = 0; kind < RUN_KINDS; kind++) {
        const bool wanted = r->options->wanted[kind];
        write_figure(t, wanted, wanted ? sums[kind] + rate_of(r, (run_kind)kind) : 0);
    }
}

static int print_table(const run_report *r) {
    static const bool right[] = {false, true, true};
    const bool *wanted = r->options->wanted;
    run_table t = {.columns = 3, .right = right};
    run_cell(&t, "%s", "");
    for (int kind = 0; kind < RUN_KINDS; kind++) run_cell(&t, "%s", wanted[kind] ? names[kind] : "");
    for (int i = 0; i < FIGURES; i++) {
        run_cell(&t, "%s", figures[i].title);
        write_row(&t, r, figures[i].ask);
    }
    if (wanted[RUN_F32] && wanted[RUN_BF16]) write_speed_up(&t, r);
    write_rate(&t, r);
    write_nodes(&t, r);
    return run_table_end(&t);
}

/* "AMD EPYC 9575F, avx512bf16, 2 threads; 31 runs of each, in turns. …" */
static void write_machine(FILE *out, const run_report *r) {
    const run_times *times = &r->results->times[r->options->wanted[RUN_F32] ? RUN_F32 : RUN_BF16];
    const int threads = amp_get_num_threads();
    fprintf(out, "%s, %s, %d thread%s%s%s; ", amp_cpu()->model, amp_isa_name(amp_isa_best()), threads,
            threads == 1 ? "" : "s", r->options->device == AMP_DEVICE_CUDA ? ", on CUDA" : "",
            r->options->cpu_time ? ", CPU time" : "");
    fprintf(out, "%d run%s%s. Load, prepare, first run and memory: ", times->count, times->count == 1 ? "" : "s",
            r->comparisons ? " of each, in turns" : "");
    fprintf(out,
            times->processes == 1 ? "of a process that did only that."
                                  : "the least of %d processes that did only that.",
            times->processes);
    if (r->replicas->count) fprintf(out, " All nodes ran at once, and their outputs have the same bits.");
}

static int print_machine(const run_report *r) {
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!out) return run_no_memory();
    write_machine(out, r);
    return run_print_paragraph(fclose(out) == 0 ? text : NULL, 0, 0);
}

/* Runs that differ so much were kept waiting by others. */
static bool is_busy(const run_report *r) {
    for (int kind = 0; kind < RUN_KINDS; kind++) {
        if (r->options->wanted[kind] && slow_of(r, (run_kind)kind) > 3 * fast_of(r, (run_kind)kind)) return true;
    }
    return false;
}

int run_print_figures(const run_report *r) {
    if (r->options->runs == 0) return AMP_EXIT_OK;
    int code = print_table(r);
    putchar('\n');
    if (!code) code = print_machine(r);
    if (!code && is_busy(r))
        puts("The runs differ by much: where others use the cores too, OMP_WAIT_POLICY=passive\nand fewer --threads "
             "help.");
    putchar('\n');
    return code;
}
