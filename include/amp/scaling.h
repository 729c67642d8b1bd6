/* Gradient scaling: the step that every training loop with f16 does over all gradients at once. */
#ifndef AMP_SCALING_H
#define AMP_SCALING_H

#include "amp/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Multiplies the elements of every gradient, in place, by the number in `inv_scale`, and sets `found_inf` to 1 if an
 * element was infinite or NaN; else `found_inf` keeps what it has, so that one flag can gather several calls. The
 * multiplication is done in f32 (f64 for f64) and rounded once; by 1 it changes nothing.
 *
 * grads: `count` tensors of floating dtypes and any strides, no two elements of which share memory (expanded views are
 * refused, else nobody looks: a tensor that is there twice is multiplied twice); NULL only if count is
 * 0. found_inf, inv_scale: one f32 element each. All are on one device, and there the flag stays: nothing waits for it.
 * After an error no gradient was changed, or, if the device failed or memory ran out, some. PyTorch:
 * torch._amp_foreach_non_finite_check_and_unscale_, which torch.amp.GradScaler.unscale_ calls. */
AMP_API amp_status amp_foreach_non_finite_check_and_unscale(amp_tensor *const *grads, int64_t count,
                                                            amp_tensor *found_inf, const amp_tensor *inv_scale);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* AMP_SCALING_H */
