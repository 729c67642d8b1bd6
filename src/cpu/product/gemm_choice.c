/* Whose f32 product with packed weights runs: our own, or oneDNN's, which reads the same packed form. Which is faster
 * depends on the extents in ways that no rule holds, so both compute the first product of each kind, and the table of
 * choices (cpu/choices.h) keeps what the clock said. */
#include "cpu/product/gemm_choice.h"

#include <stdio.h>
#include <string.h>

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

/* Not below the extent, but for one beyond 2^30. */
static int32_t power_of_two(int64_t extent) {
    const int bits = extent < 2 ? 0 : 64 - __builtin_clzll((uint64_t)extent - 1);
    return INT32_C(1) << (bits < 30 ? bits : 30);
}

static void name_kind(const int32_t *key, char *name, size_t size) {
    const kind *k = (const kind *)(const void *)key;
    snprintf(name, size, "%d_%d_%d", k->m, k->n, k->k);
}

/* A caller's product. */
typedef struct problem {
    const amp_gemm *g;
    const amp_dnnl_matmul *d;
    int64_t rows;
} problem;

/* Its first rows, into memory of our own. */
typedef struct trial {
    amp_gemm ours;
    amp_dnnl_matmul theirs;
} trial;

static trial trial_of(const problem *p, float *c) {
    trial t = {*p->g, *p->d};
    t.ours.m = t.theirs.m = p->rows;
    t.ours.batch = t.theirs.batch = 1;
    t.ours.alpha = t.theirs.alpha = 1.0f;
    t.ours.residual = t.theirs.residual = NULL;
    t.ours.bias = t.theirs.bias = NULL;
    t.ours.activation = AMP_GEMM_NONE;
    t.ours.c = t.theirs.c = c;
    t.ours.c_row_stride = t.theirs.c_row_stride = p->g->n;
    return t;
}

static double seconds_of(const void *context, bool ours) {
    const trial *t = context;
    const double start = amp_choice_seconds();
    const amp_status status = ours ? amp_gemm_f32(&t->ours, NULL) : amp_dnnl_matmul_f32(&t->theirs, NULL);
    return status == AMP_OK ? amp_choice_seconds() - start : -1.0;
}

/* On one thread, by its own clock: other programs of the machine disturb a team more. */
static void measure(const void *context, double *ours, double *theirs) {
    const problem *p = context;
    float *c = amp_alloc((size_t)(p->rows * p->g->n) * sizeof(float));
    if (!c) return;
    const trial t = trial_of(p, c);
    const int limit = amp_parallel_limit(1);
    amp_choice_time(seconds_of, &t, 2.0 * (double)p->rows * (double)p->g->n * (double)p->g->k, ours, theirs);
    amp_parallel_limit(limit);
    amp_free(c);
}

/* What oneDNN would compute in one piece, while other threads wait, is ours, whatever the clock of one thread says: few
 * rows with packed weights. */
bool amp_gemm_prefers_dnnl(const amp_gemm *g, const amp_dnnl_matmul *d) {
    const int64_t m = g->m < MOST_ROWS ? g->m : MOST_ROWS;
    const double products = (double)m * (double)g->n * (double)g->k;
    if (products < LEAST_PRODUCTS || products > most_products) return !amp_choose(AMP_CHOICE_GEMM_F32);
    if (!amp_dnnl_matmul_is_shared(d)) return false;
    const problem p = {g, d, m};
    const kind k = {power_of_two(m), power_of_two(g->n), power_of_two(g->k)};
    amp_choice_kind choice = {.family = AMP_CHOICE_GEMM_F32_KIND, .name = name_kind, .measure = measure, .context = &p};
    memcpy(choice.key, &k, sizeof k);
    return !amp_choose_kind(&choice);
}
