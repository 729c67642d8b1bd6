/* What each row of the dense f32 families must pass before its first use: every tail length, neighbours untouched, a
 * NaN in one lane seen in that lane alone, values as the reference has them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cpu/kernels.h"

enum { LENGTH = 67, GUARD = 4 };
static const float guard_value = 12345.5f;

/* Values of every kind: signs, subnormals, large, infinities, one NaN. */
static void fill(float *x, int seed) {
    uint32_t state = 12345u + (uint32_t)seed;
    for (int i = 0; i < LENGTH; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = ((float)(state >> 8) / 16777216.0f - 0.5f) * (i % 3 ? 6.0f : 60.0f);
    }
    const float special[] = {0.0f, -0.0f, 1e-40f, -1e-40f, INFINITY, -INFINITY, NAN, 1e30f, -1e30f, 1.0f};
    for (int i = 0; i < 10; i++) x[(i * 7 + seed) % LENGTH] = special[i];
}

/* Finite values of ordinary size, for rows that a NaN would fill whole. */
static void fill_plain(float *x, int seed) {
    uint32_t state = 777u + (uint32_t)seed;
    for (int i = 0; i < LENGTH; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = ((float)(state >> 8) / 16777216.0f - 0.5f) * 8.0f;
    }
}

static bool same(float a, float b) {
    return (a != a && b != b) || !memcmp(&a, &b, sizeof a);
}

static bool near(float a, float b) {
    return (a != a && b != b) || a == b || fabsf(a - b) <= 2e-6f * fmaxf(1.0f, fabsf(b));
}

static void prepare(float *out) {
    for (int i = 0; i < LENGTH + GUARD; i++) out[i] = guard_value;
}

static bool agree(const float *got, const float *want, int n, bool exact, char *message, size_t size) {
    for (int i = 0; i < n; i++) {
        if (exact ? same(got[i], want[i]) : near(got[i], want[i])) continue;
        snprintf(message, size, "element %d of %d is %a, the reference gives %a", i, n, (double)got[i],
                 (double)want[i]);
        return false;
    }
    for (int i = n; i < LENGTH + GUARD; i++) {
        if (got[i] == guard_value) continue;
        snprintf(message, size, "it wrote element %d of %d", i, n);
        return false;
    }
    return true;
}

bool amp_unary_self_test(const amp_kernel *kernel, const amp_kernel *reference, char *message, size_t size) {
    float in[LENGTH], got[LENGTH + GUARD], want[LENGTH + GUARD];
    fill(in, 0);
    for (int n = 0; n <= LENGTH; n++) {
        prepare(got);
        ((amp_unary_function *)kernel->function)(got, in, n);
        ((amp_unary_function *)reference->function)(want, in, n);
        if (!agree(got, want, n, true, message, size)) return false;
    }
    return true;
}

bool amp_unary_with_self_test(const amp_kernel *kernel, const amp_kernel *reference, char *message, size_t size) {
    float in[LENGTH], got[LENGTH + GUARD], want[LENGTH + GUARD];
    fill(in, 4);
    for (int n = 0; n <= LENGTH; n++) {
        prepare(got);
        ((amp_unary_with_function *)kernel->function)(got, in, n, 0.75f, 2.5f);
        ((amp_unary_with_function *)reference->function)(want, in, n, 0.75f, 2.5f);
        if (!agree(got, want, n, true, message, size)) return false;
    }
    return true;
}

bool amp_binary_self_test(const amp_kernel *kernel, const amp_kernel *reference, char *message, size_t size) {
    float a[LENGTH], b[LENGTH], got[LENGTH + GUARD], want[LENGTH + GUARD];
    fill(a, 1);
    fill(b, 2);
    for (int n = 0; n <= LENGTH; n++) {
        prepare(got);
        ((amp_binary_function *)kernel->function)(got, a, b, n, 0.75f);
        ((amp_binary_function *)reference->function)(want, a, b, n, 0.75f);
        if (!agree(got, want, n, true, message, size)) return false;
    }
    return true;
}

bool amp_reduce_self_test(const amp_kernel *kernel, const amp_kernel *reference, char *message, size_t size) {
    float in[LENGTH];
    for (int n = 0; n <= LENGTH; n++) {
        fill_plain(in, n);
        if (n % 5 == 4) in[n / 2] = NAN;
        const float got = (float)((amp_reduce_function *)kernel->function)(in, n);
        const float want = (float)((amp_reduce_function *)reference->function)(in, n);
        if (near(got, want)) continue;
        snprintf(message, size, "%d elements give %a, the reference %a", n, (double)got, (double)want);
        return false;
    }
    return true;
}

bool amp_centred_self_test(const amp_kernel *kernel, const amp_kernel *reference, char *message, size_t size) {
    float in[LENGTH];
    for (int n = 0; n <= LENGTH; n++) {
        double got[2] = {0.0, 0.0}, want[2] = {0.0, 0.0};
        fill_plain(in, n);
        if (n % 5 == 4) in[n / 2] = NAN;
        ((amp_centred_function *)kernel->function)(got, in, n, 0.25f);
        ((amp_centred_function *)reference->function)(want, in, n, 0.25f);
        if (near((float)got[0], (float)want[0]) && near((float)got[1], (float)want[1])) continue;
        snprintf(message, size, "%d elements give %a, %a, the reference %a, %a", n, got[0], got[1], want[0], want[1]);
        return false;
    }
    return true;
}

