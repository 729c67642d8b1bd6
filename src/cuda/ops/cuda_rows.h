/* Reductions on the device, for the op layer that it shares with the CPU. */
#ifndef AMP_CUDA_ROWS_H
#define AMP_CUDA_ROWS_H

#include "cpu/reduce/reduce.h"
#include "call/call.h"

/* As amp_cpu_reduce. */
amp_status amp_cuda_reduce_tensor(const amp_reduce_work *work, amp_tensor *out);

/* Variances, or deviations (power ½), of floating input into output 0, and, if asked for, means into output 1. */
typedef struct amp_cuda_variance {
    amp_tensor *input;
    unsigned mask;
    bool keepdim;
    double correction, power;
    bool with_mean;
} amp_cuda_variance;
amp_status amp_cuda_variance_of(amp_call *call, const amp_cuda_variance *v);

/* As amp_cpu_dots. */
amp_status amp_cuda_dots(const char *op, amp_tensor *out, const amp_tensor *x, const amp_tensor *y, bool conjugate);

/* Output 0, of `rank` dimensions: in[…] with dimension `dim` named by index[place], for every place of the index; both
 * have one rank, from 1 up. `negative`: indices may count from the end. One out of range is told of later. */
amp_status amp_cuda_read_along(amp_call *call, const amp_tensor *in, const amp_tensor *index, int dim, int rank,
                               bool negative);

/* The slices of dimension `dim` that a vector of indices names, as a tensor of the call's; NULL with an error. */
amp_tensor *amp_cuda_pick_slices(const amp_call *call, const amp_tensor *in, const amp_tensor *index, int dim);

#endif /* AMP_CUDA_ROWS_H */
