/* What a kernel of attention's gradients must pass before its first use: odd extents, masks, causality, a row with no
 * key, more than one block of keys. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cpu/registry/kernels.h"

enum { MAX_ROWS = 35, MAX_KEYS = 131, STEP = 48, ROOM_BYTES = 640 * 1024, SUMS = (MAX_KEYS + 8) * STEP };

typedef struct gradients {
    float q[MAX_ROWS * STEP], k[SUMS], v[SUMS];
} gradients;

typedef struct inputs {
    float q[MAX_ROWS * STEP], k[MAX_KEYS * STEP], v[MAX_KEYS * STEP], of[MAX_ROWS * STEP], mask[MAX_ROWS * MAX_KEYS];
    uint16_t narrow_q[MAX_ROWS * STEP], narrow_k[MAX_KEYS * STEP], narrow_v[MAX_KEYS * STEP],
        narrow_of[MAX_ROWS * STEP];
    gradients got, want;
} inputs;

typedef struct shape {
    int rows, keys, depth, width;
    bool causal, masked;
} shape;

static void fill(float *x, uint16_t *narrow, int n, float size, uint32_t seed) {
    for (int i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = ((float)(seed >> 8) / 16777216.0f - 0.5f) * size;
        if (narrow) narrow[i] = amp_bf16_from_f32(x[i]);
    }
}

static void run(const amp_kernel *kernel, inputs *x, const shape *s, void *room, gradients *g) {
    const bool is_narrow = kernel->in == AMP_BF16;
    const amp_attention_head h = {.q = is_narrow ? (void *)x->narrow_q : x->q,
                                  .k = is_narrow ? (void *)x->narrow_k : x->k,
                                  .v = is_narrow ? (void *)x->narrow_v : x->v,
                                  .out = is_narrow ? (void *)x->narrow_of : x->of,
                                  .q_step = STEP,
                                  .k_step = STEP,
                                  .v_step = STEP,
                                  .out_step = STEP,
                                  .rows = s->rows,
                                  .keys = s->keys,
                                  .depth = s->depth,
                                  .width = s->width,
                                  .scale = 0.3f,
                                  .causal = s->causal,
                                  .mask = s->masked ? x->mask : NULL,
                                  .mask_row_step = MAX_KEYS,
                                  .mask_key_step = 1};
    memset(g, 0, sizeof *g);
    const amp_attention_gradients to = {g->q, g->k, g->v, amp_attention_padded(s->depth),
                                        amp_attention_padded(s->width)};
    ((amp_attention_backward_function *)kernel->function)(&h, &to, room, false);
}

static bool agree(const float *got, const float *want, int rows, int columns, float tolerance, char name, char *message,
                  size_t size) {
    const int64_t step = amp_attention_padded(columns);
    for (int i = 0; i < rows; i++) {
        for (int j = 0; j < columns; j++) {
            const float x = got[i * step + j], y = want[i * step + j];
            if (fabsf(x - y) <= tolerance) continue;
            snprintf(message, size, "%d × %d: element (%d, %d) of the gradient of %c is %a, the reference gives %a",
                     rows, columns, i, j, name, (double)x, (double)y);
            return false;
        }
    }
    return true;
}

static bool run_shape(const amp_kernel *kernel, const amp_kernel *reference, inputs *x, const shape *s, void *room,
                      char *message, size_t size) {
    const float tolerance = kernel->in == AMP_BF16 ? 0.06f : 2e-5f;
    for (int j = 0; j < s->keys; j++) x->mask[(s->rows - 1) * MAX_KEYS + j] = -INFINITY; /* a row without a key */
    run(kernel, x, s, room, &x->got);
    run(reference, x, s, room, &x->want);
    return agree(x->got.q, x->want.q, s->rows, s->depth, tolerance, 'q', message, size) &&
           agree(x->got.k, x->want.k, s->keys, s->depth, tolerance, 'k', message, size) &&
           agree(x->got.v, x->want.v, s->keys, s->width, tolerance, 'v', message, size);
}

bool amp_attention_backward_self_test(const amp_kernel *kernel, const amp_kernel *reference, char *message,
                                      size_t size) {
    static const shape shapes[] = {{1, 1, 2, 1, false, false},    {17, 64, 32, 32, false, false},
                                   {5, 65, 34, 17, false, true},  {35, 131, 5, 33, false, true},
                                   {20, 20, 16, 16, true, false}, {35, 33, 47, 40, true, false}};
    /* Static, as attention_self_test.c has it. */
    static inputs x;
    static _Alignas(64) char room[ROOM_BYTES];
    if (amp_attention_backward_bytes(MAX_KEYS, STEP, STEP) > sizeof room) {
        snprintf(message, size, "the self-test's buffer is too small");
        return false;
    }
    fill(x.q, x.narrow_q, MAX_ROWS * STEP, 4.0f, 1);
    fill(x.k, x.narrow_k, MAX_KEYS * STEP, 4.0f, 2);
    fill(x.v, x.narrow_v, MAX_KEYS * STEP, 2.0f, 3);
    fill(x.of, x.narrow_of, MAX_ROWS * STEP, 2.0f, 4);
    fill(x.mask, NULL, MAX_ROWS * MAX_KEYS, 2.0f, 5);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        if (!run_shape(kernel, reference, &x, &shapes[i], room, message, size)) return false;
    }
    return true;
}
