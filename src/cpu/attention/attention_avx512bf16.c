/* Attention in bf16 with vdpbf16ps.
 *
 * Formula:     out = Σ p_j·v_j / Σ p_j, p_j = e^(scale·q·k_j + mask_j − r) (attention.h); both products of bf16
 *              pairs. r is 0 or one of the larger scores: weights may be up to MOST_WEIGHT, and as a rule need not
 *              follow it.
 * Accumulator: f32: scores, the sum of weights (16 lanes of a row, added at the end), results.
 * Error bound: weights have relative errors of 2^-18.3 from the exponential, |score_j|·2⁻²² from what it is taken of,
 *              and 2⁻⁹ from their rounding to bf16 before the second product, so to first order, beside the sums' own,
 *              |out − exact| ≤ (2⁻⁸ + 2^-18.3 + max|score_j|·2⁻²¹) · Σ p_j·|v_j| / Σ p_j.
 * Denormals:   vdpbf16ps reads them as zero and flushes sums: values below 2⁻¹⁰⁴ may count as zero.
 * ISA:         AVX512_BF16; AVX512F, BW, DQ, VL.
 * Source:      Intel SDM volume 2, VDPBF16PS; Dao et al., arXiv 2205.14135; references that wait: FlashAttention-4.
 *
 * A block of 64 keys is weighed from the registers that its scores were summed in, while the reference suits them;
 * else, and where a mask or causality interferes, from memory. */
#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "cpu/simd/simd_avx512.h"

#include "cpu/simd/vmath_body.h"

#include "cpu/attention/attention_bf16.h"

enum {
    FEW = 4,
    ROWS = 6,
    KEYS = AMP_ATTENTION_KEYS,
    GROUP = AMP_ATTENTION_TILE_ROWS / FEW,
    LEAST_WIDE = 192,
    PANEL = 4
};

/* Weights are e^(score − reference). The reference is 0 at first, and stays while no lane's sum of four weights is
 * above MOST_WEIGHT and the largest of the sums so far is LEAST_WEIGHT; else it follows the largest score. Where large
 * weights meet values so large that results are not finite, those are computed again with the reference within
 * LEAST_RISE of the largest score from the start. */
#define MOST_WEIGHT 0x1p40f
#define LEAST_WEIGHT 0x1p-20f
#define LEAST_RISE 2.0f
#define MOST_STEPS 64.0f
#define LN_2 0.693147182f

static inline __m512bh broadcast_pair(const uint16_t *pair) {
    int32_t bits;
    memcpy(&bits, pair, sizeof bits);
    return (__m512bh)_mm512_set1_epi32(bits);
}

/* acc[r] = q[r]·k for the first `vectors` vectors of one key block. */
AMP_ALWAYS_INLINE void multiply_block(__m512 acc[ROWS][4], const uint16_t *const *q, const uint32_t *packed,
                                      int64_t pairs, int vectors, int rows) {
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
}

AMP_ALWAYS_INLINE void score_block(const uint16_t *const *q, const uint32_t *packed, int64_t pairs, float *scores,
                                   int vectors, int rows) {
    __m512 acc[ROWS][4];
    multiply_block(acc, q, packed, pairs, vectors, rows);
    AMP_UNROLL
    for (int r = 0; r < rows; r++) {
        AMP_UNROLL
        for (int c = 0; c < vectors; c++) _mm512_storeu_ps(scores + r * KEY_BLOCK + c * 16, acc[r][c]);
    }
}

