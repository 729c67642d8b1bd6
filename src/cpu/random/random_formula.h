/* From words to f32, over the vocabulary of simd_<isa>.h: what every ISA and CUDA compute, to the same bits. Sources
 * and errors: random_body.h. */
#ifndef AMP_CPU_RANDOM_FORMULA_H
#define AMP_CPU_RANDOM_FORMULA_H

#include "cpu/random/philox.h"
#include "cpu/registry/random_kernels.h"
#include "cpu/simd/vmath_log.h"

/* The upper `bits` of the word as a fraction of [0, 1), from low on, width wide. */
V_FUNCTION vf uniform_of(vu w, const amp_random_numbers *numbers) {
    const vf unit = v_set1(1.0f / (float)(1 << numbers->bits));
    const vf u = v_from_int((vi)(w >> (32 - numbers->bits))) * unit;
    return v_min(v_fma(u, v_set1(numbers->width), v_set1(numbers->low)), v_set1(numbers->below));
}

/* √(−2·ln u), u = (w + ½)·2⁻³², rounded once. */
V_FUNCTION vf radius_of(vu w) {
    const vf high = v_from_int((vi)(w >> 8)), low = v_from_int((vi)(w & v_set1_unsigned(255)));
    const vf u = v_fma(high, v_set1(0x1p-24f), v_fma(low, v_set1(0x1p-32f), v_set1(0x1p-33f)));
    const vi origin = v_set1_int(0x3f3504f3), distance = v_bits(u) - origin; /* as v_log, for plain numbers alone */
    const vf f = v_from_bits((distance & v_set1_int(0x7fffff)) + origin) - v_set1(1.0f);
    return v_sqrt(log_of_parts(f, v_from_int(distance >> 23)) * v_set1(-2.0f));
}

/* Cosine and sine of w/2³² of a turn: that is the nearest quarter, and ¼·f turns more, |f| ≤ ½. */
V_FUNCTION void circle_of(vu w, vf *cosine, vf *sine) {
    const vf f = v_from_int((vi)(w << 2)) * v_set1(0x1p-32f), t = f * f;
    vf s = POLY2(t, 0.0796802193f, -0.00460214913f); /* sin(½π·f)/f, 2^-27.6 */
    s = POLY_STEP(t, -0.64596349f, s);
    s = POLY_STEP(t, 1.57079637f, s) * f;
    vf c = POLY2(t, -0.0208600704f, 0.000903628068f); /* cos(½π·f), 2^-34.3 */
    c = POLY_STEP(t, 0.253669202f, c);
    c = POLY_STEP(t, -1.23370051f, c);
    c = POLY_STEP(t, 1.0f, c);
    const vu one = v_set1_unsigned(1), sign = v_set1_unsigned(0x80000000u);
    const vu quarter = (w + v_set1_unsigned(1u << 29)) >> 30;
    const vu odd = v_set1_unsigned(0) - (quarter & one), swap = ((vu)v_bits(s) ^ (vu)v_bits(c)) & odd;
    *cosine = v_from_bits((vi)((vu)v_bits(c) ^ swap ^ ((quarter + one) << 30 & sign)));
    *sine = v_from_bits((vi)((vu)v_bits(s) ^ swap ^ (quarter << 30 & sign)));
}

/* Two of them. */
V_FUNCTION void normal_of(vu first, vu second, const amp_random_numbers *numbers, vf *x, vf *y) {
    const vf mean = v_set1(numbers->mean), deviation = v_set1(numbers->deviation), radius = radius_of(first);
    vf cosine, sine;
    circle_of(second, &cosine, &sine);
    *x = v_fma(radius * cosine, deviation, mean);
    *y = v_fma(radius * sine, deviation, mean);
}

/* The mask of dropout, and its scale: a word and two numbers make it again at any time. */
V_FUNCTION vf factor_of(vu w, const amp_random_numbers *numbers) {
    return v_select(v_le_unsigned(w, v_set1_unsigned(numbers->last)), v_set1(numbers->scale), v_set1(0.0f));
}

/* 1 where w·2⁻³² < p, in two steps that lose nothing: where p is within a factor of two of the word's upper part the
 * first difference is exact, and elsewhere it decides alone. */
V_FUNCTION vf is_below(vu w, vf p) {
    const vf high = v_from_int((vi)(w >> 8)), low = v_from_int((vi)(w & v_set1_unsigned(255)));
    const vf over = v_fma(low, v_set1(0x1p-32f), v_fma(high, v_set1(0x1p-24f), v_set1(0.0f) - p));
    return v_select(v_lt(over, v_set1(0.0f)), v_set1(1.0f), v_set1(0.0f));
}

#endif /* AMP_CPU_RANDOM_FORMULA_H */
