/* Lists of extents and numbers on the host, for the import functions. */
#include "onnx/ops/pieces.h"

#include <string.h>

#include "core/tensor_impl.h"
#include "onnx/run_state.h"

amp_dims amp_onnx_same_dims(int count, int64_t value) {
    amp_dims dims = {.count = count, .set = AMP_PRESENT};
    for (int i = 0; i < count && i < AMP_MAX_RANK; i++) dims.values[i] = value;
    return dims;
}

amp_dims amp_onnx_dims_between(int first, int last) {
    amp_dims dims = {.count = last - first, .set = AMP_PRESENT};
    for (int i = first; i < last; i++) dims.values[i - first] = i;
    return dims;
}

amp_tensor *amp_onnx_reshaped(amp_tensor *t, int rank, const int64_t *shape) {
    return amp_reshape(t, amp_onnx_dims(rank, shape));
}

amp_tensor *amp_onnx_along(amp_tensor *t, int axis, int rank) {
    if (!t || amp_tensor_elements(t) == 1) return t ? amp_reshape(t, amp_onnx_dims(0, NULL)) : NULL;
    amp_dims shape = amp_onnx_same_dims(rank, 1);
    shape.values[axis] = amp_tensor_elements(t);
    return amp_reshape(t, shape);
}

const void *amp_onnx_host(amp_tensor *t, amp_dtype dtype) {
    amp_tensor *here = amp_contiguous(amp_to_device(t, AMP_DEVICE_CPU, .dtype = dtype));
    return here ? amp_data(here) : NULL;
}

amp_tensor *amp_onnx_to_inputs(const amp_onnx_step *s, amp_tensor *t) {
    return s->run->device == AMP_DEVICE_CPU ? t : amp_to_device(t, s->run->device);
}

amp_tensor *amp_onnx_from_host(const amp_onnx_step *s, amp_dtype dtype, int rank, const int64_t *shape,
                               const void *values) {
    return amp_onnx_to_inputs(s, amp_from_data(values, dtype, rank, shape));
}

void *amp_onnx_memory(amp_dtype dtype, int64_t count) {
    amp_tensor *room = amp_tensor_new("onnx", dtype, 1, &count);
    return room ? memset(amp_tensor_pointer(room), 0, room->storage->bytes) : NULL;
}

int64_t amp_onnx_product(const amp_onnx_step *s, int count, const int64_t *extents, int64_t most) {
    int64_t product = 1;
    for (int i = 0; i < count; i++) {
        if (extents[i] < 0 || __builtin_mul_overflow(product, extents[i], &product) || product > most) {
            (void)amp_onnx_fail(s, AMP_ERROR_INVALID, "%s elements are asked for; at most %lld are possible",
                                amp_describe_shape(count, extents), (long long)most);
            return -1;
        }
    }
    return product;
}
