/* The kernels of formula.h, compiled once per ISA; no include guard: one file, one ISA.
 *
 * Formula:     formula.h; each function's head says how it is computed.
 * Accumulator: none: f64 lanes, rounded to f32 once.
 * Error bound: half an ulp of f32, and 2⁻³⁵ of the value.
 * Denormals:   f32 ones are normal in f64; results are rounded as MXCSR says by default.
 * ISA:         that which FORMULA_ISA names: plain C without branches, which the compiler turns into vectors of
 *              doubles. FMA is written where it is wanted and contraction is off, so every ISA gives the same bits.
 * Source:      C99, Annex F, for special cases. Where a formula does not hold (arguments beyond its range, these
 *              cases) its CARE condition is true, and the element is computed again by the C library. */
#include <math.h>
#include <string.h>

#include "cpu/registry/kernels.h"

#define PASTE_(name, isa) amp_##name##_f32_##isa
#define PASTE(name, isa) PASTE_(name, isa)
#define KERNEL(name) PASTE(name, FORMULA_ISA)

#define INLINE static inline __attribute__((always_inline))

/* LANES: what a step of the loops takes at most; a multiple of them leaves no rest that goes element by element. */
#if defined __AVX512F__
enum { BLOCK = 256, LANES = 16 };
#elif defined __AVX2__
enum { BLOCK = 256, LANES = 8 };
#else
enum { BLOCK = 256, LANES = 1 };
#endif

/* Elements for a loop over a multiple of LANES: those of a block, with ones behind them where it is no such multiple. */
static const float *padded(float *buffer, const float *block, int count, int all) {
    if (all == count) return block;
    memcpy(buffer, block, (size_t)count * sizeof *block);
    for (int i = count; i < all; i++) buffer[i] = 1.0f;
    return buffer;
}
/* Fewer than four are quicker one by one. */
INLINE int whole_lanes(int count) {
    return count < 4 ? count : (count + LANES - 1) / LANES * LANES;
}

/* ---- Doubles and their bits ----------------------------------------------------------------------------------- */
static const double magic = 0x1.8p52; /* adding it rounds to an integer, which is then in the low bits */

