/* What a kernel for a part of the keys must pass before its first use: odd extents, a mask, a hidden row, NaN and
 * garbage in what is not its own. */
#include <math.h>
#include <stdio.h>

#include "cpu/registry/kernels.h"

enum { ROWS = 7, KEYS = 270, STEP = 150 };

typedef struct inputs {
    float q[ROWS * STEP], k[KEYS * STEP], v[KEYS * STEP], mask[ROWS * KEYS];
    uint16_t narrow_q[ROWS * STEP], narrow_k[KEYS * STEP], narrow_v[KEYS * STEP];
} inputs;

typedef struct result {
    amp_attention_state state[ROWS + 1];
    float sums[ROWS * STEP + 1];
} result;

/* Rows of `columns` numbers, and NaN behind them. */
static void fill(float *x, uint16_t *narrow, int rows, int columns, uint32_t seed) {
    for (int i = 0; i < rows * STEP; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = i % STEP < columns ? ((float)(seed >> 8) / 16777216.0f - 0.5f) * 2.0f : NAN;
        narrow[i] = amp_bf16_from_f32(x[i]);
    }
}

typedef struct shape {
    int rows, first, keys, depth, width;
    bool masked;
} shape;

static void run(const amp_kernel *kernel, const inputs *x, const shape *s, result *r) {
    const bool narrow = kernel->in == AMP_BF16;
    const amp_attention_head h = {.q = narrow ? (const void *)x->narrow_q : x->q,
                                  .k = narrow ? (const void *)x->narrow_k : x->k,
                                  .v = narrow ? (const void *)x->narrow_v : x->v,
                                  .q_step = STEP,
                                  .k_step = STEP,
                                  .v_step = STEP,
                                  .rows = s->rows,
                                  .keys = KEYS,
                                  .depth = s->depth,
                                  .width = s->width,
                                  .scale = 0.3f,
                                  .mask = s->masked ? x->mask : NULL,
                                  .mask_row_step = KEYS,
                                  .mask_key_step = 1};
    for (int i = 0; i <= ROWS * STEP; i++) r->sums[i] = 77.0f;
    for (int i = 0; i <= ROWS; i++) r->state[i] = (amp_attention_state){77.0f, 77.0f};
    ((amp_attention_part_function *)kernel->function)(&h, s->first, s->keys, r->state, r->sums);
}

static bool near(float a, float b) {
    return a == b || fabsf(a - b) <= 4e-6f * fmaxf(1.0f, fabsf(b));
}

bool amp_attention_part_self_test(const amp_kernel *kernel, const amp_kernel *reference, char *message, size_t size) {
    static const shape shapes[] = {
        {1, 0, 1, 1, 1, false},    {1, 3, 260, 64, 128, false}, {2, 0, 5, 17, 33, true},     {4, 10, 17, 32, 64, false},
        {7, 1, 258, 34, 20, true}, {3, 0, 270, 128, 144, true}, {5, 7, 100, 144, 15, false}, {1, 0, 0, 8, 8, false}};
    /* Static: no failing allocation may quarantine a kernel. The registry's lock keeps other threads out. */
    static inputs x;
    static result got, want;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const shape *s = &shapes[i];
        fill(x.q, x.narrow_q, ROWS, s->depth, 1);
        fill(x.k, x.narrow_k, KEYS, s->depth, 2);
        fill(x.v, x.narrow_v, KEYS, s->width, 3);
        for (int j = 0; j < ROWS * KEYS; j++) {
            x.mask[j] = j / KEYS == s->rows - 1 || j % 5 == 0 ? -INFINITY : 0.125f * (float)(j % 7);
        }
        run(kernel, &x, s, &got);
        run(reference, &x, s, &want);
        for (int j = 0; j <= ROWS * STEP; j++) {
            const int row = j <= ROWS ? j : ROWS;
            if (near(got.sums[j], want.sums[j]) && near(got.state[row].max, want.state[row].max) &&
                near(got.state[row].sum, want.state[row].sum)) {
                continue;
            }
            snprintf(message, size, "%d rows, keys %d to %d, D %d, E %d: sum %d is %a, the reference gives %a", s->rows,
                     s->first, s->first + s->keys, s->depth, s->width, j, (double)got.sums[j], (double)want.sums[j]);
            return false;
        }
    }
    return true;
}
