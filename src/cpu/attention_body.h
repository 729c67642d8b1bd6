/* Attention of one head in f32; compiled once per ISA over simd_<isa>.h; no include guard: one file, one ISA.
 *
 * Formula:     out = Σ p_j·v_j / Σ p_j, p_j = e^(scale·q·k_j + mask_j − max), 4 rows × 256 keys at a time
 *              (attention.h).
 * Accumulator: f32. A score's products are fused in ascending d and a result's in ascending key, both in registers;
 *              the sum of a row's weights is in VL lanes for each 256 keys, folded, and added.
 * Error bound: |out − exact| ≤ (2·δ + (S + 16)·2⁻²³) · Σ p_j·|v_j| / Σ p_j with the error of a weight δ = ((D +
 *              3)·scale·Σ|q_d k_d| + 6·|score|)·2⁻²³ + 2⁻²⁰; tests/test_attention_kernels.cc holds every row to it.
 * Denormals:   kept, as MXCSR says by default.
 * ISA:         that of the simd header which is included before.
 * Source:      attention.h.
 *
 * Keys are packed transposed, in blocks of KEY_BLOCK keys: [block][depth][KEY_BLOCK], zero padded; values are read
 * where they lie. */
#include <math.h>
#include <string.h>

#include "cpu/attention_softmax.h"
#include "cpu/kernels.h"
#include "cpu/unroll.h"

#define ATTENTION_PASTE_(isa) amp_attention_f32_##isa
#define ATTENTION_PASTE(isa) ATTENTION_PASTE_(isa)

enum { ROWS = AMP_ATTENTION_ROWS, KEYS = AMP_ATTENTION_KEYS, VECTORS = VL == 16 ? 4 : 2, KEY_BLOCK = VECTORS * VL };

static void pack_keys(const amp_attention_head *h, float *packed) {
    const float *k = h->k;
    for (int64_t first = 0; first < h->keys; first += KEY_BLOCK) {
        const int64_t count = h->keys - first < KEY_BLOCK ? h->keys - first : KEY_BLOCK;
        for (int64_t d = 0; d < h->depth; d++, packed += KEY_BLOCK) {
            const float *from = k + first * h->k_step + d;
            for (int64_t j = 0; j < count; j++) packed[j] = from[j * h->k_step];
            for (int64_t j = count; j < KEY_BLOCK; j++) packed[j] = 0.0f;
        }
    }
}

/* scores[r] = q[r]·k for the first `vectors` vectors of one key block. */
AMP_ALWAYS_INLINE void multiply_block(const float *const *q, const float *packed, int64_t depth, float *scores,
                                      int vectors) {
    vf acc[ROWS][VECTORS];
    AMP_UNROLL
    for (int r = 0; r < ROWS; r++) {
        AMP_UNROLL
        for (int c = 0; c < vectors; c++) acc[r][c] = v_set1(0.0f);
    }
    for (int64_t d = 0; d < depth; d++, packed += KEY_BLOCK) {
        vf k[VECTORS];
        AMP_UNROLL
        for (int c = 0; c < vectors; c++) k[c] = v_load(packed + c * VL);
        AMP_UNROLL
        for (int r = 0; r < ROWS; r++) {
            const vf x = v_set1(q[r][d]);
            AMP_UNROLL
            for (int c = 0; c < vectors; c++) acc[r][c] = v_fma(x, k[c], acc[r][c]);
        }
    }
    AMP_UNROLL
    for (int r = 0; r < ROWS; r++) {
        AMP_UNROLL
        for (int c = 0; c < vectors; c++) v_store(scores + r * KEYS + c * VL, acc[r][c]);
    }
}

static inline void multiply_keys(const float *const *q, const float *packed, int64_t depth, float *scores,
                                 int64_t keys) {
    if (keys > 3 * VL && VECTORS > 3)
        multiply_block(q, packed, depth, scores, VECTORS);
    else if (keys > 2 * VL && VECTORS > 2)
        multiply_block(q, packed, depth, scores, VECTORS > 2 ? 3 : VECTORS);
    else if (keys > VL)
        multiply_block(q, packed, depth, scores, 2);
    else
        multiply_block(q, packed, depth, scores, 1);
}

