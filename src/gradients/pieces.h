/* What gradient functions have in common. */
#ifndef AMP_GRADIENTS_PIECES_H
#define AMP_GRADIENTS_PIECES_H

#include "amp/ops.h"
#include "call/gradient.h"
#include "core/tensor_impl.h"

/* The tensor's shape as an argument. */
amp_dims amp_shape_of(const amp_tensor *tensor);
/* Of complex numbers the conjugates; any other tensor itself. */
amp_tensor *amp_conjugate(amp_tensor *tensor);
/* The number with its imaginary part turned round. */
amp_scalar amp_scalar_conjugate(amp_scalar number);
/* A matrix (the last two dimensions of a tensor) turned over, complex ones conjugated. */
amp_tensor *amp_adjoint(amp_tensor *matrix);
/* A dimension counted from the front. */
int amp_dim_from_front(int64_t dim, int rank);
/* The gradient of a reduction over dimensions `dim` (absent: all), as a tensor that broadcasts to `like`. */
amp_tensor *amp_unreduced(amp_tensor *gradient, const amp_tensor *like, amp_dims dim, bool keepdim);
/* The first argument of any op, and its place in the struct. */
static inline amp_tensor *const *amp_first_argument(const amp_gradient *g) {
    return (amp_tensor *const *)((const char *)g->args + g->op->args[0].offset);
}
/* What sums of a dtype are made in. */
static inline amp_dtype amp_wide_dtype(amp_dtype dtype) {
    return dtype == AMP_BF16 || dtype == AMP_F16 ? AMP_F32 : dtype;
}
/* The same numbers, where they are of 16 bits in f32. */
amp_tensor *amp_widened(amp_tensor *tensor);
/* Zeros in the shape of `like`, of a dtype, where the gradient is computed. */
amp_tensor *amp_zeros_for(const amp_gradient *g, const amp_tensor *like, amp_dtype dtype);
/* In the shape of `like`, which is larger: zeros behind. */
amp_tensor *amp_grown(amp_tensor *tensor, const amp_tensor *like);
/* How many elements of `like` one of the reduction's results is made of. */
int64_t amp_reduced_count(const amp_tensor *like, amp_dims dim);

#endif /* AMP_GRADIENTS_PIECES_H */
