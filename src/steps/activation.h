/* The activations that products and convolutions apply to their results, and the slopes of activations. */
#ifndef AMP_STEPS_ACTIVATION_H
#define AMP_STEPS_ACTIVATION_H

#include "amp/types.h"

typedef enum amp_gemm_activation {
    AMP_GEMM_NONE = 0,
    AMP_GEMM_RELU,      /* NaN stays NaN */
    AMP_GEMM_GELU_ERF,  /* x/2 · (1 + erf(x/√2)) */
    AMP_GEMM_GELU_TANH, /* x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³))) */
    AMP_GEMM_SILU,      /* x / (1 + e^-x) */
    AMP_GEMM_TANH,
    AMP_GEMM_SIGMOID,    /* 1 / (1 + e^-x) */
    AMP_GEMM_HARDSWISH,  /* x · min(max(x + 3, 0), 6) / 6 */
    AMP_GEMM_LEAKY_RELU, /* x, below 0 times numbers[0] */
    AMP_GEMM_HARDTANH,   /* x between numbers[0] and numbers[1] */
    AMP_GEMM_ACTIVATION_COUNT
} amp_gemm_activation;

/* ---- Slopes: the gradient d of the result times the derivative at x, in one pass --------------------------------- */

/* What p, q and r are: threshold's bound p; hardtanh's bounds p and q; leaky_relu's slope p; elu's p·e^(q·x) below zero
 * and r above; softplus's factor p, and q above which it is straight. sigmoid and tanh read the result. */
#define AMP_SLOPES(X)                                                                                                  \
    X(SIGMOID, sigmoid)                                                                                                \
    X(TANH, tanh)                                                                                                      \
    X(THRESHOLD, threshold)                                                                                            \
    X(HARDTANH, hardtanh)                                                                                              \
    X(LEAKY_RELU, leaky_relu)                                                                                          \
    X(ELU, elu)                                                                                                        \
    X(GELU, gelu)                                                                                                      \
    X(GELU_TANH, gelu_tanh)                                                                                            \
    X(SILU, silu)                                                                                                      \
    X(MISH, mish)                                                                                                      \
    X(SOFTPLUS, softplus)                                                                                              \
    X(LOG_SIGMOID, log_sigmoid)                                                                                        \
    X(HARDSIGMOID, hardsigmoid)                                                                                        \
    X(HARDSWISH, hardswish)

#define AMP_SLOPE_KIND(NAME, name) AMP_SLOPE_##NAME,
typedef enum amp_slope_kind { AMP_SLOPES(AMP_SLOPE_KIND) AMP_SLOPE_COUNT } amp_slope_kind;
#undef AMP_SLOPE_KIND

typedef struct amp_slope {
    amp_slope_kind kind;
    amp_tensor *d, *x; /* real floating numbers, which broadcast */
    double numbers[3]; /* p, q, r */
} amp_slope;

#endif /* AMP_STEPS_ACTIVATION_H */
