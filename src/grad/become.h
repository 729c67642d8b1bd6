/* A leaf that gets other elements, of another dtype, and stays the same tensor. */
#ifndef AMP_GRAD_BECOME_H
#define AMP_GRAD_BECOME_H

#include "core/tensor_impl.h"

/* The tensor takes the elements of another, of its shape, with dtype and geometry, and as its gradient the one given,
 * which was the caller's, or none: what module.half() does to a parameter. It cannot fail. Records made before must be
 * gone: they know the old elements. */
void amp_leaf_become(amp_tensor *tensor, const amp_tensor *elements, amp_tensor *gradient);

#endif /* AMP_GRAD_BECOME_H */
