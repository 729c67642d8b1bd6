/* A convolution as devices take it: geometry and strides. */
#ifndef AMP_STEPS_CONV_H
#define AMP_STEPS_CONV_H

#include "steps/epilogue.h"

enum { AMP_CONV_AXES = 3 }; /* depth, height, width; an op of fewer has extents of 1 in front */

/* A weight's gradient that no step makes may be a product for each tap: of kernels of few taps between many channels.
 * An image of few windows is where other ways are slow. */
enum { AMP_CONV_FEW_TAPS = 27, AMP_CONV_MANY_CHANNELS = 32, AMP_CONV_FEW_WINDOWS = 64 };

/* Output o and tap k meet input i where, for a convolution, i = o · stride - pad + k · dilation, and for a transposed
 * one, o = i · stride - pad + k · dilation. What lies outside of the input counts as 0, and is not looked at. */
typedef struct amp_conv_axis {
    int64_t in, out, kernel, stride, pad, dilation;
} amp_conv_axis;

/* A tensor with the strides, in elements, that the problem's dimensions have in it; 0 where it has no such
 * dimension. */
typedef struct amp_conv_image {
    amp_tensor *tensor; /* the input may be a pending cast */
    int64_t batch, channel, axis[AMP_CONV_AXES];
    int64_t offset; /* of the problem's first element from the tensor's */
} amp_conv_image;

typedef struct amp_conv_weight {
    amp_tensor *tensor; /* may be a pending cast */
    int64_t group, out, in, axis[AMP_CONV_AXES];
    int64_t offset;
} amp_conv_weight;

typedef struct amp_conv {
    bool transposed;
    int64_t batch, groups;
    int64_t in_channels, out_channels; /* of one group */
    amp_conv_axis axis[AMP_CONV_AXES];
    amp_conv_image x, y;
    amp_conv_weight w;
    amp_tensor *bias;        /* NULL, or of rank 1 */
    amp_tensor *scale;       /* NULL (1), or of rank 1, one for each output channel; of any floating dtype */
    amp_conv_image residual; /* no tensor: none, as in all transposed ones; else laid out as it likes, as the result */
    amp_epilogue epilogue;   /* y = act(scale · sum + bias + residual) */
} amp_conv;

/* The gradient of y = conv(x, w): x is (N, C, …), w (O, C / groups, K…), y (N, O, …), and y holds a gradient. One of x
 * and w is written: what meets y and the other. w may be a pending cast where x is written. */
typedef struct amp_conv_back {
    amp_tensor *x, *w, *y;
    bool writes_weight;
    int64_t groups;
    int axes;
    amp_conv_axis axis[AMP_CONV_AXES]; /* as amp_conv has them: the last ones are in use */
} amp_conv_back;

/* Whether there is more to do with the sums than to add the bias. */
static inline bool amp_conv_is_fused(const amp_conv *c) {
    return c->scale || c->residual.tensor || c->epilogue.activation != AMP_GEMM_NONE;
}

static inline int64_t amp_conv_taps(const amp_conv *c) {
    return c->axis[0].kernel * c->axis[1].kernel * c->axis[2].kernel;
}

static inline int64_t amp_conv_pixels(const amp_conv *c) {
    return c->axis[0].out * c->axis[1].out * c->axis[2].out;
}

#endif /* AMP_STEPS_CONV_H */
