/* Kernel of the depthwise convolution.
 *
 * Formula:     y = bias + Σ x · w over the taps that meet the image, in order, each fused; rounded once.
 * Accumulator: f32, one per element of y, in a register.
 * Error bound: |y - exact| ≤ (taps + 1) · 2⁻²⁴ · (|bias| + Σ|x w|) to first order; then half an ulp of y's type.
 * ISA:         that of the simd header which is included before.
 * Source:      none beyond the definition of convolution.
 *
 * A register holds VL channels of one output; up to eight outputs of a line share the loads of the weights, and each
 * input is loaded once for all outputs that it meets. The order of a sum is that of the taps either way. */
#ifndef AMP_CPU_DEPTHWISE_BODY_H
#define AMP_CPU_DEPTHWISE_BODY_H

#include "cpu/registry/convert.h"
#include "cpu/registry/kernels.h"
#include "cpu/simd/activation_body.h"

#define BODY_NAME_(dtype, isa) amp_depthwise_##dtype##_##isa
#define BODY_NAME(dtype, isa) BODY_NAME_(dtype, isa)

enum { OUTPUTS = 8, WEIGHTS = 7, LAST_BYTE = VL * sizeof(float) - 1, NEAR_BYTES = 768 * 1024 };

/* A line of the image that the windows of an output line meet. */
typedef struct meeting {
    const char *x;     /* channel 0 of its first pixel */
    const float *taps; /* channel 0 of the first tap there */
} meeting;

/* One line of the output, and the first of the VL channels, or fewer, that are at work. */
typedef struct line {
    const amp_depthwise *d;
    meeting meet[AMP_DEPTHWISE_LINES];
    int meets;
    bool far; /* the image comes from beyond L2: it is fetched ahead, which costs a little where it is near */
    int64_t channel;
    char *y;              /* channel 0 of the first pixel */
    const char *residual; /* the same of the residual, if there is any */
} line;

#define BODY_INLINE static inline __attribute__((always_inline))

BODY_INLINE vf load_pixel(const char *p, const bool half, int count) {
    if (half) return count == VL ? v_load_bf16((const uint16_t *)p) : v_load_bf16_first((const uint16_t *)p, count);
    return count == VL ? v_load((const float *)p) : v_load_first((const float *)p, count);
}

BODY_INLINE void store_pixel(char *p, vf x, const bool half, int count) {
    if (half && count == VL)
        v_store_bf16((uint16_t *)p, x);
    else if (half)
        v_store_bf16_first((uint16_t *)p, x, count);
    else if (count == VL)
        v_store((float *)p, x);
    else
        v_store_first((float *)p, x, count);
}

BODY_INLINE vf load_weight(const float *p, int count) {
    return count == VL ? v_load(p) : v_load_first(p, count);
}

BODY_INLINE vf first_sum(const line *l, int count) {
    return l->d->bias ? load_weight(l->d->bias + l->channel, count) : v_set1(0.0f);
}

/* One vector of channels, or two where the channels of a vector of bf16 come out of it as the even and the odd ones. */
typedef struct group {
    vf v[2];
} group;

#if defined(__AVX512F__)
enum { PAIRED = 1 };

BODY_INLINE group split(const float *p) {
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
    const vf low = v_load(p), high = v_load(p + VL);
    return (group){{_mm512_permutex2var_ps(low, even, high), _mm512_permutex2var_ps(low, odd, high)}};
}
#else
enum { PAIRED = 0 };

BODY_INLINE group split(const float *p) {
    return (group){{v_load(p), v_set1(0.0f)}};
}
#endif

BODY_INLINE group load_pair(const char *p) {
    group x;
    v_load_bf16_pair((const uint16_t *)p, &x.v[0], &x.v[1]);
    return x;
}
BODY_INLINE void store_pair(char *p, group x) {
    v_store_bf16_pair((uint16_t *)p, x.v[0], x.v[1]);
}

BODY_INLINE group load_group(const char *p, const bool half, int count, const bool pair) {
    return pair ? load_pair(p) : (group){{load_pixel(p, half, count), v_set1(0.0f)}};
}
BODY_INLINE group load_weights(const float *p, int count, const bool pair) {
    return pair ? split(p) : (group){{load_weight(p, count), v_set1(0.0f)}};
}

