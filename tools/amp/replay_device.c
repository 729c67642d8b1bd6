#include "replay_device.h"

#include <string.h>

#include "dispatch/backend.h"
#include "policy/op_table.h"

bool replay_op_is_known(const char *name) {
    return amp_op_find(name) != NULL;
}

bool replay_op_returns_list(const char *name) {
    const amp_op_info *op = amp_op_find(name);
    return op && op->flags & AMP_OP_RETURNS_LIST;
}

bool replay_argument_is_tensor(const char *op, const char *argument) {
    const amp_op_info *info = amp_op_find(op);
    for (int i = 0; info && i < info->arg_count; i++) {
        if (strcmp(info->args[i].name, argument) == 0) return info->args[i].kind == AMP_ARG_TENSOR;
    }
    return false;
}

const char *replay_device_problem(amp_device device) {
    const amp_backend *backend = NULL;
    if (amp_backend_for(device, "replay", &backend) != AMP_OK) return amp_last_error();
    return device == AMP_DEVICE_CPU ? NULL : "cases can only be run on the cpu so far";
}
