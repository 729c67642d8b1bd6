/* More elementary functions on vectors of floats, over vmath_body.h and with its rules: coefficients are minimax fits
 * made for this file, no step depends on the vector length, the budgets in ulp are those of test_vmath.cc. */
#ifndef AMP_CPU_VMATH_MORE_BODY_H
#define AMP_CPU_VMATH_MORE_BODY_H

#include <float.h>

#include "cpu/simd/vmath_body.h"

/* ---- Rounding, clipping --------------------------------------------------------------------------------------- */

static inline vf v_sign(vf x) {
    const vf zero = v_set1(0.0f);
    return v_select(v_lt(zero, x), v_set1(1.0f), v_select(v_lt(x, zero), v_set1(-1.0f), zero)); /* NaN: 0 */
}
static inline vf v_clip(vf x, vf low, vf high) {
    return v_min(high, v_max(low, x)); /* a NaN stays */
}
static inline vf v_relu6(vf x) {
    return v_clip(x, v_set1(0.0f), v_set1(6.0f));
}
static inline vf v_hardsigmoid(vf x) {
    return v_relu6(x + v_set1(3.0f)) / v_set1(6.0f);
}
static inline vf v_hardswish(vf x) {
    return x * v_relu6(x + v_set1(3.0f)) / v_set1(6.0f);
}
static inline vf v_softsign(vf x) {
    return x / (v_set1(1.0f) + v_abs(x));
}

/* ---- Logarithms and exponentials ------------------------------------------------------------------------------ */

/* log₂x = k + log₂(1 + f), the product with log₂e in two parts; k and f as v_log has them. */
static inline vf v_log2(vf x) {
    const vf magnitude = v_abs(x);
    const vm special = v_lt(v_set1(3.40282347e+38f), magnitude), tiny = v_lt(magnitude, v_set1(1.17549435e-38f));
    const vf y = v_select(tiny, magnitude * v_set1(8388608.0f), magnitude);
    const vi origin = v_set1_int(0x3f3504f3), distance = v_bits(y) - origin;
    const vf mantissa = v_from_bits((distance & v_set1_int(0x7fffff)) + origin);
    const vf k = v_from_int(distance >> 23) - v_select(tiny, v_set1(23.0f), v_set1(0.0f));
    const vf l = v_log(mantissa), high = l * v_set1(1.44269502f);
    const vf value = k + v_fma(l, v_set1(1.92596303e-08f), high);
    const vm odd = v_lt(x, v_set1(1.40129846e-45f)); /* zero and below */
    return v_select(odd, v_log(x), v_select(special, magnitude, v_select(v_unordered(x, x), x, value)));
}
static inline vf v_log10(vf x) {
    const vf l = v_log(x), value = v_fma(l, v_set1(-1.010305e-08f), l * v_set1(0.434294492f));
    return v_select(v_lt(v_set1(3.40282347e+38f), v_abs(l)), l, value); /* ∞ − ∞ is none */
}

/* ln(1 + x) = ln u + (x − (u − 1))/u, u = 1 + x as it is rounded. */
static inline vf v_log1p(vf x) {
    const vf one = v_set1(1.0f), u = one + x;
    const vf value = v_log(u) + (x - (u - one)) / u;
    const vm huge = v_lt(v_set1(1e30f), u);
    const vf ordinary = v_select(v_eq(x, v_set1(0.0f)), x, value); /* −0 stays */
    return v_select(v_eq(u, v_set1(0.0f)), v_set1(-INFINITY), v_select(huge, v_log(x), ordinary));
}

static inline vf v_expm1(vf x) {
    const vf small = v_expm1_negative(v_clip(x, v_set1(-80.0f), v_set1(40.0f)));
    return v_select(v_lt(v_set1(40.0f), x), v_exp(x), v_select(v_eq(x, v_set1(0.0f)), x, small));
}

/* From e^|x| − 1, or where that is large from (e^(|x|/2))². */
static inline vf v_sinh(vf x) {
    const vf a = v_abs(x), m = v_expm1_negative(v_min(v_set1(40.0f), a)), h = v_exp(a * v_set1(0.5f));
    const vf small = v_set1(0.5f) * (m + m / (m + v_set1(1.0f)));
    return v_copy_sign(v_select(v_lt(v_set1(20.0f), a), v_set1(0.5f) * h * h, small), x);
}
static inline vf v_cosh(vf x) {
    const vf a = v_abs(x), e = v_exp(v_min(v_set1(40.0f), a)), h = v_exp(a * v_set1(0.5f));
    const vf small = v_set1(0.5f) * (e + v_set1(1.0f) / e);
    return v_select(v_lt(v_set1(20.0f), a), v_set1(0.5f) * h * h, small);
}

