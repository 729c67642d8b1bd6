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

/* ---- The way back ----------------------------------------------------------------------------------------------- */
typedef struct way_result {
    float x[GATES * ROOM], h[GATES * ROOM], state[ROOM];
} way_result;

static void run_back(const amp_kernel *kernel, way_result *r, int n) {
    float x[GATES * ROOM], h[GATES * ROOM], states[2 * ROOM], out[ROOM];
    fill(x, GATES * ROOM, 1);
    fill(h, GATES * ROOM, 2);
    fill(states, 2 * ROOM, 3);
    fill(out, ROOM, 4);
    fill(r->state, ROOM, 5);
    if (n > 3) x[n / 2] = NAN;
    if (n > 5) x[ROOM + n / 3] = INFINITY;
    for (int i = 0; i < GATES * ROOM; i++) r->x[i] = r->h[i] = guard_value;
    for (int i = n; i < ROOM; i++) r->state[i] = guard_value;
    const amp_gates_way row = {out, x, h, states, states + ROOM, r->x, r->h, r->state, ROOM};
    ((amp_gates_back_function *)kernel->function)(&row, n);
}

bool amp_gates_back_self_test(const amp_kernel *kernel, const amp_kernel *reference, char *message, size_t size) {
    for (int n = 0; n <= LENGTH; n++) {
        way_result got, want;
        run_back(kernel, &got, n);
        run_back(reference, &want, n);
        for (int i = 0; i < GATES * ROOM; i++) {
            const int at = i < ROOM ? i : 0; /* of the state */
            if (same(got.x[i], want.x[i]) && same(got.h[i], want.h[i]) && same(got.state[at], want.state[at])) continue;
            snprintf(message, size, "of %d elements number %d of the gates is %a and %a, the reference gives %a and %a",
                     n, i, (double)got.x[i], (double)got.h[i], (double)want.x[i], (double)want.h[i]);
            return false;
        }
    }
    return true;
}
