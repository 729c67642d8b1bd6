/* From a device to its backend. */
#include "dispatch/backend.h"

#include "amp/system.h"

amp_status amp_backend_for(amp_device device, const char *op, const amp_backend **backend) {
    switch (device) {
    case AMP_DEVICE_CPU: *backend = &amp_cpu_backend; return AMP_OK;
    case AMP_DEVICE_CUDA: return amp_cuda_backend(op, backend);
    default: return amp_fail(AMP_ERROR_DEVICE, "%s: %d is no device", op, (int)device);
    }
}

bool amp_device_is_usable(amp_device device, const char **reason) {
    const char *why = "there is no such device";
    if (device == AMP_DEVICE_CPU) why = "";
    if (device == AMP_DEVICE_CUDA) why = amp_cuda_reason();
    if (reason) *reason = why;
    return *why == '\0';
}
