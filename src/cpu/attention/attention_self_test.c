/* What an attention kernel must pass before its first use: odd extents, masks, causality, a row with no key, neighbours
 * of the output untouched. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cpu/registry/kernels.h"

enum { MAX_ROWS = 9, MAX_KEYS = 300, MAX_DEPTH = 34, STEP = 40, PACKED_BYTES = 96 * 1024 };

typedef struct inputs {
    float q[MAX_ROWS * STEP], k[MAX_KEYS * STEP], v[MAX_KEYS * STEP], mask[MAX_ROWS * MAX_KEYS];
    float got[MAX_ROWS * STEP], want[MAX_ROWS * STEP];
    uint16_t narrow_q[MAX_ROWS * STEP], narrow_k[MAX_KEYS * STEP], narrow_v[MAX_KEYS * STEP];
    uint16_t narrow_out[MAX_ROWS * STEP];
} inputs;

static void fill(float *x, int n, float size, uint32_t seed) {
    for (int i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = ((float)(seed >> 8) / 16777216.0f - 0.5f) * size;
    }
}

static void narrow(uint16_t *to, const float *from, int n) {
    for (int i = 0; i < n; i++) to[i] = amp_bf16_from_f32(from[i]);
}

typedef struct shape {
    int rows, keys, depth, width;
    bool causal, masked;
} shape;

/* Fills `out` (77 where nothing was written). */
static void attend(const amp_kernel *kernel, inputs *x, const shape *s, void *packed, float *out) {
    const bool is_narrow = kernel->in == AMP_BF16;
    const amp_attention_head h = {.q = is_narrow ? (void *)x->narrow_q : x->q,
                                  .k = is_narrow ? (void *)x->narrow_k : x->k,
                                  .v = is_narrow ? (void *)x->narrow_v : x->v,
                                  .out = is_narrow ? (void *)x->narrow_out : out,
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
    for (int i = 0; i < MAX_ROWS * STEP; i++) out[i] = 77.0f;
    narrow(x->narrow_out, out, MAX_ROWS * STEP);
    ((amp_attention_function *)kernel->function)(&h, packed, false);
    for (int i = 0; is_narrow && i < MAX_ROWS * STEP; i++) out[i] = amp_f32_from_bf16(x->narrow_out[i]);
}

static bool run_shape(const amp_kernel *kernel, const amp_kernel *reference, inputs *x, const shape *s, void *packed,
                      char *message, size_t size) {
    const amp_attention_head problem = {.depth = s->depth};
    if (kernel->predicate && !kernel->predicate(&problem)) return true;
    const float tolerance = kernel->in == AMP_BF16 ? 0x1p-7f : 2e-6f;
    for (int j = 0; j < s->keys; j++) x->mask[(s->rows - 1) * MAX_KEYS + j] = -INFINITY; /* a row without a key */
    attend(kernel, x, s, packed, x->got);
    attend(reference, x, s, packed, x->want);
    for (int i = 0; i < MAX_ROWS * STEP; i++) {
        const bool inside = i / STEP < s->rows && i % STEP < s->width;
        if (inside ? fabsf(x->got[i] - x->want[i]) <= tolerance : x->got[i] == 77.0f) continue;
        snprintf(message, size, "L %d, S %d, D %d, E %d: element (%d, %d) is %a, the reference gives %a", s->rows,
                 s->keys, s->depth, s->width, i / STEP, i % STEP, (double)x->got[i], (double)x->want[i]);
        return false;
    }
    return true;
}

static void fill_inputs(inputs *x) {
    fill(x->q, MAX_ROWS * STEP, 4.0f, 1);
    fill(x->k, MAX_KEYS * STEP, 4.0f, 2);
    fill(x->v, MAX_KEYS * STEP, 2.0f, 3);
    fill(x->mask, MAX_ROWS * MAX_KEYS, 2.0f, 4);
    narrow(x->narrow_q, x->q, MAX_ROWS * STEP);
    narrow(x->narrow_k, x->k, MAX_KEYS * STEP);
    narrow(x->narrow_v, x->v, MAX_KEYS * STEP);
}

bool amp_attention_self_test(const amp_kernel *kernel, const amp_kernel *reference, char *message, size_t size) {
    static const shape shapes[] = {{1, 1, 2, 1, false, false},   {4, 64, 32, 32, false, false},
                                   {5, 65, 34, 17, false, true}, {9, 300, 6, 34, false, true},
                                   {9, 9, 16, 16, true, false},  {7, 33, 32, 33, true, false},
                                   {9, 300, 32, 40, false, true}};
    /* Static: no failing allocation may quarantine a kernel. The registry's lock keeps other threads out. */
    static inputs x;
    static _Alignas(64) char packed[PACKED_BYTES];
    if (amp_attention_packed_bytes(MAX_KEYS, MAX_DEPTH, STEP) > sizeof packed) {
        snprintf(message, size, "the self-test's buffer is too small");
        return false;
    }
    fill_inputs(&x);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        if (!run_shape(kernel, reference, &x, &shapes[i], packed, message, size)) return false;
    }
    return true;
}
