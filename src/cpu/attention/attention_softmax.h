/* The online softmax between the two products of attention; over simd_<isa>.h and vmath_body.h. */
#ifndef AMP_CPU_ATTENTION_SOFTMAX_H
#define AMP_CPU_ATTENTION_SOFTMAX_H

#include "cpu/attention/attention.h"

typedef amp_attention_state row_state;

/* Scores of `n` keys from `first_key` on, scaled, masked; −inf where causality hides a key. Returns their maximum. */
static inline float finish_scores(const amp_attention_head *h, float *s, int64_t row, int64_t first_key, int64_t n) {
    const vf scale = v_set1(h->scale), none = v_set1(-INFINITY);
    const float *mask = h->mask ? h->mask + row * h->mask_row_step + first_key * h->mask_key_step : NULL;
    int64_t visible = n;
    if (h->causal) {
        visible = h->first_row + row + 1 - first_key;
        visible = visible < 0 ? 0 : visible > n ? n : visible;
    }
    vf best = none;
    int64_t i = 0;
    for (; i + VL <= n; i += VL) {
        vf x = v_load(s + i) * scale;
        if (mask) x = x + (h->mask_key_step ? v_load(mask + i) : v_set1(*mask));
        if (visible < i + VL) x = visible > i ? v_keep_first(x, visible - i, none) : none;
        v_store(s + i, x);
        best = v_max(x, best);
    }
    if (i < n) {
        vf x = v_load_first(s + i, n - i) * scale;
        if (mask) x = x + (h->mask_key_step ? v_load_first(mask + i, n - i) : v_set1(*mask));
        const int64_t left = visible < n ? visible - i : n - i;
        x = left > 0 ? v_keep_first(x, left, none) : none;
        v_store_first(s + i, x, n - i);
        best = v_max(x, best);
    }
    return v_max_lane(best);
}

/* s = e^(s − max); returns the sum. `max` is finite or +inf. */
static inline float exponentiate(float *s, int64_t n, float max) {
    const vf m = v_set1(max);
    vf sum = v_set1(0.0f);
    int64_t i = 0;
    for (; i + VL <= n; i += VL) {
        const vf e = v_exp(v_load(s + i) - m);
        v_store(s + i, e);
        sum = sum + e;
    }
    if (i < n) {
        const vf e = v_keep_first(v_exp(v_load_first(s + i, n - i) - m), n - i, v_set1(0.0f));
        v_store_first(s + i, e, n - i);
        sum = sum + e;
    }
    return v_sum(sum);
}

/* Scores to weights. Returns what the results so far must be multiplied by. A NaN among the scores ends up in the
 * sum. */
static inline float update_row(const amp_attention_head *h, row_state *state, float *s, int64_t row, int64_t first_key,
                               int64_t n) {
    const float max = finish_scores(h, s, row, first_key, n);
    const float top = max > state->max ? max : state->max;
    if (top == -INFINITY) { /* nothing visible yet; −inf − −inf would be NaN, and a true NaN must stay one */
        float sum = 0.0f;
        for (int64_t i = 0; i < n; i++) {
            s[i] = s[i] != s[i] ? s[i] : 0.0f;
            sum += s[i];
        }
        state->sum += sum;
        return 1.0f;
    }
    const float correction = expf(state->max - top);
    state->sum = state->sum * correction + exponentiate(s, n, top);
    state->max = top;
    return correction;
}

#endif /* AMP_CPU_ATTENTION_SOFTMAX_H */
