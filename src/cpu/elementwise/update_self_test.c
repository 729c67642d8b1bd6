/* The self-test of steps of optimizers: each formula with each of its states, tails, isolation of NaN in neighbours. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cpu/registry/kernels.h"

enum { LENGTH = 67, ARRAYS = 2 + AMP_UPDATE_STATES };

typedef struct formula {
    amp_update_kind kind;
    int states;
    double numbers[8];
} formula;

static const formula formulas[] = {
    {AMP_UPDATE_SGD, 0, {1, 0.01, 0.1}},
    {AMP_UPDATE_SGD, 1, {-1, 0.01, 0.1, 0.9, 0.8, 0, 0}},
    {AMP_UPDATE_SGD, 1, {1, 0, 0.1, 0.9, 0.8, 1, 1}},
    {AMP_UPDATE_ADAM, 2, {1, 0.01, 0.999, 0.9, 0.99, 1e-8, 0.01, 1.5}},
    {AMP_UPDATE_ADAM, 3, {-1, 0, 1, 0.9, 0.99, 1e-8, 0.01, 1.5}},
    {AMP_UPDATE_ADAGRAD, 1, {1, 0.01, 0.1, 1e-8}},
    {AMP_UPDATE_RMSPROP, 1, {1, 0.01, 0.1, 0.99, 1e-8, 0, 0}},
    {AMP_UPDATE_RMSPROP, 2, {1, 0.01, 0.1, 0.99, 1e-8, 0, 1}},
    {AMP_UPDATE_RMSPROP, 3, {1, 0, 0.1, 0.99, 1e-8, 0.9, 1}},
    {AMP_UPDATE_ADADELTA, 2, {1, 0.01, 0.1, 0.9, 1e-6}},
    {AMP_UPDATE_NADAM, 2, {1, 0.01, 0.999, 0.9, 0.99, 1e-8, 0.1, 0.2}},
    {AMP_UPDATE_RADAM, 2, {1, 0.01, 0.999, 0.9, 0.99, 1e-8, 0.1, 1}},
    {AMP_UPDATE_RADAM, 2, {1, 0.01, 0.999, 0.9, 0.99, 1e-8, 0.1, 0}},
    {AMP_UPDATE_ADAMAX, 2, {1, 0.01, 0.1, 0.9, 0.99, 1e-8}},
};

typedef union elements {
    float f32[LENGTH];
    double f64[LENGTH];
} elements;

static double number(amp_dtype dtype, const elements *e, int i) {
    return dtype == AMP_F64 ? e->f64[i] : (double)e->f32[i];
}

/* Parameters and gradients of either sign, states that are squares; a NaN, an infinity and a denormal of each. */
static void fill(amp_dtype dtype, elements e[ARRAYS]) {
    for (int a = 0; a < ARRAYS; a++) {
        for (int i = 0; i < LENGTH; i++) {
            double x = 0.01 * ((i * 37 + a * 11) % 101 + 1) * (a < 2 && i % 3 == 0 ? -1 : 1);
            if (i == 7 + a) x = NAN;
            if (i == 20 + a) x = INFINITY;
            if (i == 40 + a) x = 1e-39;
            if (dtype == AMP_F64)
                e[a].f64[i] = x;
            else
                e[a].f32[i] = (float)x;
        }
    }
}

static void run(const amp_kernel *kernel, const formula *f, int count, elements e[ARRAYS]) {
    amp_update_block b = {f->kind, f->numbers, count, &e[0], &e[1], {NULL}};
    for (int k = 0; k < f->states; k++) b.states[k] = &e[2 + k];
    ((amp_update_function *)kernel->function)(&b);
}

/* Both, of `count` elements; what lies behind them stays. */
static bool check(const amp_kernel *kernel, const amp_kernel *reference, int index, int count, char *message,
                  size_t size) {
    const formula *f = &formulas[index];
    elements got[ARRAYS], want[ARRAYS];
    memset(got, 0, sizeof got);
    fill(kernel->in, got);
    memcpy(want, got, sizeof want);
    run(kernel, f, count, got);
    run(reference, f, count, want);
    for (int a = 0; a < ARRAYS; a++) {
        for (int i = 0; i < LENGTH; i++) {
            const double g = number(kernel->in, &got[a], i), w = number(kernel->in, &want[a], i);
            if (g == w || (g != g && w != w)) continue;
            snprintf(message, size, "formula %d, array %d, element %d of %d is %a, the reference's %a", index, a, i,
                     count, g, w);
            return false;
        }
    }
    return true;
}

bool amp_update_self_test(const amp_kernel *kernel, const amp_kernel *reference, char *message, size_t size) {
    for (int index = 0; index < (int)(sizeof formulas / sizeof *formulas); index++) {
        for (int count = 0; count <= LENGTH; count++) {
            if (!check(kernel, reference, index, count, message, size)) return false;
        }
    }
    return true;
}
