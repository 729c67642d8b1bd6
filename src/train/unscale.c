/* One pass over all gradients of a device; the flag stays there until somebody asks. */
#include "train/unscale.h"

#include <string.h>

#include "amp/grad.h"
#include "amp/io.h"
#include "amp/ops.h"
#include "core/memory.h"
#include "train/devices.h"

/* Where the gradients are; so is the flag. */
static amp_tensor *unscale_list(amp_tensor_list list, double inverse, amp_device device) {
    int before;
    if (amp_choose_device_of(list.items[0], &before) != AMP_OK) return NULL;
    amp_tensor *flag = amp_full(AMP_DIMS(1), amp_float(0), .dtype = AMP_F32, .device = (int)device);
    amp_tensor *factor = amp_full(AMP_DIMS(1), amp_float(inverse), .dtype = AMP_F32, .device = (int)device);
    amp_choose_device_again(before);
    return amp_foreach_non_finite_check_and_unscale(list, flag, factor) ? flag : NULL;
}

/* Adds what another device found. */
static amp_status add_found(amp_tensor *found, amp_tensor *flag) {
    int before;
    AMP_TRY(amp_choose_device_of(found, &before));
    amp_tensor *here = amp_to_device(flag, (int)found->storage->device);
    amp_choose_device_again(before);
    return amp_add_(found, here) ? AMP_OK : amp_pending_error();
}

static amp_status unscale_all(amp_tensor **gradients, int64_t count, double inverse, amp_device device,
                              amp_tensor **found) {
    for (int64_t i = 0; i < count;) {
        const amp_tensor_list list = {.items = gradients + i, .count = amp_first_devices(gradients + i, count - i)};
        amp_tensor *flag = unscale_list(list, inverse, device);
        if (!flag) return amp_pending_error();
        if (i > 0) AMP_TRY(add_found(*found, flag));
        if (i == 0) *found = flag;
        i += list.count;
    }
    return AMP_OK;
}

amp_status amp_unscale_gradients(amp_tensor *const *gradients, int64_t count, double scale, amp_device device,
                                 amp_tensor **found) {
    amp_no_grad_here();
    amp_scope_here();
    amp_tensor **sorted = amp_alloc((size_t)count * sizeof *sorted), *flag = NULL;
    if (!sorted) return amp_fail(AMP_ERROR_MEMORY, "unscale: no memory");
    memcpy(sorted, gradients, (size_t)count * sizeof *sorted);
    const amp_status status = unscale_all(sorted, count, (double)(float)(1 / scale), device, &flag);
    amp_free(sorted);
    if (status == AMP_OK) *found = amp_keep(flag);
    return status;
}

amp_status amp_read_found(amp_tensor *found, bool *is_set) {
    float value = 0;
    AMP_TRY(amp_read(found, AMP_F32, &value, sizeof value));
    *is_set = value != 0;
    return AMP_OK;
}