/* `n` outputs whose sums are made, through the epilogue. Not inlined: the kernels without one are large enough. */
BODY_INLINE void finish_any(const line *l, int64_t o, const group *sums, int n, const bool half, int count,
                            const bool pair) {
    const amp_depthwise_epilogue *e = l->d->epilogue;
    const int64_t size = half ? 2 : 4;
    const group one = {{v_set1(1.0f), v_set1(1.0f)}}, zero = {{v_set1(0.0f), v_set1(0.0f)}};
    const group scale = e->scale ? load_weights(e->scale + l->channel, count, pair) : one;
    const group bias = e->bias ? load_weights(e->bias + l->channel, count, pair) : zero;
    for (int i = 0; i < n; i++) {
        const char *r = e->residual ? l->residual + ((o + i) * e->residual_step + l->channel) * size : NULL;
        const group residual = r ? load_group(r, half, count, pair) : zero;
        group x = sums[i];
        for (int v = 0; v < 1 + pair; v++) {
            x.v[v] = x.v[v] * scale.v[v] + residual.v[v] + bias.v[v];
            x.v[v] = v_activated(x.v[v], e->activation, e->numbers);
        }
        char *y = l->y + ((o + i) * l->d->y_step + l->channel) * size;
        if (pair)
            store_pair(y, x);
        else
            store_pixel(y, x.v[0], half, count);
    }
}
static __attribute__((noinline)) void finish_f32(const line *l, int64_t o, const group *sums, int n, int count) {
    finish_any(l, o, sums, n, false, count, false);
}
static __attribute__((noinline)) void finish_bf16(const line *l, int64_t o, const group *sums, int n, int count) {
    finish_any(l, o, sums, n, true, count, false);
}
static __attribute__((noinline)) void finish_pairs(const line *l, int64_t o, const group *sums, int n) {
    finish_any(l, o, sums, n, true, VL, true);
}

BODY_INLINE void finish(const line *l, int64_t o, const group *sums, int n, const bool half, int count,
                        const bool pair) {
    if (pair)
        finish_pairs(l, o, sums, n);
    else
        (half ? finish_bf16 : finish_f32)(l, o, sums, n, count);
}

/* Any output, tap by tap. */
BODY_INLINE void one_output(const line *l, int64_t o, const bool half, int count) {
    const amp_gemm_window *w = l->d->window;
    const int64_t size = half ? 2 : 4, first = o * w->stride[2] - w->pad[2];
    vf sum = first_sum(l, count);
    for (int m = 0; m < l->meets; m++) {
        const char *from = l->meet[m].x + l->channel * size;
        for (int64_t k = 0; k < w->taps[2]; k++) {
            const int64_t i = first + k * w->dilation[2];
            if (i < 0 || i >= w->in[2]) continue;
            sum = v_fma(load_pixel(from + i * w->step[2] * size, half, count),
                        load_weight(l->meet[m].taps + l->channel + k * w->channels, count), sum);
        }
    }
    if (l->d->epilogue)
        finish(l, o, &(group){{sum, sum}}, 1, half, count, false);
    else
        store_pixel(l->y + (o * l->d->y_step + l->channel) * size, sum, half, count);
}

/* The lowest line that windows meet is new to the cache: what the block from output `o` on will read of it first. */
BODY_INLINE void fetch_next(const line *l, int64_t o, const int pixels, const bool half) {
    const amp_gemm_window *w = l->d->window;
    const int64_t size = half ? 2 : 4, step = w->step[2] * size;
    const int64_t first = o * w->stride[2] - w->pad[2] + w->taps[2] - w->stride[2];
    if (l->meets == 0 || first + pixels > w->in[2]) return;
    const char *from = l->meet[l->meets - 1].x + l->channel * size + first * step;
#pragma GCC unroll 1
    for (int i = 0; i < pixels; i++, from += step) {
        __builtin_prefetch(from);
        __builtin_prefetch(from + LAST_BYTE);
    }
}

