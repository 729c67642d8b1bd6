/* Attention in bf16, the reference.
 *
 * Formula:     out = Σ p_j·v_j / Σ p_j, p_j = e^(scale·q·k_j + mask_j − max) (attention.h), with the p_j of the upper
 *              sum, not those of the lower one, rounded to bf16, as the kernels with bf16 products must.
 * Accumulator: f32, everything in ascending order.
 * Error bound: (2⁻⁸ + 2·δ + (S + 16)·2⁻²³) · Σ p_j·|v_j| / Σ p_j, δ as in attention_body.h; then half an ulp of bf16.
 * Denormals:   kept, as MXCSR says by default.
 * ISA:         none.
 * Source:      the definition; PyTorch's scaled_dot_product_attention for rows without a key. */
#include <math.h>

#include "cpu/registry/kernels.h"

static float score(const amp_attention_head *h, int64_t row, int64_t key) {
    const uint16_t *q = (const uint16_t *)h->q + row * h->q_step, *k = (const uint16_t *)h->k + key * h->k_step;
    float sum = 0.0f;
    if (h->causal && key > h->first_row + row) return -INFINITY;
    for (int64_t d = 0; d < h->depth; d++) sum += amp_f32_from_bf16(q[d]) * amp_f32_from_bf16(k[d]);
    return sum * h->scale + (h->mask ? h->mask[row * h->mask_row_step + key * h->mask_key_step] : 0.0f);
}

enum { COLUMNS = 64 }; /* that share a score */

static void attend_columns(const amp_attention_head *h, int64_t row, int64_t first, int64_t count, float max) {
    uint16_t *out = (uint16_t *)h->out + row * h->out_step + first;
    float results[COLUMNS] = {0.0f}, sum = 0.0f;
    for (int64_t j = 0; j < h->keys; j++) {
        const float s = score(h, row, j), w = s == -INFINITY ? 0.0f : expf(s - max);
        const float rounded = amp_f32_from_bf16(amp_bf16_from_f32(w));
        const uint16_t *v = (const uint16_t *)h->v + j * h->v_step + first;
        sum += w;
        for (int64_t i = 0; i < count; i++) results[i] += rounded * amp_f32_from_bf16(v[i]);
    }
    for (int64_t i = 0; i < count; i++) out[i] = amp_bf16_from_f32(sum == 0.0f ? 0.0f : results[i] / sum);
}

/* Scores are computed again for each piece of the row, so that no row of them has to be kept. */
static void attend_row(const amp_attention_head *h, int64_t row) {
    float max = -INFINITY;
    for (int64_t j = 0; j < h->keys; j++) max = fmaxf(max, score(h, row, j));
    for (int64_t i = 0; i < h->width; i += COLUMNS)
        attend_columns(h, row, i, h->width - i < COLUMNS ? h->width - i : COLUMNS, max);
}

void amp_attention_bf16_ref(const amp_attention_head *h, void *packed, bool reuse) {
    (void)packed, (void)reuse;
    for (int64_t row = 0; row < h->rows; row++) attend_row(h, row);
}
