/* Lists by device. */
#include "train/devices.h"

#include <string.h>

#include "amp/cuda.h"

static int index_of(const amp_tensor *t) {
    return t->storage->device == AMP_DEVICE_CUDA ? amp_cuda_device_of(t) : -1;
}

int amp_compare_devices(const amp_tensor *a, const amp_tensor *b) {
    const int kinds = (a->storage->device > b->storage->device) - (a->storage->device < b->storage->device);
    return kinds ? kinds : index_of(a) - index_of(b);
}

int64_t amp_first_devices(amp_tensor **tensors, int64_t count) {
    int64_t together = 0;
    for (int64_t i = 0; i < count; i++) {
        amp_tensor *t = tensors[i];
        if (amp_compare_devices(t, tensors[0]) != 0) continue;
        memmove(tensors + together + 1, tensors + together, (size_t)(i - together) * sizeof *tensors);
        tensors[together++] = t;
    }
    return together;
}

amp_status amp_choose_device_of(const amp_tensor *t, int *before) {
    const int index = index_of(t);
    *before = index < 0 ? -1 : amp_cuda_get_device();
    return index < 0 ? AMP_OK : amp_cuda_set_device(index);
}

void amp_choose_device_again(int before) {
    if (before >= 0) (void)amp_cuda_set_device(before);
}
