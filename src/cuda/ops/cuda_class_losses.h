/* Losses over classes on the device, for the op layer that it shares with the CPU. */
#ifndef AMP_CUDA_CLASS_LOSSES_H
#define AMP_CUDA_CLASS_LOSSES_H

#include "amp/ops.h"
#include "call/call.h"

/* ctc_loss of each sample, f64; for a mean over the length of its target. Arguments have been checked but for their
 * elements. `padded`: the width of a matrix of targets; 0: labels lie one after the other. */
amp_status amp_cuda_align(const amp_call *call, const amp_ctc_loss_args *args, int64_t padded, bool mean,
                          amp_tensor *losses);

#endif /* AMP_CUDA_CLASS_LOSSES_H */
