/* Functions of one to three elements: formulas.def as kernels.
 *
 * f32 (also for f16 and bf16, rounded once) has a kernel for each formula, which takes 8 or 4 neighbours at a time
 * where rows allow it, whatever mixture of types they are of: elementwise_{unary,binary,ternary}.cu; and one for each
 * of these dtypes, which dense operands of it take: elementwise_flat.cu. f64, i64 and c128 share one kernel each, which
 * branches by the formula: they are rarer (elementwise_wide.cu).
 *
 * A kernel has its formula as often as a thread handles elements. Formulas of more than some fifty instructions
 * (APART) are one copy of code that is called: they were most of the module, and of the time to compile it. */
#ifndef AMP_CUDA_ELEMENTWISE_H
#define AMP_CUDA_ELEMENTWISE_H

#include "cuda/kernels/angle.h"
#include "cuda/kernels/unit.h"

#ifndef M_PI
#define M_PI 3.14159265358979323846
#define M_SQRT1_2 0.70710678118654752440
#define M_2_SQRTPI 1.12837916709551257390
#endif
#define M_LN2_ 0.69314718055994530942

/* ---- Functions of the formulas ----------------------------------------------------------------------------------- */
template <class T>
AMP_DEVICE T divide(T x, T y) {
    return x / y;
}
AMP_DEVICE complex128 divide(complex128 x, complex128 y) { /* Smith's way: no overflow on the way */
    const bool wide = fabs(y.re) >= fabs(y.im);
    const double ratio = wide ? y.im / y.re : y.re / y.im, scale = wide ? y.re + y.im * ratio : y.re * ratio + y.im;
    return wide ? complex128{(x.re + x.im * ratio) / scale, (x.im - x.re * ratio) / scale}
                : complex128{(x.re * ratio + x.im) / scale, (x.im * ratio - x.re) / scale};
}
template <class T>
AMP_DEVICE T scaled(T y, double p, int64_t) {
    return p == 1 ? y : (T)p * y;
}
AMP_DEVICE int64_t scaled(int64_t y, double, int64_t whole) {
    return multiply(whole, y);
}
AMP_DEVICE complex128 scaled(complex128 y, double p, int64_t) {
    return {p * y.re, p * y.im};
}
template <class T>
AMP_DEVICE bool is_equal(T x, T y) {
    return x == y;
}
AMP_DEVICE bool is_equal(complex128 x, complex128 y) {
    return x.re == y.re && x.im == y.im;
}
template <class T>
AMP_DEVICE T clip(T x, T low, T high) {
    return x < low ? low : x > high ? high : x;
}
template <class T>
AMP_DEVICE T sigmoid(T x) {
    const T z = exp(-fabs(x));
    return (x < 0 ? z : (T)1) / ((T)1 + z);
}
/* Of numbers from 1 up, to two ulps. */
AMP_DEVICE float near_reciprocal(float x) {
#ifdef __CUDACC__
    return __fdividef(1.0f, x);
#else
    return 1.0f / x;
#endif
}
/* GELU by erf for results of 16 bits, at a third of the instructions: with t = |x|, erfc(t/√2)/2 is e^(-t²/2) times a
 * polynomial in 1/(1 + 0.305t) that is 1/2 at t = 0, and within 5.4e-6 of it, relatively, up to t = 14; beyond, both
 * are 0 there. (Fitted for this, by least squares reweighted until the largest error was least.) */
