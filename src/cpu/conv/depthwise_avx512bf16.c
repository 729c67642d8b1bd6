/* Depthwise convolution of bf16, AVX512_BF16.
 *
 * Formula:     y = bias + Σ x · w over the taps that meet the image, rounded once by VCVTNE2PS2BF16.
 * Accumulator: f32, one per element of y, in a register; VDPBF16PS adds the products of two lines of taps at a time,
 *              the second line's first, each fused. Denormals count as zeros, of the inputs, the sums and the result.
 * Error bound: |y - exact| ≤ (taps + 1) · 2⁻²⁴ · (|bias| + Σ|x w|) + (taps + 1) · 2⁻¹²⁶ to first order; then half an
 *              ulp of bf16.
 * ISA:         AVX-512F, BW, BF16.
 * Source:      Intel SDM volume 2, VDPBF16PS; else none beyond the definition of convolution.
 *
 * Lines of the image that an output meets go in pairs, from the first on, and a last one alone: a pixel of both lines,
 * interleaved, is one operand for all outputs of a block that meet it. A block is up to eight outputs of 32 channels,
 * or of up to 16 where fewer are left. */
#include <immintrin.h>

#include "cpu/registry/kernels.h"
#include "cpu/simd/relu_avx512.h"
#include "cpu/simd/simd_avx512.h"

#include "cpu/simd/activation_body.h"

#define INLINE static inline __attribute__((always_inline))

enum { OUTPUTS = 8, WIDEST = 5 };

/* One line of the image, or two, that the windows of an output line meet: where channel 0 of the first pixels lies. */
typedef struct meeting {
    const char *first, *second; /* the same, if it is alone */
    const __m512i *taps;        /* vector 0 of the first tap */
    bool paired;
} meeting;

/* One line of the output, and the channels that are at work. */
typedef struct line {
    const amp_depthwise *d;
    meeting meet[AMP_DEPTHWISE_LINES];
    int meets;
    const char *fresh[2]; /* the lowest lines, which the line of outputs before did not meet: no more than two count */
    int fresh_lines;
    char *y;              /* channel 0 of the first pixel */
    const char *residual; /* the same of the residual, if there is any */
    int64_t channel, vector, vectors;
    __mmask16 mask; /* of up to 16 channels */
} line;

typedef struct group {
    __m512 v[2];
} group;

/* Channels of a pixel, interleaved with those of the pixel below it. Wide: 32 channels; else up to 16, in order. */
INLINE void load_pixels(__m512i to[2], const char *first, const char *second, const bool paired, const bool wide,
                        __mmask16 mask) {
    if (wide) {
        const __m512i a = _mm512_loadu_si512(first), b = paired ? _mm512_loadu_si512(second) : _mm512_setzero_si512();
        to[0] = _mm512_unpacklo_epi16(a, b);
        to[1] = _mm512_unpackhi_epi16(a, b);
        return;
    }
    to[0] = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, first));
    if (paired)
        to[0] = _mm512_or_si512(to[0],
                                _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, second)), 16));
}

/* Values of the channels at work, in the order of the sums; `otherwise` where there are none. */
INLINE group load_channels(const line *l, const float *values, float otherwise, const bool wide) {
    group g = {{_mm512_set1_ps(otherwise), _mm512_set1_ps(otherwise)}};
    if (!values) return g;
    values += l->channel;
    if (!wide) {
        g.v[0] = _mm512_maskz_loadu_ps(l->mask, values);
        return g;
    }
    const __m512i low = _mm512_setr_epi32(0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
    const __m512 a = _mm512_loadu_ps(values), b = _mm512_loadu_ps(values + 16);
    g.v[0] = _mm512_permutex2var_ps(a, low, b);
    g.v[1] = _mm512_permutex2var_ps(a, _mm512_add_epi32(low, _mm512_set1_epi32(4)), b);
    return g;
}

INLINE group first_sums(const line *l, const bool wide) {
    return load_channels(l, l->d->bias, 0.0f, wide);
}

INLINE void store_sums(const line *l, char *to, group g, const bool wide) {
    if (wide) {
        const __m512i order = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
        _mm512_storeu_si512(to, _mm512_permutexvar_epi64(order, (__m512i)_mm512_cvtne2ps_pbh(g.v[1], g.v[0])));
    } else if (l->mask == 0xffff) {
        _mm256_storeu_si256((__m256i *)to, (__m256i)_mm512_cvtneps_pbh(g.v[0]));
    } else {
        _mm256_mask_storeu_epi16(to, l->mask, (__m256i)_mm512_cvtneps_pbh(g.v[0]));
    }
}

/* Of a pixel, in f32. */
INLINE group load_residual(const line *l, const char *from, const bool wide) {
    const __m512i zero = _mm512_setzero_si512(), x = wide ? _mm512_loadu_si512(from) : zero;
    if (wide) return (group){{(__m512)_mm512_unpacklo_epi16(zero, x), (__m512)_mm512_unpackhi_epi16(zero, x)}};
    const __m512i h = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(l->mask, from));
    return (group){{(__m512)_mm512_slli_epi32(h, 16), (__m512)zero}};
}

