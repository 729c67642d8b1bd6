/* Copies of elements as they are. */
#ifndef AMP_CUDA_MOVE_H
#define AMP_CUDA_MOVE_H

#include "cuda/cuda_backend.h"
#include "steps/operands.h"

/* `from` broadcasts to `to`, of a dtype of the same size. */
amp_status amp_cuda_move_tensor(amp_tensor *to, const amp_tensor *from);

/* Operands and shape of elementwise work, with as few dimensions as it takes, in the order of the result's memory. In
 * cuda_elementwise.c. */
amp_status amp_cuda_lay_out(const char *op, const amp_operand *values, int count, const amp_tensor *out,
                            amp_cuda_elementwise *a);

#endif /* AMP_CUDA_MOVE_H */
