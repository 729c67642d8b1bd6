/* to(device): the one op whose result is on another device than its argument. */
#include "amp/ops.h"
#include "call/backend.h"
#include "core/layout.h"

/* Elements in the order in which the result keeps them: channels last stay last. */
static amp_tensor *in_order(amp_tensor *t) {
    if (!amp_prefers_channels_last(t)) return amp_contiguous(t);
    amp_dims order = {.count = t->rank, .set = AMP_PRESENT};
    for (int i = 1; i < t->rank; i++) order.values[i] = i + 1 < t->rank ? i + 1 : 1;
    amp_tensor *pixels = amp_permute(t, order);
    return pixels ? amp_contiguous(pixels) : NULL;
}

static amp_tensor *send(const char *op, amp_tensor *input, amp_device device) {
    const amp_backend *backend = NULL;
    if (amp_backend_for(device, op, &backend) != AMP_OK) return NULL;
    amp_tensor *source = in_order(input);
    amp_tensor *made = source ? amp_backend_tensor(device, op, input->dtype, input->rank, input->shape) : NULL;
    if (made) amp_take_layout(made, input);
    return made && backend->send(op, made, amp_tensor_pointer(source)) == AMP_OK ? made : NULL;
}

static amp_tensor *fetch(const char *op, amp_tensor *input) {
    const amp_backend *backend = NULL;
    if (amp_backend_for(input->storage->device, op, &backend) != AMP_OK) return NULL;
    amp_tensor *source = in_order(input);
    amp_tensor *made = source ? amp_tensor_new(op, input->dtype, input->rank, input->shape) : NULL;
    if (made) amp_take_layout(made, input);
    return made && backend->fetch(op, amp_tensor_pointer(made), source) == AMP_OK ? made : NULL;
}

/* Converted on whichever side the elements are smaller on the way. */
static amp_tensor *move(const char *op, amp_tensor *input, amp_device device, amp_dtype dtype) {
    const bool first = amp_dtype_size(dtype) < amp_dtype_size(input->dtype);
    if (first) input = amp_to(input, dtype);
    if (input) input = device == AMP_DEVICE_CPU ? fetch(op, input) : send(op, input, device);
    return input && !first && dtype != input->dtype ? amp_to(input, dtype) : input;
}

amp_status amp_op_to_device(amp_call *call) {
    const amp_to_device_args *a = call->args;
    const amp_dtype dtype = a->dtype == AMP_DTYPE_NONE ? a->input->dtype : a->dtype;
    if (a->device < 0 || a->device >= AMP_DEVICE_COUNT) {
        return amp_fail(AMP_ERROR_DEVICE, "%s: 'device' is %lld; expected AMP_DEVICE_CPU or AMP_DEVICE_CUDA",
                        amp_call_name(call), (long long)a->device);
    }
    const amp_device device = (amp_device)a->device;
    const bool there = device == a->input->storage->device;
    call->outputs[0] = there ? amp_to(a->input, dtype, .copy = a->copy) : move(call->op->name, a->input, device, dtype);
    return call->outputs[0] ? AMP_OK : amp_pending_error();
}
