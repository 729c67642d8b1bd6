/* The self-tests of vector_self_test.c for the elementwise families with bf16 on both sides: every tail length, neighbours
 * untouched, the reference's values. */
#include <stdio.h>

#include "cpu/kernels.h"

enum { LENGTH = 67, GUARD = 4, GUARD_VALUE = 0x1234 };

/* Values of every kind. */
static void fill(uint16_t *x, int seed) {
    static const uint16_t special[] = {0, 0x8000, 1, 0x8001, 0x7f80, 0xff80, 0x7fc0, 0x7149, 0xf149, 0x3f80};
    uint32_t state = 12345u + (uint32_t)seed;
    for (int i = 0; i < LENGTH; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = (uint16_t)((state >> 16 & 0x807f) | (125u + (state >> 8) % 5) << 7);
    }
    for (int i = 0; i < 10; i++) x[(i * 7 + seed) % LENGTH] = special[i];
}

static void prepare(uint16_t *out) {
    for (int i = 0; i < LENGTH + GUARD; i++) out[i] = GUARD_VALUE;
}

static bool is_nan(uint16_t x) {
    return (x & 0x7fff) > 0x7f80;
}

static bool agree(const uint16_t *got, const uint16_t *want, int n, char *message, size_t size) {
    for (int i = 0; i < LENGTH + GUARD; i++) {
        if (i < n ? got[i] == want[i] || (is_nan(got[i]) && is_nan(want[i])) : got[i] == GUARD_VALUE) continue;
        snprintf(message, size, "element %d of %d is %#x, the reference gives %#x", i, n, got[i], want[i]);
        return false;
    }
    return true;
}

bool amp_unary_bf16_self_test(const amp_kernel *kernel, const amp_kernel *reference, char *message, size_t size) {
    uint16_t in[LENGTH], got[LENGTH + GUARD], want[LENGTH + GUARD];
    fill(in, 0);
    for (int n = 0; n <= LENGTH; n++) {
        prepare(got);
        prepare(want);
        ((amp_unary_bf16_function *)kernel->function)(got, in, n);
        ((amp_unary_bf16_function *)reference->function)(want, in, n);
        if (!agree(got, want, n, message, size)) return false;
    }
    return true;
}

bool amp_binary_bf16_self_test(const amp_kernel *kernel, const amp_kernel *reference, char *message, size_t size) {
    uint16_t a[LENGTH], b[LENGTH], got[LENGTH + GUARD], want[LENGTH + GUARD];
    fill(a, 1);
    fill(b, 2);
    for (int n = 0; n <= LENGTH; n++) {
        prepare(got);
        prepare(want);
        ((amp_binary_bf16_function *)kernel->function)(got, a, b, n, 0.75f);
        ((amp_binary_bf16_function *)reference->function)(want, a, b, n, 0.75f);
        if (!agree(got, want, n, message, size)) return false;
    }
    return true;
}
