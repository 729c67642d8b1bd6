/* The logarithm of vmath_body.h, apart, for CUDA's kernels compile it too: there a vector is one float, and V_FUNCTION
 * says what a function is declared as. */
#ifndef AMP_CPU_VMATH_LOG_H
#define AMP_CPU_VMATH_LOG_H

#ifndef V_FUNCTION
#define V_FUNCTION static inline
#endif

#define POLY2(x, a, b) v_fma(x, v_set1(b), v_set1(a))
#define POLY_STEP(x, a, tail) v_fma(x, tail, v_set1(a))

/* k·ln2 + ln(1 + f) for √½ − 1 ≤ f ≤ √2 − 1: ln(1 + f) = f − f²/2 + f³·R(f), R to 2^-30. */
V_FUNCTION vf log_of_parts(vf f, vf k) {
    const vf f2 = f * f;
#ifdef VECTOR_BF16 /* 2^-21.6 gives every bf16 number the same logarithm, rounded */
    vf r = POLY2(f, 0.16023703f, -0.1019214f);
    r = POLY_STEP(f, -0.17136692f, r);
    r = POLY_STEP(f, 0.19924511f, r);
    r = POLY_STEP(f, -0.24983291f, r);
    r = POLY_STEP(f, 0.33334246f, r);
    return v_fma(k, v_set1(0.693147182f), f + v_fma(f2, v_set1(-0.5f), f2 * f * r));
#else
    vf r = POLY2(f, -0.117898658f, 0.0691554025f);
    r = POLY_STEP(f, 0.118729264f, r);
    r = POLY_STEP(f, -0.12384335f, r);
    r = POLY_STEP(f, 0.142186642f, r);
    r = POLY_STEP(f, -0.166692525f, r);
    r = POLY_STEP(f, 0.200022265f, r);
    r = POLY_STEP(f, -0.249999866f, r);
    r = POLY_STEP(f, 0.333333105f, r);
    vf low = v_fma(k, v_set1(1.42860682e-6f), f2 * f * r);
    low = v_fma(f2, v_set1(-0.5f), low);
    return v_fma(k, v_set1(0.693145752f), f + low);
#endif
}

#endif /* AMP_CPU_VMATH_LOG_H */
