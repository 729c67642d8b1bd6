/* amp run: the first time, in a process of its own: what loading, the first run and memory cost who does just that.
 * Each figure is the least of a few processes. */
#define _GNU_SOURCE /* wait4 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "amp/tensor.h"
#include "run.h"

typedef struct cold_figures {
    double load, first;
} cold_figures;

static const char *const names[RUN_KINDS] = {"f32", "bf16"};

/* ---- The child: nothing of libamp has run before ----------------------------------------------------------------- */
static int run_first(cold_figures *figures, const run_model *m, const run_inputs *in, const run_options *o,
                     run_kind kind) {
    amp_tensor **outputs = calloc((size_t)m->output_count + 1, sizeof *outputs);
    if (!outputs) return run_no_memory();
    const double start = run_milliseconds();
    const amp_status status = run_once(m, in, kind, o->device, outputs);
    figures->load = m->load_ms;
    figures->first = run_milliseconds() - start;
    return status == AMP_OK ? AMP_EXIT_OK : run_fail_amp();
}

static int be_cold(const run_options *o, run_kind kind, int out) {
    cold_figures figures;
    run_model m = {0};
    run_inputs in = {0};
    int code = run_set_up(o);
    if (!code) code = run_model_load(&m, o->model, o->exact);
    if (!code) code = run_inputs_make(&in, &m, o);
    if (!code) code = run_first(&figures, &m, &in, o, kind);
    if (!code && write(out, &figures, sizeof figures) != (ssize_t)sizeof figures) code = AMP_EXIT_FAILED;
    return code; /* the process ends, and its memory with it */
}

/* ---- The parent -------------------------------------------------------------------------------------------------- */
static const double patience = 1000; /* ms, until something is said */

static void wait_for(int from, run_kind kind) {
    struct pollfd in = {.fd = from, .events = POLLIN};
    const double start = run_milliseconds();
    while (poll(&in, 1, 500) <= 0) {
        const double ms = run_milliseconds() - start;
        if (ms > patience) run_progress("%s: loading and running it once, %.0f s", names[kind], ms / 1e3);
    }
}

static int judge(int status, bool came, run_kind kind) {
    if (WIFSIGNALED(status))
        return run_fail(AMP_EXIT_FAILED, "the first run in %s ended with signal %d (%s)%s", names[kind],
                        WTERMSIG(status), strsignal(WTERMSIG(status)),
                        WTERMSIG(status) == SIGKILL ? ": was memory short?" : "");
    if (WEXITSTATUS(status) == AMP_EXIT_OK && !came)
        return run_fail(AMP_EXIT_FAILED, "the first run in %s told no times", names[kind]);
    return WEXITSTATUS(status); /* which has said why */
}

static void keep_least(double *least, double value) {
    if (*least == 0 || value < *least) *least = value;
}

static int take_figures(pid_t child, int from, run_kind kind, run_times *times) {
    cold_figures figures = {0};
    struct rusage usage = {0};
    int status = 0;
    wait_for(from, kind);
    const bool came = read(from, &figures, sizeof figures) == (ssize_t)sizeof figures;
    while (wait4(child, &status, 0, &usage) < 0 && errno == EINTR) continue;
    run_progress_end();
    keep_least(&times->load, figures.load);
    keep_least(&times->first, figures.first);
    keep_least(&times->peak_bytes, 1024.0 * (double)usage.ru_maxrss);
    times->processes++;
    return judge(status, came, kind);
}

static int run_process(const run_options *o, run_kind kind, run_times *times) {
    int ends[2];
    if (pipe(ends) != 0) return run_fail(AMP_EXIT_FAILED, "cannot make a pipe: %s", strerror(errno));
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* not for longer than there is somebody to tell */
        const int code = be_cold(o, kind, ends[1]);
        fflush(NULL);
        _exit(code);
    }
    const int error = errno;
    close(ends[1]);
    const int code = child > 0 ? take_figures(child, ends[0], kind, times)
                               : run_fail(AMP_EXIT_FAILED, "cannot start a process: %s", strerror(error));
    close(ends[0]);
    return code;
}

enum { MOST_PROCESSES = 3 }; /* of each, as long as they take a third of the time that there is */

int run_cold(const run_options *o, run_times times[RUN_KINDS]) {
    const double start = run_milliseconds();
    for (int round = 0; round < MOST_PROCESSES && round < o->runs; round++) {
        for (int kind = 0; kind < RUN_KINDS; kind++) {
            const int code = o->wanted[kind] ? run_process(o, (run_kind)kind, &times[kind]) : AMP_EXIT_OK;
            if (code) return code;
        }
        if (run_milliseconds() - start > 1e3 * o->seconds / 3) break;
    }
    return AMP_EXIT_OK;
}
