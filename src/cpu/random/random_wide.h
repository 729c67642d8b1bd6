/* From words to f64 and integers, in plain arithmetic that the CPU and CUDA do alike (nothing is fused).
 * Errors: a logarithm, a sine or a cosine 2 ulp; their series end where the next term is below 2⁻⁵⁴. */
#ifndef AMP_CPU_RANDOM_WIDE_H
#define AMP_CPU_RANDOM_WIDE_H

#include <math.h>
#include <string.h>

#include "cpu/random/philox.h"

__extension__ typedef unsigned __int128 random_u128;

V_FUNCTION uint64_t word_pair(uint32_t high, uint32_t low) {
    return (uint64_t)high << 32 | low;
}

/* A multiple of 2⁻⁵³ from [0, 1). */
V_FUNCTION double wide_unit(uint64_t w) {
    return (double)(int64_t)(w >> 11) * 0x1p-53;
}

/* ln u for normal u > 0: u = 2^k·(1 + f), √½ ≤ 1 + f < √2; with s = f/(2 + f) ln(1 + f) = 2·artanh s. */
V_FUNCTION double wide_log(double u) {
    const int64_t origin = 0x3fe6a09e667f3bcd;
    int64_t bits;
    double m;
    memcpy(&bits, &u, sizeof bits);
    const int64_t distance = bits - origin, rest = (distance & 0xfffffffffffff) + origin;
    memcpy(&m, &rest, sizeof m);
    const double k = (double)(distance >> 52), f = m - 1.0, s = f / (2.0 + f), z = s * s;
    double r = 2.0 / 21.0;
    r = 2.0 / 19.0 + z * r;
    r = 2.0 / 17.0 + z * r;
    r = 2.0 / 15.0 + z * r;
    r = 2.0 / 13.0 + z * r;
    r = 2.0 / 11.0 + z * r;
    r = 2.0 / 9.0 + z * r;
    r = 2.0 / 7.0 + z * r;
    r = 2.0 / 5.0 + z * r;
    r = z * (2.0 / 3.0 + z * r);
    /* ln 2 in two parts, the first with room for k */
    return k * 0x1.62e42fee00000p-1 + (f - (s * (f - r) - k * 0x1.a39ef35793c76p-33));
}

/* Cosine and sine of w/2⁶⁴ of a turn, as circle_of of random_formula.h: by their power series, |x| ≤ ¼π. */
V_FUNCTION void wide_circle(uint64_t w, double *cosine, double *sine) {
    const unsigned quarter = (unsigned)((w + ((uint64_t)1 << 61)) >> 62);
    const double x = (double)(int64_t)(w << 2) * 0x1.921fb54442d18p-64, t = x * x;
    double s = 1.0 / 355687428096000.0, c = 1.0 / 20922789888000.0; /* 1/17!, 1/16! */
    s = -1.0 / 1307674368000.0 + t * s;
    c = -1.0 / 87178291200.0 + t * c;
    s = 1.0 / 6227020800.0 + t * s;
    c = 1.0 / 479001600.0 + t * c;
    s = -1.0 / 39916800.0 + t * s;
    c = -1.0 / 3628800.0 + t * c;
    s = 1.0 / 362880.0 + t * s;
    c = 1.0 / 40320.0 + t * c;
    s = -1.0 / 5040.0 + t * s;
    c = -1.0 / 720.0 + t * c;
    s = 1.0 / 120.0 + t * s;
    c = 1.0 / 24.0 + t * c;
    s = x - x * t * (1.0 / 6.0 - t * s);
    c = 1.0 - t * (0.5 - t * c);
    *cosine = (quarter & 1 ? s : c) * (quarter == 1 || quarter == 2 ? -1.0 : 1.0);
    *sine = (quarter & 1 ? c : s) * (quarter & 2 ? -1.0 : 1.0);
}

/* Two normally distributed numbers of mean 0 and variance 1. */
V_FUNCTION void wide_normal(uint64_t first, uint64_t second, double *x, double *y) {
    const double radius = sqrt(-2.0 * wide_log((double)(int64_t)(first >> 11) * 0x1p-53 + 0x1p-54));
    double cosine, sine;
    wide_circle(second, &cosine, &sine);
    *x = radius * cosine;
    *y = radius * sine;
}

/* ⌊w·range/2⁶⁴⌋, for ranges up to 2³²: no number is likelier than another by more than 2⁻³² of itself. */
V_FUNCTION uint64_t integer_below(uint64_t w, uint64_t range) {
    return (uint64_t)(((random_u128)w * range) >> 64);
}

/* ⌊w·range/2¹²⁸⌋, for all others. */
V_FUNCTION uint64_t large_integer_below(uint64_t high, uint64_t low, uint64_t range) {
    return (uint64_t)(((random_u128)high * range + (((random_u128)low * range) >> 64)) >> 64);
}

#endif /* AMP_CPU_RANDOM_WIDE_H */
