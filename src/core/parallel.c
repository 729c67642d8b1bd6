/* The number of threads: default, setting, and what a piece of work is worth. */
#include "core/parallel.h"

#include <omp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/fail.h"
#include "core/hot.h"

enum { MAX_THREADS = 4096 };

static atomic_int thread_count;        /* 0: not decided yet */
static _Thread_local int thread_limit; /* 0: none */

/* The child of a fork has none of its parent's threads, but a copy of the runtime's book-keeping that says it does:
 * libgomp would wait for them for ever. It computes with one thread. */
static atomic_bool is_forked;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void enter_child(void) {
    atomic_store_explicit(&is_forked, true, memory_order_relaxed);
}

static void watch_forks(void) {
    (void)pthread_atfork(NULL, NULL, enter_child);
}

/* The first number of OMP_NUM_THREADS, which is a list for nested regions; 0 where there is none, and where it is
 * nothing that the OpenMP runtime would take either. */
static long wished_threads(const char **text) {
    *text = getenv("OMP_NUM_THREADS");
    const long wish = *text ? strtol(*text, NULL, 10) : 0;
    return wish < 0 ? 0 : wish;
}

void amp_parallel_check(char *sentence, size_t bytes) {
    const char *text = NULL;
    if (*sentence || wished_threads(&text) <= MAX_THREADS) return;
    snprintf(sentence, bytes, "OMP_NUM_THREADS is '%.63s'; it must be 1 to %d", text, MAX_THREADS);
}

static int within_limits(int threads) {
    return threads < 1 ? 1 : threads > MAX_THREADS ? MAX_THREADS : threads;
}

/* The control group's quota is rounded up: 1.5 CPUs keep two threads busy most of the time. */
static int default_threads(void) {
    const char *text = NULL;
    if (wished_threads(&text) > 0) return within_limits(omp_get_max_threads());
    const amp_cpu_info *cpu = amp_cpu();
    int threads = cpu->physical_cores;
    if (cpu->quota > 0 && cpu->quota < threads) {
        threads = (int)cpu->quota;
        if (threads < cpu->quota) threads++;
    }
    return within_limits(threads);
}

int amp_get_num_threads(void) {
    int threads = atomic_load_explicit(&thread_count, memory_order_relaxed);
    if (atomic_load_explicit(&is_forked, memory_order_relaxed)) return 1;
    pthread_once(&fork_once, watch_forks); /* who asks is about to start threads */
    if (threads) return threads;
    const int wanted = default_threads();
    /* Two threads may come here at once; a setting made meanwhile stands. */
    return atomic_compare_exchange_strong(&thread_count, &threads, wanted) ? wanted : threads;
}

amp_status amp_set_num_threads(int threads) {
    if (threads < 1 || threads > MAX_THREADS)
        return amp_fail(AMP_ERROR_INVALID, "amp_set_num_threads: threads is %d, it must be 1 to %d", threads,
                        MAX_THREADS);
    atomic_store_explicit(&thread_count, threads, memory_order_relaxed);
    return AMP_OK;
}

int amp_parallel_limit(int threads) {
    const int previous = thread_limit;
    thread_limit = threads;
    return previous;
}

static int allowed_threads(void) {
    const int threads = amp_get_num_threads();
    return thread_limit && thread_limit < threads ? thread_limit : threads;
}

AMP_HOT int amp_parallel_threads(int64_t work, int64_t grain) {
    const int64_t worth = work / grain;
    if (worth < 2 || omp_in_parallel()) return 1;
    const int threads = allowed_threads();
    return worth < threads ? (int)worth : threads;
}

int amp_parallel_enter_library(void) {
    const int previous = omp_get_max_threads(), threads = omp_in_parallel() ? 1 : allowed_threads();
    if (previous != threads) omp_set_num_threads(threads);
    return previous;
}

void amp_parallel_leave_library(int previous) {
    if (previous != omp_get_max_threads()) omp_set_num_threads(previous);
}
