/* Element types, devices, option values and tensor lists: the vocabulary of every libamp declaration. */
#ifndef AMP_TYPES_H
#define AMP_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "amp/export.h"

/* In C++ an argument struct knows its size by itself. */
#ifdef __cplusplus
#define AMP_SIZE_OF_(type) = sizeof(type)
#else
#define AMP_SIZE_OF_(type)
#endif

#ifdef __cplusplus
#include <initializer_list>
extern "C" {
#endif

/* Largest number of dimensions of a tensor, and of values in an amp_dims. */
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

/* ---- Option values --------------------------------------------------------------------------------------------
 * An option whose default is not zero (or is "None") carries a mark of presence, so that an explicit 0 stays a 0:
 *     amp_layer_norm(x, AMP_DIMS(384), w, b, .eps = AMP_SET(0))
 * The value stands first and the mark last, so that a bare number, which C accepts (.eps = 0.1), is a value without a mark:
 * every op refuses it with a sentence. A bare 0 cannot be told from nothing, and gives the default.
 */
enum { AMP_PRESENT = 0x5e7 };

/* clang-format off */
#define AMP_SET(...) {(__VA_ARGS__), AMP_PRESENT}
/* An empty list, where "none" is meant: AMP_DIMS() is not C99. */
#define AMP_NO_DIMS {{0}, 0, AMP_PRESENT}
/* clang-format on */

typedef struct amp_opt_float {
    double value;
    int set;
} amp_opt_float;

typedef struct amp_opt_int {
    int64_t value;
    int set;
} amp_opt_int;

typedef struct amp_opt_bool {
    bool value;
    int set;
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
    double re, im; /* AMP_SCALAR_FLOAT (re), AMP_SCALAR_COMPLEX */
    int64_t i;     /* AMP_SCALAR_INT, AMP_SCALAR_BOOL (0 or 1) */
    amp_scalar_kind kind;
} amp_scalar;

static inline amp_scalar amp_float(double value) {
    amp_scalar s = {0.0, 0.0, 0, AMP_SCALAR_FLOAT};
    s.re = value;
    return s;
}
static inline amp_scalar amp_int(int64_t value) {
    amp_scalar s = {0.0, 0.0, 0, AMP_SCALAR_INT};
    s.i = value;
    return s;
}
static inline amp_scalar amp_bool(bool value) {
    amp_scalar s = {0.0, 0.0, 0, AMP_SCALAR_BOOL};
    s.i = value ? 1 : 0;
    return s;
}
static inline amp_scalar amp_complex(double re, double im) {
    amp_scalar s = {0.0, 0.0, 0, AMP_SCALAR_COMPLEX};
    s.re = re;
    s.im = im;
    return s;
}

/* Up to AMP_MAX_RANK integers: a shape, strides, a kernel size, a list of dimensions. Absent (set == 0) differs
 * from empty (set == AMP_PRESENT, count == 0). A count above AMP_MAX_RANK marks a list that was too long; every op refuses it. */
typedef struct amp_dims {
    int64_t values[AMP_MAX_RANK];
    int count;
    int set;
} amp_dims;

/* A list of tensors. The caller owns the array and the tensors of an input list; the list that an op returns
 * belongs, array and tensors, to the innermost open scope (amp_list_release frees it where no scope is open). */
typedef struct amp_tensor_list {
    amp_tensor *const *items;
    int64_t count;
    amp_tensor *holder; /* what keeps `items` alive in a returned list; NULL in the caller's own */
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
#define AMP_DIMS(...) amp_dims_from({__VA_ARGS__})
#else
/* AMP_DIMS(2, 2) as the value of an option or argument; AMP_DIMS(2) applies to every dimension where PyTorch's int would.
 * More than AMP_MAX_RANK values do not compile. */
#define AMP_DIMS(...)                                                                                                  \
    ((amp_dims){{__VA_ARGS__}, (int)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), AMP_PRESENT})
/* AMP_LIST(a, b, c) as a tensor list argument; lives until the end of the enclosing block. */
#define AMP_LIST(...)                                                                                                  \
    ((amp_tensor_list){(amp_tensor *const[]){__VA_ARGS__},                                                             \
                       (int64_t)(sizeof((amp_tensor *const[]){__VA_ARGS__}) / sizeof(amp_tensor *)), NULL})
#endif

#endif /* AMP_TYPES_H */