/* `n` outputs whose sums are made, through the epilogue. Not inlined: the kernels without one are large enough. */
INLINE void finish_any(const line *l, int64_t o, const group *sums, int n, const bool wide) {
    const amp_depthwise_epilogue *e = l->d->epilogue;
    const group scale = load_channels(l, e->scale, 1.0f, wide), bias = load_channels(l, e->bias, 0.0f, wide);
    for (int i = 0; i < n; i++) {
        group x = sums[i], residual = {{_mm512_setzero_ps(), _mm512_setzero_ps()}};
        if (e->residual) residual = load_residual(l, l->residual + ((o + i) * e->residual_step + l->channel) * 2, wide);
        for (int v = 0; v < 1 + wide; v++) {
            x.v[v] = x.v[v] * scale.v[v] + residual.v[v] + bias.v[v];
            x.v[v] = v_activated(x.v[v], e->activation, e->numbers);
        }
        store_sums(l, l->y + ((o + i) * l->d->y_step + l->channel) * 2, x, wide);
    }
}
static __attribute__((noinline)) void finish_wide(const line *l, int64_t o, const group *sums, int n) {
    finish_any(l, o, sums, n, true);
}
static __attribute__((noinline)) void finish_narrow(const line *l, int64_t o, const group *sums, int n) {
    finish_any(l, o, sums, n, false);
}

INLINE void add_products(group *sum, const __m512i x[2], const __m512i w[2], const bool wide) {
    sum->v[0] = _mm512_dpbf16_ps(sum->v[0], (__m512bh)x[0], (__m512bh)w[0]);
    if (wide) sum->v[1] = _mm512_dpbf16_ps(sum->v[1], (__m512bh)x[1], (__m512bh)w[1]);
}

/* ---- Any window ----------------------------------------------------------------------------------------------- */

INLINE void add_meeting(const line *l, const meeting *m, int64_t first, group *sum, const bool paired,
                        const bool wide) {
    const amp_gemm_window *w = l->d->window;
    for (int64_t k = 0; k < w->taps[2]; k++) {
        const int64_t i = first + k * w->dilation[2], offset = (i * w->step[2] + l->channel) * 2;
        const __m512i *taps = m->taps + k * l->vectors + l->vector;
        __m512i x[2];
        if (i < 0 || i >= w->in[2]) continue;
        load_pixels(x, m->first + offset, m->second + offset, paired, wide, l->mask);
        add_products(sum, x, taps, wide);
    }
}

INLINE void one_output(const line *l, int64_t o, const bool wide, const bool fused) {
    const amp_gemm_window *w = l->d->window;
    const int64_t first = o * w->stride[2] - w->pad[2];
    group sum = first_sums(l, wide);
    for (int m = 0; m < l->meets; m++) {
        if (l->meet[m].paired)
            add_meeting(l, &l->meet[m], first, &sum, true, wide);
        else
            add_meeting(l, &l->meet[m], first, &sum, false, wide);
    }
    if (fused) {
        const group made = sum; /* in memory, so that the sum stays in registers */
        (wide ? finish_wide : finish_narrow)(l, o, &made, 1);
        return;
    }
    store_sums(l, l->y + (o * l->d->y_step + l->channel) * 2, sum, wide);
}

/* ---- Dilation 1, stride 1 or 2 -------------------------------------------------------------------------------- */

/* What the `n` outputs below those from `o` on will be the first to read, of the lowest lines: a block takes less time
 * than memory does. In assembly: gcc takes a function of nothing but built-in prefetches for one that does nothing. */
