/* The gradients of one convolution, for those that are more than one. */
#ifndef AMP_GRADIENTS_CONVOLUTION_H
#define AMP_GRADIENTS_CONVOLUTION_H

#include "amp/ops.h"
#include "call/gradient.h"

/* y = conv(input, weight), or conv_transpose, of one value of each option for each axis. */
typedef struct amp_convolution {
    int axes;
    bool transposed;
    amp_tensor *input, *weight; /* the input may be without a batch */
    amp_dims stride, padding, dilation;
    int64_t behind[3]; /* padding behind each axis alone */
    int64_t groups;
    amp_dtype weight_dtype; /* of the weight's gradient; AMP_DTYPE_NONE: as what arrived */
} amp_convolution;

/* The result; `more` are elements behind that of a transposed one (output_padding). */
amp_tensor *amp_convolution_forward(const amp_convolution *c, amp_dims more);
/* From the gradient of the result, those of the input and the weight; gives sums, a number for each output channel. */
amp_tensor *amp_convolution_input(const amp_convolution *c, amp_tensor *of);
amp_tensor *amp_convolution_weight(const amp_convolution *c, amp_tensor *of);
void amp_convolution_give_channels(amp_gradient *g, amp_tensor *const *argument, const amp_convolution *c,
                                   amp_tensor *of);

#endif /* AMP_GRADIENTS_CONVOLUTION_H */
