/* Attention in bf16 with vdpbf16ps (Intel SDM volume 2C): products of bf16 pairs summed in f32, weights rounded to bf16
 * before the second product. */
#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "cpu/simd_avx512.h"

#include "cpu/vmath_body.h"

#include "cpu/attention_bf16.h"

enum { ROWS = AMP_ATTENTION_ROWS, KEYS = AMP_ATTENTION_KEYS, GROUP = AMP_ATTENTION_TILE_ROWS / ROWS };

static inline __m512bh broadcast_pair(const uint16_t *pair) {
    int32_t bits;
    memcpy(&bits, pair, sizeof bits);
    return (__m512bh)_mm512_set1_epi32(bits);
}

/* scores[r] = q[r]·k for the first `vectors` vectors of one key block. */
AMP_ALWAYS_INLINE void multiply_block(const uint16_t *const *q, const uint32_t *packed, int64_t pairs, float *scores,
                                      int vectors) {
    __m512 acc[ROWS][4];
    AMP_UNROLL
    for (int r = 0; r < ROWS; r++) {
        AMP_UNROLL
        for (int c = 0; c < vectors; c++) acc[r][c] = _mm512_setzero_ps();
    }
    for (int64_t d = 0; d < pairs; d++, packed += KEY_BLOCK) {
        __m512bh k[4];
        AMP_UNROLL
        for (int c = 0; c < vectors; c++) k[c] = (__m512bh)_mm512_loadu_si512(packed + c * 16);
        AMP_UNROLL
        for (int r = 0; r < ROWS; r++) {
            const __m512bh x = broadcast_pair(q[r] + 2 * d);
            AMP_UNROLL
            for (int c = 0; c < vectors; c++) acc[r][c] = _mm512_dpbf16_ps(acc[r][c], x, k[c]);
        }
    }
    AMP_UNROLL
    for (int r = 0; r < ROWS; r++) {
        AMP_UNROLL
        for (int c = 0; c < vectors; c++) _mm512_storeu_ps(scores + r * KEYS + c * 16, acc[r][c]);
    }
}

static inline void multiply_keys(const uint16_t *const *q, const uint32_t *packed, int64_t pairs, float *scores,
                                 int64_t keys) {
    if (keys > 48)
        multiply_block(q, packed, pairs, scores, 4);
    else if (keys > 32)
        multiply_block(q, packed, pairs, scores, 3);
    else if (keys > 16)
        multiply_block(q, packed, pairs, scores, 2);
    else
        multiply_block(q, packed, pairs, scores, 1);
}

