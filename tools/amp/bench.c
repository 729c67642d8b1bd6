/* amp bench: which instruction sets and threads, and the turns. */
#include "bench.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "amp/system.h"
#include "machine/isa.h"

static const char help[] = "usage: amp bench [OPTION…] MODEL.onnx\n\n"
                           "Runs a model with each instruction set of the machine, in f32 and in bf16, with\n"
                           "one thread and with all, and prints the times and the memory that it took side\n"
                           "by side. Each set has a process of its own; they run in turns. Inputs that no\n"
                           "file is given for are made up, and the report says which.\n\n"
                           "  --isa NAME,NAME      only these instruction sets: ref, avx2, avx512,\n"
                           "                       avx512bf16, amx. Without it all but ref, which is slow\n"
                           "  --threads N          instead of all; 1: only one thread\n"
                           "  --numa local|replicate\n"
                           "                       on one NUMA node, or on all at once, as amp run --help\n"
                           "                       tells\n"
                           "  --f32, --bf16        only this one\n"
                           "  --seconds S          how long to run in all (10); at least three turns\n"
                           "  --runs N             at most N runs of each\n"
                           "  --exact              op by op: nothing is fused or laid out anew\n"
                           "  --json               the report for programs\n"
                           "  --help               this text\n\n"
                           "Inputs, as amp run --help tells:\n"
                           "  --input NAME=FILE, --shape NAME=1x3x640x640, --seed N,\n"
                           "  --mean A,B,C, --scale A,B,C, --layout nchw|nhwc\n\n"
                           "Load, with what prepares the first run, that run and memory are the least of up\n"
                           "to three processes that do just that, for each.\n";

int bench_row_count(const bench *b) {
    return b->isa_count * b->thread_count;
}

run_options bench_options(const bench *b, const bench_row *row) {
    run_options o = b->options;
    o.isa = row->isa;
    o.threads = row->threads;
    return o;
}

/* ---- Which sets and threads -------------------------------------------------------------------------------------- */
static int add_isa(bench *b, const char *name, size_t length) {
    for (int i = 0; i < AMP_ISA_COUNT; i++) {
        const char *its = amp_isa_name((amp_isa)i);
        if (strlen(its) != length || strncmp(its, name, length) != 0) continue;
        if (!amp_isa_usable((amp_isa)i))
            return run_fail(AMP_EXIT_USAGE, "--isa %s cannot be used: %s", its, amp_isa_reason((amp_isa)i));
        for (int k = 0; k < b->isa_count; k++) {
            if (b->isas[k] == its) return run_usage("--isa names %s twice", its);
        }
        b->isas[b->isa_count++] = its;
        return AMP_EXIT_OK;
    }
    return run_usage("'--isa' takes ref, avx2, avx512, avx512bf16 or amx, or several with commas between, not '%.*s'",
                     (int)length, name);
}

static int add_named(bench *b, const char *names) {
    for (const char *name = names;; name++) {
        const size_t length = strcspn(name, ",");
        const int code = add_isa(b, name, length);
        if (code) return code;
        name += length;
        if (!*name) return AMP_EXIT_OK;
    }
}

/* All but the reference, where there is anything else. */
static void add_usable(bench *b) {
    for (int i = AMP_ISA_REF + 1; i < AMP_ISA_COUNT; i++) {
        if (amp_isa_usable((amp_isa)i)) b->isas[b->isa_count++] = amp_isa_name((amp_isa)i);
    }
    if (b->isa_count == 0) b->isas[b->isa_count++] = amp_isa_name(AMP_ISA_REF);
}

/* Asked here it would start threads, which processes that come later do not have. */
static int tell_threads(void *context, int in, int out) {
    const int threads = amp_get_num_threads();
    (void)context;
    (void)in;
    return write(out, &threads, sizeof threads) == (ssize_t)sizeof threads ? AMP_EXIT_OK : AMP_EXIT_FAILED;
}

static int ask_threads(int *threads) {
    run_process process;
    const int code = run_process_start(&process, tell_threads, NULL);
    if (code) return code;
    const bool told = run_process_read(process.from, threads, sizeof *threads);
    return run_process_end(&process, "asking for threads", told, NULL);
}

static int find_threads(bench *b, int64_t wanted) {
    int usual = 0;
    const int code = wanted ? AMP_EXIT_OK : ask_threads(&usual);
    b->threads[b->thread_count++] = 1;
    if (!wanted) wanted = usual;
    if (wanted > 1) b->threads[b->thread_count++] = wanted;
    return code;
}

static int find_rows(bench *b, const run_options *o) {
    if (amp_isa_status() != AMP_OK) return run_fail_amp();
    int code = o->isa ? add_named(b, o->isa) : AMP_EXIT_OK;
    if (!o->isa) add_usable(b);
    if (!code) code = find_threads(b, o->threads);
    for (int i = 0; i < bench_row_count(b); i++)
        b->rows[i] = (bench_row){.isa = b->isas[i / b->thread_count], .threads = b->threads[i % b->thread_count]};
    return code;
}

