/* One pass over all gradients; the flag stays on their device until somebody asks. */
#include "train/unscale.h"

#include "amp/grad.h"
#include "amp/io.h"
#include "amp/ops.h"

amp_status amp_unscale_gradients(amp_tensor *const *gradients, int64_t count, double scale, amp_device device,
                                 amp_tensor **found) {
    amp_no_grad_here();
    amp_scope_here();
    const double inverse = (double)(float)(1 / scale);
    amp_tensor *flag = amp_full(AMP_DIMS(1), amp_float(0), .dtype = AMP_F32, .device = (int)device);
    amp_tensor *factor = amp_full(AMP_DIMS(1), amp_float(inverse), .dtype = AMP_F32, .device = (int)device);
    const amp_tensor_list list = {.items = gradients, .count = count};
    if (!amp_foreach_non_finite_check_and_unscale(list, flag, factor)) return amp_pending_error();
    *found = amp_keep(flag);
    return AMP_OK;
}

amp_status amp_read_found(amp_tensor *found, bool *is_set) {
    float value = 0;
    AMP_TRY(amp_read(found, AMP_F32, &value, sizeof value));
    *is_set = value != 0;
    return AMP_OK;
}