/* sums[r] = correction[r]·sums[r] + Σ weight[r][j]·v[j], `vectors` vectors of columns; the last has `lanes`. */
AMP_ALWAYS_INLINE void add_values(float *sums, int64_t sums_step, const float *correction, const float *weights,
                                  const float *v, int64_t v_step, int64_t n, int vectors, int64_t lanes) {
    vf acc[ROWS][4];
    AMP_UNROLL
    for (int r = 0; r < ROWS; r++) {
        AMP_UNROLL
        for (int c = 0; c < vectors; c++) acc[r][c] = v_load(sums + r * sums_step + c * VL) * v_set1(correction[r]);
    }
    for (int64_t j = 0; j < n; j++, v += v_step) {
        vf x[4];
        AMP_UNROLL
        for (int c = 0; c < vectors; c++) {
            x[c] = c + 1 < vectors || lanes == VL ? v_load(v + c * VL) : v_load_first(v + c * VL, lanes);
        }
        AMP_UNROLL
        for (int r = 0; r < ROWS; r++) {
            const vf w = v_set1(weights[r * KEYS + j]);
            AMP_UNROLL
            for (int c = 0; c < vectors; c++) acc[r][c] = v_fma(w, x[c], acc[r][c]);
        }
    }
    AMP_UNROLL
    for (int r = 0; r < ROWS; r++) {
        AMP_UNROLL
        for (int c = 0; c < vectors; c++) v_store(sums + r * sums_step + c * VL, acc[r][c]);
    }
}

static void add_all_values(float *sums, int64_t sums_step, const float *correction, const float *weights,
                           const amp_attention_head *h, int64_t first_key, int64_t n) {
    const float *v = (const float *)h->v + first_key * h->v_step;
    int64_t at = 0;
    for (; h->width - at >= 4 * VL; at += 4 * VL) {
        add_values(sums + at, sums_step, correction, weights, v + at, h->v_step, n, 4, VL);
    }
    for (; h->width - at >= 2 * VL; at += 2 * VL) {
        add_values(sums + at, sums_step, correction, weights, v + at, h->v_step, n, 2, VL);
    }
    for (; at < h->width; at += VL) {
        const int64_t lanes = h->width - at < VL ? h->width - at : VL;
        add_values(sums + at, sums_step, correction, weights, v + at, h->v_step, n, 1, lanes);
    }
}

/* ROWS query rows from `row` on; those beyond the last repeat it and are not written. */
static void attend_rows(const amp_attention_head *h, const float *packed, float *sums, int64_t row) {
    const int64_t sums_step = (h->width + VL - 1) / VL * VL, last = h->rows - 1;
    const int64_t end = h->causal && h->first_row + row + ROWS < h->keys ? h->first_row + row + ROWS : h->keys;
    _Alignas(64) float scores[ROWS * KEYS];
    row_state state[ROWS];
    const float *q[ROWS];
    AMP_UNROLL
    for (int r = 0; r < ROWS; r++) {
        q[r] = (const float *)h->q + (row + r < last ? row + r : last) * h->q_step;
        state[r] = (row_state){-INFINITY, 0.0f};
    }
    memset(sums, 0, (size_t)(ROWS * sums_step) * sizeof *sums);
    for (int64_t key = 0; key < end; key += KEYS) {
        const int64_t n = end - key < KEYS ? end - key : KEYS;
        float correction[ROWS];
        for (int64_t j = 0; j < n; j += KEY_BLOCK) {
            multiply_keys(q, packed + (key + j) * h->depth, h->depth, scores + j, n - j);
        }
        AMP_UNROLL
        for (int r = 0; r < ROWS; r++) {
            const int64_t at = row + r < last ? row + r : last;
            correction[r] = update_row(h, &state[r], scores + r * KEYS, at, key, n);
        }
        add_all_values(sums, sums_step, correction, scores, h, key, n);
    }
    for (int r = 0; r < ROWS && row + r < h->rows; r++) {
        const float scale = state[r].sum == 0.0f ? 0.0f : 1.0f / state[r].sum;
        float *out = (float *)h->out + (row + r) * h->out_step;
        for (int64_t i = 0; i < h->width; i++) out[i] = sums[r * sums_step + i] * scale;
    }
}

void ATTENTION_PASTE(SIMD_ISA)(const amp_attention_head *h, void *packed, bool reuse) {
    const int64_t key_blocks = (h->keys + KEY_BLOCK - 1) / KEY_BLOCK;
    float *keys = packed, *sums = keys + key_blocks * KEY_BLOCK * h->depth;
    sums += (64 - (uintptr_t)sums % 64) % 64 / sizeof *sums;
    if (!reuse) pack_keys(h, keys);
    for (int64_t row = 0; row < h->rows; row += ROWS) attend_rows(h, keys, sums, row);
}
