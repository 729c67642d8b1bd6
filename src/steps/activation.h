/* The activations that products and convolutions apply to their results. */
#ifndef AMP_STEPS_ACTIVATION_H
#define AMP_STEPS_ACTIVATION_H

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

#endif /* AMP_STEPS_ACTIVATION_H */
