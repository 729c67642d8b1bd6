/* Calls counted by routine, shape and way, and the report when the process ends. A process that has called no BLAS says
 * nothing; the child of a fork counts for itself. */
#include "blas/module/report.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 1024, FULL = ROWS * 3 / 4 };

static amp_blas_row rows[ROWS]; /* by hash */
static int used;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void take_lock(void) {
    pthread_mutex_lock(&lock);
}

static void give_lock(void) {
    pthread_mutex_unlock(&lock);
}

static void begin_child(void) {
    memset(rows, 0, sizeof rows);
    used = 0;
    give_lock();
}

static void watch_forks(void) {
    (void)pthread_atfork(take_lock, give_lock, begin_child);
}

static bool is_same(const amp_blas_row *row, const amp_blas_row *key) {
    return strcmp(row->routine, key->routine) == 0 && row->way == key->way && row->why == key->why &&
           row->shape.m == key->shape.m && row->shape.n == key->shape.n && row->shape.k == key->shape.k &&
           row->shape.rows == key->shape.rows && strcmp(row->shape.flags, key->shape.flags) == 0;
}

static uint64_t hash_of(const amp_blas_row *key) {
    const uint64_t parts[] = {(uint64_t)key->shape.m, (uint64_t)key->shape.n, (uint64_t)key->shape.k,
                              (uintptr_t)key->way ^ (uintptr_t)key->why, (uint64_t)(unsigned char)key->routine[1]};
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) hash = (hash ^ parts[i]) * 1099511628211u;
    return hash ^ hash >> 29;
}

/* The row of a call; once there are many, what is new is counted by routine and way alone. */
static amp_blas_row *row_of(amp_blas_row key) {
    for (int round = 0;; round++) {
        for (uint64_t at = hash_of(&key);; at++) {
            amp_blas_row *row = &rows[at % ROWS];
            if (row->routine && is_same(row, &key)) return row;
            if (row->routine) continue;
            if (used >= FULL && round == 0) break;
            *row = key;
            used++;
            return row;
        }
        key.shape = (amp_blas_shape){.m = 0};
    }
}

static double largest(double a, double b) {
    return a >= b ? a : b; /* b, if it is NaN */
}

void amp_blas_count(const amp_blas_call *call, double original, const amp_blas_errors *errors) {
    const amp_blas_outcome *o = &call->outcome;
    pthread_once(&once, watch_forks);
    take_lock();
    amp_blas_row *row = row_of((amp_blas_row){call->symbol->routine, o->way, o->why, .shape = call->shape});
    row->calls++;
    row->ours += o->way ? call->seconds : 0;
    row->original += original;
    if (errors) {
        row->checked++;
        row->saved += original - call->seconds;
        row->errors.ours = largest(row->errors.ours, errors->ours);
        row->errors.original = largest(row->errors.original, errors->original);
    }
    give_lock();
}

static int slower_first(const void *a, const void *b) {
    const amp_blas_row *x = a, *y = b;
    const double s = x->ours + x->original, t = y->ours + y->original;
    return (s < t) - (s > t);
}

__attribute__((destructor)) static void write_report(void) {
    if (used == 0) return; /* what is counted, is wanted */
    const amp_blas_settings *s = amp_blas_settings_get();
    take_lock();
    int count = 0;
    for (int i = 0; i < ROWS; i++)
        if (rows[i].routine) rows[count++] = rows[i];
    qsort(rows, (size_t)count, sizeof *rows, slower_first);
    FILE *to = strcmp(s->report, "-") == 0 ? stderr : fopen(s->report, "a");
    if (!to) perror(s->report);
    if (to) (s->json ? amp_blas_print_json : amp_blas_print_text)(to, rows, count);
    if (to && to != stderr) fclose(to);
    memset(rows, 0, sizeof rows);
    used = 0;
    give_lock();
}