static void fetch(const line *l, int64_t o, int n) {
    const amp_gemm_window *w = l->d->window;
    const int64_t step = w->stride[2] * w->step[2] * 2, below = w->stride[1] * w->step[1] * 2;
    for (int f = 0; f < l->fresh_lines; f++) {
        const char *from = l->fresh[f] + below + o * step;
        for (int64_t i = 0; i < n * step; i += 64) __asm__ volatile("prefetcht0 %0" : : "m"(from[i]));
    }
}

/* What one meeting adds to `n` outputs; with `inside` all their windows lie within the width. */
INLINE void add_lines(const line *l, const meeting *m, int64_t first, group *sums, const int n, const int taps,
                      const int stride, const bool paired, const bool wide, const bool inside) {
    const int64_t step = l->d->window->step[2] * 2, width = l->d->window->in[2];
    const char *a = m->first + l->channel * 2 + first * step, *b = m->second + l->channel * 2 + first * step;
    __m512i w[WIDEST][2];
#pragma GCC unroll 5
    for (int k = 0; k < taps; k++) {
        w[k][0] = m->taps[k * l->vectors + l->vector];
        w[k][1] = wide ? m->taps[k * l->vectors + l->vector + 1] : w[k][0];
    }
#pragma GCC unroll 20
    for (int i = 0; i < (n - 1) * stride + taps; i++, a += step, b += step) {
        __m512i x[2];
        if (!inside && (first + i < 0 || first + i >= width)) continue;
        load_pixels(x, a, b, paired, wide, l->mask);
#pragma GCC unroll 5
        for (int k = 0; k < taps; k++) {
            const int to = (i - k) / stride;
            if (i >= k && (i - k) % stride == 0 && to < n) add_products(&sums[to], x, w[k], wide);
        }
    }
}

INLINE void many_outputs(const line *l, int64_t o, const int n, const int taps, const int stride, const bool wide,
                         const bool inside, const bool fused) {
    const int64_t first = o * stride - l->d->window->pad[2], y_step = l->d->y_step * 2;
    const group bias = first_sums(l, wide);
    char *y = l->y + l->channel * 2 + o * y_step;
    group sums[OUTPUTS];
#pragma GCC unroll 8
    for (int i = 0; i < n; i++) sums[i] = bias;
    for (int m = 0; m < l->meets; m++) {
        if (l->meet[m].paired)
            add_lines(l, &l->meet[m], first, sums, n, taps, stride, true, wide, inside);
        else
            add_lines(l, &l->meet[m], first, sums, n, taps, stride, false, wide, inside);
    }
    if (fused) {
        group made[OUTPUTS]; /* a copy in memory, so that the sums stay in registers */
#pragma GCC unroll 8
        for (int i = 0; i < n; i++) made[i] = sums[i];
        (wide ? finish_wide : finish_narrow)(l, o, made, n);
        return;
    }
#pragma GCC unroll 8
    for (int i = 0; i < n; i++, y += y_step) store_sums(l, y, sums[i], wide);
}

INLINE void some_outputs(const line *l, int64_t o, const int n, const int taps, const int stride, const bool wide,
                         const bool fused) {
    const int64_t first = o * stride - l->d->window->pad[2];
    if (first >= 0 && first + (n - 1) * stride + taps <= l->d->window->in[2])
        many_outputs(l, o, n, taps, stride, wide, true, fused);
    else
        many_outputs(l, o, n, taps, stride, wide, false, fused);
}

INLINE void narrow(line *l) {
    const int64_t left = l->d->window->channels - l->channel;
    l->mask = (__mmask16)(left >= 16 ? 0xffff : (1u << left) - 1u);
}

/* `n` outputs of all channels: the image is read along memory. */
INLINE void block_of_outputs(line *l, int64_t o, const int n, const int taps, const int stride, const bool fused) {
    const int64_t channels = l->d->window->channels;
    if (l->d->far) fetch(l, o, n);
    l->channel = l->vector = 0;
    for (; l->channel + 32 <= channels; l->channel += 32, l->vector += 2)
        some_outputs(l, o, n, taps, stride, true, fused);
    for (; l->channel < channels; l->channel += 16, l->vector++) {
        narrow(l);
        some_outputs(l, o, n, taps, stride, false, fused);
    }
}

