/* Attention of few query rows over a part of the keys, read where they lie; compiled once per ISA over simd_<isa>.h;
 * no include guard: one file, one ISA.
 *
 * Formula:     for each row max = the largest score, sum = Σ e^(score − max), sums = Σ e^(score − max)·v
 *              (attention.h); bf16 is widened as it is read, and weights stay f32.
 * Accumulator: f32. A score is summed in VL lanes over the depth, each product fused, folded at the end; results in
 *              ascending key, in registers.
 * Error bound: (2·δ + (keys + 16)·2⁻²³) of Σ e^(score − max)·|v|, δ as in attention_body.h.
 * Denormals:   kept, as MXCSR says by default.
 * ISA:         that of the simd header which is included before.
 * Source:      attention.h.
 *
 * Memory is what limits it: 4 keys are in flight at a time. */
#include <math.h>
#include <string.h>

#include "cpu/simd/vmath_body.h"

#include "cpu/attention/attention_softmax.h"
#include "cpu/registry/kernels.h"
#include "cpu/simd/unroll.h"

#define PART_PASTE_(dtype, isa) amp_attention_part_##dtype##_##isa
#define PART_PASTE(dtype, isa) PART_PASTE_(dtype, isa)

enum {
    ROWS = AMP_ATTENTION_ROWS,
    KEYS = AMP_ATTENTION_KEYS,
    KEYS_AT_ONCE = 4,
    VECTORS = VL == 16 ? 8 : 4 /* of columns whose sums are in registers, for one row; fewer for more rows */
};

AMP_ALWAYS_INLINE vf load(const void *from, int64_t at, bool narrow) {
    return narrow ? v_load_bf16((const uint16_t *)from + at) : v_load((const float *)from + at);
}

AMP_ALWAYS_INLINE vf load_first(const void *from, int64_t at, int64_t n, bool narrow) {
    return narrow ? v_load_bf16_first((const uint16_t *)from + at, n) : v_load_first((const float *)from + at, n);
}

/* scores[r][j] = q[row + r]·k[key + j] */
AMP_ALWAYS_INLINE void score_keys(const amp_attention_head *h, int64_t row, int rows, int64_t key, int keys,
                                  float *scores, bool narrow) {
    vf acc[ROWS][KEYS_AT_ONCE];
    AMP_UNROLL
    for (int r = 0; r < rows; r++) {
        AMP_UNROLL
        for (int j = 0; j < keys; j++) acc[r][j] = v_set1(0.0f);
    }
    for (int64_t d = 0; d < h->depth; d += VL) {
        const int64_t left = h->depth - d;
        vf k[KEYS_AT_ONCE];
        AMP_UNROLL
        for (int j = 0; j < keys; j++) {
            const int64_t at = (key + j) * h->k_step + d;
            k[j] = left >= VL ? load(h->k, at, narrow) : load_first(h->k, at, left, narrow);
        }
        AMP_UNROLL
        for (int r = 0; r < rows; r++) {
            const int64_t at = (row + r) * h->q_step + d;
            const vf q = left >= VL ? load(h->q, at, narrow) : load_first(h->q, at, left, narrow);
            AMP_UNROLL
            for (int j = 0; j < keys; j++) acc[r][j] = v_fma(q, k[j], acc[r][j]);
        }
    }
    AMP_UNROLL
    for (int r = 0; r < rows; r++) {
        AMP_UNROLL
        for (int j = 0; j < keys; j++) scores[r * KEYS + j] = v_sum(acc[r][j]);
    }
}

/* sums[r] = correction[r]·sums[r] + Σ weight[r][j]·v[j], `vectors` vectors of columns from `column` on, of which the
 * last has `last` lanes. */
