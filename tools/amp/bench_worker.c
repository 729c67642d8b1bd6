/* amp bench: the process of one instruction set, which runs the model when it is told to. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "amp/system.h"
#include "bench.h"

enum { MOST_RUNS = 60 }; /* of one kind in a turn: what is told fits into a pipe at once */

static const double slice = 30, long_run = 100; /* ms: of one kind in a turn; that needs no run before it */

/* What is told of a turn. */
typedef struct turn {
    int32_t counts[BENCH_THREADS][RUN_KINDS];
    double ms[BENCH_THREADS][RUN_KINDS][MOST_RUNS];
} turn;

/* ---- The process ------------------------------------------------------------------------------------------------- */
typedef struct worker_state {
    const bench *bench;
    run_model model;
    run_inputs inputs;
    amp_tensor **room;
    double last[BENCH_THREADS][RUN_KINDS]; /* ms of a run; 0: there was none */
} worker_state;

/* The first run of a slice finds cold caches, and threads of others that have not gone to sleep yet: it does not
 * count. */
static int run_slice(worker_state *s, int thread, int kind, turn *t) {
    const double start = run_milliseconds();
    double *last = &s->last[thread][kind], ms = 0;
    bool counts = *last > long_run;
    while (t->counts[thread][kind] < MOST_RUNS) {
        const int code = run_timed(&s->model, &s->inputs, (run_kind)kind, s->bench->options.device, s->room, last);
        if (code) return code;
        if (counts) t->ms[thread][kind][t->counts[thread][kind]++] = *last;
        counts = true;
        ms = run_milliseconds() - start;
        if (ms > slice && t->counts[thread][kind] > 0) break;
    }
    return AMP_EXIT_OK;
}

static int run_slices(worker_state *s, turn *t) {
    memset(t, 0, sizeof *t);
    for (int thread = 0; thread < s->bench->thread_count; thread++) {
        if (amp_set_num_threads((int)s->bench->threads[thread]) != AMP_OK) return run_fail_amp();
        for (int kind = 0; kind < RUN_KINDS; kind++) {
            const int code = s->bench->options.wanted[kind] ? run_slice(s, thread, kind, t) : AMP_EXIT_OK;
            if (code) return code;
        }
    }
    return AMP_EXIT_OK;
}

static int prepare(worker_state *s, const run_options *o) {
    int code = run_set_up(o);
    if (!code) code = run_model_load(&s->model, o->model, o->exact);
    if (!code) code = run_inputs_make(&s->inputs, &s->model, o);
    if (code) return code;
    s->room = calloc((size_t)s->model.output_count + 1, sizeof *s->room);
    return s->room ? AMP_EXIT_OK : run_no_memory();
}

/* What it is told: a byte. That a pipe is closed it need not see, as processes that were started later have its end
 * too. */
static const char take_turn = 't', stop = 's';

/* The first turn, which loads and packs, is thrown away. */
static int be_worker(void *context, int in, int out) {
    const bench_worker *w = context;
    const run_options o = bench_options(w->bench, w->rows);
    static worker_state s;
    static turn t;
    char told;
    s.bench = w->bench;
    int code = w->node ? run_node_bind(w->node) : AMP_EXIT_OK;
    if (!code) code = prepare(&s, &o);
    while (!code && run_process_read(in, &told, 1) && told == take_turn) {
        code = run_slices(&s, &t);
        if (!code && write(out, &t, sizeof t) != (ssize_t)sizeof t) code = AMP_EXIT_FAILED;
    }
    return code; /* its memory goes with it */
}

/* ---- Who tells it ------------------------------------------------------------------------------------------------ */
static void wait_for(const bench_worker *w) {
    struct pollfd in = {.fd = w->process.from, .events = POLLIN};
    const double start = run_milliseconds();
    while (poll(&in, 1, 1000) <= 0)
        run_progress("%s: running, %.0f s", w->rows->isa, (run_milliseconds() - start) / 1e3);
}

static int fail_at_its_end(bench_worker *w) {
    w->is_alive = false;
    const int code = run_process_end(&w->process, w->rows->isa, false, NULL);
    return code ? code : AMP_EXIT_FAILED;
}

int bench_worker_begin(bench_worker *w) {
    return write(w->process.to, &take_turn, 1) == 1 ? AMP_EXIT_OK : fail_at_its_end(w);
}

static int await_turn(bench_worker *w, turn *t) {
    wait_for(w);
    return run_process_read(w->process.from, t, sizeof *t) ? AMP_EXIT_OK : fail_at_its_end(w);
}

int bench_worker_start(bench_worker *w) {
    static turn thrown_away;
    const int code = run_process_start(&w->process, be_worker, w);
    if (code) return code;
    w->is_alive = true;
    const int begun = bench_worker_begin(w);
    return begun ? begun : await_turn(w, &thrown_away);
}

static bool add_times(run_times *to, const double *ms, int count, int64_t most) {
    for (int i = 0; i < count && to->count < most; i++) {
        if (!run_times_add(to, ms[i])) return false;
    }
    return true;
}

/* How many times there are when a place, with `places` to come that fill the row alike, has added its own. */
static int64_t count_after(int64_t count, int64_t most, int places) {
    const int64_t left = most > count ? most - count : 0;
    return count + left / places + (left % places != 0);
}

int bench_worker_take(bench_worker *w, bench_row *rows, int places) {
    static turn t;
    const int code = await_turn(w, &t);
    if (code) return code;
    for (int thread = 0; thread < w->bench->thread_count; thread++) {
        for (int kind = 0; kind < RUN_KINDS; kind++) {
            run_times *to = &rows[thread].times[kind];
            const int64_t most = count_after(to->count, w->bench->options.runs, places);
            if (!add_times(to, t.ms[thread][kind], t.counts[thread][kind], most)) return run_no_memory();
        }
    }
    return AMP_EXIT_OK;
}

int bench_worker_end(bench_worker *w) {
    if (!w->is_alive) return AMP_EXIT_OK;
    w->is_alive = false;
    const bool told = write(w->process.to, &stop, 1) == 1;
    return run_process_end(&w->process, w->rows->isa, told, NULL);
}
