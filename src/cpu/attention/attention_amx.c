/* Attention in bf16 on AMX tiles.
 *
 * Formula:     out = Σ p_j·v_j / Σ p_j, p_j = e^(scale·q·k_j + mask_j − max), in blocks of 32 rows × 256 keys
 *              (attention.h); both products in tdpbf16ps: pairs of bf16, even and odd elements in sums of their own,
 *              added for each 32.
 * Accumulator: f32: scores in tiles, results in f32 memory between blocks of keys, the sum of weights in f32 lanes.
 * Error bound: that of attention_avx512bf16.c.
 * Denormals:   read as zero, flushed.
 * ISA:         AMX-TILE, AMX-BF16; AVX512F, BW, DQ, VL and AVX512_BF16 between the products.
 * Source:      Intel SDM volume 2, TDPBF16PS; Dao et al., arXiv 2205.14135.
 *
 * Tiles 0 to 3 are two of rows by two of columns, 4 and 5 the left operand, 6 and 7 the right one. Rows that a block
 * lacks are zeros in the packed query; keys that it lacks have weights and values of zero. */
#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "cpu/simd/simd_avx512.h"

#include "cpu/simd/vmath_body.h"

#include "cpu/attention/attention_bf16.h"
#include "machine/amx_tiles.h"

/* A row of scores becomes its weights in place: 34 KB of L1's 48 for both, where apart they were all of it. Rows are a
 * line further apart than 1 KB, so that they begin in different sets. Keys and values, each met once for 32 rows,
 * pass L1 by where it does not hold all of them beside that. By arithmetic, not measured. */
enum {
    ROWS = AMP_ATTENTION_TILE_ROWS,
    KEYS = AMP_ATTENTION_KEYS,
    TILE = 16,
    TILE_K = 32,
    PITCH = KEYS + 16,        /* of scores, in f32 */
    WEIGHT_PITCH = 2 * PITCH, /* of weights, in bf16 */
    NEAR_BYTES = 48 * 1024,   /* L1 */
};

/* Weights where their scores were: 16 of them are written when 16 scores, and all before, have been read. */
typedef uint16_t __attribute__((may_alias)) row_weights;

/* A head and where its packed parts are. */
typedef struct block {
    const amp_attention_head *h;
    const uint32_t *keys, *values;
    uint16_t *query; /* [depth/32][32 rows][32] */
    float *sums;     /* [32][step] */
    int64_t step;    /* width, padded to whole tiles */
    bool tall;       /* more than 16 rows */
    bool far;        /* keys and values do not stay in L1 */
} block;

#define LOAD_ONCE(b, tile, from, bytes)                                                                                \
    do {                                                                                                               \
        if ((b)->far)                                                                                                  \
            _tile_stream_loadd(tile, from, bytes);                                                                     \
        else                                                                                                           \
            _tile_loadd(tile, from, bytes);                                                                            \
    } while (0)

/* What 32 rows meet is more than L1: scores, sums, the query, keys and values. */
static bool is_far(const amp_attention_head *h, int64_t step) {
    const int64_t keys = h->keys < KEYS ? h->keys : KEYS;
    return ROWS * (keys * 4 + step * 4 + h->depth * 2) + h->keys * (h->depth + step) * 2 > NEAR_BYTES;
}

static void pack_query(const block *b, int64_t row) {
    const amp_attention_head *h = b->h;
    uint16_t *to = b->query;
    for (int64_t d = 0; d < h->depth; d += TILE_K) {
        for (int64_t r = 0; r < ROWS; r++, to += TILE_K) {
            const uint16_t *from = (const uint16_t *)h->q + (row + r) * h->q_step + d;
            _mm512_store_si512(to, row + r < h->rows ? _mm512_loadu_si512(from) : _mm512_setzero_si512());
        }
    }
}

