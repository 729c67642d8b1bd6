/* Attention of one head in f32; compiled once per ISA over simd_<isa>.h; no include guard: one file, one ISA.
 *
 * Formula:     out = Σ p_j·v_j / Σ p_j, p_j = e^(scale·q·k_j + mask_j − max), 4 or 6 rows × 256 keys at a
 *              time (attention.h).
 * Accumulator: f32. A score's products are fused in ascending d and a result's in ascending key, both in registers;
 *              the sum of a row's weights is in VL lanes for each 256 keys, folded, and added.
 * Error bound: |out − exact| ≤ (2·δ + (S + 16)·2⁻²³) · Σ p_j·|v_j| / Σ p_j with the error of a weight δ = ((D +
 *              3)·scale·Σ|q_d k_d| + 6·|score|)·2⁻²³ + 2⁻²⁰; test_attention_kernels.cc holds every row to it.
 * Denormals:   kept, as MXCSR says by default.
 * ISA:         that of the simd header which is included before.
 * Source:      attention.h.
 *
 * Keys are packed transposed, in blocks of KEY_BLOCK keys: [block][depth][KEY_BLOCK], zero padded to
 * whole vectors; values are read where they lie. */
#include <math.h>
#include <string.h>

#include "cpu/attention/attention_softmax.h"
#include "cpu/attention/attention_units.h"
#include "cpu/registry/kernels.h"
#include "cpu/simd/unroll.h"

#define ATTENTION_PASTE_(isa) amp_attention_f32_##isa
#define ATTENTION_PASTE(isa) ATTENTION_PASTE_(isa)

enum { VECTORS = VL == 16 ? 4 : 2, KEY_BLOCK = VECTORS * VL, KEYS = AMP_ATTENTION_KEYS, PART = KEYS / 2 };
enum { FEW = AMP_ATTENTION_ROWS, ROWS = 6, GROUP = AMP_ATTENTION_TILE_ROWS / FEW };

/* Zeros behind the last keys of a block, as far as vectors reach. */
static void pad_keys(float *packed, int64_t depth, int64_t count) {
    if (count % VL == 0) return;
    for (int64_t d = 0; d < depth; d++) v_store(packed + d * KEY_BLOCK + count / VL * VL, v_set1(0.0f));
}

static void pack_keys(const amp_attention_head *h, float *packed) {
    const float *k = h->k;
    for (int64_t first = 0; first < h->keys; first += KEY_BLOCK, packed += h->depth * KEY_BLOCK) {
        const int64_t count = h->keys - first < KEY_BLOCK ? h->keys - first : KEY_BLOCK;
        pad_keys(packed, h->depth, count);
        transpose_words(packed, KEY_BLOCK, k + first * h->k_step, h->k_step, count, h->depth);
    }
}

/* scores[r] = q[r]·k for the first `vectors` vectors of one key block. */
AMP_ALWAYS_INLINE void multiply_block(const float *const *q, const float *packed, int64_t depth, float *scores,
                                      int vectors, int rows) {
    vf acc[ROWS][VECTORS];
    AMP_UNROLL
    for (int r = 0; r < rows; r++) {
        AMP_UNROLL
        for (int c = 0; c < vectors; c++) acc[r][c] = v_set1(0.0f);
    }
    for (int64_t d = 0; d < depth; d++, packed += KEY_BLOCK) {
        vf k[VECTORS];
        AMP_UNROLL
        for (int c = 0; c < vectors; c++) k[c] = v_load(packed + c * VL);
        AMP_UNROLL
        for (int r = 0; r < rows; r++) {
            const vf x = v_set1(q[r][d]);
            AMP_UNROLL
            for (int c = 0; c < vectors; c++) acc[r][c] = v_fma(x, k[c], acc[r][c]);
        }
    }
    AMP_UNROLL
    for (int r = 0; r < rows; r++) {
        AMP_UNROLL
        for (int c = 0; c < vectors; c++) v_store(scores + r * KEYS + c * VL, acc[r][c]);
    }
}

AMP_ALWAYS_INLINE void multiply_keys(const float *const *q, const float *packed, int64_t depth, float *scores,
                                     int64_t keys, int rows) {
    if (keys > 3 * VL && VECTORS > 3)
        multiply_block(q, packed, depth, scores, VECTORS, rows);
    else if (keys > 2 * VL && VECTORS > 2)
        multiply_block(q, packed, depth, scores, VECTORS > 2 ? 3 : VECTORS, rows);
    else if (keys > VL)
        multiply_block(q, packed, depth, scores, 2, rows);
    else
        multiply_block(q, packed, depth, scores, 1, rows);
}

/* sums[r] = correction[r]·sums[r] + Σ weight[r][j]·v[j], `vectors` vectors of columns; the last has `lanes`. */
AMP_ALWAYS_INLINE void add_values(float *sums, int64_t sums_step, const float *correction, const float *weights,
                                  const float *v, int64_t v_step, int64_t n, int vectors, int64_t lanes, int rows) {
    vf acc[ROWS][VECTORS];
    AMP_UNROLL
    for (int r = 0; r < rows; r++) {
        AMP_UNROLL
        for (int c = 0; c < vectors; c++) acc[r][c] = v_load(sums + r * sums_step + c * VL) * v_set1(correction[r]);
    }
    for (int64_t j = 0; j < n; j++, v += v_step) {
        vf x[VECTORS];
        AMP_UNROLL
        for (int c = 0; c < vectors; c++) {
            x[c] = c + 1 < vectors || lanes == VL ? v_load(v + c * VL) : v_load_first(v + c * VL, lanes);
        }
        AMP_UNROLL
        for (int r = 0; r < rows; r++) {
            const vf w = v_set1(weights[r * KEYS + j]);
            AMP_UNROLL
            for (int c = 0; c < vectors; c++) acc[r][c] = v_fma(w, x[c], acc[r][c]);
        }
    }
    AMP_UNROLL
    for (int r = 0; r < rows; r++) {
        AMP_UNROLL
        for (int c = 0; c < vectors; c++) v_store(sums + r * sums_step + c * VL, acc[r][c]);
    }
}

