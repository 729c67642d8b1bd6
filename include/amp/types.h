/* Element types, devices, option values and tensor lists: the vocabulary of every libamp declaration. */
#ifndef AMP_TYPES_H
#define AMP_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "amp/export.h"

/* In C++ an argument struct knows its size by itself, and what is not given is absent. */
#ifdef __cplusplus
#define AMP_SIZE_OF_(type) = sizeof(type)
#define AMP_ABSENT_                                                                                                    \
    {}
#else
#define AMP_SIZE_OF_(type)
#define AMP_ABSENT_
#endif

#ifdef __cplusplus
#include <initializer_list>
extern "C" {
#endif

/* Largest number of dimensions of a tensor, and of values in an amp_dims or amp_floats. */
#define AMP_MAX_RANK 8

/* Element types. AMP_DTYPE_NONE is "not given" wherever a dtype is an option. */
typedef enum amp_dtype {
    AMP_DTYPE_NONE = 0,
    AMP_F64,
    AMP_F32,
    AMP_F16,
    AMP_BF16,
    AMP_I64,
    AMP_I32,
    AMP_I16,
    AMP_I8,
    AMP_U8,
    AMP_BOOL,
    AMP_C64,  /* two f32: real, imaginary */
    AMP_C128, /* two f64: real, imaginary */
    AMP_DTYPE_COUNT
} amp_dtype;

/* Devices. A tensor lives on one, an autocast region is for one, and the dispatcher keeps one op table for each. */
typedef enum amp_device { AMP_DEVICE_CPU = 0, AMP_DEVICE_CUDA, AMP_DEVICE_COUNT } amp_device;

/* "f32", "bf16", … and "none"; "?" for a value that is no dtype. The string is static. */
AMP_API const char *amp_dtype_name(amp_dtype dtype);
/* Size of one element in bytes; 0 for AMP_DTYPE_NONE and for a value that is no dtype. */
AMP_API size_t amp_dtype_size(amp_dtype dtype);
/* The dtype of a name ("f32", or PyTorch's "float32", "bfloat16", "half", …); AMP_DTYPE_NONE if there is none. */
AMP_API amp_dtype amp_dtype_from_name(const char *name);
/* f64, f32, f16, bf16. */
AMP_API bool amp_dtype_is_floating(amp_dtype dtype);
/* c64, c128. */
AMP_API bool amp_dtype_is_complex(amp_dtype dtype);
/* "cpu" or "cuda"; "?" for a value that is no device. The string is static. */
AMP_API const char *amp_device_name(amp_device device);

/* A tensor: shape, strides and dtype over a shared storage. Opaque; see amp/tensor.h. */
typedef struct amp_tensor amp_tensor;
/* Where random numbers come from; see amp/random.h. */
typedef struct amp_generator amp_generator;

/* ---- Option values --------------------------------------------------------------------------------------------
 * An option whose default is not zero (or is "None") carries a mark of presence, so that an explicit 0 stays a 0:
 *     amp_layer_norm(x, AMP_DIMS(384), w, b, .eps = AMP_SET(0))
 * In C, each of these types begins with a member of no size, which no bare number can initialise: `.eps = 0` is an
 * error that says "missing braces" or "requires explicit braces", and where. C++ takes the bare number as given. A value
 * that comes without its mark all the same is refused by every op with a sentence.
 */
enum { AMP_PRESENT = 0x5e7 };

#ifdef __cplusplus
#define AMP_NO_BARE_NUMBER_(write)
#else
#define AMP_NO_BARE_NUMBER_(write)                                                                                     \
    __extension__ struct {                                                                                             \
    } write;
#endif

/* An expression whose initialisers are checked: what gcc only warns of, a bare number for one of these types or in the
 * place of a tensor, is an error as it is for clang; but not where these headers are the system's (-isystem). What the
 * call needs of compound literals lives until it has returned. */
#ifndef __cplusplus
#define AMP_CHECKED_(before, ...)                                                                                      \
    __extension__({                                                                                                    \
        _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic error \"-Wmissing-braces\"")                            \
            _Pragma("GCC diagnostic error \"-Wint-conversion\"") before __VA_ARGS__;                                   \
        _Pragma("GCC diagnostic pop")                                                                                  \
    })
#define AMP_CALL_(...) AMP_CHECKED_(, __VA_ARGS__)
#endif

/* clang-format off */
#ifdef __cplusplus
#define AMP_SET(...) {(__VA_ARGS__), AMP_PRESENT}
/* An empty list, where "none" is meant: AMP_DIMS() is not C99. */
#define AMP_NO_DIMS {{0}, 0, AMP_PRESENT}
#else
#define AMP_SET(...) {.value = (__VA_ARGS__), .set = AMP_PRESENT}
#define AMP_NO_DIMS {.count = 0, .set = AMP_PRESENT}
#endif
/* clang-format on */

typedef struct amp_opt_float {
    AMP_NO_BARE_NUMBER_(write_AMP_SET)
    double value;
    int set;
#ifdef __cplusplus
    amp_opt_float() = default;
    constexpr amp_opt_float(double number, int mark = AMP_PRESENT) : value(number), set(mark) {}
#endif
} amp_opt_float;

typedef struct amp_opt_int {
    AMP_NO_BARE_NUMBER_(write_AMP_SET)
    int64_t value;
    int set;
#ifdef __cplusplus
    amp_opt_int() = default;
    constexpr amp_opt_int(int64_t number, int mark = AMP_PRESENT) : value(number), set(mark) {}
#endif
} amp_opt_int;

