/* From a device to its backend. */
#include "dispatch/backend.h"

amp_status amp_backend_for(amp_device device, const char *op, const amp_backend **backend) {
    switch (device) {
    case AMP_DEVICE_CPU: *backend = &amp_cpu_backend; return AMP_OK;
    case AMP_DEVICE_CUDA: return amp_cuda_backend(op, backend);
    default: return amp_fail(AMP_ERROR_DEVICE, "%s: %d is no device", op, (int)device);
    }
}