INLINE uint64_t bits_of(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
INLINE double from_bits(uint64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
INLINE double magnitude(double x) {
    return from_bits(bits_of(x) & ~(UINT64_C(1) << 63));
}
/* The arguments are there already: no branch. */
INLINE bool both(bool a, bool b) {
    return (int)a & (int)b;
}
INLINE double choose(bool condition, double yes, double no) {
    return condition ? yes : no;
}
INLINE double with_sign(double magnitude, double sign) {
    const uint64_t top = UINT64_C(1) << 63;
    return from_bits((bits_of(magnitude) & ~top) | (bits_of(sign) & top));
}
INLINE double least(double a, double b) {
    return a < b ? a : b;
}
INLINE double most(double a, double b) {
    return a > b ? a : b;
}

/* ---- Exponential and logarithm -------------------------------------------------------------------------------- */

/* x = n·ln2 + r, |r| ≤ ln2/2: gives e^r − 1, by Taylor to r^12 (2^-46 of r), and 2^n. What is beyond f32's range is
 * beyond it here. NaN stays. */
INLINE double reduced_exponential(double x, double *scale) {
    const double y = x > 200.0 ? 200.0 : x < -200.0 ? -200.0 : x;
    const double shifted = fma(y, M_LOG2E, magic), n = shifted - magic;
    const double r = fma(n, -0x1.abc9e3b39803fp-56, fma(n, -0x1.62e42fefa39efp-1, y));
    double p = 1.0 / 479001600;
    p = fma(p, r, 1.0 / 39916800);
    p = fma(p, r, 1.0 / 3628800);
    p = fma(p, r, 1.0 / 362880);
    p = fma(p, r, 1.0 / 40320);
    p = fma(p, r, 1.0 / 5040);
    p = fma(p, r, 1.0 / 720);
    p = fma(p, r, 1.0 / 120);
    p = fma(p, r, 1.0 / 24);
    p = fma(p, r, 1.0 / 6);
    p = fma(p, r, 0.5);
    *scale = from_bits((bits_of(shifted) << 52) + bits_of(1.0));
    return fma(r * r, p, r);
}
INLINE double exponential(double x) {
    double scale;
    const double rest = reduced_exponential(x, &scale);
    return fma(rest, scale, scale);
}
/* ln(1 + f) for √½ − 1 ≤ f ≤ √2 − 1: 2·artanh(s), s = f/(2 + f), to s^15 (2^-43). */
INLINE double log_near_1(double f) {
    const double s = f / (2.0 + f), z = s * s;
    double p = 2.0 / 15;
    p = fma(p, z, 2.0 / 13);
    p = fma(p, z, 2.0 / 11);
    p = fma(p, z, 2.0 / 9);
    p = fma(p, z, 2.0 / 7);
    p = fma(p, z, 2.0 / 5);
    p = fma(p, z, 2.0 / 3);
    return s * fma(p, z, 2.0);
}

/* x = m·2^k with √½ ≤ m < √2, x normal and positive: gives ln m, and k. */
INLINE double split_log(double x, double *k) {
    const uint64_t origin = 0x3fe6a09e667f3bcd, distance = bits_of(x) - origin + (UINT64_C(1024) << 52);
    *k = from_bits((distance >> 52) | bits_of(0x1p52)) - (0x1p52 + 1024.0);
    return log_near_1(from_bits((distance & 0xfffffffffffff) + origin) - 1.0);
}

/* The logarithm in the base in which those of e and 2 are `log_e` and `log_2`; −inf at ±0, NaN below. */
INLINE double logarithm(double x, double log_e, double log_2) {
    double k;
    const double ln_m = split_log(x, &k), value = fma(k, log_2, ln_m * log_e);
    const double finite = choose(x == 0.0, -INFINITY, choose(x < 0.0, NAN, value));
    return choose(x < INFINITY, finite, x); /* and NaN */
}

INLINE double log_1_plus(double x) {
    const double near = log_near_1(x < -0.29 ? -0.29 : x > 0.41 ? 0.41 : x);
    return choose(both(x > -0.29, x < 0.41), near, logarithm(1.0 + x, 1.0, M_LN2));
}

/* ---- Trigonometry --------------------------------------------------------------------------------------------- */
typedef struct sine_and_cosine {
    double sine, cosine;
    uint64_t quadrant;
} sine_and_cosine;

/* x = n·π/2 + r, |r| ≤ π/4, for |x| < 2^30; Taylor to r^15 and r^16 (2^-46). */
INLINE sine_and_cosine reduced(double x) {
    const double shifted = fma(x, M_2_PI, magic), n = shifted - magic;
    const double r = fma(n, -0x1.1a62633145c07p-54, fma(n, -0x1.921fb54442d18p0, x)), z = r * r;
    double s = -1.0 / 1307674368000;
    s = fma(s, z, 1.0 / 6227020800);
    s = fma(s, z, -1.0 / 39916800);
    s = fma(s, z, 1.0 / 362880);
    s = fma(s, z, -1.0 / 5040);
    s = fma(s, z, 1.0 / 120);
    s = fma(s, z, -1.0 / 6);
    double c = 1.0 / 20922789888000;
    c = fma(c, z, -1.0 / 87178291200);
    c = fma(c, z, 1.0 / 479001600);
    c = fma(c, z, -1.0 / 3628800);
    c = fma(c, z, 1.0 / 40320);
    c = fma(c, z, -1.0 / 720);
    c = fma(c, z, 1.0 / 24);
    c = fma(c, z, -0.5);
    return (sine_and_cosine){fma(s * z, r, r), fma(c, z, 1.0), bits_of(shifted)};
}

INLINE double negated_if(uint64_t bit, double x) {
    return from_bits(bits_of(x) ^ (bit << 63));
}
INLINE double sine(double x) {
    const sine_and_cosine p = reduced(x);
    const double value = negated_if(p.quadrant >> 1 & 1, choose(p.quadrant & 1, p.cosine, p.sine));
    return choose(x == 0.0, x, value);
}

/* atan t = t·P(t²) on [0, √2 − 1] (2^-49); beyond by atan t = π/4 + atan((t − 1)/(t + 1)), for 0 ≤ t ≤ 1. */
INLINE double arctangent_to_1(double t) {
    const double far = t > 0.4142135623730950 ? 1.0 : 0.0;
    const double s = (t - far) / fma(t, far, 1.0), z = s * s;
    double p = -0.025316479573776477;
    p = fma(p, z, 0.05024762118940128);
    p = fma(p, z, -0.0650598296717084);
    p = fma(p, z, 0.07673535428183285);
    p = fma(p, z, -0.09089529956562307);
    p = fma(p, z, 0.11111048853751296);
    p = fma(p, z, -0.14285712661684793);
    p = fma(p, z, 0.19999999978392663);
    p = fma(p, z, -0.3333333333322143);
    p = fma(p, z, 0.999999999999999);
    return fma(s, p, far * M_PI_4);
}

/* ---- Others --------------------------------------------------------------------------------------------------- */

/* erfinv(y)/y as polynomials in w = −ln(1 − y²), up to 5.5 (2^-40), and in √w beyond, up to |y| = 1 − 2^-24 (2^-38). */
INLINE double inverse_error_function(double y) {
    const double a = magnitude(y), w = -logarithm((1.0 - a) * (1.0 + a), 1.0, M_LN2);
    const double t = least(w, 5.5) - 2.75;
    double p = -6.758380897327564e-16;
    p = fma(p, t, -4.158085663274849e-14);
    p = fma(p, t, 2.940190608306683e-13);
    p = fma(p, t, 1.870160504245743e-12);
    p = fma(p, t, -2.594814636926653e-11);
    p = fma(p, t, 3.6176949408084574e-11);
    p = fma(p, t, 1.1150176490666996e-09);
    p = fma(p, t, -8.296227618871524e-09);
    p = fma(p, t, -8.221837413793068e-09);
    p = fma(p, t, 4.829778507763334e-07);
    p = fma(p, t, -2.568832017623782e-06);
    p = fma(p, t, -9.486082609871547e-06);
    p = fma(p, t, 0.0002090662661517178);
    p = fma(p, t, -0.0010385819022082365);
    p = fma(p, t, -0.005035975749749946);
    p = fma(p, t, 0.24433025901255814);
    p = fma(p, t, 1.5627896112343589);
    const double s = sqrt(most(w, 5.5)) - 3.2;
    double q = 5.471072737747516e-07;
    q = fma(q, s, -3.896099920458558e-06);
    q = fma(q, s, 6.66226205565949e-06);
    q = fma(q, s, 8.461929068038601e-06);
    q = fma(q, s, -5.3884615453862984e-05);
    q = fma(q, s, 9.439278983985236e-05);
    q = fma(q, s, -1.2208363667733713e-05);
    q = fma(q, s, -0.00035802781160587546);
    q = fma(q, s, 0.0010784553517193818);
    q = fma(q, s, -0.0019929717900501057);
    q = fma(q, s, 0.0029508188234238617);
    q = fma(q, s, -0.004294167840271763);
    q = fma(q, s, 0.005973169621705115);
    q = fma(q, s, 1.0046924419248893);
    q = fma(q, s, 3.0336365744082303);
    const double inside = y * choose(w < 5.5, p, q);
    return choose(a < 1.0, inside, choose(a == 1.0, with_sign(INFINITY, y), NAN));
}

INLINE double sinc_of(double x) {
    const double u = M_PI * x;
    return choose(x == 0.0, 1.0, sine(u) / u);
}

/* ---- One operand ---------------------------------------------------------------------------------------------- */

/* FORMULA(name, value of the double x, CARE: it does not hold there, then the value instead) */
#define FORMULA(name, value, CARE, exact)                                                                              \
    static double name##_with_care(double x) {                                                                         \
        return exact;                                                                                                  \
    }                                                                                                                  \
    void KERNEL(name)(void *results, const void *elements, int64_t n) {                                                \
        float *out = results;                                                                                          \
        const float *in = elements;                                                                                    \
        for (int64_t start = 0; start < n; start += BLOCK) {                                                           \
            const int count = n - start < BLOCK ? (int)(n - start) : BLOCK, all = whole_lanes(count);                  \
            float result[BLOCK], copy[BLOCK];                                                                          \
            const float *block = padded(copy, in + start, count, all);                                                 \
            int care = 0;                                                                                              \
            _Pragma("omp simd reduction(| : care)") for (int i = 0; i < all; i++) {                                    \
                const double x = block[i];                                                                             \
                result[i] = (float)(value);                                                                            \
                care |= (CARE);                                                                                        \
            }                                                                                                          \
            for (int i = 0; care && i < count; i++) {                                                                  \
                const double x = block[i];                                                                             \
                if (CARE) result[i] = (float)name##_with_care(x);                                                      \
            }                                                                                                          \
            memcpy(out + start, result, (size_t)count * sizeof *out);                                                  \
        }                                                                                                              \
    }

FORMULA(sinc, sinc_of(x), !(magnitude(x) < 0x1p27), sin(M_PI *x) / (M_PI * x))
FORMULA(erfinv, inverse_error_function(x), 0, x)

/* ---- Two operands --------------------------------------------------------------------------------------------- */

/* FORMULA2(name, value of the doubles x and y, CARE, then the value instead) */
#define FORMULA2(name, value, CARE, exact)                                                                             \
    static double name##_with_care(double x, double y) {                                                               \
        (void)y;                                                                                                       \
        return exact;                                                                                                  \
    }                                                                                                                  \
    void KERNEL(name)(void *results, const void *left, const void *right, int64_t n, float scale) {                    \
        float *out = results;                                                                                          \
        const float *a = left, *b = right;                                                                             \
        float number[BLOCK];                                                                                           \
        for (int i = 0; !(a && b) && i < BLOCK && i < n + LANES; i++) number[i] = scale;                               \
        for (int64_t start = 0; start < n; start += BLOCK) {                                                           \
            const int count = n - start < BLOCK ? (int)(n - start) : BLOCK, all = whole_lanes(count);                  \
            float result[BLOCK], copies[2][BLOCK];                                                                     \
            const float *first = a ? padded(copies[0], a + start, count, all) : number;                                \
            const float *second = b ? padded(copies[1], b + start, count, all) : number;                               \
            int care = 0;                                                                                              \
            _Pragma("omp simd reduction(| : care)") for (int i = 0; i < all; i++) {                                    \
                const double x = first[i], y = second[i];                                                              \
                result[i] = (float)(value);                                                                            \
                care |= (CARE);                                                                                        \
            }                                                                                                          \
            for (int i = 0; care && i < count; i++) {                                                                  \
                const double x = first[i], y = second[i];                                                              \
                if (CARE) result[i] = (float)name##_with_care(x, y);                                                   \
            }                                                                                                          \
            memcpy(out + start, result, (size_t)count * sizeof *out);                                                  \
        }                                                                                                              \
    }

