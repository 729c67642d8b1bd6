/* Conversion of blocks between any dtype and the compute types: one typed loop per pair, from one list of types. */
#include "cpu/element.h"

#include <math.h>
#include <string.h>

#include "cpu/kernels.h"

typedef double _Complex complex128;
typedef float _Complex complex64;

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

/* Truncation towards zero that is defined for every value: what does not fit, and NaN, give the smallest integer, as
 * the processor's own conversion does. */
static int64_t truncate_f64(double x) {
    return x >= -0x1p63 && x < 0x1p63 ? (int64_t)x : INT64_MIN;
}

static float pass_f32(float x) {
    return x;
}
static int64_t pass_i64(int64_t x) {
    return x;
}

/* TYPE(dtype, C type in memory, widened C type, widen, narrow from f32, from f64, from i64, from c128, from bool) */
#define FOR_EACH_DTYPE(TYPE)                                                                                           \
    TYPE(F64, double, double, (double))                                                                                \
    TYPE(F32, float, float, pass_f32)                                                                                  \
    TYPE(F16, uint16_t, float, amp_f32_from_f16)                                                                       \
    TYPE(BF16, uint16_t, float, amp_f32_from_bf16)                                                                     \
    TYPE(I64, int64_t, int64_t, pass_i64)                                                                              \
    TYPE(I32, int32_t, int64_t, pass_i64)                                                                              \
    TYPE(I16, int16_t, int64_t, pass_i64)                                                                              \
    TYPE(I8, int8_t, int64_t, pass_i64)                                                                                \
    TYPE(U8, uint8_t, int64_t, pass_i64)                                                                               \
    TYPE(BOOL, uint8_t, bool, (bool))                                                                                  \
    TYPE(C64, complex64, complex128, (complex128))                                                                     \
    TYPE(C128, complex128, complex128, (complex128))

/* Any widened value to a compute type. */
#define TO_F32(x) _Generic((x), complex128 : (float)creal((complex128)(x)), default : (float)REAL_PART(x))
#define REAL_PART(x) _Generic((x), complex128 : 0.0, default : (x))
#define TO_F64(x) _Generic((x), complex128 : creal((complex128)(x)), default : (double)REAL_PART(x))
#define TO_I64(x)                                                                                                      \
    _Generic((x), float                                                                                                \
             : truncate_f64((double)REAL_PART(x)), double                                                              \
             : truncate_f64((double)REAL_PART(x)), complex128                                                          \
             : truncate_f64(creal((complex128)(x))), default                                                           \
             : (int64_t)REAL_PART(x))
#define TO_C128(x) ((complex128)(x))
#define TO_BOOL(x) ((x) != 0)

/* A compute value to a dtype in memory. */
#define STORE_F64(x) TO_F64(x)
#define STORE_F32(x) TO_F32(x)
#define STORE_F16(x) amp_f16_from_f32(TO_F32(x))
#define STORE_BF16(x) amp_bf16_from_f32(TO_F32(x))
#define STORE_I64(x) TO_I64(x)
#define STORE_I32(x) (int32_t) TO_I64(x)
#define STORE_I16(x) (int16_t) TO_I64(x)
#define STORE_I8(x) (int8_t) TO_I64(x)
#define STORE_U8(x) (uint8_t) TO_I64(x)
#define STORE_BOOL(x) (uint8_t) TO_BOOL(x)
#define STORE_C64(x) (complex64)(x)
#define STORE_C128(x) (complex128)(x)

#define FOR_EACH_COMPUTE(PAIR, ...)                                                                                    \
    PAIR(F32, float, __VA_ARGS__)                                                                                      \
    PAIR(F64, double, __VA_ARGS__)                                                                                     \
    PAIR(I64, int64_t, __VA_ARGS__)                                                                                    \
    PAIR(C128, complex128, __VA_ARGS__)                                                                                \
    PAIR(BOOL, bool, __VA_ARGS__)

