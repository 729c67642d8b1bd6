/* Attention in bf16 with vdpbf16ps (Intel SDM volume 2C): products of bf16 pairs summed in f32, weights rounded to bf16
 * before the second product. */
#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "cpu/simd_avx512.h"

#include "cpu/vmath_body.h"

#include "cpu/attention_bf16.h"
#include "cpu/attention_softmax.h"

enum { ROWS = AMP_ATTENTION_ROWS, KEYS = AMP_ATTENTION_KEYS };

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

static void attend_rows(const amp_attention_head *h, const uint32_t *keys, const uint32_t *values, float *sums,
                        int64_t row) {
    const int64_t vectors = (h->width + 15) / 16, step = vectors * 16, last = h->rows - 1;
    const int64_t end = h->causal && h->first_row + row + ROWS < h->keys ? h->first_row + row + ROWS : h->keys;
    _Alignas(64) float scores[ROWS * KEYS];
    _Alignas(64) uint16_t weights[ROWS * KEYS];
    row_state state[ROWS];
    const uint16_t *q[ROWS];
    AMP_UNROLL
    for (int r = 0; r < ROWS; r++) {
        q[r] = (const uint16_t *)h->q + (row + r < last ? row + r : last) * h->q_step;
        state[r] = (row_state){-INFINITY, 0.0f};
    }
    memset(sums, 0, (size_t)(ROWS * step) * sizeof *sums);
    for (int64_t key = 0; key < end; key += KEYS) {
        const int64_t n = end - key < KEYS ? end - key : KEYS, pairs = (n + 1) / 2;
        float correction[ROWS];
        for (int64_t j = 0; j < n; j += KEY_BLOCK) {
            multiply_keys(q, keys + (key + j) * (h->depth / 2), h->depth / 2, scores + j, n - j);
        }
        AMP_UNROLL
        for (int r = 0; r < ROWS; r++) {
            const int64_t at = row + r < last ? row + r : last;
            correction[r] = update_row(h, &state[r], scores + r * KEYS, at, key, n);
            round_weights(weights + r * KEYS, scores + r * KEYS, n);
        }
        const uint32_t *v = values + key / 2 * step;
        int64_t c = 0;
        for (; vectors - c >= 4; c += 4)
            add_values(sums + c * 16, step, correction, weights, v + c * 16, step, pairs, 4);
        for (; vectors - c >= 2; c += 2)
            add_values(sums + c * 16, step, correction, weights, v + c * 16, step, pairs, 2);
        if (c < vectors) add_values(sums + c * 16, step, correction, weights, v + c * 16, step, pairs, 1);
    }
    for (int r = 0; r < ROWS && row + r < h->rows; r++) {
        store_row((uint16_t *)h->out + (row + r) * h->out_step, sums + r * step, h->width,
                  state[r].sum == 0.0f ? 0.0f : 1.0f / state[r].sum);
    }
}

void amp_attention_bf16_avx512bf16(const amp_attention_head *h, void *packed, bool reuse) {
    const int64_t key_blocks = (h->keys + KEY_BLOCK - 1) / KEY_BLOCK, vectors = (h->width + 15) / 16;
    uint32_t *keys = packed, *values = keys + key_blocks * KEY_BLOCK * (h->depth / 2);
    float *sums = (float *)(values + (h->keys + 1) / 2 * vectors * 16);
    if (!reuse) {
        pack_keys(h, keys);
        pack_values(h, values, (h->keys + 1) / 2 * 2);
    }
    for (int64_t row = 0; row < h->rows; row += ROWS) attend_rows(h, keys, values, sums, row);
}
