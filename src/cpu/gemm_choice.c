/* Whose f32 product with packed weights runs: our own, or oneDNN's, which reads the same packed form. Which is faster depends on the
 * extents in ways that no rule holds, so both compute the first product of each kind, and the table of choices (cpu/choices.h)
 * keeps what the clock said. */
#define _GNU_SOURCE /* clock_gettime */
#include "cpu/gemm_choice.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/memory.h"
#include "core/parallel.h"
#include "cpu/choices.h"

enum {
    LEAST_PRODUCTS = 1000000, /* a smaller product goes where the table's own small one does */
    MOST_ROWS = 128           /* more change nothing, but the time of a measurement */
};
static const double most_products = 8e9; /* the first caller waits for eight such runs */

/* Products that share an answer: extents of the same powers of two, rounded up. */
typedef struct kind {
    int32_t m, n, k;
} kind;

_Static_assert(sizeof(kind) <= sizeof(((amp_choice_kind *)0)->key), "a kind fits the key");

static int32_t power_of_two(int64_t extent) {
    int64_t power = 1;
    while (power < extent) power *= 2;
    return (int32_t)power;
}

static void name_kind(const int32_t *key, char *name, size_t size) {
    const kind *k = (const kind *)(const void *)key;
    snprintf(name, size, "%d_%d_%d", k->m, k->n, k->k);
}

/* The first rows of a caller's product, into memory of our own. */
typedef struct trial {
    amp_gemm ours;
    amp_dnnl_matmul theirs;
} trial;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double seconds_of(const void *context, bool ours) {
    const trial *t = context;
    const double start = now();
    const amp_status status = ours ? amp_gemm_f32(&t->ours, NULL) : amp_dnnl_matmul_f32(&t->theirs, NULL);
    return status == AMP_OK ? now() - start : -1.0;
}

/* On one thread, by its own clock: other programs of the machine disturb a team more. */
static void measure(const void *context, double *ours, double *theirs) {
    trial t = *(const trial *)context;
    float *c = amp_alloc((size_t)(t.ours.m * t.ours.n) * sizeof(float));
    if (!c) return;
    t.ours.c = t.theirs.c = c;
    const int limit = amp_parallel_limit(1);
    amp_choice_time(seconds_of, &t, 2.0 * (double)t.ours.m * (double)t.ours.n * (double)t.ours.k, ours, theirs);
    amp_parallel_limit(limit);
    amp_free(c);
}

static trial trial_of(const amp_gemm *g, const amp_dnnl_matmul *d, int64_t rows) {
    trial t = {*g, *d};
    t.ours.m = t.theirs.m = rows;
    t.ours.batch = t.theirs.batch = 1;
    t.ours.alpha = t.theirs.alpha = 1.0f;
    t.ours.residual = t.theirs.residual = NULL;
    t.ours.bias = t.theirs.bias = NULL;
    t.ours.activation = AMP_GEMM_NONE;
    t.ours.c_row_stride = t.theirs.c_row_stride = g->n;
    return t;
}

bool amp_gemm_prefers_dnnl(const amp_gemm *g, const amp_dnnl_matmul *d) {
    const int64_t m = g->m < MOST_ROWS ? g->m : MOST_ROWS;
    const double products = (double)m * (double)g->n * (double)g->k;
    if (products < LEAST_PRODUCTS || products > most_products) return !amp_choose(AMP_CHOICE_GEMM_F32);
    const trial t = trial_of(g, d, m);
    const kind k = {power_of_two(m), power_of_two(g->n), power_of_two(g->k)};
    amp_choice_kind choice = {.family = AMP_CHOICE_GEMM_F32_KIND, .name = name_kind, .measure = measure, .context = &t};
    memcpy(choice.key, &k, sizeof k);
    return !amp_choose_kind(&choice);
}
