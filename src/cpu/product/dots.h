/* Dot products along the last dimension. */
#ifndef AMP_CPU_DOTS_H
#define AMP_CPU_DOTS_H

#include "core/tensor_impl.h"

/* out[…] = Σ x[…, k]·y[…, k]; with `conjugate`, of x's conjugate. x and y have one dtype and one shape, out that shape
 * without its last dimension and any dtype; any strides. Narrow floats are multiplied in f32; floats are summed in f64
 * above blocks of a fixed length, in an order that follows from extents, strides and the kernels' ISA alone. */
amp_status amp_cpu_dots(const char *op, amp_tensor *out, const amp_tensor *x, const amp_tensor *y, bool conjugate);

#endif /* AMP_CPU_DOTS_H */
