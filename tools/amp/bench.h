/* amp bench: a model on all instruction sets of the machine, side by side. A process for each set, as one is chosen at
 * the start; they run in turns. */
#ifndef AMP_TOOL_BENCH_H
#define AMP_TOOL_BENCH_H

#include "amp/system.h"
#include "run.h"
#include "run_process.h"

enum { BENCH_THREADS = 2 }; /* numbers of threads: one, and what is asked for */

/* One set with one number of threads. */
typedef struct bench_row {
    const char *isa;
    int64_t threads;
    run_times times[RUN_KINDS];
} bench_row;

typedef struct bench {
    run_options options; /* without isa and threads, which stand below */
    const char *isas[AMP_ISA_COUNT];
    int64_t threads[BENCH_THREADS];
    int isa_count, thread_count;
    bench_row rows[AMP_ISA_COUNT * BENCH_THREADS]; /* by set, then threads */
} bench;

int bench_row_count(const bench *b);
run_options bench_options(const bench *b, const bench_row *row);

/* A set's process, and what it is told to be. */
typedef struct bench_worker {
    const bench *bench;
    const bench_row *rows; /* thread_count of them */
    const run_node *node;  /* that it is bound to; NULL: as this process is */
    run_process process;
    bool is_alive;
} bench_worker;

/* Starts a set's process, and waits until it has loaded the model and run it once in each way. */
int bench_worker_start(bench_worker *w);
/* One turn: a slice of time for each number of threads and each kind. */
int bench_worker_begin(bench_worker *w);
/* … is over; its times are added to the rows, which hold at most --runs: of what is left its share among `places`, this
 * one and those behind it that fill the same rows. */
int bench_worker_take(bench_worker *w, bench_row *rows, int places);
/* May be called for one that never began. */
int bench_worker_end(bench_worker *w);

int bench_print_table(const bench *b);
int bench_print_json(const bench *b, const run_report *r);

#endif /* AMP_TOOL_BENCH_H */