/* scores[r][0 … 31] = q[r]·k for 32 keys of a packed block. */
static void multiply_keys(const block *b, const uint32_t *keys, float *scores) {
    enum { SCORE_BYTES = PITCH * sizeof(float), KEY_BYTES = KEY_BLOCK * sizeof(uint32_t) };
    const uint16_t *q = b->query;
    amp_tiles_see_stores(q);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t d = 0; d < b->h->depth; d += TILE_K) {
        _tile_loadd(4, q, TILE_K * sizeof *q);
        LOAD_ONCE(b, 6, keys, KEY_BYTES);
        _tile_dpbf16ps(0, 4, 6);
        LOAD_ONCE(b, 7, keys + TILE, KEY_BYTES);
        _tile_dpbf16ps(1, 4, 7);
        if (b->tall) {
            _tile_loadd(5, q + TILE * TILE_K, TILE_K * sizeof *q);
            _tile_dpbf16ps(2, 5, 6);
            _tile_dpbf16ps(3, 5, 7);
        }
        q += ROWS * TILE_K;
        keys += TILE_K / 2 * KEY_BLOCK;
    }
    _tile_stored(0, scores, SCORE_BYTES);
    _tile_stored(1, scores + TILE, SCORE_BYTES);
    if (b->tall) {
        _tile_stored(2, scores + TILE * PITCH, SCORE_BYTES);
        _tile_stored(3, scores + TILE * PITCH + TILE, SCORE_BYTES);
    }
}

/* sums += weights·v over n keys, a multiple of 32, for one or two tiles of columns. */
AMP_ALWAYS_INLINE void add_values(const block *b, const row_weights *weights, const uint32_t *v, int64_t n, float *sums,
                                  bool two) {
    const size_t pitch = (size_t)b->step * sizeof(float), weight_bytes = WEIGHT_PITCH * sizeof *weights;
    float *const lower = sums + TILE * b->step;
    amp_tiles_see_stores(weights);
    _tile_loadd(0, sums, pitch);
    _tile_loadd(2, lower, pitch);
    if (two) {
        _tile_loadd(1, sums + TILE, pitch);
        _tile_loadd(3, lower + TILE, pitch);
    }
    for (int64_t j = 0; j < n; j += TILE_K, v += TILE_K / 2 * b->step) {
        _tile_loadd(4, weights + j, weight_bytes);
        LOAD_ONCE(b, 6, v, pitch);
        _tile_dpbf16ps(0, 4, 6);
        if (b->tall) {
            _tile_loadd(5, weights + TILE * WEIGHT_PITCH + j, weight_bytes);
            _tile_dpbf16ps(2, 5, 6);
        }
        if (two) {
            LOAD_ONCE(b, 7, v + TILE, pitch);
            _tile_dpbf16ps(1, 4, 7);
            if (b->tall) _tile_dpbf16ps(3, 5, 7);
        }
    }
    _tile_stored(0, sums, pitch);
    _tile_stored(2, lower, pitch);
    if (two) {
        _tile_stored(1, sums + TILE, pitch);
        _tile_stored(3, lower + TILE, pitch);
    }
}

/* Weights of n keys to bf16, and a zero behind an odd last one. */
static inline void round_weights(row_weights *to, const float *from, int64_t n) {
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) store_rounded(to + i, _mm512_loadu_ps(from + i));
    if (i < n) store_rounded(to + i, _mm512_maskz_loadu_ps(v_first(n - i), from + i));
}

static inline float highest_score(const float *s, int64_t n, __m512 scale) {
    __m512 best = _mm512_set1_ps(-INFINITY);
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) best = v_max(v_load(s + i) * scale, best);
    if (i < n) best = v_max(v_keep_first(v_load_first(s + i, n - i) * scale, n - i, best), best);
    return v_max_lane(best);
}

/* to = e^(scale·s − top) of 16 scores, 0 beyond `lanes`; returns what was not rounded. */
AMP_ALWAYS_INLINE __m512 round_powers(row_weights *to, const float *s, __mmask16 lanes, __m512 scale, __m512 top) {
    /* not fused: the largest score's own difference is 0, however large it is */
    const __m512 x = (_mm512_maskz_loadu_ps(lanes, s) * scale - top) * _mm512_set1_ps(LOG2_E);
    const __m512 e = _mm512_maskz_mov_ps(lanes, power_of_two(x));
    store_rounded(to, e);
    return e;
}

/* The same of n scores; returns their sum. */
static inline float round_all_powers(row_weights *to, const float *s, int64_t n, __m512 scale, float top) {
    const __m512 t = _mm512_set1_ps(top);
    __m512 sum = _mm512_setzero_ps();
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) sum = sum + round_powers(to + i, s + i, 0xffff, scale, t);
    if (i < n) sum = sum + round_powers(to + i, s + i, v_first(n - i), scale, t);
    return v_sum(sum);
}

