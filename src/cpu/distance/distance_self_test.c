/* What each row of the distance families must pass before its first use: every tail length, points beyond the end not
 * read into a result, neighbours untouched, a NaN in its own lane alone, values as the reference has them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cpu/registry/kernels.h"

enum { POINTS = 80, DEPTH = 70, GUARD = 4 };
static const float guard_value = 12345.5f;

static bool agree(float a, float b) {
    return (a != a && b != b) || fabsf(a - b) <= 2e-6f * fmaxf(1.0f, fabsf(b));
}

bool amp_distance_self_test(const amp_kernel *kernel, const amp_kernel *reference, char *message, size_t size) {
    float a[DEPTH], b[DEPTH * POINTS];
    uint32_t state = 9u;
    for (int i = 0; i < DEPTH * POINTS; i++) {
        state = state * 1664525u + 1013904223u;
        b[i] = (float)(state >> 8) / 16777216.0f - 0.5f;
    }
    memcpy(a, b + POINTS, sizeof a);
    b[3 * POINTS + 5] = NAN;
    b[3 * POINTS + 20] = INFINITY;
    for (int n = 0; n <= POINTS; n++) {
        const int64_t depth = n * 7 % (DEPTH + 1);
        float got[POINTS + GUARD], want[POINTS + GUARD];
        for (int i = 0; i < POINTS + GUARD; i++) got[i] = want[i] = guard_value;
        ((amp_distance_function *)kernel->function)(got, a, b, POINTS, depth, n);
        ((amp_distance_function *)reference->function)(want, a, b, POINTS, depth, n);
        for (int i = 0; i < POINTS + GUARD; i++) {
            if (agree(got[i], want[i]) || got[i] == want[i]) continue;
            snprintf(message, size, "point %d of %d at depth %d is %a, the reference gives %a", i, n, (int)depth,
                     (double)got[i], (double)want[i]);
            return false;
        }
    }
    return true;
}
