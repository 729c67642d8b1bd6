/* What a product or a convolution does to its results before it stores them, in the words of linear_pointwise and
 * convolution_pointwise, which are those of PyTorch's mkldnn::_linear_pointwise and _convolution_pointwise. */
#ifndef AMP_CPU_EPILOGUE_H
#define AMP_CPU_EPILOGUE_H

#include "call/call.h"
#include "steps/activation.h"

typedef struct amp_epilogue {
    amp_gemm_activation activation;
    double numbers[2];
} amp_epilogue;

/* What arguments say; `name` is that of `attr`, for messages: "attr", "unary_attr". */
typedef struct amp_epilogue_words {
    const char *name, *attr; /* none, relu, sigmoid, tanh, swish, hardswish, leaky_relu, hardtanh or gelu */
    amp_floats scalars;      /* the slope of leaky_relu (absent: 0.01), the bounds of hardtanh (−1, 1) */
    const char *algorithm;   /* of gelu: none or tanh */
} amp_epilogue_words;

/* Reads them for results of a dtype; only floating dtypes have activations. */
amp_status amp_read_epilogue(const amp_call *call, const amp_epilogue_words *words, amp_dtype dtype, amp_epilogue *e);

/* Applies it in place, by the op of its own: where no kernel took it along. */
amp_status amp_apply_epilogue(amp_tensor *result, const amp_epilogue *e);

/* The activation of one value, in f64. */
double amp_activate(double x, const amp_epilogue *e);

/* Steps of t's elements through a shape that it broadcasts to; an error that names the argument where it does not. */
amp_status amp_broadcast_strides(const amp_call *call, const char *name, const amp_tensor *t, int rank,
                                 const int64_t *shape, int64_t *strides);

/* What is added to a product besides its bias, as it is: no policy casts it. And the dtype that the result is rounded
 * to. */
typedef struct amp_additions {
    amp_tensor *shift;    /* NULL, or a number for each output channel */
    amp_tensor *residual; /* NULL, or what broadcasts to the result */
    amp_dtype dtype;      /* AMP_DTYPE_NONE: the operands' */
} amp_additions;

static inline bool amp_has_additions(const amp_additions *a) {
    return a->shift || a->residual || a->dtype != AMP_DTYPE_NONE;
}

/* Gives them memory; `channels` is how many numbers the shift must have. */
amp_status amp_check_additions(amp_call *call, const amp_additions *a, const amp_tensor *input, int64_t channels);

/* Whether products of the input's dtype take them along: on the CPU, of bf16 those in bf16 and f32, of f32 those in
 * f32. */
bool amp_kernels_add(const amp_call *call, const amp_additions *a, const amp_tensor *input);

/* The bias and the shift, either of which may be NULL, as one vector of `dtype`; the one that is there, as it is, where
 * `dtype` is AMP_DTYPE_NONE and they are not both (else f32). Fails as ops do. */
amp_status amp_join_shift(amp_call *call, const amp_additions *a, amp_dtype dtype, amp_tensor **bias);

/* How the result meets a second tensor: result ∘ other. */
typedef enum amp_join { AMP_JOIN_ADD, AMP_JOIN_SUB, AMP_JOIN_MUL, AMP_JOIN_DIV } amp_join;

/* "add", "sub", "mul" or "div". */
amp_status amp_read_join(const amp_call *call, const char *name, const char *attr, amp_join *join);

/* By the op of its own, with its promotion and broadcasting; NULL with an error. */
amp_tensor *amp_apply_join(amp_tensor *result, amp_join join, amp_tensor *other);

#endif /* AMP_CPU_EPILOGUE_H */
