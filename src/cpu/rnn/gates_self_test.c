/* What each row of the gates' families must pass before its first use: every tail length, neighbours untouched, a NaN
 * in one lane seen in that lane alone, the reference's bits. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cpu/registry/kernels.h"

enum { LENGTH = 35, ROOM = LENGTH + 4, GATES = 4 };
static const float guard_value = 54321.5f;

static void fill(float *x, int count, int seed) {
    uint32_t state = 4242u + (uint32_t)seed;
    for (int i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = ((float)(state >> 8) / 16777216.0f - 0.5f) * (i % 5 ? 8.0f : 200.0f);
    }
}

static bool same(float a, float b) {
    return (a != a && b != b) || !memcmp(&a, &b, sizeof a);
}

typedef struct result {
    float out[ROOM], state[ROOM];
} result;

static void run(const amp_kernel *kernel, result *r, int n) {
    float x[GATES * ROOM], h[GATES * ROOM];
    fill(x, GATES * ROOM, 1);
    fill(h, GATES * ROOM, 2);
    fill(r->state, ROOM, 3);
    if (n > 3) x[ROOM + n / 2] = NAN;
    if (n > 5) x[n / 3] = INFINITY;
    for (int i = n; i < ROOM; i++) r->state[i] = guard_value;
    for (int i = 0; i < ROOM; i++) r->out[i] = guard_value;
    ((amp_gates_function *)kernel->function)(r->out, r->state, x, h, ROOM, n);
}

bool amp_gates_self_test(const amp_kernel *kernel, const amp_kernel *reference, char *message, size_t size) {
    for (int n = 0; n <= LENGTH; n++) {
        result got, want;
        run(kernel, &got, n);
        run(reference, &want, n);
        for (int i = 0; i < ROOM; i++) {
            if (same(got.out[i], want.out[i]) && same(got.state[i], want.state[i])) continue;
            snprintf(message, size, "element %d of %d is %a with state %a, the reference gives %a and %a", i, n,
                     (double)got.out[i], (double)got.state[i], (double)want.out[i], (double)want.state[i]);
            return false;
        }
    }
    return true;
}
