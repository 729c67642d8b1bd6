/* The kernels of registry/slopes.h, compiled once per ISA over simd_<isa>.h; no include guard: one file, one ISA.
 *
 * Formula:     the derivative of the activation by its name, element by element, times d; PyTorch's choices at kinks.
 * Accumulator: none.
 * Error bound: one rounding for each operation as written; exponentials and Φ within an ulp or two (test_vmath.cc).
 * Denormals:   kept, as MXCSR says by default.
 * ISA:         that of the simd header which is included before; the same bits on each.
 * Source:      the derivatives, by hand. */
#include <math.h>

#include "cpu/registry/kernels.h"
#include "cpu/simd/vmath_body.h"

#define PASTE_(name, isa) amp_slope_##name##_f32_##isa
#define PASTE(name, isa) PASTE_(name, isa)
#define KERNEL(name) PASTE(name, SIMD_ISA)

#define SLOPE static inline vf
#define SPARE __attribute__((unused))
#define ARGUMENTS vf d, vf x, vf p SPARE, vf q SPARE, vf r SPARE

SLOPE s_sigmoid(ARGUMENTS) {
    return d * (x * (v_set1(1.0f) - x));
}
SLOPE s_tanh(ARGUMENTS) {
    return d * v_fma(-x, x, v_set1(1.0f));
}
/* Not (x ≤ p): of NaN d itself. */
SLOPE s_threshold(ARGUMENTS) {
    const vf zero = v_set1(0.0f);
    return v_select(v_lt(x, p), zero, v_select(v_eq(x, p), zero, d));
}
SLOPE s_hardtanh(ARGUMENTS) {
    const vf zero = v_set1(0.0f), inside = v_select(v_lt(p, x), v_select(v_lt(x, q), d, zero), zero);
    return v_select(v_unordered(x, x), d, inside);
}
SLOPE s_leaky_relu(ARGUMENTS) {
    return v_select(v_lt(v_set1(0.0f), x), d, d * p);
}
SLOPE s_elu(ARGUMENTS) {
    return d * v_select(v_lt(v_set1(0.0f), x), r, p * v_exp(x * q));
}
/* Φ(x) + x·φ(x), φ(x) = e^(-x²/2)/√2π, whose square is exact to two roundings. */
SLOPE s_gelu(ARGUMENTS) {
    const vf s = x * x, error = v_fma(x, x, -s), z = v_exp(s * v_set1(-0.5f));
    const vf rest = v_select(v_lt(s, v_set1(200.0f)), error, v_set1(0.0f));
    const vf density = v_fma(z, rest * v_set1(-0.5f), z) * v_set1(0.398942280f);
    return d * v_fma(x, density, v_normal_cdf(x));
}
/* Of x·σ(u): σ·(1 + x·(1 - σ)·u'). */
SLOPE s_gelu_tanh(ARGUMENTS) {
    const vf s = x * x, one = v_set1(1.0f);
    const vf u = x * v_fma(s, v_set1(0.0713548162f), v_set1(1.59576912f));
    const vf rise = v_fma(s, v_set1(0.214064449f), v_set1(1.59576912f));
    return d * (v_sigmoid(u) * v_fma(x * v_sigmoid(-u), rise, one));
}
SLOPE s_silu(ARGUMENTS) {
    return d * (v_sigmoid(x) * v_fma(x, v_sigmoid(-x), v_set1(1.0f)));
}
/* t + x·σ·(1 - t²), t = n/(n + 2), n = e·(e + 2), e = e^x: 1 - t² = (2/(n + 2))·(1 + t). Of infinity NaN, as the sum
 * has it. */
SLOPE s_mish(ARGUMENTS) {
    const vf two = v_set1(2.0f), one = v_set1(1.0f), e = v_exp(v_min(v_set1(20.0f), x));
    const vf n = e * (e + two), t = n / (n + two), steep = e / (e + one) * (two / (n + two) * (one + t));
    return d * v_fma(x, v_select(v_lt(v_set1(20.0f), x), v_set1(0.0f), steep), t);
}
SLOPE s_softplus(ARGUMENTS) {
    const vf scaled = x * p;
    return v_select(v_lt(q, scaled), d, d * v_sigmoid(scaled));
}
SLOPE s_log_sigmoid(ARGUMENTS) {
    return d * v_sigmoid(-x);
}
/* The sixth is f32's in f64 too, as PyTorch has it. */
SLOPE s_hardsigmoid(ARGUMENTS) {
    const vf zero = v_set1(0.0f);
    return v_select(v_lt(v_abs(x), v_set1(3.0f)), d * v_set1(1.0f / 6.0f), zero);
}
SLOPE s_hardswish(ARGUMENTS) {
    const vf three = v_set1(3.0f), inner = d * (x / three + v_set1(0.5f));
    const vf lower = v_select(v_lt(-three, x), inner, v_set1(0.0f));
    return v_select(v_unordered(x, x), inner, v_select(v_lt(x, three), lower, d));
}

#define DEFINE_SLOPE(NAME, name)                                                                                       \
    void KERNEL(name)(float *out, const float *d, const float *x, int64_t n, const float *numbers) {                   \
        const vf p = v_set1(numbers[0]), q = v_set1(numbers[1]), r = v_set1(numbers[2]);                               \
        int64_t i = 0;                                                                                                 \
        for (; i + VL <= n; i += VL) v_store(out + i, s_##name(v_load(d + i), v_load(x + i), p, q, r));                \
        if (i < n) {                                                                                                   \
            const vf rest = s_##name(v_load_first(d + i, n - i), v_load_first(x + i, n - i), p, q, r);                 \
            v_store_first(out + i, rest, n - i);                                                                       \
        }                                                                                                              \
    }
AMP_SLOPES(DEFINE_SLOPE)
