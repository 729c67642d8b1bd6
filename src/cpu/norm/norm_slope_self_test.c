/* What each row of the families that apply statistics, and of gradients of norms and softmax, must pass before its first
 * use: every tail length, neighbours untouched, a NaN beyond the end not seen, values as the reference has them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cpu/registry/kernels.h"

enum { LENGTH = 150, GUARD = 4, ROOM = LENGTH + GUARD, ROWS = 3 };
static const float guard_value = 12352.0f; /* a bf16 number */

/* Numbers in the dtype of a row of the registry. */
typedef struct values {
    float f32[ROWS * ROOM];
    uint16_t bf16[ROWS * ROOM];
} values;

static bool is_narrow(const amp_kernel *kernel) {
    return kernel->in == AMP_BF16;
}
static void *in(const amp_kernel *kernel, values *x) {
    return is_narrow(kernel) ? (void *)x->bf16 : x->f32;
}
static float at(const amp_kernel *kernel, const values *x, int i) {
    return is_narrow(kernel) ? amp_f32_from_bf16(x->bf16[i]) : x->f32[i];
}

static void set(values *x, int i, float value) {
    x->f32[i] = value;
    x->bf16[i] = amp_bf16_from_f32(value);
}

static void fill_numbers(float *x, int n, uint32_t state) {
    for (int i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = (float)(state >> 8) / 16777216.0f * 4.0f - 1.0f;
    }
}
static void fill(values *x, int n, uint32_t state) {
    fill_numbers(x->f32, n, state);
    for (int i = 0; i < n; i++) set(x, i, x->f32[i]);
}
static void guard(values *x) {
    for (int i = 0; i < ROOM; i++) set(x, i, guard_value);
}

static bool near(double a, double b, double tolerance) {
    return (a != a && b != b) || fabs(a - b) <= tolerance * fmax(1.0, fabs(b));
}
/* Sums of n terms, the largest of which is 9. */
static bool near_sums(double a, double b, int n) {
    return near(a, b, 1e-5 * (n + 10));
}

/* The first n elements are near those of the reference, and those behind them are as they were. */
static bool agree(const amp_kernel *kernel, const values *got, const values *want, int n, const char *what,
                  char *message, size_t size) {
    for (int i = 0; i < ROOM; i++) {
        const float x = at(kernel, got, i), y = at(kernel, want, i);
        if (i < n ? near((double)x, (double)y, is_narrow(kernel) ? 0x1p-7 : 1e-5) : x == guard_value) continue;
        snprintf(message, size, "%s: element %d of %d is %a, the reference gives %a", what, i, n, (double)x, (double)y);
        return false;
    }
    return true;
}

static bool agree_sums(const float *got, const float *want, int n, const char *what, char *message, size_t size) {
    for (int i = 0; i < ROOM; i++) {
        if (i < n ? near_sums((double)got[i], (double)want[i], 1) : got[i] == guard_value) continue;
        snprintf(message, size, "%s: element %d of %d is %a, the reference gives %a", what, i, n, (double)got[i],
                 (double)want[i]);
        return false;
    }
    return true;
}

bool amp_slope_sums_self_test(const amp_kernel *kernel, const amp_kernel *reference, char *message, size_t size) {
    values x, d;
    for (int n = 0; n < LENGTH; n++) {
        fill(&x, LENGTH, (uint32_t)n);
        fill(&d, LENGTH, (uint32_t)n + 1000u);
        set(&x, n, NAN);
        set(&d, n, NAN);
        amp_slope_sums got = {{3.0, 2.0, 5.0}, 1.0, 2.0}, want = got;
        ((amp_slope_sums_function *)kernel->function)(&got, in(kernel, &x), in(kernel, &d), n);
        ((amp_slope_sums_function *)reference->function)(&want, in(kernel, &x), in(kernel, &d), n);
        if (near_sums(got.moments.mean, want.moments.mean, 1) && near_sums(got.d, want.d, n) &&
            near_sums(got.moments.squares, want.moments.squares, n) && near_sums(got.dot, want.dot, n))
            continue;
        snprintf(message, size, "%d elements give %a and %a, the reference %a and %a", n, got.d, got.dot, want.d,
                 want.dot);
        return false;
    }
    return true;
}

bool amp_slope_columns_self_test(const amp_kernel *kernel, const amp_kernel *reference, char *message, size_t size) {
    values x, d;
    float centre[LENGTH];
    double got[AMP_SLOPE_COLUMN_SUMS * ROOM], want[AMP_SLOPE_COLUMN_SUMS * ROOM];
    fill(&x, ROWS * LENGTH, 1u);
    fill(&d, ROWS * LENGTH, 2u);
    fill_numbers(centre, LENGTH, 3u);
    for (int n = 0; n < LENGTH; n++) {
        for (int i = 0; i < AMP_SLOPE_COLUMN_SUMS * ROOM; i++) got[i] = want[i] = 0.25 * i;
        ((amp_slope_columns_function *)kernel->function)(got, ROOM, in(kernel, &x), in(kernel, &d), centre, ROWS, n);
        ((amp_slope_columns_function *)reference->function)(want, ROOM, in(kernel, &x), in(kernel, &d), centre, ROWS,
                                                            n);
        for (int i = 0; i < AMP_SLOPE_COLUMN_SUMS * ROOM; i++) {
            if (near_sums(got[i], want[i], ROWS)) continue;
            snprintf(message, size, "sum %d of column %d of %d is %a, the reference gives %a", i / ROOM, i % ROOM, n,
                     got[i], want[i]);
            return false;
        }
    }
    return true;
}

