#include "measuring.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double seconds_of(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double measuring_now(void) {
    return seconds_of(CLOCK_MONOTONIC);
}

double measuring_own_time(void) {
    return seconds_of(CLOCK_THREAD_CPUTIME_ID);
}

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double measuring_median(double *times, int n) {
    qsort(times, (size_t)n, sizeof *times, ascending);
    return (times[n / 2] + times[(n - 1) / 2]) / 2;
}

double measuring_spread(double *times, int n) {
    qsort(times, (size_t)n, sizeof *times, ascending);
    return times[n - 1 - (n - 1) / 4] / times[(n - 1) / 4];
}

const char *measuring_copy_string(const char *json, const char *key, char *out, size_t size) {
    char quoted[32];
    snprintf(quoted, sizeof quoted, "\"%s\": \"", key);
    const char *start = json ? strstr(json, quoted) : NULL, *end = start ? strchr(start + strlen(quoted), '"') : NULL;
    if (end) snprintf(out, size, "%.*s", (int)(end - start - (long)strlen(quoted)), start + strlen(quoted));
    return end;
}