AMP_DEVICE float narrow_gelu(float x) {
    const float t = fabsf(x), u = near_reciprocal(fmaf(0.305f, t, 1.0f));
    float p = -0.07624711f;
    p = fmaf(p, u, 0.19962585f);
    p = fmaf(p, u, -0.0016105f);
    p = fmaf(p, u, 0.13925992f);
    p = fmaf(p, u, 0.11699623f);
    p = fmaf(p, u, 0.12197562f);
    const float other = p * u * exp2f(t * t * -0.72134752f); /* the normal distribution's beyond t */
    return x > 0 ? x * (1.0f - other) : x * other;
}
AMP_DEVICE double narrow_gelu(double x) {
    return narrow_gelu((float)x);
}
/* … and for wider ones. */
template <class T>
AMP_DEVICE T exact_gelu(T x) {
    return x * (T)0.5 * erfc(-x * (T)M_SQRT1_2);
}
/* log(1 + e^x) without overflow. */
template <class T>
AMP_DEVICE T softplus(T x) {
    return log1p(exp(-fabs(x))) + (x > 0 ? x : (T)0);
}
/* What is negative becomes zero; a NaN stays. */
template <class T>
AMP_DEVICE T positive(T x) {
    return x < 0 ? (T)0 : x;
}
/* Logarithms of probabilities are not taken below -100. */
template <class T>
AMP_DEVICE T cross_entropy(T x, T y) {
    const T no = log1p(-x), yes = log(x);
    return (y - (T)1) * (no < -100 ? (T)-100 : no) - y * (yes < -100 ? (T)-100 : yes);
}
/* log(t!), about. */
template <class T>
AMP_DEVICE T stirling(T t) {
    return t <= 1 ? (T)0 : t * log(t) - t + (T)0.5 * log((T)(2 * M_PI) * t);
}
/* Halley's method on erf, from a first approximation by logarithms. */
AMP_DEVICE double inverse_erf(double y) {
    if (!(fabs(y) < 1.0)) return fabs(y) == 1.0 ? copysign(INFINITY, y) : NAN;
    const double w = -log1p(-y * y), a = 0.147, b = 2.0 / (M_PI * a) - w / 2.0;
    double x = copysign(sqrt(sqrt(b * b + w / a) - b), y);
    for (int i = 0; i < 4; i++) {
        const double error = fabs(y) < 0.5 ? erf(x) - y : copysign(1.0, y) * (1.0 - fabs(y) - erfc(fabs(x)));
        const double step = error / (M_2_SQRTPI * exp(-x * x));
        x -= step / (1.0 + x * step);
    }
    return x;
}
/* In f32: y times the CPU's polynomials in w = -ln(1 - y²) (cpu/vector/formula_body.h), and in √w beyond 5.5. */
AMP_DEVICE float inverse_erf(float y) {
    static constexpr double near_0[] = {-6.758380897327564e-16, -4.158085663274849e-14, 2.940190608306683e-13,
                                        1.870160504245743e-12,  -2.594814636926653e-11, 3.6176949408084574e-11,
                                        1.1150176490666996e-09, -8.296227618871524e-09, -8.221837413793068e-09,
                                        4.829778507763334e-07,  -2.568832017623782e-06, -9.486082609871547e-06,
                                        0.0002090662661517178,  -0.0010385819022082365, -0.005035975749749946,
                                        0.24433025901255814,    1.5627896112343589};
    static constexpr double near_1[] = {5.471072737747516e-07,   -3.896099920458558e-06,  6.66226205565949e-06,
                                        8.461929068038601e-06,   -5.3884615453862984e-05, 9.439278983985236e-05,
                                        -1.2208363667733713e-05, -0.00035802781160587546, 0.0010784553517193818,
                                        -0.0019929717900501057,  0.0029508188234238617,   -0.004294167840271763,
                                        0.005973169621705115,    1.0046924419248893,      3.0336365744082303};
    const double a = fabs(y);
    if (!(a < 1.0)) return a == 1.0 ? copysignf(INFINITY, y) : NAN;
    const double w = -log((1.0 - a) * (1.0 + a));
    return (float)(y * (w < 5.5 ? polynomial(near_0, w - 2.75) : polynomial(near_1, sqrt(w) - 3.2)));
}
template <class T>
AMP_DEVICE T power_of_abs(T x, T p) {
    return pow(fabs(x), p);
}

