/* Recurrent layers on the device. */
#ifndef AMP_CUDA_RNN_H
#define AMP_CUDA_RNN_H

#include "cpu/rnn/rnn.h"

/* As amp_cpu_rnn_pass, of f16 too; all tensors have memory. */
amp_status amp_cuda_rnn_pass(amp_call *call, const amp_rnn_pass *layer);

#endif /* AMP_CUDA_RNN_H */
