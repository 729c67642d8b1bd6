/* amp run: the first time, in a process of its own: what loading, preparing, the first run and memory cost who does
 * just that. Each figure is the least of a few processes. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "amp/tensor.h"
#include "run.h"
#include "run_process.h"

typedef struct cold_figures {
    double load, prepare, first;
} cold_figures;

typedef struct cold_work {
    const run_options *options;
    run_kind kind;
} cold_work;

static const char *const names[RUN_KINDS] = {"f32", "bf16"};

/* ---- The child: nothing of libamp has run before ----------------------------------------------------------------- */
static int run_first(cold_figures *figures, const run_model *m, const run_inputs *in, const run_options *o,
                     run_kind kind) {
    amp_tensor **outputs = calloc((size_t)m->output_count + 1, sizeof *outputs);
    if (!outputs) return run_no_memory();
    const double start = run_figure_milliseconds();
    amp_status status = run_prepare(m, in, kind, o->device);
    const double ready = run_figure_milliseconds();
    if (status == AMP_OK) status = run_once(m, in, kind, o->device, outputs);
    *figures = (cold_figures){m->load_ms, ready - start, run_figure_milliseconds() - ready};
    free(outputs);
    return status == AMP_OK ? AMP_EXIT_OK : run_fail_amp();
}

static int be_cold(void *context, int in_end, int out) {
    const cold_work *work = context;
    const run_options *o = work->options;
    cold_figures figures;
    run_model m = {0};
    run_inputs in = {0};
    (void)in_end;
    int code = run_set_up(o);
    if (!code) code = run_model_load(&m, o->model, o->exact);
    if (!code) code = run_use_packs(&m, o);
    if (!code) code = run_inputs_make(&in, &m, o);
    if (!code) code = run_first(&figures, &m, &in, o, work->kind);
    if (!code && write(out, &figures, sizeof figures) != (ssize_t)sizeof figures) code = AMP_EXIT_FAILED;
    return code; /* the process ends, and its memory with it */
}

/* ---- The parent -------------------------------------------------------------------------------------------------- */
static const double patience = 1000; /* ms, until something is said */

static void wait_for(int from, const cold_work *work) {
    struct pollfd in = {.fd = from, .events = POLLIN};
    const char *isa = work->options->isa;
    const double start = run_milliseconds();
    while (poll(&in, 1, 500) <= 0) {
        const double ms = run_milliseconds() - start;
        if (ms > patience)
            run_progress("%s%s%s: loading, preparing and running it once, %.0f s", isa ? isa : "", isa ? ", " : "",
                         names[work->kind], ms / 1e3);
    }
}

static void keep_least(double *least, double value) {
    if (*least == 0 || value < *least) *least = value;
}

static int run_process_once(const run_options *o, run_kind kind, run_times *times) {
    cold_work work = {.options = o, .kind = kind};
    cold_figures figures = {0};
    struct rusage usage = {0};
    run_process process;
    char what[32];
    const int code = run_process_start(&process, be_cold, &work);
    if (code) return code;
    wait_for(process.from, &work);
    const bool came = run_process_read(process.from, &figures, sizeof figures);
    snprintf(what, sizeof what, "the first run in %s", names[kind]);
    const int end = run_process_end(&process, what, came, &usage);
    keep_least(&times->load, figures.load);
    keep_least(&times->prepare, figures.prepare);
    keep_least(&times->first, figures.first);
    keep_least(&times->peak_bytes, 1024.0 * (double)usage.ru_maxrss);
    times->processes++;
    return end;
}

enum { MOST_PROCESSES = 3 }; /* of each, as long as they take a third of the time that there is */

int run_cold(const run_options *o, run_times times[RUN_KINDS]) {
    const double start = run_milliseconds();
    for (int round = 0; round < MOST_PROCESSES && round < o->runs; round++) {
        for (int kind = 0; kind < RUN_KINDS; kind++) {
            const int code = o->wanted[kind] ? run_process_once(o, (run_kind)kind, &times[kind]) : AMP_EXIT_OK;
            if (code) return code;
        }
        if (run_milliseconds() - start > 1e3 * o->seconds / 3) break;
    }
    return AMP_EXIT_OK;
}
