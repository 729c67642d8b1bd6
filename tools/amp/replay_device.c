#include "replay_device.h"

#include "dispatch/backend.h"
#include "policy/op_table.h"

bool replay_op_is_known(const char *name) {
    return amp_op_find(name) != NULL;
}

bool replay_op_returns_list(const char *name) {
    const amp_op_info *op = amp_op_find(name);
    return op && op->flags & AMP_OP_RETURNS_LIST;
}

const char *replay_device_problem(amp_device device) {
    const amp_backend *backend = NULL;
    if (amp_backend_for(device, "replay", &backend) != AMP_OK) return amp_last_error();
    return device == AMP_DEVICE_CPU ? NULL : "cases can only be run on the cpu so far";
}