/* sums[r] = correction[r]·sums[r] + Σ weight[r][j]·v[j]: `pairs` pairs of keys, `vectors` vectors of columns. */
AMP_ALWAYS_INLINE void add_values(float *sums, int64_t sums_step, const float *correction, const uint16_t *weights,
                                  const uint32_t *v, int64_t v_step, int64_t pairs, int vectors) {
    __m512 acc[ROWS][4];
    AMP_UNROLL
    for (int r = 0; r < ROWS; r++) {
        AMP_UNROLL
        for (int c = 0; c < vectors; c++)
            acc[r][c] = _mm512_mul_ps(_mm512_loadu_ps(sums + r * sums_step + c * 16), _mm512_set1_ps(correction[r]));
    }
    for (int64_t j = 0; j < pairs; j++, v += v_step) {
        __m512bh x[4];
        AMP_UNROLL
        for (int c = 0; c < vectors; c++) x[c] = (__m512bh)_mm512_loadu_si512(v + c * 16);
        AMP_UNROLL
        for (int r = 0; r < ROWS; r++) {
            const __m512bh w = broadcast_pair(weights + r * KEYS + 2 * j);
            AMP_UNROLL
            for (int c = 0; c < vectors; c++) acc[r][c] = _mm512_dpbf16_ps(acc[r][c], w, x[c]);
        }
    }
    AMP_UNROLL
    for (int r = 0; r < ROWS; r++) {
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

/* ROWS rows from `row` on; those beyond the last repeat it and are not written. */
typedef struct quad {
    int64_t row, end; /* keys that they see */
    const uint16_t *q[ROWS];
    row_state state[ROWS];
    float correction[ROWS];
    float scores[ROWS * KEYS];
    uint16_t weights[ROWS * KEYS];
} quad;

static int64_t row_of(const amp_attention_head *h, const quad *p, int r) {
    return p->row + r < h->rows - 1 ? p->row + r : h->rows - 1;
}

/* How many of the KEYS keys from `key` on they see. */
static int64_t visible_keys(const quad *p, int64_t key) {
    const int64_t n = p->end - key;
    return n < 0 ? 0 : n < KEYS ? n : KEYS;
}

static void begin_quad(const operands *o, quad *p, int64_t row) {
    const amp_attention_head *h = o->head;
    const int64_t end = h->first_row + row + ROWS;
    p->row = row;
    p->end = h->causal && end < h->keys ? end : h->keys;
    for (int r = 0; r < ROWS; r++) {
        p->q[r] = (const uint16_t *)h->q + row_of(h, p, r) * h->q_step;
        p->state[r] = (row_state){-INFINITY, 0.0f};
    }
}

static void weigh_keys(const operands *o, quad *p, int64_t key) {
    const int64_t n = visible_keys(p, key);
    AMP_UNROLL
    for (int r = 0; r < ROWS && n > 0; r++) {
        p->correction[r] = weigh_row(o->head, &p->state[r], p->scores + r * KEYS, row_of(o->head, p, r), key, n,
                                     p->weights + r * KEYS);
    }
}

static void add_block(const operands *o, const quad *p, int64_t key, float *sums, int64_t column, int vectors) {
    const uint32_t *v = o->values + key / 2 * o->step + column * 16;
    const int64_t pairs = (visible_keys(p, key) + 1) / 2;
    if (pairs == 0) return;
    if (vectors == 4)
        add_values(sums + column * 16, o->step, p->correction, p->weights, v, o->step, pairs, 4);
    else if (vectors == 2)
        add_values(sums + column * 16, o->step, p->correction, p->weights, v, o->step, pairs, 2);
    else
        add_values(sums + column * 16, o->step, p->correction, p->weights, v, o->step, pairs, 1);
}

/* All rows of a group against KEYS keys: what is packed of them is read once, and is in L1 for all but the first. */
static void attend_keys(const operands *o, quad *group, int quads, int64_t key) {
    const int64_t pairs = o->head->depth / 2, most = visible_keys(&group[quads - 1], key);
    for (int64_t j = 0; j < most; j += KEY_BLOCK)
        for (int i = 0; i < quads; i++)
            if (j < visible_keys(&group[i], key))
                multiply_keys(group[i].q, o->keys + (key + j) * pairs, pairs, group[i].scores + j,
                              visible_keys(&group[i], key) - j);
    for (int i = 0; i < quads; i++) weigh_keys(o, &group[i], key);
    for (int64_t c = 0; c < o->vectors;) {
        const int vectors = o->vectors - c >= 4 ? 4 : o->vectors - c >= 2 ? 2 : 1;
        for (int i = 0; i < quads; i++) add_block(o, &group[i], key, o->sums + i * ROWS * o->step, c, vectors);
        c += vectors;
    }
}

static void store_quad(const operands *o, const quad *p, const float *sums) {
    const amp_attention_head *h = o->head;
    for (int r = 0; r < ROWS && p->row + r < h->rows; r++)
        store_row((uint16_t *)h->out + (p->row + r) * h->out_step, sums + r * o->step, h->width,
                  p->state[r].sum == 0.0f ? 0.0f : 1.0f / p->state[r].sum);
}

static void attend_group(const operands *o, int64_t row) {
    _Alignas(64) quad group[GROUP];
    int quads = 0;
    for (; quads < GROUP && row + quads * ROWS < o->head->rows; quads++)
        begin_quad(o, &group[quads], row + quads * ROWS);
    memset(o->sums, 0, (size_t)(quads * ROWS * o->step) * sizeof *o->sums);
    for (int64_t key = 0; key < group[quads - 1].end; key += KEYS) attend_keys(o, group, quads, key);
    for (int i = 0; i < quads; i++) store_quad(o, &group[i], o->sums + i * ROWS * o->step);
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
    for (int64_t row = 0; row < h->rows; row += GROUP * ROWS) attend_group(&o, row);
}
