/* What gradient functions have in common. */
#ifndef AMP_GRADIENTS_PIECES_H
#define AMP_GRADIENTS_PIECES_H

#include "amp/ops.h"
#include "call/gradient.h"
#include "core/tensor_impl.h"
#include "ops/math/compose.h"

/* Of complex numbers the conjugates; any other tensor itself. */
amp_tensor *amp_conjugate(amp_tensor *tensor);
/* The number with its imaginary part turned round. */
amp_scalar amp_scalar_conjugate(amp_scalar number);
/* Images with their channels last where those of `like` are: what arrives from ops that know no images lies densely,
 * and from there on every op would meet two layouts. Any other tensor itself. */
amp_tensor *amp_laid_out_as(amp_tensor *tensor, const amp_tensor *like);
/* The first argument of any op, and its place in the struct. */
amp_tensor *const *amp_first_argument(const amp_gradient *g);
/* Zeros, of the first result's shape and dtype: the gradient of what is constant between jumps. */
amp_tensor *amp_zero_gradient(const amp_gradient *g);
/* A matrix (the last two dimensions of a tensor) turned over, complex ones conjugated. */
amp_tensor *amp_adjoint(amp_tensor *matrix);
/* A dimension counted from the front. */
int amp_dim_from_front(int64_t dim, int rank);
/* The gradient of a reduction over dimensions `dim` (absent: all), as a tensor that broadcasts to `like`. */
amp_tensor *amp_unreduced(amp_tensor *gradient, const amp_tensor *like, amp_dims dim, bool keepdim);
/* How many elements of `like` one of the reduction's results is made of. */
int64_t amp_reduced_count(const amp_tensor *like, amp_dims dim);
/* What sums of a dtype are made in. */
static inline amp_dtype amp_wide_dtype(amp_dtype dtype) {
    return dtype == AMP_BF16 || dtype == AMP_F16 ? AMP_F32 : dtype;
}
/* Zeros in the shape of `like`, of a dtype, where the gradient is computed. */
amp_tensor *amp_zeros_for(const amp_gradient *g, const amp_tensor *like, amp_dtype dtype);
/* In the shape of `like`, which is larger: zeros behind. */
amp_tensor *amp_grown(amp_tensor *tensor, const amp_tensor *like);
/* Gives left · right in the dtype in which the argument's gradient is wanted: of a weight that was cast, f32, and the
 * sums are not rounded on their way there. */
void amp_give_product(amp_gradient *g, amp_tensor *const *argument, amp_tensor *left, amp_tensor *right);
/* … the sums of `t` over dimensions `dim`. */
void amp_give_sums(amp_gradient *g, amp_tensor *const *argument, amp_tensor *t, amp_dims dim);

#endif /* AMP_GRADIENTS_PIECES_H */