/* ln(1 + e^x) = max(x, 0) + ln(1 + e^−|x|). */
static inline vf v_softplus(vf x) {
    return v_max(v_set1(0.0f), x) + v_log1p_fraction(v_exp_negative(-v_abs(x)));
}
static inline vf v_logsigmoid(vf x) {
    return v_min(v_set1(0.0f), x) - v_log1p_fraction(v_exp_negative(-v_abs(x)));
}
/* x·tanh(ln(1 + e)) = x·n/(n + 2), n = e·(e + 2), e = e^x. */
static inline vf v_mish(vf x) {
    const vf e = v_exp(v_min(v_set1(20.0f), x)), n = e * (e + v_set1(2.0f));
    return v_select(v_lt(v_set1(20.0f), x), x, x * (n / (n + v_set1(2.0f))));
}
static inline vf v_elu_of(vf x, vf alpha, vf inverse) {
    const vf m = v_expm1_negative(v_clip(x * inverse, v_set1(-80.0f), v_set1(0.0f)));
    return v_select(v_lt(v_set1(0.0f), x), x, alpha * m);
}
static inline vf v_selu(vf x) {
    return v_set1(1.05070099f) * v_elu_of(x, v_set1(1.67326324f), v_set1(1.0f));
}

/* ---- Trigonometry --------------------------------------------------------------------------------------------- */

/* x = n·π/2 + r for |x| ≤ 8192: the first three parts of π/2 have 11 bits, so that their products with n are exact
 * (Cody and Waite, Software Manual for the Elementary Functions, 1980). The low bits of *n_bits count quadrants. */
static inline vf reduce_angle(vf x, vi *n_bits) {
    const vf magic = v_set1(12582912.0f), shifted = v_fma(x, v_set1(0.636619747f), magic), n = shifted - magic;
    *n_bits = v_bits(shifted);
    vf r = v_fma(n, v_set1(-0x1.92p+0f), x);
    r = v_fma(n, v_set1(-0x1.fb4p-12f), r);
    r = v_fma(n, v_set1(-0x1.444p-24f), r);
    return v_fma(n, v_set1(-0x1.68c234p-39f), r);
}

/* On |r| ≤ π/4 (2^-34.8). */
static inline vf sine_of(vf r) {
    const vf s = r * r;
    vf p = POLY2(s, -0.000198399895f, 2.72375769e-06f);
    p = POLY_STEP(s, 0.00833333191f, p);
    p = POLY_STEP(s, -0.166666672f, p);
    return v_fma(r * s, p, r);
}
/* (2^-28.7) */
static inline vf cosine_of(vf r) {
    const vf s = r * r;
    vf p = POLY2(s, -0.00138882548f, 2.45377505e-05f);
    p = POLY_STEP(s, 0.0416666642f, p);
    return v_fma(s * s, p, v_fma(s, v_set1(-0.5f), v_set1(1.0f)));
}

/* The sine of r plus as many right angles as n says. */
static inline vf sine_in_quadrant(vf r, vi n) {
    const vm odd = v_eq(v_from_int(n & v_set1_int(1)), v_set1(1.0f));
    const vf value = v_select(odd, cosine_of(r), sine_of(r));
    const vi negative = -((n >> 1) & v_set1_int(1));
    return v_from_bits(v_bits(value) ^ (negative & v_set1_int(INT32_MIN)));
}

/* Lanes beyond what reduce_angle can do, one by one through the C library. */
static inline vf with_large_angles(vf x, vf value, double (*function)(double)) {
    const vf limit = v_set1(8192.0f);
    if (!v_any(v_lt(limit, v_abs(x)))) return value;
    float in[VL], out[VL];
    v_store(in, x);
    v_store(out, value);
    for (int i = 0; i < VL; i++) {
        if (fabsf(in[i]) > 8192.0f) out[i] = (float)function((double)in[i]);
    }
    return v_load(out);
}

static inline vf v_sin(vf x) {
    vi n;
    const vf r = reduce_angle(x, &n);
    return with_large_angles(x, v_select(v_eq(x, v_set1(0.0f)), x, sine_in_quadrant(r, n)), sin);
}
static inline vf v_cos(vf x) {
    vi n;
    const vf r = reduce_angle(x, &n);
    return with_large_angles(x, sine_in_quadrant(r, n + v_set1_int(1)), cos);
}
static inline vf v_tan(vf x) {
    vi n;
    const vf r = reduce_angle(x, &n), s = sine_of(r), c = cosine_of(r);
    const vm odd = v_eq(v_from_int(n & v_set1_int(1)), v_set1(1.0f));
    const vf value = v_select(odd, -c, s) / v_select(odd, s, c);
    return with_large_angles(x, v_select(v_eq(x, v_set1(0.0f)), x, value), tan);
}