template <class T>
AMP_DEVICE T power(T x, T y) {
    return pow(x, y);
}
AMP_DEVICE int64_t power(int64_t base, int64_t exponent) {
    if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent & 1 ? -1 : 1) : 0;
    uint64_t result = 1, square = (uint64_t)base;
    for (uint64_t e = (uint64_t)exponent; e; e >>= 1, square *= square) {
        if (e & 1) result *= square;
    }
    return (int64_t)result;
}
template <class T>
AMP_DEVICE T quotient(T x, T y) {
    return trunc(x / y);
}
AMP_DEVICE int64_t quotient(int64_t x, int64_t y) { /* y is not 0: see divisor() */
    return y == -1 ? negative(x) : x / y;
}
/* ⌊x/y⌋ from the exact remainder, so that no quotient is rounded up to the next integer first. */
template <class T>
AMP_DEVICE T floor_quotient(T x, T y) {
    if (y == 0) return x / y;
    const T rest = fmod(x, y);
    T q = (x - rest) / y;
    if (rest != 0 && (y < 0) != (rest < 0)) q -= 1;
    return q == 0 ? copysign((T)0, x / y) : rint(q);
}
AMP_DEVICE int64_t floor_quotient(int64_t x, int64_t y) {
    const int64_t q = quotient(x, y);
    return y != -1 && x % y != 0 && (x < 0) != (y < 0) ? q - 1 : q;
}
template <class T>
AMP_DEVICE T remainder_of(T x, T y) {
    return fmod(x, y);
}
AMP_DEVICE int64_t remainder_of(int64_t x, int64_t y) {
    return (int64_t)((uint64_t)x - (uint64_t)quotient(x, y) * (uint64_t)y);
}
template <class T>
AMP_DEVICE T modulo(T x, T y) {
    const T rest = fmod(x, y);
    return rest != 0 && (y < 0) != (rest < 0) ? rest + y : rest;
}
AMP_DEVICE int64_t modulo(int64_t x, int64_t y) {
    return (int64_t)((uint64_t)x - (uint64_t)floor_quotient(x, y) * (uint64_t)y);
}
template <class T>
AMP_DEVICE T log_add_exp(T x, T y) {
    if (x == y) return x + (T)M_LN2_; /* equal infinities too */
    if (x != x || y != y) return x + y;
    const T high = x > y ? x : y, low = x > y ? y : x;
    return high + log1p(exp(low - high));
}
template <class T>
AMP_DEVICE T log2_add_exp2(T x, T y) {
    if (x == y) return x + (T)1;
    if (x != x || y != y) return x + y;
    const T high = x > y ? x : y, low = x > y ? y : x;
    return high + log1p(exp2(low - high)) / (T)M_LN2_;
}
template <class T>
AMP_DEVICE T log_odds(T x) {
    return log(x / ((T)1 - x));
}
AMP_DEVICE double sinc(double x) {
    return sin(M_PI * x) / (M_PI * x);
}
AMP_DEVICE float sinc(float x) {
    if (!(fabsf(x) < 134217728.0f)) return 0.0f * x; /* whole numbers */
    return (float)(near_sine(M_PI * x, 0) / (M_PI * x));
}
AMP_DEVICE double half_turns_tangent(double x, double) {
    return tan(M_PI * x);
}
AMP_DEVICE double half_turns_tangent(double x, float) {
    return near_sine(M_PI * x, 0) / near_sine(M_PI * x, 1);
}
/* As the CPU's digamma: the asymptotic series from 10 on, to which others are moved or mirrored. */
template <class T>
AMP_DEVICE T log_gamma_slope(T argument) {
    double x = argument;
    if (x == 0.0) return (T)copysign(INFINITY, -x);
    double result = 0.0;
    if (x < 0.0) {
        const double rest = x - trunc(x);
        if (!(rest < 0.0)) return (T)NAN;
        result = -M_PI / half_turns_tangent(rest, argument);
        x = 1.0 - x;
    }
    for (; x < 10.0; x += 1.0) result -= 1.0 / x;
    const double z = 1.0 / (x * x);
    const double series =
        z * (1.0 / 12 +
             z * (-1.0 / 120 + z * (1.0 / 252 + z * (-1.0 / 240 + z * (1.0 / 132 + z * (-691.0 / 32760 + z / 12))))));
    return (T)(result + log(x) - 0.5 / x - series);
}
/* Bits of integers; there are none of floats, whose kernels are never asked. */
#define AMP_BITS(name, expression)                                                                                     \
    template <class T>                                                                                                 \
    AMP_DEVICE T name(T x, T) {                                                                                        \
        return x;                                                                                                      \
    }                                                                                                                  \
    AMP_DEVICE int64_t name(int64_t x, int64_t y) {                                                                    \
        return expression;                                                                                             \
    }
