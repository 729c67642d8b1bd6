/* Rules about shapes and dimensions that many ops share, with their error messages. Device-neutral. */
#ifndef AMP_OPS_SHAPE_RULES_H
#define AMP_OPS_SHAPE_RULES_H

#include "call/call.h"

/* Dimension `dim` of a tensor of that rank as 0 … rank − 1; negative ones count from the end, and a 0-dim tensor has
 * dimension
 * 0. AMP_ERROR_INVALID naming the op and the argument if there is no such dimension. */
amp_status amp_wrap_dim(const amp_call *call, const char *argument, int64_t dim, int rank, int *wrapped);

/* The set of dimensions that an amp_dims names, as a bit mask; absent, and empty where `empty_is_all`, mean all.
 * Refuses one that is named twice. */
amp_status amp_wrap_dims(const amp_call *call, const char *argument, const amp_dims *dims, bool empty_is_all, int rank,
                         unsigned *mask);

/* An amp_dims that was given as a shape: its count is checked. */
amp_status amp_check_dims(const amp_call *call, const char *argument, const amp_dims *dims);

/* Strides that show `tensor` under another shape of as many elements; false where only a copy can. */
bool amp_view_strides(const amp_tensor *tensor, int rank, const int64_t *shape, int64_t *strides);

/* Puts the extent that a −1 in `dims` stands for; checks that the shape has as many elements as the tensor. */
amp_status amp_infer_shape(const amp_call *call, const char *argument, const amp_dims *dims, const amp_tensor *tensor,
                           int64_t *shape);

/* layer_norm and rms_norm: the normalised dimensions are the input's last, and those of weight and bias (NULL: absent),
 * which have its dtype, or f32 beside a 16-bit one. */
amp_status amp_check_norm(const amp_call *call, const amp_tensor *input, const amp_dims *shape,
                          const amp_tensor *weight, const amp_tensor *bias);
/* rms_norm's eps where none is given: the epsilon of the type that is computed in. */
double amp_norm_epsilon(amp_dtype dtype);

/* call->outputs[0] = a view of `base`; AMP_OK or the error. */
amp_status amp_return_view(amp_call *call, amp_tensor *base, int rank, const int64_t *shape, const int64_t *strides,
                           int64_t offset);

#endif /* AMP_OPS_SHAPE_RULES_H */
