/* Distances of points on the device. */
#ifndef AMP_CUDA_DISTANCES_H
#define AMP_CUDA_DISTANCES_H

#include "call/call.h"

/* Into output 0, of `dtype`: of every point of `one` from every one of `many`, both [batch…, points, coordinates] with
 * equal batches. */
amp_status amp_cuda_distances_between(amp_call *call, const amp_tensor *one, const amp_tensor *many, double p,
                                      amp_dtype dtype);
/* Of every point of a matrix from those behind it. */
amp_status amp_cuda_distances_within(amp_call *call, const amp_tensor *points, double p);

#endif /* AMP_CUDA_DISTANCES_H */
