/* Values out of any tensor into dense memory. */
#include "io/read.h"

#include "amp/ops.h"
#include "call/backend.h"
#include "core/thread.h"

amp_status amp_read_into(amp_tensor *destination, const amp_tensor *source) {
    if (source->storage->device != AMP_DEVICE_CPU) source = amp_to_device((amp_tensor *)source, AMP_DEVICE_CPU);
    return source ? amp_copy_tensor(destination, source) : amp_pending_error();
}

static amp_status check(const amp_tensor *t, amp_dtype dtype, const void *buffer, size_t bytes) {
    if (!t) return amp_fail(AMP_ERROR_INVALID, "read: the argument 'tensor' is missing");
    if (!amp_tensor_is_live(t)) {
        return amp_fail(AMP_ERROR_INVALID, "read: the argument 'tensor' was released before");
    }
    const size_t size = amp_dtype_size(dtype), elements = (size_t)amp_tensor_elements(t);
    if (size == 0) return amp_fail(AMP_ERROR_DTYPE, "read: 'dtype' is %d, which is no dtype", (int)dtype);
    if (bytes / size < elements) {
        return amp_fail(AMP_ERROR_INVALID, "read: the buffer has %zu bytes, but %s as %s needs %zu", bytes,
                        amp_describe(t), amp_dtype_name(dtype), elements * size);
    }
    return buffer || elements == 0 ? AMP_OK : amp_fail(AMP_ERROR_INVALID, "read: the buffer is NULL");
}

amp_status amp_read(const amp_tensor *tensor, amp_dtype dtype, void *buffer, size_t bytes) {
    AMP_TRY(amp_pending_error());
    AMP_TRY(check(tensor, dtype, buffer, bytes));
    if (amp_tensor_elements(tensor) == 0) return AMP_OK;
    if (!amp_tensor_read(tensor)) return amp_pending_error();
    amp_scope_frame frame;
    amp_scope_push(&frame);
    amp_tensor *lent = amp_from_memory(buffer, dtype, tensor->rank, tensor->shape, NULL, NULL, NULL);
    const amp_status status = lent ? amp_read_into(lent, tensor) : amp_pending_error();
    amp_scope_pop(&frame);
    return status;
}
