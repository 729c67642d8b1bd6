/* The gradients of a convolution as devices take them. */
#ifndef AMP_STEPS_CONV_BACK_H
#define AMP_STEPS_CONV_BACK_H

#include "steps/conv.h"

/* Of y = conv(x, w): x is (N, C, …), w (O, C / groups, K…), y (N, O, …), and y holds a gradient. One of x and w is written: what
 * meets y and the other. w may be a pending cast where x is written. */
typedef struct amp_conv_back {
    amp_tensor *x, *w, *y;
    bool writes_weight;
    int64_t groups;
    int axes;
    amp_conv_axis axis[AMP_CONV_AXES]; /* as amp_conv has them: the last ones are in use */
} amp_conv_back;

#endif /* AMP_STEPS_CONV_BACK_H */