/* e^(y·ln |x|): the logarithm's 2^-50 times at most 2^8 is what the exponential sees. Below 0 for the odd y of a negative
 * x, which is in the low bit of y + magic. */
INLINE double power(double x, double y) {
    double k;
    const double ln_m = split_log(magnitude(x), &k), value = exponential(y * fma(k, M_LN2, ln_m));
    return negated_if(bits_of(x) >> 63 & bits_of(y + magic), value);
}
/* Numbers but 0 to exponents that `magic` can round, of negative ones to integers. */
#define POWER_NEEDS_CARE                                                                                               \
    !both(both(magnitude(x) > 0.0, magnitude(x) < INFINITY),                                                           \
          both(magnitude(y) < 0x1p40, (int)(x > 0.0) | (int)((y + magic) - magic == y)))

/* x − y·trunc(x/y), exact where the quotient has fewer than 29 bits: y has 24. A quotient that was rounded up to the
 * next integer leaves a rest of the other sign. */
INLINE double truncated_rest(double x, double y) {
    const double a = magnitude(x), b = magnitude(y), q = __builtin_trunc(a / b);
    const double rest = fma(-q, b, a);
    return with_sign(choose(rest < 0.0, rest + b, rest), x);
}
INLINE double floored_rest(double y, double rest) {
    return choose(both(rest != 0.0, (y < 0.0) != (rest < 0.0)), rest + y, rest);
}
/* ⌊x/y⌋ from the exact rest, so that no quotient is rounded up to the next integer first. */
INLINE double floored_quotient(double x, double y, double rest) {
    const double q = (x - rest) / y, floored = choose(both(rest != 0.0, (y < 0.0) != (rest < 0.0)), q - 1.0, q);
    return choose(floored == 0.0, with_sign(0.0, x / y), __builtin_rint(floored));
}
#define REST_NEEDS_CARE !both(both(magnitude(y) > 0.0, magnitude(y) < INFINITY), magnitude(x) < magnitude(y) * 0x1p28)