AMP_ALWAYS_INLINE void add_columns(const amp_attention_head *h, int rows, int64_t first_key, int64_t n,
                                   const float *weights, const float *correction, float *sums, int64_t column,
                                   int vectors, int64_t last, bool narrow) {
    vf acc[ROWS][VECTORS];
    AMP_UNROLL
    for (int r = 0; r < rows; r++) {
        AMP_UNROLL
        for (int c = 0; c < vectors; c++) {
            const float *from = sums + r * h->width + column + c * VL;
            acc[r][c] = (last < VL ? v_load_first(from, last) : v_load(from)) * v_set1(correction[r]);
        }
    }
    for (int64_t j = 0; j < n; j++) {
        const int64_t at = (first_key + j) * h->v_step + column;
        vf v[VECTORS];
        AMP_UNROLL
        for (int c = 0; c < vectors; c++) {
            v[c] = last < VL ? load_first(h->v, at + c * VL, last, narrow) : load(h->v, at + c * VL, narrow);
        }
        AMP_UNROLL
        for (int r = 0; r < rows; r++) {
            const vf w = v_set1(weights[r * KEYS + j]);
            AMP_UNROLL
            for (int c = 0; c < vectors; c++) acc[r][c] = v_fma(w, v[c], acc[r][c]);
        }
    }
    AMP_UNROLL
    for (int r = 0; r < rows; r++) {
        AMP_UNROLL
        for (int c = 0; c < vectors; c++) {
            float *to = sums + r * h->width + column + c * VL;
            if (last < VL)
                v_store_first(to, acc[r][c], last);
            else
                v_store(to, acc[r][c]);
        }
    }
}

/* Keys [key, key + n), at most KEYS, for `rows` rows from `row` on. */
AMP_ALWAYS_INLINE void attend_block(const amp_attention_head *h, int64_t row, int rows, int64_t key, int64_t n,
                                    row_state *state, float *sums, bool narrow) {
    const int vectors = VECTORS / rows > 1 ? VECTORS / rows : 1;
    float scores[ROWS * KEYS], correction[ROWS];
    int64_t j = 0, column = 0;
    for (; j + KEYS_AT_ONCE <= n; j += KEYS_AT_ONCE)
        score_keys(h, row, rows, key + j, KEYS_AT_ONCE, scores + j, narrow);
    for (; j < n; j++) score_keys(h, row, rows, key + j, 1, scores + j, narrow);
    for (int r = 0; r < rows; r++) correction[r] = update_row(h, &state[r], scores + r * KEYS, row + r, key, n);
    for (; column + vectors * VL <= h->width; column += vectors * VL)
        add_columns(h, rows, key, n, scores, correction, sums, column, vectors, VL, narrow);
    for (; column < h->width; column += VL) {
        const int64_t left = h->width - column;
        if (left >= VL)
            add_columns(h, rows, key, n, scores, correction, sums, column, 1, VL, narrow);
        else
            add_columns(h, rows, key, n, scores, correction, sums, column, 1, left, narrow);
    }
}

AMP_ALWAYS_INLINE void attend_part(const amp_attention_head *h, int64_t first_key, int64_t keys, row_state *state,
                                   float *sums, bool narrow) {
    for (int64_t r = 0; r < h->rows; r++) state[r] = (row_state){-INFINITY, 0.0f};
    memset(sums, 0, (size_t)(h->rows * h->width) * sizeof *sums);
    for (int64_t at = 0; at < keys; at += KEYS) {
        const int64_t n = keys - at < KEYS ? keys - at : KEYS, key = first_key + at;
        int64_t row = 0;
        for (; row + 4 <= h->rows; row += 4)
            attend_block(h, row, 4, key, n, state + row, sums + row * h->width, narrow);
        for (; row + 2 <= h->rows; row += 2)
            attend_block(h, row, 2, key, n, state + row, sums + row * h->width, narrow);
        if (row < h->rows) attend_block(h, row, 1, key, n, state + row, sums + row * h->width, narrow);
    }
}

void PART_PASTE(f32, SIMD_ISA)(const amp_attention_head *h, int64_t first_key, int64_t keys, amp_attention_state *state,
                               float *sums) {
    attend_part(h, first_key, keys, state, sums, false);
}

void PART_PASTE(bf16, SIMD_ISA)(const amp_attention_head *h, int64_t first_key, int64_t keys,
                                amp_attention_state *state, float *sums) {
    attend_part(h, first_key, keys, state, sums, true);
}