typedef struct amp_opt_bool {
    AMP_NO_BARE_NUMBER_(write_AMP_SET)
    bool value;
    int set;
#ifdef __cplusplus
    amp_opt_bool() = default;
    constexpr amp_opt_bool(bool yes, int mark = AMP_PRESENT) : value(yes), set(mark) {}
#endif
} amp_opt_bool;

/* A number that keeps its category: an integer scalar does not turn an integer tensor into a float one. */
typedef enum amp_scalar_kind {
    AMP_SCALAR_NONE = 0, /* not given */
    AMP_SCALAR_FLOAT,
    AMP_SCALAR_INT,
    AMP_SCALAR_BOOL,
    AMP_SCALAR_COMPLEX
} amp_scalar_kind;

typedef struct amp_scalar {
    AMP_NO_BARE_NUMBER_(write_amp_float_or_amp_int)
    double re, im; /* AMP_SCALAR_FLOAT (re), AMP_SCALAR_COMPLEX */
    int64_t i;     /* AMP_SCALAR_INT, AMP_SCALAR_BOOL (0 or 1) */
    amp_scalar_kind kind;
} amp_scalar;

static inline amp_scalar amp_scalar_of_(amp_scalar_kind kind, double re, double im, int64_t i) {
    amp_scalar s;
    s.re = re;
    s.im = im;
    s.i = i;
    s.kind = kind;
    return s;
}
static inline amp_scalar amp_float(double value) {
    return amp_scalar_of_(AMP_SCALAR_FLOAT, value, 0, 0);
}
static inline amp_scalar amp_int(int64_t value) {
    return amp_scalar_of_(AMP_SCALAR_INT, 0, 0, value);
}
static inline amp_scalar amp_bool(bool value) {
    return amp_scalar_of_(AMP_SCALAR_BOOL, 0, 0, value ? 1 : 0);
}
static inline amp_scalar amp_complex(double re, double im) {
    return amp_scalar_of_(AMP_SCALAR_COMPLEX, re, im, 0);
}

/* Up to AMP_MAX_RANK integers: a shape, strides, a kernel size, a list of dimensions. Absent (set == 0) differs
 * from empty (set == AMP_PRESENT, count == 0). A count above AMP_MAX_RANK marks a list that was too long; every op
 * refuses it. */
typedef struct amp_dims {
    AMP_NO_BARE_NUMBER_(write_AMP_DIMS)
    int64_t values[AMP_MAX_RANK];
    int count;
    int set;
} amp_dims;

/* Up to AMP_MAX_RANK real numbers: a factor for each dimension. Absent, empty and too long as in amp_dims. */
typedef struct amp_floats {
    AMP_NO_BARE_NUMBER_(write_AMP_FLOATS)
    double values[AMP_MAX_RANK];
    int count;
    int set;
} amp_floats;

/* A list of tensors. The caller owns the array and the tensors of an input list; the list that an op returns
 * belongs, array and tensors, to the innermost open scope (amp_list_release frees it where no scope is open). */
typedef struct amp_tensor_list {
    amp_tensor *const *items;
    int64_t count;
    amp_tensor *holder; /* what keeps `items` alive in a returned list; NULL in the caller's own */
#ifdef __cplusplus
    amp_tensor_list() = default;
    constexpr amp_tensor_list(amp_tensor *const *tensors, int64_t number, amp_tensor *keeper = nullptr)
        : items(tensors), count(number), holder(keeper) {}
#endif
} amp_tensor_list;

#ifdef __cplusplus
} /* extern "C" */

static inline amp_dims amp_dims_from(std::initializer_list<int64_t> values) {
    amp_dims dims = {{0}, static_cast<int>(values.size()), AMP_PRESENT};
    int i = 0;
    for (int64_t v : values) {
        if (i < AMP_MAX_RANK) dims.values[i++] = v;
    }
    return dims;
}
static inline amp_floats amp_floats_from(std::initializer_list<double> values) {
    amp_floats floats = {{0}, static_cast<int>(values.size()), AMP_PRESENT};
    int i = 0;
    for (double v : values) {
        if (i < AMP_MAX_RANK) floats.values[i++] = v;
    }
    return floats;
}
#define AMP_DIMS(...) amp_dims_from({__VA_ARGS__})
#define AMP_FLOATS(...) amp_floats_from({__VA_ARGS__})
#else
/* AMP_DIMS(2, 2) as the value of an option or argument; AMP_DIMS(2) applies to every dimension where PyTorch's int
 * would. More than AMP_MAX_RANK values do not compile. */
#define AMP_DIMS(...)                                                                                                  \
    ((amp_dims){.values = {__VA_ARGS__},                                                                               \
                .count = (int)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),                              \
                .set = AMP_PRESENT})
/* AMP_FLOATS(2.0, 1.5), of real numbers. */
#define AMP_FLOATS(...)                                                                                                \
    ((amp_floats){.values = {__VA_ARGS__},                                                                             \
                  .count = (int)(sizeof((const double[]){__VA_ARGS__}) / sizeof(double)),                              \
                  .set = AMP_PRESENT})
/* AMP_LIST(a, b, c) as a tensor list argument, in C only; lives until the end of the enclosing block. */
#define AMP_LIST(...)                                                                                                  \
    ((amp_tensor_list){(amp_tensor *const[]){__VA_ARGS__},                                                             \
                       (int64_t)(sizeof((amp_tensor *const[]){__VA_ARGS__}) / sizeof(amp_tensor *)), NULL})
#endif

#endif /* AMP_TYPES_H */