/* `n` outputs of dilation 1; with `inside` all their windows lie within the width. */
BODY_INLINE void many_outputs(const line *l, int64_t o, const int n, const int taps, const int stride, const bool half,
                              int count, const bool pair, const bool inside) {
    const amp_gemm_window *w = l->d->window;
    const int64_t size = half ? 2 : 4, step = w->step[2] * size, y_step = l->d->y_step * size;
    const int64_t first = o * stride - w->pad[2], channels = w->channels, width = w->in[2];
    const int vectors = pair ? 2 : 1;
    const group zero = {{v_set1(0.0f), v_set1(0.0f)}};
    const group bias = l->d->bias ? load_weights(l->d->bias + l->channel, count, pair) : zero;
    char *y = l->y + l->channel * size + o * y_step;
    group sums[OUTPUTS];
#pragma GCC unroll 8
    for (int i = 0; i < n; i++) {
        sums[i] = bias;
        if (!l->far) continue;
        __builtin_prefetch(y + i * y_step, 1);
        __builtin_prefetch(y + i * y_step + LAST_BYTE, 1); /* a vector may lie in two lines */
    }
    if (l->far) fetch_next(l, o + n, n * stride, half);
    for (int m = 0; m < l->meets; m++) {
        const char *from = l->meet[m].x + l->channel * size + first * step;
        const float *at = l->meet[m].taps + l->channel;
        group weights[WEIGHTS];
#pragma GCC unroll 7
        for (int k = 0; k < taps; k++) weights[k] = load_weights(at + k * channels, count, pair);
#pragma GCC unroll 21
        for (int i = 0; i < (n - 1) * stride + taps; i++, from += step) {
            if (!inside && (first + i < 0 || first + i >= width)) continue;
            const group x = load_group(from, half, count, pair);
#pragma GCC unroll 7
            for (int k = 0; k < taps; k++) {
                const int to = (i - k) / stride;
                if (i < k || (i - k) % stride != 0 || to >= n) continue;
#pragma GCC unroll 2
                for (int v = 0; v < vectors; v++) sums[to].v[v] = v_fma(x.v[v], weights[k].v[v], sums[to].v[v]);
            }
        }
    }
    if (l->d->epilogue) {
        group made[OUTPUTS]; /* a copy in memory, so that the sums stay in registers */
#pragma GCC unroll 8
        for (int i = 0; i < n; i++) made[i] = sums[i];
        finish(l, o, made, n, half, count, pair);
        return;
    }
#pragma GCC unroll 8
    for (int i = 0; i < n; i++, y += y_step) {
        if (pair)
            store_pair(y, sums[i]);
        else
            store_pixel(y, sums[i].v[0], half, count);
    }
}

BODY_INLINE void some_outputs(const line *l, int64_t o, const int n, const int taps, const int stride, const bool half,
                              int count, const bool pair) {
    const amp_gemm_window *w = l->d->window;
    const int64_t first = o * stride - w->pad[2];
    if (first >= 0 && first + (n - 1) * stride + taps <= w->in[2])
        many_outputs(l, o, n, taps, stride, half, count, pair, true);
    else
        many_outputs(l, o, n, taps, stride, half, count, pair, false);
}

/* `n` outputs of all channels: the image is read along memory. */
BODY_INLINE void block_of_outputs(line *l, int64_t o, const int n, const int taps, const int stride, const bool half) {
    const int64_t channels = l->d->window->channels;
    l->channel = 0;
    if (PAIRED && half)
        for (; l->channel + 2 * VL <= channels; l->channel += 2 * VL)
            some_outputs(l, o, n, taps, stride, half, VL, true);
    for (; l->channel + VL <= channels; l->channel += VL) some_outputs(l, o, n, taps, stride, half, VL, false);
    const int left = VL > 1 ? (int)(channels - l->channel) : 0;
    int i = 0;
    for (; left > 0 && i + 4 <= n; i += 4) some_outputs(l, o + i, 4, taps, stride, half, left, false);
    for (; left > 0 && i < n; i++) one_output(l, o + i, half, left);
}