#define DEFINE_PAIR(COMPUTE, compute_type, DTYPE, memory_type, wide_type, widen)                                       \
    static void load_##COMPUTE##_##DTYPE(void *restrict dst, const char *restrict src, int64_t stride, int64_t n) {    \
        compute_type *to = dst;                                                                                        \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            const wide_type x = widen(*(const memory_type *)(const void *)(src + i * stride));                         \
            to[i] = (compute_type)TO_##COMPUTE(x);                                                                     \
        }                                                                                                              \
    }                                                                                                                  \
    static void store_##COMPUTE##_##DTYPE(char *restrict dst, const void *restrict src, int64_t stride, int64_t n) {   \
        const compute_type *from = src;                                                                                \
        for (int64_t i = 0; i < n; i++) *(memory_type *)(void *)(dst + i * stride) = STORE_##DTYPE(from[i]);           \
    }
#define DEFINE_TYPE(...) FOR_EACH_COMPUTE(DEFINE_PAIR, __VA_ARGS__)
FOR_EACH_DTYPE(DEFINE_TYPE)

typedef void load_function(void *restrict dst, const char *restrict src, int64_t stride, int64_t n);
typedef void store_function(char *restrict dst, const void *restrict src, int64_t stride, int64_t n);

#define LOAD_ENTRY(COMPUTE, compute_type, DTYPE, ...) [AMP_##COMPUTE][AMP_##DTYPE] = load_##COMPUTE##_##DTYPE,
#define STORE_ENTRY(COMPUTE, compute_type, DTYPE, ...) [AMP_##COMPUTE][AMP_##DTYPE] = store_##COMPUTE##_##DTYPE,
#define LOAD_ENTRIES(...) FOR_EACH_COMPUTE(LOAD_ENTRY, __VA_ARGS__)
#define STORE_ENTRIES(...) FOR_EACH_COMPUTE(STORE_ENTRY, __VA_ARGS__)
static load_function *const loads[AMP_DTYPE_COUNT][AMP_DTYPE_COUNT] = {FOR_EACH_DTYPE(LOAD_ENTRIES)};
static store_function *const stores[AMP_DTYPE_COUNT][AMP_DTYPE_COUNT] = {FOR_EACH_DTYPE(STORE_ENTRIES)};

static bool is_half(amp_dtype dtype) {
    return dtype == AMP_BF16 || dtype == AMP_F16;
}

/* The registry's conversion between dense arrays; NULL where there is none (the caller's plain loop serves then). */
static amp_convert_function *dense_convert(amp_dtype from, amp_dtype to) {
    return (amp_convert_function *)amp_kernel_get(AMP_KERNEL_CONVERT, from, to);
}

void amp_block_prepare(void) {
    dense_convert(AMP_F32, AMP_BF16);
    dense_convert(AMP_BF16, AMP_F32);
    dense_convert(AMP_F32, AMP_F16);
    dense_convert(AMP_F16, AMP_F32);
}

void amp_block_load(amp_dtype compute, void *dst, amp_dtype dtype, const char *src, int64_t stride, int64_t n) {
    const int64_t size = (int64_t)amp_dtype_size(dtype);
    if (stride == size && compute == dtype) {
        memcpy(dst, src, (size_t)(n * size));
        return;
    }
    if (stride == size && compute == AMP_F32 && is_half(dtype)) {
        amp_convert_function *convert = dense_convert(dtype, AMP_F32);
        if (convert) {
            convert(dst, src, n);
            return;
        }
    }
    loads[compute][dtype](dst, src, stride, n);
}

void amp_block_store(amp_dtype compute, const void *src, amp_dtype dtype, char *dst, int64_t stride, int64_t n) {
    const int64_t size = (int64_t)amp_dtype_size(dtype);
    if (stride == size && compute == dtype) {
        memcpy(dst, src, (size_t)(n * size));
        return;
    }
    if (stride == size && compute == AMP_F32 && is_half(dtype)) {
        amp_convert_function *convert = dense_convert(AMP_F32, dtype);
        if (convert) {
            convert(dst, src, n);
            return;
        }
    }
    stores[compute][dtype](dst, src, stride, n);
}

double amp_element_double(amp_dtype dtype, const void *element) {
    double value;
    loads[AMP_F64][dtype](&value, element, 0, 1);
    return value;
}
