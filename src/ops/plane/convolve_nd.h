/* Convolutions by the number of their axes, for what is made of them. */
#ifndef AMP_OPS_PLANE_CONVOLVE_ND_H
#define AMP_OPS_PLANE_CONVOLVE_ND_H

#include "amp/ops.h"

/* conv1d, conv2d or conv3d. */
amp_tensor *amp_convolve_nd(int axes, amp_tensor *x, amp_tensor *w, amp_dims stride, amp_dims padding,
                            amp_dims dilation, int64_t groups);
/* conv_transpose1d, conv_transpose2d or conv_transpose3d. */
amp_tensor *amp_convolve_transposed_nd(int axes, amp_tensor *x, amp_tensor *w, amp_dims stride, amp_dims padding,
                                       amp_dims output_padding, amp_dims dilation, int64_t groups);

#endif /* AMP_OPS_PLANE_CONVOLVE_ND_H */