/* sums[r] += Σ weight[r][j]·v[j]: `pairs` pairs of keys, `vectors` vectors of columns. */
AMP_ALWAYS_INLINE void add_values(float *sums, int64_t sums_step, const uint16_t *weights, const uint32_t *v,
                                  int64_t v_step, int64_t pairs, int vectors, int rows) {
    __m512 acc[ROWS][4];
    AMP_UNROLL
    for (int r = 0; r < rows; r++) {
        AMP_UNROLL
        for (int c = 0; c < vectors; c++) acc[r][c] = _mm512_loadu_ps(sums + r * sums_step + c * 16);
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

/* What a row knows of the keys so far. */
typedef struct running {
    __m512 lanes;          /* their sum is that of the weights */
    float reference, zero; /* zero: reference·log2(e) */
} running;

/* What of a head the rows share. */
typedef struct operands {
    const amp_attention_head *head;
    const uint32_t *keys, *values; /* packed */
    float *sums;                   /* of all rows of a group, `step` apart */
    int64_t vectors, step;
    bool plain; /* scores need but a scale */
} operands;

/* Rows that meet a key together, FEW or ROWS of them; those beyond the last repeat it and are not written. */
typedef struct team {
    int64_t row, end; /* keys that they see */
    int rows;
    float *sums;
    const uint16_t *q[ROWS];
    running state[ROWS];
    float scores[ROWS * KEY_BLOCK];
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
        t->state[r] = (running){_mm512_setzero_ps(), 0.0f, 0.0f};
        fetch_row((const uint16_t *)h->out + row_of(h, t, r) * h->out_step, h->width);
        fetch_row(t->q[r] + AMP_ATTENTION_TILE_ROWS * h->q_step, h->depth); /* of the next group */
    }
}

/* The weights of a whole block of keys by the reference that is there; `lanes`: with their sum. False where another
 * reference must be found: that depends on the row alone, and so do its bits. */
AMP_ALWAYS_INLINE bool weigh_by_reference(const running *state, __m512 *lanes, const __m512 scores[4], __m512 slope,
                                          uint16_t *to) {
    const __m512 zero = _mm512_set1_ps(state->zero);
    __m512 e[4];
    AMP_UNROLL
    for (int c = 0; c < 4; c++) e[c] = power_of_two(_mm512_fmsub_ps(scores[c], slope, zero));
    AMP_UNROLL
    for (int c = 0; c < 4; c += 2) _mm512_storeu_si512(to + c * 16, (__m512i)_mm512_cvtne2ps_pbh(e[c + 1], e[c]));
    const __m512 sum = (e[0] + e[1]) + (e[2] + e[3]);
    *lanes = state->lanes + sum;
    const __mmask16 high = _mm512_cmp_ps_mask(sum, _mm512_set1_ps(MOST_WEIGHT), _CMP_GT_OQ);
    return !high & (_mm512_cmp_ps_mask(*lanes, _mm512_set1_ps(LEAST_WEIGHT), _CMP_GE_OQ) != 0);
}

/* All rows of a team. False, and nothing is changed but weights, where one needs another reference. */
AMP_ALWAYS_INLINE bool weigh_team(const operands *o, team *t, const uint32_t *packed, uint16_t *to, int rows) {
    __m512 acc[ROWS][4], lanes[ROWS];
    const __m512 slope = _mm512_set1_ps(o->head->scale * LOG2_E);
    bool good = true;
    multiply_block(acc, t->q, packed, o->head->depth / 2, 4, rows);
    AMP_UNROLL
    for (int r = 0; r < rows; r++) good &= weigh_by_reference(&t->state[r], &lanes[r], acc[r], slope, to + r * KEYS);
    if (__builtin_expect(!good, 0)) return false;
    AMP_UNROLL
    for (int r = 0; r < rows; r++) t->state[r].lanes = lanes[r];
    return true;
}

/* Returns what was summed before must be multiplied by: where that is not next to nothing a power of two, so that
 * nothing is rounded again. */
static float raise_reference(running *state, __m512 scores) {
    const bool first = !_mm512_cmp_ps_mask(state->lanes, _mm512_setzero_ps(), _CMP_GT_OQ);
    const __m512 high = _mm512_set1_ps(first ? -INFINITY : state->reference + LEAST_RISE);
    float correction = 1.0f;
    if (!_mm512_cmp_ps_mask(scores, high, _CMP_GT_OQ)) return correction;
    const float top = v_max_lane(scores), rise = top - state->reference, steps = rintf(rise * LOG2_E);
    const bool by_steps = !first && rise <= MOST_STEPS;
    if (!first) correction = by_steps ? exp2f(-steps) : expf(-rise);
    state->reference = by_steps ? state->reference + steps * LN_2 : top;
    state->zero = fabsf(state->reference) < 0x1p64f ? state->reference * LOG2_E : NAN; /* NAN: never good */
    state->lanes = state->lanes * _mm512_set1_ps(correction);
    return correction;
}

/* Scores of 16 keys as they are weighed, −inf where hidden. */
AMP_ALWAYS_INLINE __m512 finish_vector(const amp_attention_head *h, const float *s, const float *mask, int64_t left) {
    const __mmask16 lanes = lanes_left(left);
    __m512 x = _mm512_loadu_ps(s) * _mm512_set1_ps(h->scale);
    if (mask) x = x + (h->mask_key_step ? _mm512_maskz_loadu_ps(lanes, mask) : _mm512_set1_ps(*mask));
    return _mm512_mask_mov_ps(_mm512_set1_ps(-INFINITY), lanes, x);
}

/* Weights of n ≤ KEY_BLOCK keys in bf16, zeros behind them up to a whole block. Returns what the results so far must be
 * multiplied by. */
static float weigh_row(const amp_attention_head *h, running *state, const float *s, int64_t row, int64_t first_key,
                       int64_t n, uint16_t *to) {
    const int64_t visible = visible_keys(h, row, first_key, n);
    const float *mask = h->mask ? h->mask + row * h->mask_row_step + first_key * h->mask_key_step : NULL;
    __m512 x[KEY_BLOCK / 16], best = _mm512_set1_ps(-INFINITY);
    AMP_UNROLL
    for (int i = 0; i < KEY_BLOCK / 16; i++) {
        const int64_t left = visible - i * 16;
        x[i] = left > 0 ? finish_vector(h, s + i * 16, mask ? mask + i * 16 * h->mask_key_step : NULL, left)
                        : _mm512_set1_ps(-INFINITY);
        best = v_max(x[i], best);
    }
    const float correction = raise_reference(state, best);
    const __m512 reference = _mm512_set1_ps(state->reference);
    __m512 sum = _mm512_setzero_ps();
    AMP_UNROLL
    for (int i = 0; i < KEY_BLOCK / 16; i++) {
        const __m512 e = power_of_two((x[i] - reference) * _mm512_set1_ps(LOG2_E));
        store_rounded(to + i * 16, e);
        sum = sum + e;
    }
    state->lanes = state->lanes + sum;
    return correction;
}

static bool weigh_plain_row(const operands *o, running *state, const float *s, uint16_t *to) {
    const __m512 x[4] = {_mm512_loadu_ps(s), _mm512_loadu_ps(s + 16), _mm512_loadu_ps(s + 32), _mm512_loadu_ps(s + 48)};
    __m512 lanes;
    if (!weigh_by_reference(state, &lanes, x, _mm512_set1_ps(o->head->scale * LOG2_E), to)) return false;
    state->lanes = lanes;
    return true;
}

/* What was summed before, and the weights of the keys before `j` that are yet to be summed, follow the reference. */
static void correct_row(const operands *o, team *t, int r, int64_t j, float correction) {
    const __m512 factor = _mm512_set1_ps(correction);
    float *sums = t->sums + r * o->step;
    for (int64_t c = 0; c < o->step; c += 16) _mm512_storeu_ps(sums + c, _mm512_loadu_ps(sums + c) * factor);
    for (int64_t i = 0; i < j; i += 16) {
        uint16_t *w = t->weights + r * KEYS + i;
        store_rounded(w, v_load_bf16(w) * factor);
    }
}

static void weigh_block(const operands *o, team *t, int64_t key, int64_t j, int64_t n) {
    const amp_attention_head *h = o->head;
    for (int r = 0; r < t->rows; r++) {
        const int64_t row = row_of(h, t, r);
        const float *s = t->scores + r * KEY_BLOCK;
        uint16_t *to = t->weights + r * KEYS + j;
        const bool whole = visible_keys(h, row, key + j, n) == KEY_BLOCK;
        if (o->plain && whole && weigh_plain_row(o, &t->state[r], s, to)) continue;
        const float correction = weigh_row(h, &t->state[r], s, row, key + j, n, to);
        if (correction != 1.0f) correct_row(o, t, r, j, correction);
    }
}

AMP_ALWAYS_INLINE void score_team(const operands *o, team *t, int64_t key, int64_t j, int64_t n, int rows) {
    const int64_t pairs = o->head->depth / 2;
    const uint32_t *packed = o->keys + (key + j) * pairs;
    const bool whole = visible_keys(o->head, t->row, key + j, n) == KEY_BLOCK;
    if (o->plain && whole && weigh_team(o, t, packed, t->weights + j, rows)) return;
    if (n > 32)
        score_block(t->q, packed, pairs, t->scores, 4, rows);
    else
        score_block(t->q, packed, pairs, t->scores, 2, rows);
    weigh_block(o, t, key, j, n);
}

static void score_keys(const operands *o, team *t, int64_t key, int64_t j) {
    const int64_t left = keys_of(t, key) - j, n = left < KEY_BLOCK ? left : KEY_BLOCK;
    if (n <= 0) return;
    if (t->rows == ROWS)
        score_team(o, t, key, j, n, ROWS);
    else
        score_team(o, t, key, j, n, FEW);
}

AMP_ALWAYS_INLINE void add_columns(const operands *o, const team *t, int64_t key, int64_t column, int vectors) {
    const int64_t panel = column / PANEL * PANEL, wide = o->vectors - panel < PANEL ? o->vectors - panel : PANEL;
    const uint32_t *v = o->values + (panel * ((o->head->keys + 1) / 2) + key / 2 * wide + column - panel) * 16;
    const int64_t pairs = (keys_of(t, key) + 1) / 2;
    if (pairs == 0) return;
    if (t->rows == ROWS)
        add_values(t->sums + column * 16, o->step, t->weights, v, wide * 16, pairs, vectors, ROWS);
    else
        add_values(t->sums + column * 16, o->step, t->weights, v, wide * 16, pairs, vectors, FEW);
}

/* All rows of a group against KEYS keys: what is packed of them is read once, and is in L1 for all but the first. */
static void attend_keys(const operands *o, team *group, int teams, int64_t key) {
    const int64_t most = keys_of(&group[teams - 1], key);
    int64_t c = 0;
    for (int64_t j = 0; j < most; j += KEY_BLOCK)
        for (int i = 0; i < teams; i++) score_keys(o, &group[i], key, j);
    for (; o->vectors - c >= PANEL; c += PANEL)
        for (int i = 0; i < teams; i++) add_columns(o, &group[i], key, c, PANEL);
    for (; o->vectors - c >= 2; c += 2)
        for (int i = 0; i < teams; i++) add_columns(o, &group[i], key, c, 2);
    for (int i = 0; i < teams && c < o->vectors; i++) add_columns(o, &group[i], key, c, 1);
}

/* What the sums of a row are multiplied by. */
static float inverse_weight(const team *t, int r) {
    const float sum = v_sum(t->state[r].lanes);
    return sum == 0.0f ? 0.0f : 1.0f / sum;
}

static uint16_t *out_of(const amp_attention_head *h, const team *t, int r) {
    return (uint16_t *)h->out + (t->row + r) * h->out_step;
}

static __mmask16 not_finite(const uint16_t *out, __mmask16 lanes) {
    const __m256i exponent = _mm256_set1_epi16(0x7f80), x = _mm256_maskz_loadu_epi16(lanes, out);
    return _mm256_mask_cmpeq_epi16_mask(lanes, _mm256_and_si256(x, exponent), exponent);
}

static bool is_finite_row(const uint16_t *out, int64_t width) {
    unsigned beyond = 0;
    for (int64_t i = 0; i < width; i += 16) beyond |= not_finite(out + i, lanes_left(width - i));
    return !beyond;
}

/* The same for those elements alone that are not finite yet: the bits of others do not depend on them. */
static void store_rest(uint16_t *out, const float *sums, int64_t width, float scale) {
    for (int64_t i = 0; i < width; i += 16) {
        const __m512 x = _mm512_mul_ps(_mm512_loadu_ps(sums + i), _mm512_set1_ps(scale));
        _mm256_mask_storeu_epi16(out + i, not_finite(out + i, lanes_left(width - i)), (__m256i)_mm512_cvtneps_pbh(x));
    }
}

static void store_team(const operands *o, team *t) {
    const amp_attention_head *h = o->head;
    const int rows = h->rows - t->row < t->rows ? (int)(h->rows - t->row) : t->rows;
    bool finite = true;
    for (int r = 0; r < rows; r++) {
        store_row(out_of(h, t, r), t->sums + r * o->step, h->width, inverse_weight(t, r));
        finite &= is_finite_row(out_of(h, t, r), h->width);
    }
    if (finite || !o->plain) return;
    operands careful = *o;
    careful.plain = false;
    begin_team(&careful, t, t->row, t->rows, t->sums);
    for (int64_t key = 0; key < t->end; key += KEYS) attend_keys(&careful, t, 1, key);
    for (int r = 0; r < rows; r++) store_rest(out_of(h, t, r), t->sums + r * o->step, h->width, inverse_weight(t, r));
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
        pack_values(h, values, (h->keys + 1) / 2 * 2, PANEL);
    }
    const operands o = {h, keys, values, sums, vectors, vectors * 16, !h->mask && fabsf(h->scale) < 0x1p64f};
    for (int64_t row = 0; row < h->rows;) row = attend_group(&o, row);
}
