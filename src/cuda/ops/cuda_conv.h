/* Convolutions on the device, for the op layer that it shares with the CPU. */
#ifndef AMP_CUDA_CONV_H
#define AMP_CUDA_CONV_H

#include "cpu/conv/conv.h"

/* Any convolution, of operands that have memory; y has elements. */
amp_status amp_cuda_conv(amp_call *call, const amp_conv *c);

#endif /* AMP_CUDA_CONV_H */