AMP_BITS(common_bits, x &y)
AMP_BITS(all_bits, x | y)
AMP_BITS(other_bits, x ^ y)
#undef AMP_BITS
template <class T>
AMP_DEVICE T turned(T x) {
    return x;
}
AMP_DEVICE int64_t turned(int64_t x) {
    return ~x;
}
/* By as many places as the dtype has, or more, or fewer than none: nothing is left, or the sign. */
template <class T>
AMP_DEVICE T moved_up(T x, T, int64_t) {
    return x;
}
AMP_DEVICE int64_t moved_up(int64_t x, int64_t y, int64_t bits) {
    return (uint64_t)y >= (uint64_t)bits ? 0 : (int64_t)((uint64_t)x << y);
}
template <class T>
AMP_DEVICE T moved_down(T x, T, int64_t) {
    return x;
}
AMP_DEVICE int64_t moved_down(int64_t x, int64_t y, int64_t bits) {
    return x >> ((uint64_t)y >= (uint64_t)bits ? 63 : y);
}
/* A NaN on either side wins. */
template <class T>
AMP_DEVICE T at_least(T x, T low) {
    return x != x || x > low ? x : low;
}
template <class T>
AMP_DEVICE T at_most(T x, T high) {
    return x != x || x < high ? x : high;
}

/* ---- Loops ------------------------------------------------------------------------------------------------------- */
template <class T>
AMP_DEVICE T constant_of(const amp_cuda_operand &o) {
    return from_double<T>(o.constant);
}
template <>
AMP_DEVICE int64_t constant_of<int64_t>(const amp_cuda_operand &o) {
    return o.whole;
}
template <>
AMP_DEVICE complex128 constant_of<complex128>(const amp_cuda_operand &o) {
    return {o.constant, o.imaginary};
}

/* The strided way is one copy of code for all kernels of a type, called: inlined, it would be most of this file's
 * size. */
template <class T>
AMP_DEVICE_CALL T element(const amp_cuda_operand &o, int64_t at) {
    return o.data ? load<T>(o.data, o.dtype, at) : constant_of<T>(o);
}
template <class T>
AMP_DEVICE_CALL void put(const amp_cuda_operand &o, int64_t at, T x) {
    store<T>(o.data, o.dtype, at, x);
}

struct places {
    int64_t out, in[AMP_CUDA_INPUTS];
};

AMP_DEVICE void step(const amp_cuda_elementwise &a, int d, int64_t position, int count, places *at) {
    at->out += position * a.out.strides[d];
    AMP_UNROLLED for (int k = 0; k < count; k++) at->in[k] += position * a.in[k].strides[d];
}
/* Where element (unit) i of the broadcast shape is in each operand, of `count` inputs. */
AMP_DEVICE places locate(const amp_cuda_elementwise &a, int64_t i, int count) {
    places at = {0, {0, 0, 0}};
    uint32_t rest = (uint32_t)i; /* of several dimensions there are fewer than 2³¹ */
    AMP_ROLLED for (int d = a.rank - 1; d > 0; d--) step(a, d, digit_of(&rest, a.shape[d]), count, &at);
    step(a, 0, a.rank > 1 ? (int64_t)rest : i, count, &at);
    return at;
}

template <class T, int N, class Formula>
AMP_DEVICE void put_one(const amp_cuda_elementwise &a, const places &at, Formula formula) {
    const T x = element<T>(a.in[0], at.in[0]);
    const T y = N > 1 ? element<T>(a.in[1], at.in[1]) : x, z = N > 2 ? element<T>(a.in[2], at.in[2]) : x;
    put<T>(a.out, at.out, formula(x, y, z));
}

template <class T, int N, class Formula>
AMP_DEVICE void strided(const amp_cuda_elementwise &a, Formula formula) {
    for (int64_t i = first_element(); i < a.count; i += element_step()) put_one<T, N>(a, locate(a, i, N), formula);
}

/* ---- Units of W elements ----------------------------------------------------------------------------------------- */
template <int W, int N>
struct inputs {
    unit<W> u[N];

    AMP_DEVICE_MEMBER void read(const amp_cuda_elementwise &a, const places &at) {
        AMP_UNROLLED for (int k = 0; k < N; k++) {
            const amp_cuda_operand &o = a.in[k];
            if (!o.data) continue;
            if (o.spread) {
                fetch_one(o.data, o.dtype, at.in[k], &u[k]);
            } else {
                fetch(o.data, o.dtype, at.in[k], &u[k]);
            }
        }
    }
    AMP_DEVICE_MEMBER void widen(const amp_cuda_elementwise &a, float v[N][W]) const {
        AMP_UNROLLED for (int k = 0; k < N; k++) {
            const amp_cuda_operand &o = a.in[k];
            if (o.data) widen_unit(u[k], o.dtype, v[k]);
            if (o.data && !o.spread) continue;
            const float one = o.data ? v[k][0] : (float)o.constant;
            AMP_UNROLLED for (int j = 0; j < W; j++) v[k][j] = one;
        }
    }
};