/* update_row and round_weights. Where there is no mask, the scaled scores are not written. */
static inline float weigh_row(const amp_attention_head *h, row_state *state, float *s, int64_t row, int64_t first_key,
                              int64_t n, row_weights *to) {
    const __m512 scale = _mm512_set1_ps(h->scale);
    const int64_t visible = visible_keys(h, row, first_key, n), whole = (visible + 15) / 16 * 16;
    const float max = h->mask ? -INFINITY : highest_score(s, visible, scale);
    const float top = max > state->max ? max : state->max;
    if (h->mask || top == -INFINITY) {
        const float correction = update_row(h, state, s, row, first_key, n);
        round_weights(to, s, n);
        return correction;
    }
    const float correction = top == state->max ? 1.0f : expf(state->max - top);
    state->sum = state->sum * correction + round_all_powers(to, s, visible, scale, top);
    state->max = top;
    for (int64_t i = whole; i < n; i += 16) _mm256_storeu_si256((__m256i *)(void *)(to + i), _mm256_setzero_si256());
    return correction;
}

/* The running sums follow a maximum that has grown. */
static void correct_row(float *sums, int64_t step, float correction) {
    if (correction == 1.0f) return;
    const __m512 factor = _mm512_set1_ps(correction);
    for (int64_t c = 0; c < step; c += 16) _mm512_storeu_ps(sums + c, _mm512_mul_ps(_mm512_loadu_ps(sums + c), factor));
}

static void attend_keys(const block *b, int64_t row, int64_t rows, int64_t key, int64_t n, row_state *state) {
    _Alignas(64) float scores[ROWS * PITCH];
    row_weights *const weights = (row_weights *)scores;
    const int64_t padded = (n + TILE_K - 1) / TILE_K * TILE_K;
    for (int64_t j = 0; j < n; j += TILE_K) {
        const int64_t at = key + j;
        multiply_keys(b, b->keys + at / KEY_BLOCK * KEY_BLOCK * (b->h->depth / 2) + at % KEY_BLOCK, scores + j);
    }
    for (int64_t r = 0; r < rows; r++) {
        row_weights *to = weights + r * WEIGHT_PITCH;
        correct_row(b->sums + r * b->step, b->step,
                    weigh_row(b->h, &state[r], scores + r * PITCH, row + r, key, n, to));
        for (int64_t j = n; j < padded; j++) to[j] = 0;
    }
    for (int64_t r = rows; r < ROWS; r++) memset(weights + r * WEIGHT_PITCH, 0, (size_t)padded * sizeof *weights);
    const uint32_t *v = b->values + key / 2 * b->step;
    int64_t c = 0;
    for (; c + 2 * TILE <= b->step; c += 2 * TILE) add_values(b, weights, v + c, padded, b->sums + c, true);
    if (c < b->step) add_values(b, weights, v + c, padded, b->sums + c, false);
}

static void attend_rows(block *b, int64_t row) {
    const amp_attention_head *h = b->h;
    const int64_t rows = h->rows - row < ROWS ? h->rows - row : ROWS, seen = h->first_row + row + rows;
    const int64_t end = h->causal && seen < h->keys ? seen : h->keys;
    row_state state[ROWS];
    b->tall = rows > TILE;
    pack_query(b, row);
    memset(b->sums, 0, (size_t)(ROWS * b->step) * sizeof *b->sums);
    for (int r = 0; r < ROWS; r++) state[r] = (row_state){-INFINITY, 0.0f};
    for (int64_t key = 0; key < end; key += KEYS) {
        attend_keys(b, row, rows, key, end - key < KEYS ? end - key : KEYS, state);
    }
    for (int64_t r = 0; r < rows; r++) {
        store_row((uint16_t *)h->out + (row + r) * h->out_step, b->sums + r * b->step, h->width,
                  state[r].sum == 0.0f ? 0.0f : 1.0f / state[r].sum);
    }
}

void amp_attention_bf16_amx(const amp_attention_head *h, void *packed, bool reuse) {
    const int64_t blocks = (h->keys + KEY_BLOCK - 1) / KEY_BLOCK, padded = blocks * KEY_BLOCK;
    block b = {.h = h, .step = (h->width + 15) / 16 * 16};
    uint32_t *keys = packed, *values = keys + padded * (h->depth / 2);
    b.far = is_far(h, b.step);
    b.keys = keys;
    b.values = values;
    b.sums = (float *)(values + padded / 2 * b.step);
    b.query = (uint16_t *)(b.sums + ROWS * b.step);
    if (!reuse) {
        pack_keys(h, keys);
        pack_values(h, values, padded, b.step / 16);
    }
    amp_tiles_configure((const uint8_t[8]){16, 16, 16, 16, 16, 16, 16, 16});
    for (int64_t row = 0; row < h->rows; row += ROWS) attend_rows(&b, row);
    _tile_release();
}
