/* Which tensors of a list are on one device: an op takes those of one, a list may have several GPUs'. */
#ifndef AMP_TRAIN_DEVICES_H
#define AMP_TRAIN_DEVICES_H

#include "core/tensor_impl.h"

/* An order of devices; 0: both are on one. */
int amp_compare_devices(const amp_tensor *a, const amp_tensor *b);

/* Brings those on the first one's device to the front, all in their order, and tells how many they are. */
int64_t amp_first_devices(amp_tensor **tensors, int64_t count);

/* The device on which this thread makes tensors becomes the tensor's, until *before, what this gives, is put back. The
 * CPU's change nothing. */
amp_status amp_choose_device_of(const amp_tensor *t, int *before);
void amp_choose_device_again(int before);

#endif /* AMP_TRAIN_DEVICES_H */
