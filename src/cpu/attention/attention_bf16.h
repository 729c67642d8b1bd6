/* What the bf16 kernels of attention share: packing, the exponential, rounding of results. AVX512BF16; keys are packed
 * [block of 64][depth/2][64][2], values [panel][keys/2][columns][2], zero padded. */
#ifndef AMP_CPU_ATTENTION_BF16_H
#define AMP_CPU_ATTENTION_BF16_H

#include <immintrin.h>
#include <string.h>

#include "cpu/attention/attention_softmax.h"
#include "cpu/attention/attention_transpose.h"
#include "cpu/registry/kernels.h"
#include "cpu/simd/simd_avx512.h"
#include "cpu/simd/unroll.h"

#define LOG2_E 1.44269504f

enum { KEY_BLOCK = 64, AHEAD = 32 /* rows of values */ };

/* A row, or what lies behind the last, into L1 ahead of its use. */
static inline void fetch_row(const uint16_t *row, int64_t values) {
    for (int64_t i = 0; i < values; i += 32) _mm_prefetch((const char *)(row + i), _MM_HINT_T0);
}

static void pack_keys(const amp_attention_head *h, uint32_t *packed) {
    const uint16_t *k = h->k;
    const int64_t pairs = h->depth / 2;
    for (int64_t first = 0; first < h->keys; first += KEY_BLOCK, packed += pairs * KEY_BLOCK) {
        for (int64_t d = 0; d < pairs; d += 16) {
            const int64_t count = pairs - d < 16 ? pairs - d : 16;
            for (int64_t j = 0; j < KEY_BLOCK; j += 16) {
                __m512i columns[16];
                AMP_UNROLL
                for (int i = 0; i < 16; i++) fetch_row(k + (first + KEY_BLOCK + j + i) * h->k_step + 2 * d, 1);
                transpose_pairs(columns, k + (first + j) * h->k_step + 2 * d, h->k_step, h->keys - first - j,
                                (__mmask16)((1u << count) - 1u));
                for (int64_t i = 0; i < count; i++) _mm512_storeu_si512(packed + (d + i) * KEY_BLOCK + j, columns[i]);
            }
        }
    }
}

/* Two rows of values interleaved: `vectors` of 16 columns from `column` on; zeros behind the last row and column. */
static inline void pack_two_rows(const amp_attention_head *h, uint32_t *packed, int64_t row, int64_t column,
                                 int64_t vectors) {
    static const uint16_t low[32] = {0, 32, 1, 33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
                                     8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47};
    const __m512i first = _mm512_loadu_si512(low), second = _mm512_add_epi16(first, _mm512_set1_epi16(16));
    const uint16_t *v = (const uint16_t *)h->v + row * h->v_step + column;
    for (int64_t c = 0; c < vectors; c += 2, v += 32) {
        const int64_t left = h->width - column - c * 16;
        const __mmask32 lanes = left >= 32 ? 0xffffffffu : (1u << left) - 1u;
        fetch_row(v + AHEAD * h->v_step, 1);
        fetch_row(v + (AHEAD + 1) * h->v_step, 1);
        const __m512i even = _mm512_maskz_loadu_epi16(row < h->keys ? lanes : 0, v);
        const __m512i odd = _mm512_maskz_loadu_epi16(row + 1 < h->keys ? lanes : 0, v + h->v_step);
        _mm512_storeu_si512(packed + c * 16, _mm512_permutex2var_epi16(even, first, odd));
        if (c + 1 < vectors) _mm512_storeu_si512(packed + c * 16 + 16, _mm512_permutex2var_epi16(even, second, odd));
    }
}

/* In panels of up to `panel` vectors of columns; `padded`: rows, with those of zeros behind the last. */
static void pack_values(const amp_attention_head *h, uint32_t *packed, int64_t padded, int64_t panel) {
    const int64_t vectors = (h->width + 15) / 16;
    for (int64_t c = 0; c < vectors; c += panel) {
        const int64_t wide = vectors - c < panel ? vectors - c : panel;
        for (int64_t j = 0; j < padded; j += 2, packed += wide * 16) pack_two_rows(h, packed, j, c * 16, wide);
    }
}

/* 2^x for any finite x, relative error below 2^-18.3 (a minimax fit of 2^f, 0 ≤ f < 1, that is 1 at 0): weights keep
 * 2^-8. */
static inline __m512 power_of_two(__m512 x) {
    const __m512 f = _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
    __m512 p = _mm512_fmadd_ps(f, _mm512_set1_ps(0.0134266843f), _mm512_set1_ps(0.0522424742f));
    p = _mm512_fmadd_ps(f, p, _mm512_set1_ps(0.241280205f));
    p = _mm512_fmadd_ps(f, p, _mm512_set1_ps(0.693044845f));
    return _mm512_scalef_ps(_mm512_fmadd_ps(f, p, _mm512_set1_ps(1.0f)), x);
}

static inline void store_rounded(uint16_t *to, __m512 x) {
    _mm256_storeu_si256((__m256i *)(void *)to, (__m256i)_mm512_cvtneps_pbh(x));
}

static inline int64_t visible_keys(const amp_attention_head *h, int64_t row, int64_t first_key, int64_t n) {
    const int64_t visible = h->first_row + row + 1 - first_key;
    return !h->causal || visible > n ? n : visible < 0 ? 0 : visible;
}

static inline __mmask16 lanes_left(int64_t left) {
    return (__mmask16)(left >= 16 ? 0xffffu : (1u << left) - 1u);
}

static void store_row(uint16_t *out, const float *sums, int64_t width, float scale) {
    const __m512 s = _mm512_set1_ps(scale);
    for (int64_t i = 0; i < width; i += 16) {
        const __mmask16 lanes = lanes_left(width - i);
        const __m256i rounded = (__m256i)_mm512_cvtneps_pbh(_mm512_mul_ps(_mm512_maskz_loadu_ps(lanes, sums + i), s));
        _mm256_mask_storeu_epi16(out + i, lanes, rounded);
    }
}

#endif /* AMP_CPU_ATTENTION_BF16_H */
