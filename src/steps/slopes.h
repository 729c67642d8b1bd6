/* The slopes of activations, each times the gradient d of its result: one pass over d and the input x, or the result. */
#ifndef AMP_STEPS_SLOPES_H
#define AMP_STEPS_SLOPES_H

#include "core/tensor_impl.h"

/* What p, q and r are: threshold's bound p; hardtanh's bounds p and q; leaky_relu's slope p; elu's p·e^(q·x) below zero and r
 * above; softplus's factor p, and q above which it is straight. sigmoid and tanh read the result. */
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

#endif /* AMP_STEPS_SLOPES_H */