bool amp_norm_slope_self_test(const amp_kernel *kernel, const amp_kernel *reference, char *message, size_t size) {
    values x, d, got, want;
    float numbers[4][ROOM];
    fill(&x, ROOM, 1u);
    fill(&d, ROOM, 2u);
    for (int i = 0; i < 4; i++) fill_numbers(numbers[i], ROOM, 3u + (uint32_t)i);
    const amp_norm_slope_numbers p = {numbers[0], numbers[1], numbers[2], numbers[3]};
    for (int n = 0; n < LENGTH; n++) {
        guard(&got);
        guard(&want);
        ((amp_norm_slope_function *)kernel->function)(in(kernel, &got), in(kernel, &x), in(kernel, &d), &p, n);
        ((amp_norm_slope_function *)reference->function)(in(kernel, &want), in(kernel, &x), in(kernel, &d), &p, n);
        if (!agree(kernel, &got, &want, n, "gradient", message, size)) return false;
    }
    return true;
}

bool amp_standardize_self_test(const amp_kernel *kernel, const amp_kernel *reference, char *message, size_t size) {
    values x, got, want;
    float numbers[3][ROOM];
    fill(&x, ROOM, 1u);
    for (int i = 0; i < 3; i++) fill_numbers(numbers[i], ROOM, 2u + (uint32_t)i);
    set(&x, 5, NAN);
    for (int n = 0; n < LENGTH; n++) {
        const float least = n % 2 ? 0.0f : -INFINITY;
        const amp_standardize_numbers p = {numbers[0], numbers[1], numbers[2], least};
        guard(&got);
        guard(&want);
        ((amp_standardize_function *)kernel->function)(in(kernel, &got), in(kernel, &x), &p, n);
        ((amp_standardize_function *)reference->function)(in(kernel, &want), in(kernel, &x), &p, n);
        if (!agree(kernel, &got, &want, n, "result", message, size)) return false;
    }
    return true;
}

typedef struct row {
    values out;
    float weight[ROOM], bias[ROOM];
} row;

static void run_row(const amp_kernel *kernel, row *to, values *x, values *d, const float *weight, bool centred, int n) {
    guard(&to->out);
    for (int i = 0; i < ROOM; i++) to->weight[i] = to->bias[i] = i < n ? (float)i : guard_value;
    const amp_norm_row p = {weight, to->weight, weight ? to->bias : NULL, 1e-3, centred};
    ((amp_norm_row_slope_function *)kernel->function)(in(kernel, &to->out), in(kernel, x), in(kernel, d), &p, n);
}

bool amp_norm_row_slope_self_test(const amp_kernel *kernel, const amp_kernel *reference, char *message, size_t size) {
    values x, d;
    float weight[LENGTH];
    row got, want;
    for (int n = 0; n < LENGTH; n++) {
        const bool is_plain = n % 3 == 0, is_centred = n % 2 == 0;
        fill(&x, LENGTH, 1u);
        fill(&d, LENGTH, 2u);
        fill_numbers(weight, LENGTH, 3u);
        set(&x, n, NAN);
        set(&d, n, NAN);
        weight[n] = NAN;
        run_row(kernel, &got, &x, &d, is_plain ? NULL : weight, is_centred, n);
        run_row(reference, &want, &x, &d, is_plain ? NULL : weight, is_centred, n);
        if (!agree(kernel, &got.out, &want.out, n, "gradient", message, size) ||
            !agree_sums(got.weight, want.weight, n, "weight's", message, size) ||
            !agree_sums(got.bias, want.bias, n, "bias's", message, size))
            return false;
    }
    return true;
}

bool amp_softmax_slope_self_test(const amp_kernel *kernel, const amp_kernel *reference, char *message, size_t size) {
    values d, y, got, want;
    for (int n = 0; n < LENGTH; n++) {
        fill(&d, LENGTH, 1u);
        fill(&y, LENGTH, 2u);
        for (int i = 0; i < n; i++) set(&y, i, y.f32[i] / 100.0f);
        set(&d, n, NAN);
        set(&y, n, NAN);
        guard(&got);
        guard(&want);
        ((amp_softmax_slope_function *)kernel->function)(in(kernel, &got), in(kernel, &d), in(kernel, &y), n);
        ((amp_softmax_slope_function *)reference->function)(in(kernel, &want), in(kernel, &d), in(kernel, &y), n);
        if (!agree(kernel, &got, &want, n, "gradient", message, size)) return false;
    }
    return true;
}
