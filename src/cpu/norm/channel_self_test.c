/* What each row of the channel families must pass before its first use: every tail length, neighbours untouched, a NaN
 * or an infinity beyond the end not seen, values as the reference has them. */
#include <math.h>
#include <stdio.h>

#include "cpu/registry/kernels.h"

enum { LENGTH = 150, GUARD = 4 };
static const float guard_value = 12345.5f;

static void fill(float *x, uint32_t state) {
    for (int i = 0; i < LENGTH; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = (float)(state >> 8) / 16777216.0f * 4.0f + 1.0f;
    }
}

static bool near(double a, double b) {
    return (a != a && b != b) || fabs(a - b) <= 2e-6 * fmax(1.0, fabs(b));
}

bool amp_moments_self_test(const amp_kernel *kernel, const amp_kernel *reference, char *message, size_t size) {
    float in[LENGTH];
    for (int n = 0; n < LENGTH; n++) {
        fill(in, (uint32_t)n);
        in[n] = NAN;
        if (n % 7 == 6) in[n / 2] = NAN;
        amp_moments got = {3.0, 2.0, 5.0}, want = got;
        ((amp_moments_function *)kernel->function)(&got, in, n);
        ((amp_moments_function *)reference->function)(&want, in, n);
        if (got.count == want.count && near(got.mean, want.mean) && near(got.squares, want.squares)) continue;
        snprintf(message, size, "%d elements give %a and %a, the reference %a and %a", n, got.mean, got.squares,
                 want.mean, want.squares);
        return false;
    }
    return true;
}

bool amp_column_sums_self_test(const amp_kernel *kernel, const amp_kernel *reference, char *message, size_t size) {
    float in[LENGTH];
    fill(in, 1u);
    for (int n = 0; n < LENGTH; n++) {
        double got[2][LENGTH], want[2][LENGTH];
        for (int i = 0; i < LENGTH; i++) got[0][i] = got[1][i] = want[0][i] = want[1][i] = 0.25 * i;
        ((amp_column_sums_function *)kernel->function)(got[0], got[1], in, n);
        ((amp_column_sums_function *)reference->function)(want[0], want[1], in, n);
        for (int i = 0; i < LENGTH; i++) {
            if (near(got[0][i], want[0][i]) && near(got[1][i], want[1][i])) continue;
            snprintf(message, size, "sums of column %d of %d differ from the reference's", i, n);
            return false;
        }
    }
    return true;
}

bool amp_respond_self_test(const amp_kernel *kernel, const amp_kernel *reference, char *message, size_t size) {
    float a[LENGTH], b[LENGTH];
    const float *const in[] = {a, b, a};
    fill(a, 6u);
    fill(b, 7u);
    a[5] = NAN;
    for (int n = 0; n <= LENGTH; n++) {
        const amp_response r = {1.5f, 0.25f, 2 + n % 3};
        const int count = 1 + n % 2 * 2;
        float got[LENGTH + GUARD], want[LENGTH];
        for (int i = 0; i < LENGTH + GUARD; i++) got[i] = guard_value;
        ((amp_respond_function *)kernel->function)(got, b, in, count, &r, n);
        ((amp_respond_function *)reference->function)(want, b, in, count, &r, n);
        for (int i = 0; i < LENGTH + GUARD; i++) {
            if (i < n ? near((double)got[i], (double)want[i]) : got[i] == guard_value) continue;
            snprintf(message, size, "element %d of %d is %a", i, n, (double)got[i]);
            return false;
        }
    }
    return true;
}