INLINE double angle(double y, double x) {
    const double a = magnitude(x), b = magnitude(y), t = arctangent_to_1(least(a, b) / most(a, b));
    const double acute = choose(b > a, M_PI_2 - t, t);
    return with_sign(choose(x < 0.0, M_PI - acute, acute), y);
}

INLINE double log_of_sum(double x, double y) {
    return most(x, y) + log_1_plus(exponential(-magnitude(x - y)));
}
static double log_add_exp(double x, double y) {
    if (x == y) return x + M_LN2; /* equal infinities too */
    return isnan(x) || isnan(y) ? NAN : fmax(x, y);
}

FORMULA2(div_trunc, __builtin_trunc(x / y), 0, x)
FORMULA2(div_floor, floored_quotient(x, y, truncated_rest(x, y)), REST_NEEDS_CARE,
         y == 0.0 ? x / y : floored_quotient(x, y, fmod(x, y)))
FORMULA2(pow, power(x, y), POWER_NEEDS_CARE, pow(x, y))
FORMULA2(fmod, truncated_rest(x, y), REST_NEEDS_CARE, fmod(x, y))
FORMULA2(remainder, floored_rest(y, truncated_rest(x, y)), REST_NEEDS_CARE, floored_rest(y, fmod(x, y)))
FORMULA2(atan2, angle(x, y), !both(magnitude(x) + magnitude(y) > 0.0, magnitude(x) + magnitude(y) < INFINITY),
         atan2(x, y))
FORMULA2(logaddexp, log_of_sum(x, y), !(magnitude(x) + magnitude(y) < INFINITY), log_add_exp(x, y))
