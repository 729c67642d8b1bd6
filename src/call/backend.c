/* From a device to its backend, and to tensors in its memory. */
#include "call/backend.h"

#include "amp/system.h"
#include "core/hot.h"

static const amp_backend *installed[AMP_DEVICE_COUNT];

void amp_backend_install(amp_device device, const amp_backend *backend) {
    installed[device] = backend;
}

amp_status amp_backend_for(amp_device device, const char *op, const amp_backend **backend) {
    if ((unsigned)device >= AMP_DEVICE_COUNT) return amp_fail(AMP_ERROR_DEVICE, "%s: %d is no device", op, (int)device);
    *backend = installed[device];
    if (*backend) return AMP_OK;
    if (device == AMP_DEVICE_CUDA) return amp_cuda_backend(op, backend);
    *backend = &amp_cpu_backend;
    return AMP_OK;
}

AMP_APART static amp_tensor *tensor_elsewhere(amp_device device, const char *op, amp_dtype dtype, int rank,
                                              const int64_t *shape) {
    const amp_backend *backend = NULL;
    int64_t elements = 0;
    if (amp_backend_for(device, op, &backend) || amp_shape_elements(op, rank, shape, &elements)) return NULL;
    const size_t bytes = (size_t)elements * amp_dtype_size(dtype);
    void *block = NULL, *data = backend->allocate(op, bytes, &block);
    if (!data) {
        amp_fail(AMP_ERROR_MEMORY, "%s: %s has no memory for %zu bytes (%s %s)", op, backend->name, bytes,
                 amp_describe_shape(rank, shape), amp_dtype_name(dtype));
        return NULL;
    }
    amp_tensor *t = amp_from_memory(data, dtype, rank, shape, NULL, backend->release, block);
    if (t) {
        t->storage->device = device;
        t->storage->user_memory = false;
    } else {
        backend->release(block);
    }
    return t;
}

AMP_HOT amp_tensor *amp_backend_tensor(amp_device device, const char *op, amp_dtype dtype, int rank,
                                       const int64_t *shape) {
    return device == AMP_DEVICE_CPU ? amp_tensor_new(op, dtype, rank, shape)
                                    : tensor_elsewhere(device, op, dtype, rank, shape);
}

amp_status amp_copy_tensor(amp_tensor *destination, const amp_tensor *source) {
    if (destination->storage->device == AMP_DEVICE_CPU) return amp_cpu_backend.copy(destination, source);
    const amp_backend *backend = NULL;
    AMP_TRY(amp_backend_for(destination->storage->device, "copy", &backend));
    return backend->copy(destination, source);
}

amp_status amp_fill_tensor_with(amp_tensor *tensor, const amp_scalar *value) {
    const amp_backend *backend = NULL;
    AMP_TRY(amp_backend_for(tensor->storage->device, "fill", &backend));
    return backend->fill(tensor, value);
}

bool amp_device_is_usable(amp_device device, const char **reason) {
    const char *why = "there is no such device";
    if (device == AMP_DEVICE_CPU) why = "";
    if (device == AMP_DEVICE_CUDA) why = amp_cuda_reason();
    if (reason) *reason = why;
    return *why == '\0';
}
