/* Gradients divided by the scale, and whether one is not finite. */
#ifndef AMP_TRAIN_UNSCALE_H
#define AMP_TRAIN_UNSCALE_H

#include "core/tensor_impl.h"

/* Multiplies the gradients, one at least, in place, by f32(1 / scale); *found, to be kept, gets one f32 where the first
 * of them is, above 0 where an incoming element was not finite. */
amp_status amp_unscale_gradients(amp_tensor *const *gradients, int64_t count, double scale, amp_device device,
                                 amp_tensor **found);
/* What the device found. */
amp_status amp_read_found(amp_tensor *found, bool *is_set);

#endif /* AMP_TRAIN_UNSCALE_H */