/* ---- Measuring --------------------------------------------------------------------------------------------------- */
static int run_all_cold(bench *b) {
    int code = AMP_EXIT_OK;
    for (int i = 0; !code && i < bench_row_count(b); i++) {
        run_options o = bench_options(b, &b->rows[i]);
        o.seconds = b->options.seconds / bench_row_count(b);
        code = run_cold(&o, b->rows[i].times);
    }
    return code;
}

enum { LEAST_TURNS = 3 };

static bool is_done(const bench *b, int turns, double ms) {
    const run_times *its = b->rows[0].times;
    if (turns < LEAST_TURNS && its[RUN_F32].count < b->options.runs && its[RUN_BF16].count < b->options.runs)
        return false;
    return ms > 1e3 * b->options.seconds || its[RUN_F32].count >= b->options.runs ||
           its[RUN_BF16].count >= b->options.runs;
}

/* Processes of each set: one on every node that is used. */
static int count_places(const bench *b) {
    return b->options.nodes->used ? b->options.nodes->used : 1;
}

static int run_turn(bench *b, bench_worker *workers, int isa) {
    const int places = count_places(b);
    int code = AMP_EXIT_OK;
    for (int i = 0; !code && i < places; i++) code = bench_worker_begin(&workers[isa * places + i]);
    for (int i = 0; !code && i < places; i++)
        code = bench_worker_take(&workers[isa * places + i], &b->rows[isa * b->thread_count], places - i);
    return code;
}

static int run_in_turns(bench *b, bench_worker *workers) {
    const double start = run_milliseconds();
    double ms = 0;
    for (int turns = 0; !is_done(b, turns, ms); turns++) {
        for (int i = 0; i < b->isa_count; i++) {
            const int code = run_turn(b, workers, i);
            if (code) return code;
        }
        ms = run_milliseconds() - start;
        run_progress("turn %d, %.0f of %g s", turns + 1, ms / 1e3, b->options.seconds);
    }
    run_progress_end();
    for (int i = 0; i < bench_row_count(b); i++) {
        for (int kind = 0; kind < RUN_KINDS; kind++) run_times_sort(&b->rows[i].times[kind]);
    }
    return AMP_EXIT_OK;
}

/* ---- The report -------------------------------------------------------------------------------------------------- */
static int print(const bench *b, const run_report *r) {
    if (b->options.json) return bench_print_json(b, r);
    return bench_print_table(b);
}

/* Once the processes are there, this one may start threads too. */
static int measure_and_print(bench *b, bench_worker *workers) {
    run_model m = {0};
    run_inputs in = {0};
    const run_report r = {.options = &b->options, .model = &m, .inputs = &in};
    int code = run_model_load(&m, b->options.model, b->options.exact);
    if (!code) code = run_inputs_make(&in, &m, &b->options);
    if (!code && !b->options.json) code = run_print_model(&r);
    if (!code) code = run_in_turns(b, workers);
    if (!code) code = print(b, &r);
    run_inputs_free(&in);
    run_model_free(&m);
    return code;
}

static int run_workers(bench *b) {
    static bench_worker workers[AMP_ISA_COUNT * RUN_NODES];
    const run_nodes *nodes = b->options.nodes;
    const int places = count_places(b), count = b->isa_count * places;
    int code = AMP_EXIT_OK;
    signal(SIGPIPE, SIG_IGN); /* a process that has ended says why itself */
    for (int i = 0; i < count; i++)
        workers[i] = (bench_worker){.bench = b,
                                    .rows = &b->rows[i / places * b->thread_count],
                                    .node = nodes->used ? &nodes->items[i % places] : NULL};
    for (int i = 0; !code && i < count; i++) code = bench_worker_start(&workers[i]);
    if (!code) code = measure_and_print(b, workers);
    for (int i = 0; i < count; i++) {
        const int end = bench_worker_end(&workers[i]);
        if (!code) code = end;
    }
    signal(SIGPIPE, SIG_DFL);
    return code;
}

static int bench_model(const run_options *o) {
    static bench b;
    static run_nodes nodes;
    b = (bench){.options = *o};
    b.options.nodes = &nodes;
    int code = run_nodes_enter(&nodes, o->numa);
    if (!code) code = find_rows(&b, o);
    if (!code) code = run_all_cold(&b);
    if (!code) code = run_workers(&b);
    for (int i = 0; i < bench_row_count(&b); i++) {
        for (int kind = 0; kind < RUN_KINDS; kind++) free(b.rows[i].times[kind].ms);
    }
    return code;
}

int amp_command_bench(int argc, char **argv) {
    run_options o;
    int code = run_options_parse(argc, argv, BENCH_COMMAND, &o);
    if (!code && o.help) {
        fputs(help, stdout);
    } else if (!code) {
        code = bench_model(&o);
    }
    run_options_free(&o);
    return code;
}
