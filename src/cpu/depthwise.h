/* Depthwise convolution: each channel of a channels-last image with taps of its own. */
#ifndef AMP_CPU_DEPTHWISE_H
#define AMP_CPU_DEPTHWISE_H

#include "cpu/gemm.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { AMP_DEPTHWISE_LINES = 32 }; /* most taps along depth and height together */

typedef struct amp_depthwise {
    const amp_gemm_window *window; /* what a row of A would be, of all channels */
    const void *x;                 /* the first pixel, of the row's dtype: f32 or bf16 */
    const float *taps;             /* [all taps][channels]; bf16 values where the image is bf16 */
    const void *pairs;             /* the same by amp_depthwise_pack: what kernels of AVX512BF16 read instead */
    const float *bias;             /* NULL, or [channels] */
    void *y;                       /* as x */
    int64_t y_step, y_line;        /* from pixel to pixel, line to line; no more than one line: not looked at */
} amp_depthwise;

/* Lines first … last - 1 of the output, of those of all images. Sums are f32, in an order that follows from the lines of
 * the image that an output meets and the kernel alone, from the bias on; pixels outside of the image are left out. */
typedef void amp_depthwise_function(const amp_depthwise *d, int64_t first, int64_t last);

/* Taps as pairs of bf16: with L lines of taps (depth and height together), first L - 1 lines that hold those of lines t
 * and t + 1, then L that hold those of line t and zero. Of each, [taps of a line] of amp_depthwise_vectors vectors of 16
 * pairs: for every 32 channels two in the order in which vpunpck*wd make them of two vectors, for the rest in order. */
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
