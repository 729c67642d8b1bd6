/* Elementary functions on vectors of floats; compiled once per ISA over simd_<isa>.h.
 *
 * Formula:     minimax fits made for this file (Remez exchange in 40-digit arithmetic); the head of each function
 *              says how it is put together, and the error of the approximation alone.
 * Accumulator: none; FMA is used where it is written.
 * Error bound: measured over all f32 inputs against f64: test_vmath.cc has the budgets in ulp.
 * Denormals:   kept, as MXCSR says by default.
 * ISA:         that of the simd header which is included before. No step depends on the vector length, so all agree.
 * Source:      Muller, Elementary Functions: Algorithms and Implementation (fits, reduction of arguments). */
#ifndef AMP_CPU_VMATH_BODY_H
#define AMP_CPU_VMATH_BODY_H

#include "cpu/simd/normal_cdf_table.h"
#include "cpu/simd/unroll.h"
#include "cpu/simd/vmath_log.h"

/* x = n·ln2 + r, |r| ≤ ln2/2·1.01. Returns e^r − 1 − r in units of r² (2^-28.2), by way of p. */
static inline vf reduce_exp(vf x, vf *n, vf *p) {
    const vf magic = v_set1(12582912.0f); /* 1.5·2^23: adding it rounds to an integer */
    *n = v_fma(x, v_set1(1.44269504f), magic) - magic;
#ifdef VECTOR_BF16 /* 2^-19.8 gives every bf16 number the same e^x, rounded */
    const vf r = v_fma(*n, v_set1(-0.693147182f), x);
    vf q = POLY2(r, 0.04188676f, 0.008376822f);
    q = POLY_STEP(r, 0.16666634f, q);
    *p = POLY_STEP(r, 0.49999866f, q);
#else
    vf r = v_fma(*n, v_set1(-0.693145752f), x);
    r = v_fma(*n, v_set1(-1.42860682e-6f), r);
    vf q = POLY2(r, 0.00836941879f, 0.00138131448f);
    q = POLY_STEP(r, 0.041668456f, q);
    q = POLY_STEP(r, 0.166665152f, q);
    *p = POLY_STEP(r, 0.49999994f, q);
#endif
    return r;
}

/* e^x for −104 ≤ x ≤ 89, denormal results rounded. */
static inline vf v_exp_within(vf x) {
    vf n, p;
    const vf r = reduce_exp(x, &n, &p);
#ifdef VECTOR_BF16
    return v_scale2(POLY_STEP(r, 1.0f, POLY_STEP(r, 1.0f, p)), n);
#else
    return v_scale2(v_fma(r * r, p, r) + v_set1(1.0f), n);
#endif
}
/* e^x for x ≤ 89: 0 below −104. */
static inline vf v_exp_negative(vf x) {
    return v_exp_within(v_max(v_set1(-104.0f), x));
}
/* e^x: +inf above 88.73. */
static inline vf v_exp(vf x) {
    return v_exp_within(v_min(v_set1(89.0f), v_max(v_set1(-104.0f), x)));
}

/* e^x − 1 for −80 ≤ x ≤ 0, without cancellation at 0. */
static inline vf v_expm1_negative(vf x) {
    vf n, p;
    const vf r = reduce_exp(x, &n, &p);
    const vf scale = v_scale2(v_set1(1.0f), n);
    return v_fma(v_fma(r * r, p, r), scale, scale - v_set1(1.0f));
}

/* ln x; −inf at ±0, NaN below. */
static inline vf v_log(vf x) {
    const vm tiny = v_lt(x, v_set1(1.17549435e-38f));
    const vf y = v_select(tiny, x * v_set1(8388608.0f), x);
    const vi origin = v_set1_int(0x3f3504f3), distance = v_bits(v_abs(y)) - origin;
    const vf f = v_from_bits((distance & v_set1_int(0x7fffff)) + origin) - v_set1(1.0f);
    const vf k = v_from_int(distance >> 23) - v_select(tiny, v_set1(23.0f), v_set1(0.0f));
    vf value = log_of_parts(f, k);
    const vf infinity = v_set1(INFINITY);
    value = v_select(v_eq(x, infinity), infinity, value);
    value = v_select(v_eq(x, v_set1(0.0f)), -infinity, value);
    return v_select(v_lt(x, v_set1(0.0f)), v_set1(NAN), v_select(v_unordered(x, x), x, value));
}

/* ln(1 + z) for 0 ≤ z ≤ 1, from 1 + z = 2·(1 + (z − 1)/2) above √2 − 1. */
static inline vf v_log1p_fraction(vf z) {
    const vm large = v_lt(v_set1(0.41421357f), z);
    const vf f = v_select(large, (z - v_set1(1.0f)) * v_set1(0.5f), z);
    return log_of_parts(f, v_select(large, v_set1(1.0f), v_set1(0.0f)));
}

static inline vf v_copy_sign(vf magnitude, vf sign) {
    const vi top = v_set1_int((int32_t)0x80000000u);
    return v_from_bits((v_bits(magnitude) & ~top) | (v_bits(sign) & top));
}