template <int W, int N, class Formula>
AMP_DEVICE void put_all(const amp_cuda_elementwise &a, int64_t at, const inputs<W, N> &in, Formula formula) {
    float v[N][W], result[W];
    in.widen(a, v);
    AMP_UNROLLED for (int j = 0; j < W; j++) result[j] = formula(v[0][j], v[N > 1 ? 1 : 0][j], v[N > 2 ? 2 : 0][j]);
    put_unit<W>(a.out.data, a.out.dtype, at, result);
}

/* Of one input two units at a time, so that a thread has at least two reads under way before it needs the first. */
template <int W, int N, class Formula>
AMP_DEVICE void by_units(const amp_cuda_elementwise &a, Formula formula) {
    enum { AT_ONCE = N == 1 ? 2 : 1 };
    for (int64_t i = first_element(); i < a.count; i += AT_ONCE * element_step()) {
        inputs<W, N> in[AT_ONCE];
        int64_t out[AT_ONCE];
        AMP_UNROLLED for (int k = 0; k < AT_ONCE; k++) {
            const int64_t unit = i + k * element_step();
            const places at = locate(a, unit < a.count ? unit : i, N);
            in[k].read(a, at);
            out[k] = at.out;
        }
        AMP_ROLLED for (int k = 0; k < AT_ONCE && i + k * element_step() < a.count; k++) {
            put_all<W, N>(a, out[0], in[0], formula);
            in[0] = in[AT_ONCE - 1], out[0] = out[AT_ONCE - 1]; /* registers have no index that is known late */
        }
    }
    for (int64_t i = first_element(); i < a.rest; i += element_step()) {
        const int64_t at = a.count * W + i;
        put_one<float, N>(a, {at, {at * !a.in[0].spread, at * !a.in[1].spread, at * !a.in[2].spread}}, formula);
    }
}

template <int N, class Formula>
AMP_DEVICE void run_f32(const amp_cuda_elementwise &a, Formula formula) {
    if (a.width == 8) {
        by_units<8, N>(a, formula);
    } else if (a.width == 4) {
        by_units<4, N>(a, formula);
    } else {
        strided<float, N>(a, formula);
    }
}

/* ---- Kernels ----------------------------------------------------------------------------------------------------- */
struct formula_numbers {
    double p, q, r;
    int64_t whole;
    amp_cuda_report report;
    bool narrow; /* the result has 16 bits */

    template <class T>
    AMP_DEVICE_MEMBER T probability(T x) const {
        if (!(x >= 0 && x <= 1)) report.faults->probability = report.op;
        return x;
    }

    AMP_DEVICE_MEMBER float divisor(float y) const {
        return y;
    }
    AMP_DEVICE_MEMBER double divisor(double y) const {
        return y;
    }
    AMP_DEVICE_MEMBER int64_t divisor(int64_t y) const {
        if (y == 0) report.faults->zero_divisor = report.op;
        return y == 0 ? -1 : y;
    }
};
AMP_DEVICE formula_numbers numbers_of(const amp_cuda_elementwise &a) {
    return {a.p, a.q, a.r, a.whole, a.report, a.out.dtype == AMP_F16 || a.out.dtype == AMP_BF16};
}

/* By the formulas of the activations, which are not known yet. */
template <class T>
AMP_DEVICE T activated(T x, const formula_numbers &n);

#define F(name, inputs, types, expression)                                                                             \
    template <class Type>                                                                                              \
    struct name##_formula : formula_numbers {                                                                          \
        typedef Type T;                                                                                                \
        AMP_DEVICE_MEMBER T operator()(T x, T y, T z) const {                                                          \
            (void)y, (void)z;                                                                                          \
            return expression;                                                                                         \
        }                                                                                                              \
    };
#include "cuda/args/formulas.def"
#undef F

