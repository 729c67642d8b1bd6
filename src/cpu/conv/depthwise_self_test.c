/* What each row of the depthwise family must pass before its first use: kernels of each specialised width and another,
 * and stride with several tails of channels, NaN beyond them not seen, their neighbours untouched. No more than that: the
 * reference takes most of the time, in every process that has such a layer. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cpu/registry/kernels.h"

/* With two taps and a pixel around it the output is one pixel wider than the image. */
enum {
    CHANNELS = 35,
    WIDTH = 23,
    HEIGHT = 4,
    TAPS = 7 * 3,
    STEP = CHANNELS + 1,
    PIXELS = (WIDTH + 1) * HEIGHT,
    PAIRS = 5 * 7 * 3 * 32 /* five lines, seven taps, three vectors */
};

typedef struct test_data {
    float x[PIXELS * STEP], taps[TAPS * CHANNELS], bias[CHANNELS], got[PIXELS * STEP], want[PIXELS * STEP];
    uint16_t half_x[PIXELS * STEP], half_got[PIXELS * STEP], half_want[PIXELS * STEP];
    _Alignas(64) uint16_t pairs[PAIRS];
} test_data;

static void fill(float *x, int n, uint32_t state) {
    for (int i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = (float)(state >> 8) / 8388608.0f - 1.0f;
    }
}

static bool near(float a, float b, float tolerance) {
    return (a != a && b != b) || fabsf(a - b) <= tolerance;
}

/* `channels` of the pixels exist; the rest is NaN. */
static void prepare(test_data *d, const amp_kernel *kernel, int64_t channels) {
    fill(d->x, PIXELS * STEP, 1u);
    fill(d->taps, TAPS * CHANNELS, 2u);
    fill(d->bias, CHANNELS, 3u);
    for (int i = 0; i < PIXELS * STEP; i++) {
        if (i % STEP >= channels) d->x[i] = NAN;
        d->half_x[i] = amp_bf16_from_f32(d->x[i]);
    }
    for (int i = 0; i < TAPS * CHANNELS && kernel->in == AMP_BF16; i++)
        d->taps[i] = amp_f32_from_bf16(amp_bf16_from_f32(d->taps[i]));
}

/* What is 7 before stays so where nothing belongs. */
static void clear(test_data *d) {
    const uint16_t seven = amp_bf16_from_f32(7.0f);
    for (int i = 0; i < PIXELS * STEP; i++) {
        d->got[i] = d->want[i] = 7.0f;
        d->half_got[i] = d->half_want[i] = seven;
    }
}

/* Both results, in the row's dtype. */
static void run_both(test_data *d, const amp_kernel *kernel, const amp_kernel *reference, const amp_gemm_window *w) {
    const bool half = kernel->in == AMP_BF16;
    amp_depthwise p = {.window = w,
                       .x = half ? (const void *)d->half_x : d->x,
                       .taps = d->taps,
                       .pairs = d->pairs,
                       .bias = d->bias,
                       .y = half ? (void *)d->half_got : d->got,
                       .y_step = STEP,
                       .y_line = w->out[2] * STEP};
    ((amp_depthwise_function *)kernel->function)(&p, 0, w->out[1]);
    p.y = half ? (void *)d->half_want : d->want;
    ((amp_depthwise_function *)reference->function)(&p, 0, w->out[1]);
    for (int i = 0; half && i < PIXELS * STEP; i++) {
        d->got[i] = amp_f32_from_bf16(d->half_got[i]);
        d->want[i] = amp_f32_from_bf16(d->half_want[i]);
    }
}

static bool agrees(test_data *d, const amp_kernel *kernel, const amp_kernel *reference, const amp_gemm_window *w,
                   char *message, size_t size) {
    const float tolerance = kernel->in == AMP_BF16 ? 0.125f : 1e-5f;
    clear(d);
    if (kernel->in == AMP_BF16) amp_depthwise_pack(d->pairs, d->taps, w->taps, w->channels);
    run_both(d, kernel, reference, w);
    for (int i = 0; i < PIXELS * STEP; i++) {
        if (near(d->got[i], d->want[i], tolerance)) continue;
        snprintf(message, size, "%lld channels, %lld taps, stride %lld: element %d is %g, the reference has %g",
                 (long long)w->channels, (long long)w->taps[2], (long long)w->stride[2], i, (double)d->got[i],
                 (double)d->want[i]);
        return false;
    }
    return true;
}

static bool pass(test_data *d, const amp_kernel *kernel, const amp_kernel *reference, int64_t channels, int64_t taps,
                 int64_t stride, char *message, size_t size) {
    const int64_t height = 2 + stride; /* with one line of windows that meet three of the image's */
    const amp_gemm_window w = {.out = {1, (height - 1) / stride + 1, (WIDTH + 2 - taps) / stride + 1},
                               .in = {1, height, WIDTH},
                               .taps = {1, 3, taps},
                               .run_taps = taps,
                               .stride = {1, stride, stride},
                               .pad = {0, 1, 1},
                               .dilation = {1, 1, 1},
                               .channels = channels,
                               .step = {0, WIDTH * STEP, STEP}};
    return agrees(d, kernel, reference, &w, message, size);
}

bool amp_depthwise_self_test(const amp_kernel *kernel, const amp_kernel *reference, char *message, size_t size) {
    /* Less than a vector, whole ones, and a pair, of eight or sixteen, with tails and without, at either stride. */
    static const int64_t channels_and_strides[][2] = {{1, 2}, {8, 1}, {31, 2}, {17, 1}, {35, 1}, {35, 2}};
    static const int64_t taps[] = {2, 3, 5, 7};
    static test_data data; /* self-tests run one at a time */
    for (int i = 0; i < 6; i++) {
        const int64_t channels = channels_and_strides[i][0], stride = channels_and_strides[i][1];
        prepare(&data, kernel, channels);
        for (int k = 0; k < 4; k++) {
            if (!pass(&data, kernel, reference, channels, taps[k], stride, message, size)) return false;
        }
    }
    return true;
}
