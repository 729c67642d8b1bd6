/* Attention in bf16 with vdpbf16ps.
 *
 * Formula:     out = Σ p_j·v_j / Σ p_j, p_j = e^(scale·q·k_j + mask_j − max) (attention.h); both products of bf16 pairs.
 * Accumulator: f32: scores, the sum of weights, results.
 * Error bound: weights have relative errors of 2^-18.3 from the exponential and 2⁻⁸ from their rounding to bf16 before the
 *              second product, so |out − exact| ≤ (2⁻⁸ + 2^-18.3) · Σ p_j·|v_j| / Σ p_j to first order, beside the sums' own.
 * Denormals:   vdpbf16ps reads them as zero and flushes sums.
 * ISA:         AVX512_BF16; AVX512F, BW, DQ, VL.
 * Source:      Intel SDM volume 2, VDPBF16PS; Dao et al., arXiv 2205.14135. */
#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "cpu/simd_avx512.h"

#include "cpu/vmath_body.h"

#include "cpu/attention_bf16.h"

enum { FEW = 4, ROWS = 6, KEYS = AMP_ATTENTION_KEYS, GROUP = AMP_ATTENTION_TILE_ROWS / FEW, LEAST_WIDE = 192 };

static inline __m512bh broadcast_pair(const uint16_t *pair) {
    int32_t bits;
    memcpy(&bits, pair, sizeof bits);
    return (__m512bh)_mm512_set1_epi32(bits);
}

/* scores[r] = q[r]·k for the first `vectors` vectors of one key block. */
AMP_ALWAYS_INLINE void multiply_block(const uint16_t *const *q, const uint32_t *packed, int64_t pairs, float *scores,
                                      int vectors, int rows) {
    __m512 acc[ROWS][4];
    AMP_UNROLL
    for (int r = 0; r < rows; r++) {
        AMP_UNROLL
        for (int c = 0; c < vectors; c++) acc[r][c] = _mm512_setzero_ps();
    }
    for (int64_t d = 0; d < pairs; d++, packed += KEY_BLOCK) {
        __m512bh k[4];
        AMP_UNROLL
        for (int c = 0; c < vectors; c++) k[c] = (__m512bh)_mm512_loadu_si512(packed + c * 16);
        AMP_UNROLL
        for (int r = 0; r < rows; r++) {
            const __m512bh x = broadcast_pair(q[r] + 2 * d);
            AMP_UNROLL
            for (int c = 0; c < vectors; c++) acc[r][c] = _mm512_dpbf16_ps(acc[r][c], x, k[c]);
        }
    }
    AMP_UNROLL
    for (int r = 0; r < rows; r++) {
        AMP_UNROLL
        for (int c = 0; c < vectors; c++) _mm512_storeu_ps(scores + r * KEYS + c * 16, acc[r][c]);
    }
}

AMP_ALWAYS_INLINE void multiply_keys(const uint16_t *const *q, const uint32_t *packed, int64_t pairs, float *scores,
                                     int64_t keys, int rows) {
    if (keys > 48)
        multiply_block(q, packed, pairs, scores, 4, rows);
    else if (keys > 32)
        multiply_block(q, packed, pairs, scores, 3, rows);
    else if (keys > 16)
        multiply_block(q, packed, pairs, scores, 2, rows);
    else
        multiply_block(q, packed, pairs, scores, 1, rows);
}

/* sums[r] = correction[r]·sums[r] + Σ weight[r][j]·v[j]: `pairs` pairs of keys, `vectors` vectors of columns. */
AMP_ALWAYS_INLINE void add_values(float *sums, int64_t sums_step, const float *correction, const uint16_t *weights,
                                  const uint32_t *v, int64_t v_step, int64_t pairs, int vectors, int rows) {
    __m512 acc[ROWS][4];
    AMP_UNROLL
    for (int r = 0; r < rows; r++) {
        AMP_UNROLL
        for (int c = 0; c < vectors; c++)
            acc[r][c] = _mm512_mul_ps(_mm512_loadu_ps(sums + r * sums_step + c * 16), _mm512_set1_ps(correction[r]));
    }
    for (int64_t j = 0; j < pairs; j++, v += v_step) {
        __m512bh x[4];
        AMP_UNROLL
        for (int c = 0; c < vectors; c++) x[c] = (__m512bh)_mm512_loadu_si512(v + c * 16);
        AMP_UNROLL
        for (int r = 0; r < rows; r++) {
            const __m512bh w = broadcast_pair(weights + r * KEYS + 2 * j);
            AMP_UNROLL
            for (int c = 0; c < vectors; c++) acc[r][c] = _mm512_dpbf16_ps(acc[r][c], w, x[c]);
        }
    }
    AMP_UNROLL
    for (int r = 0; r < rows; r++) {
        AMP_UNROLL
        for (int c = 0; c < vectors; c++) _mm512_storeu_ps(sums + r * sums_step + c * 16, acc[r][c]);
    }
}

/* What of a head the rows share. */
typedef struct operands {
    const amp_attention_head *head;
    const uint32_t *keys, *values; /* packed */
    float *sums;                   /* of all rows of a group, `step` apart */
    int64_t vectors, step;
} operands;

/* Rows that meet a key together, FEW or ROWS of them; those beyond the last repeat it and are not written. */
typedef struct team {
    int64_t row, end; /* keys that they see */
    int rows;
    float *sums;
    const uint16_t *q[ROWS];
    row_state state[ROWS];
    float correction[ROWS];
    float scores[ROWS * KEYS];
    uint16_t weights[ROWS * KEYS];
} team;