template <class T>
AMP_DEVICE T activated(T x, const formula_numbers &n) {
    switch (n.whole) {
    case AMP_CUDA_RELU: return relu_formula<T>{n}(x, x, x);
    case AMP_CUDA_GELU_ERF: return exact_gelu(x);
    case AMP_CUDA_GELU_TANH: return gelu_tanh_formula<T>{n}(x, x, x);
    case AMP_CUDA_SILU: return silu_formula<T>{n}(x, x, x);
    case AMP_CUDA_TANH: return tanh_formula<T>{n}(x, x, x);
    case AMP_CUDA_SIGMOID: return sigmoid_formula<T>{n}(x, x, x);
    case AMP_CUDA_HARDSWISH: return hardswish_formula<T>{n}(x, x, x);
    case AMP_CUDA_LEAKY_RELU: return leaky_relu_formula<T>{n}(x, x, x);
    case AMP_CUDA_HARDTANH: return hardtanh_formula<T>{n}(x, x, x);
    default: return x;
    }
}

/* ---- One copy of a formula ---------------------------------------------------------------------------------------- */
template <class Formula>
AMP_DEVICE_CALL float call_formula(const amp_cuda_elementwise &a, float x, float y, float z) {
    return Formula{numbers_of(a)}(x, y, z);
}
template <class Formula>
struct called {
    const amp_cuda_elementwise &a;
    AMP_DEVICE_MEMBER float operator()(float x, float y, float z) const {
        return call_formula<Formula>(a, x, y, z);
    }
};

/* What a formula's length asks for: apart, that the kernels of any mixture call it; in_turn, that those of one dtype
 * have it once, for one element after the other; in_f64, that these have no registers for a second unit. */
template <class Formula>
struct length {
    enum { apart = false, in_turn = false, in_f64 = false };
};
#define LENGTH(name, is_apart, is_in_f64)                                                                              \
    template <>                                                                                                        \
    struct length<name##_formula<float>> {                                                                             \
        enum { apart = is_apart, in_turn = true, in_f64 = is_in_f64 };                                                 \
    };
#define APART(name) LENGTH(name, true, false)
#define APART_IN_F64(name) LENGTH(name, true, true)
#define IN_TURN(name) LENGTH(name, false, false)
APART(acos)
APART(acosh)
APART(asin)
APART(asinh)
APART(atan)
APART(atan2)
APART(atanh)
APART(celu)
APART(cos)
APART(cosh)
APART(cosine)
APART_IN_F64(digamma)
APART(div_floor)
APART(entropy)
APART(erfc)
APART_IN_F64(erfinv)
APART(expm1)
APART(fmod)
APART(hypot)
APART(kl_div)
APART(lgamma)
APART(log10)
APART(log1p)
APART(log2)
APART(logaddexp)
APART(logaddexp2)
APART(logit)
APART(mish)
APART(poisson)
APART(poisson_plain)
APART(pow)
APART(power)
APART(remainder)
APART_IN_F64(round)
APART(sin)
APART_IN_F64(sinc)
APART(sinh)
APART(soft_margin)
APART(softplus)
APART(tan)
APART(xlogy)
IN_TURN(addcdiv)
IN_TURN(at_least)
IN_TURN(div_trunc)
IN_TURN(elu)
IN_TURN(finish)
IN_TURN(hinge_embedding)
IN_TURN(logits)
IN_TURN(logsigmoid)
IN_TURN(selu)
IN_TURN(smooth_l1)
IN_TURN(softsign)
#undef APART
#undef APART_IN_F64
#undef IN_TURN
#undef LENGTH

template <int N, class Formula>
AMP_DEVICE void run_formula(const amp_cuda_elementwise &a) {
    if constexpr (length<Formula>::apart) {
        run_f32<N>(a, called<Formula>{a});
    } else {
        run_f32<N>(a, Formula{numbers_of(a)});
    }
}

/* A kernel for a row of formulas.def. */
#define AMP_F32_KERNEL(name, inputs)                                                                                   \
    AMP_KERNEL_OF(name##_f32, amp_cuda_elementwise, AMP_BLOCK_THREADS, 3) {                                            \
        run_formula<inputs, name##_formula<float>>(a);                                                                 \
    }

#endif /* AMP_CUDA_ELEMENTWISE_H */