BODY_INLINE void single_outputs(line *l, int64_t o, const bool half) {
    const int64_t channels = l->d->window->channels;
    for (; o < l->d->window->out[2]; o++) {
        l->channel = 0;
        for (; l->channel + VL <= channels; l->channel += VL) one_output(l, o, half, VL);
        if (VL > 1 && l->channel < channels) one_output(l, o, half, (int)(channels - l->channel));
    }
}

/* A line by eights, or sevens where that leaves none (maps of 7, 14, 28), and what is left. */
BODY_INLINE void all_outputs(line *l, const int taps, const int stride, const bool half) {
    const int64_t out = l->d->window->out[2];
    int64_t o = 0;
    if (out % 7 == 0 && out % 8 != 0) {
        for (; o < out; o += 7) block_of_outputs(l, o, 7, taps, stride, half);
        return;
    }
    for (; o + OUTPUTS <= out; o += OUTPUTS) block_of_outputs(l, o, OUTPUTS, taps, stride, half);
    for (; o + 4 <= out; o += 4) block_of_outputs(l, o, 4, taps, stride, half);
    single_outputs(l, o, half);
}

BODY_INLINE void run_line(line *l, const bool half) {
    const amp_gemm_window *w = l->d->window;
    switch (w->dilation[2] == 1 && w->stride[2] <= 2 ? w->taps[2] * 2 + w->stride[2] : 0) {
    case 3 * 2 + 1: all_outputs(l, 3, 1, half); break;
    case 3 * 2 + 2: all_outputs(l, 3, 2, half); break;
    case 5 * 2 + 1: all_outputs(l, 5, 1, half); break;
    case 5 * 2 + 2: all_outputs(l, 5, 2, half); break;
    case 7 * 2 + 1: all_outputs(l, 7, 1, half); break;
    default: single_outputs(l, 0, half);
    }
}

/* Of what was stored. */
BODY_INLINE void relu_line(const line *l, const bool half) {
    const amp_gemm_window *w = l->d->window;
    const int64_t size = half ? 2 : 4, channels = w->channels;
    for (int64_t o = 0; o < w->out[2]; o++) {
        char *y = l->y + o * l->d->y_step * size;
        for (int64_t c = 0; c < channels; c += VL) {
            const int count = channels - c < VL ? (int)(channels - c) : VL;
            store_pixel(y + c * size, v_relu(load_pixel(y + c * size, half, count)), half, count);
        }
    }
}

static void find_meetings(line *l, int64_t number, int64_t size) {
    const amp_gemm_window *w = l->d->window;
    amp_depthwise_meeting found[AMP_DEPTHWISE_LINES];
    l->meets = amp_depthwise_meetings(l->d, number, found);
    for (int i = 0; i < l->meets; i++) {
        const char *x = (const char *)l->d->x + found[i].offset * size;
        l->meet[i] = (meeting){x, l->d->taps + found[i].taps * w->taps[2] * w->channels};
    }
}

BODY_INLINE void run_lines(const amp_depthwise *d, int64_t first, int64_t last, const bool half) {
    const int64_t size = half ? 2 : 4, pixels = (last - first) * d->window->out[2];
    const bool far = pixels * d->window->stride[1] * d->window->stride[2] * d->window->channels * size > NEAR_BYTES;
    for (int64_t i = first; i < last; i++) {
        line l = {.d = d, .far = far, .y = (char *)d->y + i * d->y_line * size};
        if (d->epilogue && d->epilogue->residual)
            l.residual = (const char *)d->epilogue->residual + i * d->epilogue->residual_line * size;
        find_meetings(&l, i, size);
        run_line(&l, half);
        if (d->relu) relu_line(&l, half);
    }
}

void BODY_NAME(f32, SIMD_ISA)(const amp_depthwise *d, int64_t first, int64_t last) {
    run_lines(d, first, last, false);
}

void BODY_NAME(bf16, SIMD_ISA)(const amp_depthwise *d, int64_t first, int64_t last) {
    run_lines(d, first, last, true);
}

#undef BODY_INLINE
#undef BODY_NAME
#undef BODY_NAME_

#endif /* AMP_CPU_DEPTHWISE_BODY_H */