static int64_t row_of(const amp_attention_head *h, const team *t, int r) {
    return t->row + r < h->rows - 1 ? t->row + r : h->rows - 1;
}

/* How many of the KEYS keys from `key` on they see. */
static int64_t keys_of(const team *t, int64_t key) {
    const int64_t n = t->end - key;
    return n < 0 ? 0 : n < KEYS ? n : KEYS;
}

static void begin_team(const operands *o, team *t, int64_t row, int rows, float *sums) {
    const amp_attention_head *h = o->head;
    const int64_t end = h->first_row + row + rows;
    t->row = row;
    t->rows = rows;
    t->end = h->causal && end < h->keys ? end : h->keys;
    t->sums = sums;
    memset(sums, 0, (size_t)(rows * o->step) * sizeof *sums);
    for (int r = 0; r < rows; r++) {
        t->q[r] = (const uint16_t *)h->q + row_of(h, t, r) * h->q_step;
        t->state[r] = (row_state){-INFINITY, 0.0f};
        fetch_row((const uint16_t *)h->out + row_of(h, t, r) * h->out_step, h->width);
        fetch_row(t->q[r] + AMP_ATTENTION_TILE_ROWS * h->q_step, h->depth); /* of the next group */
    }
}

static void score_keys(const operands *o, team *t, int64_t key, int64_t j) {
    const int64_t pairs = o->head->depth / 2, n = keys_of(t, key) - j;
    const uint32_t *packed = o->keys + (key + j) * pairs;
    if (n <= 0) return;
    if (t->rows == ROWS)
        multiply_keys(t->q, packed, pairs, t->scores + j, n, ROWS);
    else
        multiply_keys(t->q, packed, pairs, t->scores + j, n, FEW);
}

static void weigh_keys(const operands *o, team *t, int64_t key) {
    const int64_t n = keys_of(t, key);
    for (int r = 0; r < t->rows && n > 0; r++)
        t->correction[r] = weigh_row(o->head, &t->state[r], t->scores + r * KEYS, row_of(o->head, t, r), key, n,
                                     t->weights + r * KEYS);
}

AMP_ALWAYS_INLINE void add_columns(const operands *o, const team *t, int64_t key, int64_t column, int vectors) {
    const uint32_t *v = o->values + key / 2 * o->step + column * 16;
    const int64_t pairs = (keys_of(t, key) + 1) / 2;
    if (pairs == 0) return;
    if (t->rows == ROWS)
        add_values(t->sums + column * 16, o->step, t->correction, t->weights, v, o->step, pairs, vectors, ROWS);
    else
        add_values(t->sums + column * 16, o->step, t->correction, t->weights, v, o->step, pairs, vectors, FEW);
}

/* All rows of a group against KEYS keys: what is packed of them is read once, and is in L1 for all but the first. */
static void attend_keys(const operands *o, team *group, int teams, int64_t key) {
    const int64_t most = keys_of(&group[teams - 1], key);
    int64_t c = 0;
    for (int64_t j = 0; j < most; j += KEY_BLOCK)
        for (int i = 0; i < teams; i++) score_keys(o, &group[i], key, j);
    for (int i = 0; i < teams; i++) weigh_keys(o, &group[i], key);
    for (; o->vectors - c >= 4; c += 4)
        for (int i = 0; i < teams; i++) add_columns(o, &group[i], key, c, 4);
    for (; o->vectors - c >= 2; c += 2)
        for (int i = 0; i < teams; i++) add_columns(o, &group[i], key, c, 2);
    for (int i = 0; i < teams && c < o->vectors; i++) add_columns(o, &group[i], key, c, 1);
}

static void store_team(const operands *o, const team *t) {
    const amp_attention_head *h = o->head;
    for (int r = 0; r < t->rows && t->row + r < h->rows; r++)
        store_row((uint16_t *)h->out + (t->row + r) * h->out_step, t->sums + r * o->step, h->width,
                  t->state[r].sum == 0.0f ? 0.0f : 1.0f / t->state[r].sum);
}

/* Rows from `row` on; returns where the next group begins. With much depth, more rows at a time pay: less is loaded. */
static int64_t attend_group(const operands *o, int64_t row) {
    const int64_t last = o->head->rows;
    const int rows = o->head->depth + o->head->width >= LEAST_WIDE ? ROWS : FEW;
    _Alignas(64) team group[GROUP];
    float *sums = o->sums;
    int teams = 0, left = AMP_ATTENTION_TILE_ROWS;
    while (row < last && left >= rows) {
        const int mine = last - row <= FEW ? FEW : rows;
        begin_team(o, &group[teams++], row, mine, sums);
        sums += mine * o->step;
        left -= mine;
        row += mine;
    }
    for (int64_t key = 0; key < group[teams - 1].end; key += KEYS) attend_keys(o, group, teams, key);
    for (int i = 0; i < teams; i++) store_team(o, &group[i]);
    return row;
}

void amp_attention_bf16_avx512bf16(const amp_attention_head *h, void *packed, bool reuse) {
    const int64_t key_blocks = (h->keys + KEY_BLOCK - 1) / KEY_BLOCK, vectors = (h->width + 15) / 16;
    uint32_t *keys = packed, *values = keys + key_blocks * KEY_BLOCK * (h->depth / 2);
    float *sums = (float *)(values + (h->keys + 1) / 2 * vectors * 16);
    if (!reuse) {
        pack_keys(h, keys);
        pack_values(h, values, (h->keys + 1) / 2 * 2);
    }
    const operands o = {h, keys, values, sums, vectors, vectors * 16};
    for (int64_t row = 0; row < h->rows;) row = attend_group(&o, row);
}
