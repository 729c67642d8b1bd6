/* What replay knows of the library's inside: lists, devices, layouts. */
#include "replay_device.h"

#include <string.h>

#include "amp/ops.h"
#include "call/backend.h"
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

static bool has_argument(const char *op, const char *argument) {
    for (const amp_op_info *o = amp_op_find(op); o; o = amp_op_next_overload(o)) {
        for (int i = 0; i < o->arg_count; i++) {
            if (!strcmp(o->args[i].name, argument)) return true;
        }
    }
    return false;
}

const char *replay_argument_name(const char *op, const char *recorded, bool is_tensor) {
    static const char *const places[] = {NULL, "other", "third", "fourth"};
    int place = 1;
    while (place < 4 && strcmp(recorded, places[place]) != 0) place++;
    if (place == 4 || has_argument(op, recorded)) return recorded;
    for (const amp_op_info *o = amp_op_find(op); o; o = amp_op_next_overload(o)) {
        if (place < o->arg_count && (o->args[place].kind == AMP_ARG_TENSOR) == is_tensor) return o->args[place].name;
    }
    return recorded;
}

const char *replay_device_problem(amp_device device) {
    const amp_backend *backend = NULL;
    if (amp_backend_for(device, "replay", &backend) != AMP_OK) return amp_last_error();
    return NULL;
}

amp_tensor *replay_move(amp_tensor *tensor, amp_device device) {
    return amp_to_device(tensor, device);
}

amp_tensor *replay_to_device(amp_device device, const amp_tensor *host, void *memory, size_t bytes, amp_tensor **base) {
    const int64_t shape[1] = {(int64_t)bytes};
    amp_tensor *whole = amp_from_memory(memory, AMP_U8, 1, shape, NULL, NULL, NULL);
    *base = whole ? amp_to_device(whole, device) : NULL;
    if (!*base) return NULL;
    const int64_t offset = (const char *)amp_tensor_pointer(host) - (const char *)memory;
    const int64_t size = (int64_t)amp_dtype_size(host->dtype);
    amp_tensor *t = amp_tensor_view("replay", *base, host->rank, host->shape, host->strides, offset / size);
    if (t) t->dtype = host->dtype;
    if (t) t->is_view = false;
    return t;
}

bool replay_from_device(amp_tensor *base, void *memory) {
    const amp_tensor *host = amp_to_device(base, AMP_DEVICE_CPU);
    if (host) memcpy(memory, amp_data(host), (size_t)amp_tensor_elements(host));
    return host != NULL;
}
