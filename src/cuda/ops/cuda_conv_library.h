/* What the two ways to a convolution share: cuDNN's, and that of products. */
#ifndef AMP_CUDA_CONV_LIBRARY_H
#define AMP_CUDA_CONV_LIBRARY_H

#include "call/call.h"
#include "steps/conv.h"

/* Through cuDNN, if it is there and takes the convolution: *done. *kernel is for the call's note, with the reason where
 * it is not done. */
amp_status amp_cuda_conv_by_library(amp_call *call, const amp_conv *c, bool *done, const char **kernel);

/* An image as (groups, batch, depth, height, width, channels of a group), of the result's extents; NULL: it has no
 * tensor. */
amp_tensor *amp_cuda_conv_view(const amp_conv *c, const amp_conv_image *image, amp_tensor *view);
bool amp_cuda_conv_has_epilogue(const amp_conv *c);
/* Sums in that order, which may be the result's own, and the epilogue, into the result. */
amp_status amp_cuda_conv_finish(amp_call *call, const amp_conv *c, amp_tensor *sums);

#endif /* AMP_CUDA_CONV_LIBRARY_H */
