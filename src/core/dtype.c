/* Traits of the element types, as one table. */
#include <float.h>
#include <string.h>

#include "core/tensor_impl.h"

typedef struct dtype_traits {
    const char *name;
    const char *aliases[2]; /* PyTorch's names */
    bool floating, complex;
    double largest; /* finite number, of a complex type in each part; 0: a whole number */
} dtype_traits;

static const dtype_traits traits[AMP_DTYPE_COUNT] = {
    [AMP_DTYPE_NONE] = {"none", {0}, false, false, 0},
    [AMP_F64] = {"f64", {"float64", "double"}, true, false, DBL_MAX},
    [AMP_F32] = {"f32", {"float32", "float"}, true, false, FLT_MAX},
    [AMP_F16] = {"f16", {"float16", "half"}, true, false, 65504.0},
    [AMP_BF16] = {"bf16", {"bfloat16"}, true, false, 0x1.fep127},
    [AMP_I64] = {"i64", {"int64", "long"}, false, false, 0},
    [AMP_I32] = {"i32", {"int32", "int"}, false, false, 0},
    [AMP_I16] = {"i16", {"int16", "short"}, false, false, 0},
    [AMP_I8] = {"i8", {"int8"}, false, false, 0},
    [AMP_U8] = {"u8", {"uint8"}, false, false, 0},
    [AMP_BOOL] = {"bool", {0}, false, false, 0},
    [AMP_C64] = {"c64", {"complex64", "cfloat"}, false, true, FLT_MAX},
    [AMP_C128] = {"c128", {"complex128", "cdouble"}, false, true, DBL_MAX},
};

const unsigned char amp_element_sizes[AMP_DTYPE_COUNT] = {
    [AMP_F64] = 8, [AMP_F32] = 4, [AMP_F16] = 2, [AMP_BF16] = 2, [AMP_I64] = 8, [AMP_I32] = 4,
    [AMP_I16] = 2, [AMP_I8] = 1,  [AMP_U8] = 1,  [AMP_BOOL] = 1, [AMP_C64] = 8, [AMP_C128] = 16,
};

static const dtype_traits *traits_of(amp_dtype dtype) {
    return (unsigned)dtype < AMP_DTYPE_COUNT ? &traits[dtype] : NULL;
}

const char *amp_dtype_name(amp_dtype dtype) {
    const dtype_traits *t = traits_of(dtype);
    return t ? t->name : "?";
}

size_t amp_dtype_size(amp_dtype dtype) {
    return (unsigned)dtype < AMP_DTYPE_COUNT ? amp_element_sizes[dtype] : 0;
}

bool amp_dtype_is_floating(amp_dtype dtype) {
    const dtype_traits *t = traits_of(dtype);
    return t && t->floating;
}

bool amp_dtype_is_complex(amp_dtype dtype) {
    const dtype_traits *t = traits_of(dtype);
    return t && t->complex;
}

double amp_dtype_largest(amp_dtype dtype) {
    const dtype_traits *t = traits_of(dtype);
    return t ? t->largest : 0.0;
}

static bool is_named(const dtype_traits *t, const char *name) {
    if (strcmp(t->name, name) == 0) return true;
    for (int i = 0; i < 2 && t->aliases[i]; i++) {
        if (strcmp(t->aliases[i], name) == 0) return true;
    }
    return false;
}

amp_dtype amp_dtype_from_name(const char *name) {
    for (int d = AMP_DTYPE_NONE + 1; name && d < AMP_DTYPE_COUNT; d++) {
        if (is_named(&traits[d], name)) return (amp_dtype)d;
    }
    return AMP_DTYPE_NONE;
}

const char *amp_device_name(amp_device device) {
    switch (device) {
    case AMP_DEVICE_CPU: return "cpu";
    case AMP_DEVICE_CUDA: return "cuda";
    default: return "?";
    }
}

amp_dtype amp_compute_dtype(amp_dtype dtype) {
    switch (dtype) {
    case AMP_F32:
    case AMP_F16:
    case AMP_BF16: return AMP_F32;
    case AMP_F64: return AMP_F64;
    case AMP_C64:
    case AMP_C128: return AMP_C128;
    default: return AMP_I64;
    }
}