INLINE void single_output(line *l, int64_t o, const bool fused) {
    const int64_t channels = l->d->window->channels;
    l->channel = l->vector = 0;
    for (; l->channel + 32 <= channels; l->channel += 32, l->vector += 2) one_output(l, o, true, fused);
    for (; l->channel < channels; l->channel += 16, l->vector++) {
        narrow(l);
        one_output(l, o, false, fused);
    }
}

/* By eights, or sevens where that leaves none (maps of 7, 14, 28); the last block may repeat some of the one before. */
INLINE void all_outputs(line *l, const int taps, const int stride, const bool fused) {
    const int64_t out = l->d->window->out[2];
    if (out % 7 == 0 && out % 8 != 0)
        for (int64_t o = 0; o < out; o += 7) block_of_outputs(l, o, 7, taps, stride, fused);
    else if (out >= OUTPUTS)
        for (int64_t o = 0; o < out; o += OUTPUTS)
            block_of_outputs(l, o + OUTPUTS <= out ? o : out - OUTPUTS, OUTPUTS, taps, stride, fused);
    else if (out >= 4)
        for (int64_t o = 0; o < out; o += 4) block_of_outputs(l, o + 4 <= out ? o : out - 4, 4, taps, stride, fused);
    else
        for (int64_t o = 0; o < out; o++) single_output(l, o, fused);
}

/* ---- Lines ---------------------------------------------------------------------------------------------------- */

static void find_meetings(line *l, int64_t number) {
    const amp_gemm_window *w = l->d->window;
    const int64_t lines = w->taps[0] * w->taps[1], fresh = lines - (w->stride[1] < 2 ? 1 : 2);
    const __m512i *pairs = l->d->pairs;
    amp_depthwise_meeting found[AMP_DEPTHWISE_LINES];
    const int count = amp_depthwise_meetings(l->d, number, found);
    int64_t open = -2; /* the tap line of a meeting that has no second yet */
    l->meets = l->fresh_lines = 0;
    for (int i = 0; i < count; i++) {
        const int64_t t = found[i].taps;
        const char *at = (const char *)l->d->x + found[i].offset * 2;
        if (t >= fresh) l->fresh[l->fresh_lines++] = at;
        if (open == t - 1) {
            meeting *m = &l->meet[l->meets - 1];
            m->second = at;
            m->taps = pairs + open * w->taps[2] * l->vectors;
            m->paired = true;
            open = -2;
            continue;
        }
        l->meet[l->meets++] = (meeting){at, at, pairs + (lines - 1 + t) * w->taps[2] * l->vectors, false};
        open = t;
    }
}

INLINE void run_line_as(line *l, const bool fused) {
    const amp_gemm_window *w = l->d->window;
    switch (w->dilation[2] == 1 && w->stride[2] <= 2 ? w->taps[2] * 2 + w->stride[2] : 0) {
    case 3 * 2 + 1: all_outputs(l, 3, 1, fused); break;
    case 3 * 2 + 2: all_outputs(l, 3, 2, fused); break;
    case 5 * 2 + 1: all_outputs(l, 5, 1, fused); break;
    case 5 * 2 + 2: all_outputs(l, 5, 2, fused); break;
    default:
        for (int64_t o = 0; o < w->out[2]; o++) single_output(l, o, fused);
    }
}

/* Two functions: the calls of one with an epilogue cost the other its constants' registers. */
static __attribute__((noinline)) void run_line(line *l) {
    run_line_as(l, false);
}
static __attribute__((noinline)) void run_fused_line(line *l) {
    run_line_as(l, true);
}

void amp_depthwise_bf16_avx512bf16(const amp_depthwise *d, int64_t first, int64_t last) {
    const amp_gemm_window *w = d->window;
    line l = {.d = d, .vectors = amp_depthwise_vectors(w->channels)};
    for (int64_t i = first; i < last; i++) {
        l.y = (char *)d->y + i * d->y_line * 2;
        if (d->epilogue && d->epilogue->residual)
            l.residual = (const char *)d->epilogue->residual + i * d->epilogue->residual_line * 2;
        find_meetings(&l, i);
        (d->epilogue ? run_fused_line : run_line)(&l);
        if (d->relu) relu_rows(l.y, w->out[2], w->channels, d->y_step * 2, true);
    }
}
