/* Depthwise convolution: each channel of a channels-last image with taps of its own. */
#ifndef AMP_CPU_DEPTHWISE_H
#define AMP_CPU_DEPTHWISE_H

#include "cpu/gemm.h"

enum { AMP_DEPTHWISE_LINES = 32 }; /* most taps along depth and height together */

typedef struct amp_depthwise {
    const amp_gemm_window *window; /* what a row of A would be, of all channels */
    amp_dtype dtype;               /* f32 or bf16: of the image and of the result */
    const void *x;                 /* the first pixel */
    const float *taps;             /* [all taps][channels] */
    const float *bias;             /* NULL, or [channels] */
    void *y;
    int64_t y_step; /* from pixel to pixel; the lines follow each other evenly */
} amp_depthwise;

/* Lines first … last - 1 of the output, of those of all images. Sums are f32, in the order of the taps, from the bias on;
 * pixels outside of the image are left out. */
typedef void amp_depthwise_function(const amp_depthwise *d, int64_t first, int64_t last);

#endif /* AMP_CPU_DEPTHWISE_H */
