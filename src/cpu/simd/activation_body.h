/* The activations of epilogues on vectors of floats: those of the elementwise ops (vmath_body.h, where their errors
 * stand), so a fused one gives the bits that the op would give of the sums in f32. After a simd header. */
#ifndef AMP_CPU_ACTIVATION_BODY_H
#define AMP_CPU_ACTIVATION_BODY_H

#include <math.h>

#include "cpu/simd/vmath_more_body.h"
#include "steps/activation.h"

static inline __attribute__((always_inline)) vf v_activated(vf x, const amp_gemm_activation activation,
                                                            const float *numbers) {
    switch (activation) {
    case AMP_GEMM_RELU: return v_relu(x);
    case AMP_GEMM_GELU_ERF: return v_gelu(x);
    case AMP_GEMM_GELU_TANH: return v_gelu_tanh(x);
    case AMP_GEMM_SILU: return v_silu(x);
    case AMP_GEMM_TANH: return v_tanh(x);
    case AMP_GEMM_SIGMOID: return v_sigmoid(x);
    case AMP_GEMM_HARDSWISH: return v_hardswish(x);
    case AMP_GEMM_LEAKY_RELU: return v_with_leaky_relu(x, v_set1(numbers[0]), x);
    case AMP_GEMM_HARDTANH: return v_with_hardtanh(x, v_set1(numbers[0]), v_set1(numbers[1]));
    default: return x;
    }
}

#endif /* AMP_CPU_ACTIVATION_BODY_H */