/* erf x = x·P(x²) below 1 (2^-29.6), 1 − e^(−x²)·Q(q)/(1 + 2x) above, q = (x − 3)/(x + 3) (2^-29). */
static inline vf v_erf(vf x) {
    const vf a = v_abs(x), s = x * x;
    vf small = POLY2(s, -0.000801019371f, 7.85386073e-05f);
    small = POLY_STEP(s, 0.00518832775f, small);
    small = POLY_STEP(s, -0.026853811f, small);
    small = POLY_STEP(s, 0.112835854f, small);
    small = POLY_STEP(s, -0.37612626f, small);
    small = POLY_STEP(s, 1.12837911f, small) * x;
    const vf t = v_min(v_set1(4.5f), a);
    const vf q = (t - v_set1(3.0f)) / (t + v_set1(3.0f));
    vf large = POLY2(q, -0.000775115623f, -0.000267178431f);
    large = POLY_STEP(q, 0.00200333286f, large);
    large = POLY_STEP(q, 0.00256655924f, large);
    large = POLY_STEP(q, -0.0237985384f, large);
    large = POLY_STEP(q, 0.068295747f, large);
    large = POLY_STEP(q, -0.119270794f, large);
    large = POLY_STEP(q, 0.129646435f, large);
    large = POLY_STEP(q, -0.0475624092f, large);
    large = POLY_STEP(q, -0.135621145f, large);
    large = POLY_STEP(q, 1.25300801f, large);
    large = v_set1(1.0f) - v_exp_within(-(t * t)) * large / v_fma(t, v_set1(2.0f), v_set1(1.0f));
    return v_select(v_lt(a, v_set1(1.0f)), small, v_select(v_unordered(x, x), x, v_copy_sign(large, x)));
}

/* Φ(−a), the lower tail of the normal distribution, with small relative error:
 * e^(−a²/2)·P(q)/(1 + √2·a), q = (a − 4)/(a + 4) (2^-28.7). */
static inline vf v_normal_tail(vf a) {
    const vf s = a * a, q = (a - v_set1(4.0f)) / (a + v_set1(4.0f));
    vf p = POLY2(q, -5.94556441e-05f, -0.000102888851f);
    p = POLY_STEP(q, 0.0010527079f, p);
    p = POLY_STEP(q, -0.000700194912f, p);
    p = POLY_STEP(q, -0.00728729833f, p);
    p = POLY_STEP(q, 0.0288903825f, p);
    p = POLY_STEP(q, -0.0583182946f, p);
    p = POLY_STEP(q, 0.0701485053f, p);
    p = POLY_STEP(q, -0.031721171f, p);
    p = POLY_STEP(q, -0.0661782995f, p);
    p = POLY_STEP(q, 0.628477871f, p);
    /* the square's rounding error would be multiplied by a² in the exponential: put it back */
    const vf error = v_fma(a, a, -s);
    const vf z = v_exp_within(s * v_set1(-0.5f));
    return v_fma(z, error * v_set1(-0.5f), z) * p / v_fma(a, v_set1(1.41421356f), v_set1(1.0f));
}

/* Φ(x) by Φ(−|x|): a polynomial for each quarter below |x| = 3.875, where most numbers are, and the tail beyond. */
static inline vf v_normal_cdf(vf x) {
    const vf magic = v_set1(12582912.0f), a = v_abs(x); /* 1.5·2^23: adding it rounds to an integer */
    const vf shifted = v_fma(a, v_set1(4.0f), magic), r = v_fma(shifted - magic, v_set1(-0.25f), a);
    const vi quarter = v_bits(shifted);
    vf below = v_lookup_16(normal_cdf_table + 16 * 6, quarter);
    AMP_UNROLL
    for (int j = 5; j >= 0; j--) below = v_fma(below, r, v_lookup_16(normal_cdf_table + 16 * j, quarter));
    const vm is_far = v_lt(v_set1(3.8749998f), a);
    if (__builtin_expect(v_any(is_far), 0)) below = v_select(is_far, v_normal_tail(v_min(v_set1(14.4f), a)), below);
    return v_select(v_lt(x, v_set1(0.0f)), below, v_set1(1.0f) - below); /* and NaN */
}

/* −m/(2 + m), m = e^(−2|x|) − 1. */
static inline vf v_tanh(vf x) {
    const vf a = v_min(v_set1(20.0f), v_abs(x));
    const vf m = v_expm1_negative(a * v_set1(-2.0f));
    return v_copy_sign(-m / (v_set1(2.0f) + m), x);
}

/* 1/(1 + e^-x), from e^-|x| so that nothing overflows and both tails keep their precision. */
static inline vf v_sigmoid(vf x) {
    const vf z = v_exp_negative(-v_abs(x));
    return v_select(v_lt(x, v_set1(0.0f)), z, v_set1(1.0f)) / (v_set1(1.0f) + z);
}

static inline vf v_gelu(vf x) {
    return x * v_normal_cdf(x);
}
/* ½x·(1 + tanh u) = x·σ(2u), u = √(2/π)·(x + 0.044715·x³). */
static inline vf v_gelu_tanh(vf x) {
    const vf u2 = x * v_fma(x * x, v_set1(0.0713548162f), v_set1(1.59576912f));
    return x * v_sigmoid(u2);
}
static inline vf v_silu(vf x) {
    return x * v_sigmoid(x);
}
static inline vf v_relu(vf x) {
    return v_max(v_set1(0.0f), x);
}

#endif /* AMP_CPU_VMATH_BODY_H */
