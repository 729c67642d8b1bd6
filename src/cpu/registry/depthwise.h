/* Depthwise convolution: each channel of a channels-last image with taps of its own. */
#ifndef AMP_CPU_DEPTHWISE_H
#define AMP_CPU_DEPTHWISE_H

#include "cpu/registry/gemm.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { AMP_DEPTHWISE_LINES = 32 }; /* most taps along depth and height together */

/* A line of the image that the windows of an output line meet. */
typedef struct amp_depthwise_meeting {
    int64_t taps;   /* the line of taps that lies on it */
    int64_t offset; /* of channel 0 of its first pixel, in elements from x */
} amp_depthwise_meeting;

/* What is done to the sums before they are stored: act(scale · sum + residual + bias). */
typedef struct amp_depthwise_epilogue {
    const float *scale, *bias;            /* NULL, or [channels] */
    const void *residual;                 /* NULL, or of the result's dtype */
    int64_t residual_step, residual_line; /* as the result's */
    amp_gemm_activation activation;
    float numbers[2]; /* of the activation */
} amp_depthwise_epilogue;

typedef struct amp_depthwise {
    const amp_gemm_window *window; /* what a row of A would be, of all channels */
    const void *x;                 /* the first pixel, of the row's dtype: f32 or bf16 */
    const float *taps;             /* [all taps][channels]; bf16 values where the image is bf16 */
    const void *pairs;             /* the same by amp_depthwise_pack: what kernels of AVX512BF16 read instead */
    const float *bias;             /* NULL, or [channels]: where the sums begin */
    void *y;                       /* as x */
    int64_t y_step, y_line;        /* from pixel to pixel, line to line; no more than one line: not looked at */
    bool far;                      /* image and result are large for the caches: lines are fetched ahead */
    bool relu;                     /* of what was stored of a line */
    const amp_depthwise_epilogue *epilogue; /* NULL: none more; its bias is added instead of `bias` */
} amp_depthwise;

/* Lines first … last - 1 of the output, of those of all images. Sums are f32, in an order that follows from the lines
 * of the image that an output meets and the kernel alone, from the bias on; pixels outside of the image are left
 * out. */
typedef void amp_depthwise_function(const amp_depthwise *d, int64_t first, int64_t last);

/* The lines that output line `number` meets, in the order of the taps. Returns how many. */
static inline int amp_depthwise_meetings(const amp_depthwise *d, int64_t number, amp_depthwise_meeting *meetings) {
    const amp_gemm_window *w = d->window;
    const int64_t line = number % w->out[1] * w->stride[1] - w->pad[1];
    const int64_t plane = number / w->out[1] % w->out[0] * w->stride[0] - w->pad[0];
    const int64_t image = number / w->out[1] / w->out[0] * w->image_stride;
    int count = 0;
    for (int64_t t = 0; t < w->taps[0] * w->taps[1]; t++) {
        const int64_t depth = plane + t / w->taps[1] * w->dilation[0], height = line + t % w->taps[1] * w->dilation[1];
        if (depth < 0 || depth >= w->in[0] || height < 0 || height >= w->in[1]) continue;
        meetings[count].taps = t;
        meetings[count++].offset = image + depth * w->step[0] + height * w->step[1];
    }
    return count;
}

/* Taps as pairs of bf16: with L lines of taps (depth and height together), first L - 1 lines that hold those of lines t
 * and t + 1, then L that hold those of line t and zero. Of each, [taps of a line] of amp_depthwise_vectors vectors of
 * 16 pairs: for every 32 channels two in the order in which vpunpck*wd make them of two vectors, for the rest in
 * order. */
static inline int64_t amp_depthwise_vectors(int64_t channels) {
    return channels / 32 * 2 + (channels % 32 + 15) / 16;
}
static inline int64_t amp_depthwise_pack_bytes(const int64_t taps[3], int64_t channels) {
    return (2 * taps[0] * taps[1] - 1) * taps[2] * amp_depthwise_vectors(channels) * 64;
}
void amp_depthwise_pack(uint16_t *pairs, const float *taps, const int64_t count[3], int64_t channels);

#ifdef __cplusplus
}
#endif

#endif /* AMP_CPU_DEPTHWISE_H */