/* asin s on |s| ≤ ½, z = s² (2^-27.8). */
static inline vf arcsine_of(vf s, vf z) {
    vf p = POLY2(z, 0.017143717f, 0.0337007269f);
    p = POLY_STEP(z, 0.0311017279f, p);
    p = POLY_STEP(z, 0.0445993207f, p);
    p = POLY_STEP(z, 0.0750009492f, p);
    p = POLY_STEP(z, 0.166666657f, p);
    return v_fma(s * z, p, s);
}
/* asin x = π/2 − 2·asin √((1 − x)/2). */
static inline vf v_asin(vf x) {
    const vf a = v_abs(x), half = v_set1(0.5f);
    const vm large = v_lt(half, a);
    const vf z = v_select(large, (v_set1(1.0f) - a) * half, a * a), s = v_select(large, v_sqrt(z), a);
    const vf p = arcsine_of(s, z);
    const vf far = v_fma(p, v_set1(-2.0f), v_set1(1.57079637f)) + v_set1(-4.37113883e-08f);
    return v_copy_sign(v_select(large, far, p), x);
}
static inline vf v_acos(vf x) {
    const vf a = v_abs(x), half = v_set1(0.5f), low = v_set1(-4.37113883e-08f);
    const vm large = v_lt(half, a), below = v_lt(x, v_set1(0.0f));
    const vf z = v_select(large, (v_set1(1.0f) - a) * half, a * a), s = v_select(large, v_sqrt(z), a);
    const vf p = arcsine_of(s, z), twice = p + p;
    const vf near = v_set1(1.57079637f) - (v_copy_sign(p, x) - low);
    const vf far = v_select(below, v_set1(3.14159274f) - (twice - low - low), twice);
    return v_select(large, far, near);
}
/* From the nearest of 0, π/4 and π/2; on |t| ≤ √2 − 1 (2^-30.7). */
static inline vf v_atan(vf x) {
    const vf a = v_abs(x), one = v_set1(1.0f);
    const vm steep = v_lt(v_set1(2.41421356f), a), middle = v_lt(v_set1(0.414213562f), a);
    const vf over = v_select(steep, v_set1(-1.0f), v_select(middle, a - one, a));
    const vf t = over / v_select(steep, a, v_select(middle, a + one, one)), z = t * t;
    const vf base = v_select(steep, v_set1(1.57079637f), v_select(middle, v_set1(0.785398185f), v_set1(0.0f)));
    const vf low = v_select(steep, v_set1(-4.37113883e-08f), v_select(middle, v_set1(-2.18556941e-08f), v_set1(0.0f)));
    vf p = POLY2(z, -0.0861686394f, 0.0502808057f);
    p = POLY_STEP(z, 0.110703118f, p);
    p = POLY_STEP(z, -0.142840937f, p);
    p = POLY_STEP(z, 0.199999765f, p);
    p = POLY_STEP(z, -0.333333343f, p);
    return v_copy_sign(base + (v_fma(t * z, p, t) + low), x);
}

/* ---- With numbers: out = f(in; p, q) -------------------------------------------------------------------------- */

static inline vf v_with_leaky_relu(vf x, vf p, vf q) {
    return (void)q, v_select(v_lt(v_set1(0.0f), x), x, x * p);
}
static inline vf v_with_elu(vf x, vf p, vf q) {
    return v_elu_of(x, p, q);
}
static inline vf v_with_hardtanh(vf x, vf p, vf q) {
    return v_clip(x, p, q);
}
static inline vf v_with_threshold(vf x, vf p, vf q) {
    return v_select(v_lt(p, x), x, v_select(v_unordered(x, x), x, q));
}
static inline vf v_with_softplus(vf x, vf p, vf q) {
    return v_select(v_lt(q, x * p), x, v_softplus(x * p) / p);
}
static inline vf v_with_nan_to_num(vf x, vf p, vf q) {
    const vf most = v_set1(FLT_MAX), least = v_set1(-FLT_MAX);
    const vf number = v_select(v_lt(most, x), q, v_select(v_lt(x, least), v_set1(0.0f) - q, x));
    return v_select(v_unordered(x, x), p, number);
}

#endif /* AMP_CPU_VMATH_MORE_BODY_H */
