/* Reductions over any set of dimensions. Their order of sums follows from shapes, strides and the kernels' ISA, never
 * from the number of threads; floats are summed in f64 above the first 64 vectors. */
#ifndef AMP_CPU_REDUCE_H
#define AMP_CPU_REDUCE_H

#include "steps/reduce.h"

/* Writes one result for each combination of the other dimensions; `out` has them, with extents of 1 for the reduced
 * ones or without these. */
amp_status amp_cpu_reduce(const amp_reduce_work *work, amp_tensor *out);

#endif /* AMP_CPU_REDUCE_H */