/* Rows that meet a key together, FEW or ROWS of them; those beyond the last repeat it and are not written. */
typedef struct team {
    int64_t row, end; /* keys that they see */
    int rows;
    float *sums;
    const float *q[ROWS];
    row_state state[ROWS];
    float correction[ROWS];
    _Alignas(64) float scores[ROWS * KEYS];
} team;

/* What of a head the rows share. */
typedef struct operands {
    const amp_attention_head *head;
    const float *keys; /* packed */
    float *sums;       /* of all rows of a group, `step` apart */
    int64_t step;
} operands;

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
        t->q[r] = (const float *)h->q + row_of(h, t, r) * h->q_step;
        t->state[r] = (row_state){-INFINITY, 0.0f};
    }
}

static void score_keys(const operands *o, team *t, int64_t key, int64_t j) {
    const int64_t depth = o->head->depth, n = keys_of(t, key) - j;
    const float *packed = o->keys + (key + j) * depth;
    if (n <= 0) return;
    if (t->rows == ROWS)
        multiply_keys(t->q, packed, depth, t->scores + j, n, ROWS);
    else
        multiply_keys(t->q, packed, depth, t->scores + j, n, FEW);
}

static void weigh_keys(const operands *o, team *t, int64_t key) {
    const int64_t n = keys_of(t, key);
    for (int r = 0; r < t->rows && n > 0; r++)
        t->correction[r] = update_row(o->head, &t->state[r], t->scores + r * KEYS, row_of(o->head, t, r), key, n);
}

/* The PART keys from key + j on; the sums are corrected with the first. */
AMP_ALWAYS_INLINE void add_part(const operands *o, const team *t, int64_t key, int64_t j, int64_t column, int vectors) {
    static const float ones[] = {1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f};
    const amp_attention_head *h = o->head;
    const int64_t left = keys_of(t, key) - j, n = left < PART ? left : PART, columns = h->width - column;
    const int64_t lanes = vectors > 1 || columns > VL ? VL : columns;
    const float *correction = j ? ones : t->correction, *v = (const float *)h->v + (key + j) * h->v_step + column;
    float *sums = t->sums + column;
    if (n <= 0) return;
    if (t->rows == ROWS)
        add_values(sums, o->step, correction, t->scores + j, v, h->v_step, n, vectors, lanes, ROWS);
    else
        add_values(sums, o->step, correction, t->scores + j, v, h->v_step, n, vectors, lanes, FEW);
}

/* All rows of a group against KEYS keys: what of them lies in L1 serves all rows. */
static void attend_keys(const operands *o, team *group, int teams, int64_t key) {
    const int64_t most = keys_of(&group[teams - 1], key), width = o->head->width;
    for (int64_t j = 0; j < most; j += KEY_BLOCK)
        for (int i = 0; i < teams; i++) score_keys(o, &group[i], key, j);
    for (int i = 0; i < teams; i++) weigh_keys(o, &group[i], key);
    for (int64_t j = 0; j < most; j += PART) {
        int64_t at = 0;
        for (; width - at >= VECTORS * VL; at += VECTORS * VL)
            for (int i = 0; i < teams; i++) add_part(o, &group[i], key, j, at, VECTORS);
        for (; width - at >= 2 * VL; at += 2 * VL)
            for (int i = 0; i < teams; i++) add_part(o, &group[i], key, j, at, 2);
        for (; at < width; at += VL)
            for (int i = 0; i < teams; i++) add_part(o, &group[i], key, j, at, 1);
    }
}

static void store_team(const operands *o, const team *t) {
    const amp_attention_head *h = o->head;
    for (int r = 0; r < t->rows && t->row + r < h->rows; r++) {
        const float scale = t->state[r].sum == 0.0f ? 0.0f : 1.0f / t->state[r].sum;
        float *out = (float *)h->out + (t->row + r) * h->out_step;
        for (int64_t i = 0; i < h->width; i++) out[i] = t->sums[r * o->step + i] * scale;
    }
}

/* Rows from `row` on; returns where the next group begins. */
static int64_t attend_group(const operands *o, int64_t row) {
    const int64_t last = o->head->rows;
    team group[GROUP];
    float *sums = o->sums;
    int teams = 0, left = AMP_ATTENTION_TILE_ROWS;
    while (row < last && left >= ROWS) {
        const int mine = last - row <= FEW ? FEW : ROWS;
        begin_team(o, &group[teams++], row, mine, sums);
        sums += mine * o->step;
        left -= mine;
        row += mine;
    }
    for (int64_t key = 0; key < group[teams - 1].end; key += KEYS) attend_keys(o, group, teams, key);
    for (int i = 0; i < teams; i++) store_team(o, &group[i]);
    return row;
}

void ATTENTION_PASTE(SIMD_ISA)(const amp_attention_head *h, void *packed, bool reuse) {
    const int64_t key_blocks = (h->keys + KEY_BLOCK - 1) / KEY_BLOCK;
    float *keys = packed, *sums = keys + key_blocks * KEY_BLOCK * h->depth;
    sums += (64 - (uintptr_t)sums % 64) % 64 / sizeof *sums;
    if (!reuse) pack_keys(h, keys);
    const operands o = {h, keys, sums, (h->width + VL - 1) / VL * VL};
    for (int64_t row = 0; row < h->rows;) row = attend_group(&o, row);
}
