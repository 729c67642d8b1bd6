/* What the benches share: the clock, random data, figures over rounds, options, and what is said of the machine.
 *
 * A bench defines BENCH_NAME before it includes this. Times are in seconds. */
#ifndef AMP_BENCH_COMMON_H
#define AMP_BENCH_COMMON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "amp/amp.h"

enum { BENCH_MAX_THREAD_COUNTS = 8 };

/* ---- The clock -------------------------------------------------------------------------------------------------- */

static clockid_t bench_clock = CLOCK_MONOTONIC; /* or the thread's CPU time, on a machine that others use too */

static inline double bench_seconds_of(clockid_t which) {
    struct timespec t;
    clock_gettime(which, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
/* By the chosen clock: what is measured. */
static inline double bench_now(void) {
    return bench_seconds_of(bench_clock);
}
/* By the clock on the wall: how long the bench goes on. */
static inline double bench_wall(void) {
    return bench_seconds_of(CLOCK_MONOTONIC);
}

/* ---- Failures --------------------------------------------------------------------------------------------------- */

static inline void bench_require(bool ok, const char *what) {
    if (ok) return;
    fprintf(stderr, BENCH_NAME ": %s failed: %s\n", what, amp_last_error());
    exit(1);
}

static inline amp_tensor *bench_require_tensor(amp_tensor *t) {
    bench_require(t != NULL, "a call");
    return t;
}

static inline FILE *bench_open(const char *path, const char *mode) {
    FILE *file = fopen(path, mode);
    if (file) return file;
    perror(path);
    exit(1);
}

/* ---- Random data: the same in every run ------------------------------------------------------------------------- */

static inline uint64_t bench_random(void) { /* xorshift64*; 48 bits */
    static uint64_t state = 88172645463325252u;
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * 0x2545f4914f6cdd1du >> 16;
}
/* In [-1, 1). */
static inline float bench_uniform(void) {
    return (float)((int32_t)(bench_random() & 0xffffff) - 0x800000) * 0x1p-23f;
}
/* Within ± bound. */
static inline void bench_fill(float *x, int64_t n, float bound) {
    for (int64_t i = 0; i < n; i++) x[i] = bound * bench_uniform();
}

/* A tensor of them, drawn in f32: the scope's, or the caller's where none is open. */
static inline amp_tensor *bench_tensor(amp_dtype dtype, float bound, amp_dims shape) {
    int64_t n = 1;
    for (int d = 0; d < shape.count; d++) n *= shape.values[d];
    float *x = malloc((size_t)n * sizeof *x);
    if (!x) exit(1);
    bench_fill(x, n, bound);
    amp_tensor *wide = bench_require_tensor(amp_from_data(x, AMP_F32, shape.count, shape.values));
    free(x);
    if (dtype == AMP_F32) return wide;
    amp_tensor *t = bench_require_tensor(amp_to(wide, dtype));
    amp_release(wide);
    return t;
}

static inline amp_tensor *bench_tensor_on(amp_device device, amp_dtype dtype, float bound, amp_dims shape) {
    amp_tensor *host = bench_tensor(dtype, bound, shape);
    if (device == AMP_DEVICE_CPU) return host;
    amp_tensor *t = bench_require_tensor(amp_to_device(host, device));
    amp_release(host);
    return t;
}

/* One in f32 that is marked: its casts, and what it is packed to, are kept. */
static inline amp_tensor *bench_parameter(amp_device device, float bound, amp_dims shape) {
    amp_tensor *t = bench_tensor_on(device, AMP_F32, bound, shape);
    bench_require(amp_tensor_mark_parameter(t) == AMP_OK, "marking a parameter");
    return t;
}

/* ---- Figures ---------------------------------------------------------------------------------------------------- */

static inline int bench_ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of n sorted values, between which it interpolates. */
static inline double bench_percentile_sorted(const double *sorted, int n, double share) {
    const double place = share * (n - 1);
    const int below = (int)place, above = below + 1 < n ? below + 1 : below;
    return sorted[below] + (place - below) * (sorted[above] - sorted[below]);
}

/* Median, and the 10th and the 90th percentile, which are what a "spread" is. */
typedef struct bench_figure {
    double median, low, high;
} bench_figure;

static inline bench_figure bench_figure_of(const double *values, int n) {
    double *sorted = malloc((size_t)n * sizeof *sorted);
    if (!sorted || n < 1) exit(1);
    memcpy(sorted, values, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, bench_ascending);
    const bench_figure f = {bench_percentile_sorted(sorted, n, 0.5), bench_percentile_sorted(sorted, n, 0.1),
                            bench_percentile_sorted(sorted, n, 0.9)};
    free(sorted);
    return f;
}
static inline double bench_median(const double *values, int n) {
    return bench_figure_of(values, n).median;
}

/* ---- Options ---------------------------------------------------------------------------------------------------- */

/* "2" or "1,2". */
typedef struct bench_threads {
    int counts[BENCH_MAX_THREAD_COUNTS], n;
} bench_threads;

static inline bool bench_parse_threads(bench_threads *t, const char *text) {
    char *end = (char *)text;
    for (t->n = 0; t->n < BENCH_MAX_THREAD_COUNTS; text = end + 1) {
        t->counts[t->n++] = (int)strtol(text, &end, 10);
        if (end == text || t->counts[t->n - 1] < 1) return false;
        if (*end != ',') break;
    }
    return *end == '\0';
}

/* Whether a name contains one of the words "a,b,c"; NULL: any name. */
static inline bool bench_is_named(const char *name, const char *words) {
    char word[48];
    bool named = !words;
    for (const char *at = words; at && *at && !named; at += strcspn(at, ","), at += *at == ',') {
        snprintf(word, sizeof word, "%.*s", (int)strcspn(at, ","), at);
        named = strstr(name, word) != NULL;
    }
    return named;
}

/* "cpu" or "cuda", which has to be usable. */
static inline bool bench_parse_device(bool *cuda, const char *text) {
    const char *reason = "";
    *cuda = !strcmp(text, "cuda");
    if (!*cuda) return !strcmp(text, "cpu");
    if (amp_device_is_usable(AMP_DEVICE_CUDA, &reason)) return true;
    fprintf(stderr, BENCH_NAME ": cuda cannot be used: %s\n", reason);
    exit(1);
}

/* "cpu" or "wall". */
static inline bool bench_parse_clock(const char *text) {
    bench_clock = !strcmp(text, "cpu") ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
    return !strcmp(text, "cpu") || !strcmp(text, "wall");
}

/* CPU time is one thread's: it says nothing of several. */
static inline bool bench_clock_suits(int threads) {
    if (bench_clock == CLOCK_MONOTONIC || threads == 1) return true;
    fprintf(stderr, BENCH_NAME ": --clock cpu counts one thread: it needs --threads 1\n");
    return false;
}

/* ---- The machine ------------------------------------------------------------------------------------------------ */

/* The members of a JSON object that every bench begins with; a comma has to follow. */
static inline void bench_print_machine(FILE *json) {
    char date[32];
    const time_t now = time(NULL);
    strftime(date, sizeof date, "%Y-%m-%d", localtime(&now));
    fprintf(json,
            "\"bench\": \"%s\", \"date\": \"%s\", \"cpu\": \"%s\", \"isa\": \"%s\", \"clock\": \"%s\", "
            "\"libamp\": \"%s\", \"onednn\": \"%s\", \"openmp\": \"%s\", \"compiler\": \"%s\"",
            BENCH_NAME, date, amp_cpu()->model, amp_isa_name(amp_isa_best()),
            bench_clock == CLOCK_MONOTONIC ? "wall" : "cpu", amp_version_string(), amp_onednn_version(),
            amp_openmp_version(), __VERSION__);
}

#endif /* AMP_BENCH_COMMON_H */