bool amp_dot_self_test(const amp_kernel *kernel, const amp_kernel *reference, char *message, size_t size) {
    float a[LENGTH], b[LENGTH];
    for (int n = 0; n <= LENGTH; n++) {
        fill_plain(a, n);
        fill_plain(b, 200 + n);
        if (n % 5 == 4) a[n / 2] = NAN;
        const double got = ((amp_dot_function *)kernel->function)(a, b, n);
        const double want = ((amp_dot_function *)reference->function)(a, b, n);
        if ((got != got && want != want) || fabs(got - want) <= 1e-4) continue; /* of at most 67 products up to 16 */
        snprintf(message, size, "%d elements give %a, the reference %a", n, got, want);
        return false;
    }
    return true;
}

bool amp_accumulate_self_test(const amp_kernel *kernel, const amp_kernel *reference, char *message, size_t size) {
    float in[LENGTH];
    fill(in, 3);
    for (int n = 0; n <= LENGTH; n++) {
        double got[LENGTH + 1], want[LENGTH + 1];
        for (int i = 0; i <= LENGTH; i++) got[i] = want[i] = 0.25 * i;
        ((amp_accumulate_function *)kernel->function)(got, in, n);
        ((amp_accumulate_function *)reference->function)(want, in, n);
        for (int i = 0; i <= LENGTH; i++) {
            if ((got[i] != got[i] && want[i] != want[i]) || got[i] == want[i]) continue;
            snprintf(message, size, "element %d of %d is %a, the reference gives %a", i, n, got[i], want[i]);
            return false;
        }
    }
    return true;
}

bool amp_row_self_test(const amp_kernel *kernel, const amp_kernel *reference, char *message, size_t size) {
    float in[LENGTH], got[LENGTH + GUARD], want[LENGTH + GUARD];
    for (int n = 1; n <= LENGTH; n++) {
        fill_plain(in, n);
        if (n % 7 == 6) in[n / 2] = NAN;
        prepare(got);
        ((amp_row_function *)kernel->function)(got, in, n);
        ((amp_row_function *)reference->function)(want, in, n);
        if (!agree(got, want, n, false, message, size)) return false;
    }
    return true;
}

bool amp_norm_self_test(const amp_kernel *kernel, const amp_kernel *reference, char *message, size_t size) {
    float in[LENGTH], weight[LENGTH], bias[LENGTH], got[LENGTH + GUARD], want[LENGTH + GUARD];
    fill_plain(weight, 100);
    fill_plain(bias, 101);
    for (int n = 1; n <= LENGTH; n++) {
        fill_plain(in, n);
        if (n % 7 == 6) in[n / 2] = NAN;
        const float *w = n % 3 ? weight : NULL, *b = n % 2 ? bias : NULL;
        prepare(got);
        ((amp_norm_function *)kernel->function)(got, in, w, b, n, 1e-5);
        ((amp_norm_function *)reference->function)(want, in, w, b, n, 1e-5);
        if (!agree(got, want, n, false, message, size)) return false;
    }
    return true;
}

enum { LINES = 5 };

bool amp_lines_self_test(const amp_kernel *kernel, const amp_kernel *reference, char *message, size_t size) {
    float lines[LINES][LENGTH], got[LENGTH + GUARD], want[LENGTH + GUARD];
    const float weights[LINES] = {0.75f, -1.5f, 3.0f, 0.0f, 1e-3f};
    const float *in[LINES];
    for (int k = 0; k < LINES; k++) {
        fill(lines[k], k);
        in[k] = lines[k];
    }
    for (int n = 0; n <= LENGTH; n++) {
        const int64_t count = 1 + n % LINES;
        prepare(got);
        ((amp_lines_function *)kernel->function)(got, in, weights, count, n);
        ((amp_lines_function *)reference->function)(want, in, weights, count, n);
        if (!agree(got, want, n, true, message, size)) return false;
    }
    return true;
}

bool amp_argmax_lines_self_test(const amp_kernel *kernel, const amp_kernel *reference, char *message, size_t size) {
    float lines[LINES][LENGTH], got[2][LENGTH + GUARD], want[2][LENGTH + GUARD];
    const float *in[LINES] = {lines[0], lines[1], lines[2], lines[1], lines[3]};
    for (int k = 0; k < LINES; k++) fill(lines[k], k);
    for (int n = 0; n <= LENGTH; n++) {
        const int64_t count = 1 + n % LINES;
        for (int i = 0; i < 2; i++) prepare(got[i]);
        ((amp_argmax_lines_function *)kernel->function)(got[0], got[1], in, count, n);
        ((amp_argmax_lines_function *)reference->function)(want[0], want[1], in, count, n);
        for (int i = 0; i < 2; i++) {
            if (!agree(got[i], want[i], n, true, message, size)) return false;
        }
    }
    return true;
}

bool amp_gather_taps_self_test(const amp_kernel *kernel, const amp_kernel *reference, char *message, size_t size) {
    float in[LENGTH], weights[LINES * LENGTH], got[LENGTH + GUARD], want[LENGTH + GUARD];
    int32_t index[LINES * LENGTH];
    fill(in, 0);
    for (int i = 0; i < LINES * LENGTH; i++) {
        index[i] = i % 11 ? i * 31 % LENGTH : -1 - i;
        weights[i] = (float)(i % 7) - 3.0f;
    }
    for (int n = 0; n <= LENGTH; n++) {
        const int64_t count = 1 + n % LINES;
        prepare(got);
        ((amp_gather_taps_function *)kernel->function)(got, in, index, weights, count, n);
        ((amp_gather_taps_function *)reference->function)(want, in, index, weights, count, n);
        if (!agree(got, want, n, true, message, size)) return false;
    }
    return true;
}
