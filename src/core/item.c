/* amp_item: the one value of a tensor. */
#include "core/tensor_impl.h"
#include "cpu/convert/convert.h"

static double element_value(amp_dtype dtype, const void *p) {
    switch (dtype) {
    case AMP_F64:
    case AMP_C128: return *(const double *)p;
    case AMP_F32:
    case AMP_C64: return (double)*(const float *)p;
    case AMP_F16: return amp_f32_from_f16(*(const uint16_t *)p);
    case AMP_BF16: return amp_f32_from_bf16(*(const uint16_t *)p);
    case AMP_I64: return (double)*(const int64_t *)p;
    case AMP_I32: return (double)*(const int32_t *)p;
    case AMP_I16: return (double)*(const int16_t *)p;
    case AMP_I8: return (double)*(const int8_t *)p;
    case AMP_U8: return (double)*(const uint8_t *)p;
    case AMP_BOOL: return *(const uint8_t *)p != 0 ? 1.0 : 0.0;
    default: return 0.0;
    }
}

double amp_item(const amp_tensor *t) {
    const void *data = amp_data(t);
    if (!t || !amp_tensor_is_live(t) || t->storage->device != AMP_DEVICE_CPU) return 0.0; /* amp_data says why */
    if (!data || amp_tensor_elements(t) != 1) {
        amp_fail(AMP_ERROR_INVALID, "item: the tensor must have one element, this one is %s", amp_describe(t));
        return 0.0;
    }
    return element_value(t->dtype, data);
}
