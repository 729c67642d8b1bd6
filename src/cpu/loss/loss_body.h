/* The kernels of loss.h, compiled once per ISA over simd_<isa>.h; no include guard: one file, one ISA.
 *
 * Formula:     PyTorch's, by the function's name, element by element; logarithms of sums are written so that nothing
 *              cancels. A NaN in x or t is one in the result: v_max(0, v) keeps it.
 * Accumulator: none.
 * Error bound: one rounding for each operation as written; e^x and log within 1 ulp (test_vmath.cc), log(1 + z)
 *              within a few.
 * Denormals:   kept, as MXCSR says by default.
 * ISA:         that of the simd header which is included before; the same bits on each.
 * Source:      documentation of torch.nn's losses. */
#include <math.h>

#include "cpu/registry/kernels.h"
#include "cpu/simd/vmath_body.h"

#define PASTE_(name, isa) amp_##name##_f32_##isa
#define PASTE(name, isa) PASTE_(name, isa)
#define KERNEL(name) PASTE(name, SIMD_ISA)

static inline vf v_positive(vf v) {
    return v_max(v_set1(0.0f), v);
}

/* log(1 + z), 1 + z ≥ 0, finite: the logarithm of the rounded sum, corrected by what rounding did to z. */
static inline vf v_log1p(vf z) {
    const vf one = v_set1(1.0f), sum = one + z, rounded = sum - one;
    return v_select(v_eq(rounded, v_set1(0.0f)), z, v_log(sum) * (z / rounded));
}
/* log(1 + e^−|x|) */
static inline vf v_tail(vf x) {
    return v_log1p(v_exp(-v_abs(x)));
}

#define LOSS static inline vf
#define SPARE __attribute__((unused))
#define ARGUMENTS vf x, vf t SPARE, vf y SPARE, vf p SPARE

LOSS v_loss_mse(ARGUMENTS) {
    return (x - t) * (x - t);
}
LOSS v_loss_l1(ARGUMENTS) {
    return v_abs(x - t + p);
}
LOSS v_loss_smooth_l1(ARGUMENTS) {
    const vf z = v_abs(x - t), half = v_set1(0.5f);
    return v_select(v_lt(z, p), half * z * z / p, z - half * p);
}
LOSS v_loss_huber(ARGUMENTS) {
    const vf z = v_abs(x - t), half = v_set1(0.5f);
    return v_select(v_lt(z, p), half * z * z, p * (z - half * p));
}
LOSS v_loss_hinge_embedding(ARGUMENTS) {
    const vf zero = v_set1(0.0f);
    return v_select(v_eq(t, v_set1(1.0f)), zero, v_positive(p - x)) + v_select(v_eq(t, v_set1(-1.0f)), zero, x);
}
LOSS v_loss_margin_ranking(ARGUMENTS) {
    return v_positive(p - y * (x - t));
}
LOSS v_loss_soft_margin(ARGUMENTS) {
    const vf s = -(t * x);
    return v_tail(s) + v_positive(s);
}
/* Neither form cancels: (1 − t)·x or −y·t·x is what is left of the logarithms. */
LOSS v_loss_logits(ARGUMENTS) {
    const vf one = v_set1(1.0f);
    const vf linear = v_select(v_lt(x, v_set1(0.0f)), -(y * t * x), (one - t) * x);
    return (one + (y - one) * t) * v_tail(x) + linear;
}
/* Logarithms of probabilities are not taken below −100. */
LOSS v_loss_entropy(ARGUMENTS) {
    const vf least = v_set1(-100.0f);
    return (t - v_set1(1.0f)) * v_max(least, v_log1p(-x)) - t * v_max(least, v_log(x));
}
LOSS v_loss_kl_div(ARGUMENTS) {
    const vf zero = v_set1(0.0f);
    return t * (v_select(v_eq(t, zero), zero, v_log(t)) - x);
}
LOSS v_loss_kl_div_log(ARGUMENTS) {
    return v_exp(t) * (t - x);
}
LOSS v_loss_poisson(ARGUMENTS) {
    return v_exp(x) - t * x;
}
LOSS v_loss_poisson_plain(ARGUMENTS) {
    return x - t * v_log(x + p);
}
/* x·log x − x + ½·log(2π·x) */
LOSS v_loss_stirling(ARGUMENTS) {
    const vf l = v_log(x), half = v_set1(0.5f), series = x * l - x + half * l + v_set1(0.918938533f);
    return v_select(v_lt(v_set1(1.0f), x), series, v_select(v_unordered(x, x), x, v_set1(0.0f)));
}
LOSS v_prelu(ARGUMENTS) {
    return v_select(v_lt(v_set1(0.0f), x), x, t * x);
}

#define DEFINE_LOSS(NAME, name)                                                                                        \
    void KERNEL(name)(float *out, const float *x, const float *t, const float *y, int64_t n, float number) {           \
        const vf p = v_set1(number), one = v_set1(1.0f);                                                               \
        int64_t i = 0;                                                                                                 \
        for (; i + VL <= n; i += VL) {                                                                                 \
            v_store(out + i, v_##name(v_load(x + i), v_load(t + i), y ? v_load(y + i) : one, p));                      \
        }                                                                                                              \
        if (i < n) {                                                                                                   \
            const int64_t r = n - i;                                                                                   \
            const vf factor = y ? v_load_first(y + i, r) : one;                                                        \
            v_store_first(out + i, v_##name(v_load_first(x + i, r), v_load_first(t + i, r), factor, p), r);            \
        }                                                                                                              \
    }
AMP_VECTOR_LOSS(DEFINE_LOSS)
