/* Functions of one element: mathematics and activations. The common ones have f32 vector kernels; the others, and f64,
 * are computed in f64 through the C library; integers and complex numbers where they are defined. */
#include <complex.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "amp/ops.h"
#include "core/compute_dtype.h"
#include "cpu/elementwise/complex_log1p.h"
#include "cpu/elementwise/elementwise.h"
#include "cpu/registry/kernels.h"
#include "policy/promotion.h"
#include "steps/argument_rules.h"
#include "steps/constants.h"
#include "steps/whole_numbers.h"

typedef double _Complex complex128;

typedef struct unary_context {
    amp_kernel_function *kernel; /* amp_unary_function, or amp_unary_with_function */
    amp_kernel_function *first;  /* what runs before it; nan_to_num only */
    double p, q, r;              /* the op's numbers: slope, alpha, bounds … */
    bool with_numbers;           /* the kernel takes p and q */
    amp_dense_function *loop;    /* for f32, instead of a kernel */
} unary_context;

enum { NO_KERNEL = -1 };

typedef struct unary_op {
    int family;                           /* of kernels; NO_KERNEL: narrow floats are computed in f64 */
    amp_dense_function *f64, *i64, *c128; /* i64 NULL: integers become f32; c128 NULL: not for complex numbers */
} unary_op;

#define DEFINE_LOOP(name, type, suffix, expression)                                                                    \
    static void name##_##suffix(void *context, void *out, const void *const *in, int64_t n) {                          \
        const unary_context *c = context;                                                                              \
        const type *a = in[0];                                                                                         \
        type *o = out;                                                                                                 \
        (void)c;                                                                                                       \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            const type x = a[i];                                                                                       \
            o[i] = (expression);                                                                                       \
        }                                                                                                              \
    }
#define REAL(name, expression) DEFINE_LOOP(name, double, f64, expression)
#define WHOLE(name, expression) DEFINE_LOOP(name, int64_t, i64, expression)
#define COMPLEX(name, expression) DEFINE_LOOP(name, complex128, c128, expression)

/* ---- Formulas ------------------------------------------------------------------------------------------------- */

static double sigmoid(double x) {
    const double z = exp(-fabs(x));
    return (x < 0 ? z : 1.0) / (1.0 + z);
}

/* log(1 + e^x) without overflow. */
static double softplus(double x) {
    return log1p(exp(-fabs(x))) + (x > 0 ? x : 0.0);
}

static double clip(double x, double low, double high) {
    return x < low ? low : x > high ? high : x;
}

/* Newton's method on erf from Giles's first approximation (GPU Computing Gems, 2011), in the wide form for the
 * tails. */
static double erfinv(double y) {
    if (!(fabs(y) < 1.0)) return fabs(y) == 1.0 ? copysign(INFINITY, y) : NAN;
    const double w = -log1p(-y * y), a = 0.147;
    const double b = 2.0 / (M_PI * a) - w / 2.0;
    double x = copysign(sqrt(sqrt(b * b + w / a) - b), y);
    for (int i = 0; i < 4; i++) {
        const double error = fabs(y) < 0.5 ? erf(x) - y : copysign(1.0, y) * (1.0 - fabs(y) - erfc(fabs(x)));
        const double step = error / (M_2_SQRTPI * exp(-x * x));
        x -= step / (1.0 + x * step); /* Halley */
    }
    return x;
}

static double sinc(double x) {
    return x == 0.0 ? 1.0 : sin(M_PI * x) / (M_PI * x);
}
static complex128 sinc_complex(complex128 x) {
    return x == 0.0 ? 1.0 : csin(M_PI * x) / (M_PI * x);
}

/* The real part's terms cancel near 0: e^x·cos(y) − 1 = (e^x − 1)·cos(y) − 2·sin²(y/2). */
static complex128 expm1_complex(complex128 z) {
    const double x = creal(z), y = cimag(z), s = sin(0.5 * y);
    return __builtin_complex(expm1(x) * cos(y) - 2.0 * s * s, y == 0.0 ? y : exp(x) * sin(y));
}

static double round_at(double x, double scale) {
    return scale == 1.0 ? nearbyint(x) : nearbyint(x * scale) / scale;
}

/* Φ(x) through erfc, which keeps the lower tail. */
static double gelu_erf(double x) {
    return x * 0.5 * erfc(-x * M_SQRT1_2);
}
static double gelu_tanh(double x) {
    return x * sigmoid(2.0 * M_2_SQRTPI * M_SQRT1_2 * (x + 0.044715 * x * x * x));
}

static double to_number(const unary_context *c, double x) {
    return x != x ? c->p : x == INFINITY ? c->q : x == -INFINITY ? c->r : x;
}

static double log_gamma(double x) {
    int sign;
    return lgamma_r(x, &sign);
}

/* Of x ≥ 10 the asymptotic series (Abramowitz and Stegun 6.3.18), to which smaller ones are moved (6.3.5) and negative
 * ones mirrored (6.3.7). */
static double digamma(double x) {
    static const double bernoulli[] = {1.0 / 12,  -1.0 / 120,     1.0 / 252, -1.0 / 240,
                                       1.0 / 132, -691.0 / 32760, 1.0 / 12};
    double whole, result = 0.0, series = 0.0;
    if (x == 0.0) return copysign(INFINITY, -x);
    if (x < 0.0) {
        const double rest = modf(x, &whole);
        return rest == 0.0 ? NAN : digamma(1.0 - x) - M_PI / tan(M_PI * rest);
    }
    for (; x < 10.0; x += 1.0) result -= 1.0 / x;
    const double square = 1.0 / (x * x);
    for (int i = 6; i >= 0; i--) series = series * square + bernoulli[i];
    return result + log(x) - 0.5 / x - series * square;
}

/* `c->q` is set where there is an eps, `c->p`. */
static double logit(const unary_context *c, double x) {
    const double z = c->q != 0.0 ? clip(x, c->p, 1.0 - c->p) : x;
    return log(z / (1.0 - z));
}

static double hardshrink(double x, double lambda) {
    return x >= -lambda && x <= lambda ? 0.0 : x;
}
static double softshrink(double x, double lambda) {
    return x > lambda ? x - lambda : x < -lambda ? x + lambda : x * 0.0;
}

REAL(neg, -x)
WHOLE(neg, (int64_t)(0 - (uint64_t)x))
COMPLEX(neg, -x)
REAL(abs, fabs(x))
WHOLE(abs, x < 0 ? (int64_t)(0 - (uint64_t)x) : x)
REAL(sign, (x > 0) - (x < 0)) /* NaN: 0 */
WHOLE(sign, (x > 0) - (x < 0))
REAL(ceil, ceil(x))
REAL(floor, floor(x))
REAL(trunc, trunc(x))
REAL(round, round_at(x, c->p))
WHOLE(same, x)
REAL(sqrt, sqrt(x))
COMPLEX(sqrt, csqrt(x))
REAL(rsqrt, 1.0 / sqrt(x))
COMPLEX(rsqrt, 1.0 / csqrt(x))
REAL(square, x *x)
WHOLE(square, (int64_t)((uint64_t)x *(uint64_t)x))
COMPLEX(square, amp_complex_product(x, x))
REAL(reciprocal, 1.0 / x)
COMPLEX(reciprocal, 1.0 / x)
REAL(exp, exp(x))
COMPLEX(exp, cexp(x))
REAL(expm1, expm1(x))
COMPLEX(expm1, expm1_complex(x))
REAL(log, log(x))
COMPLEX(log, clog(x))
REAL(log2, log2(x))
COMPLEX(log2, clog(x) * M_LOG2E)
REAL(log10, log10(x))
COMPLEX(log10, clog(x) * M_LOG10E)
REAL(log1p, log1p(x))
COMPLEX(log1p, amp_complex_log1p(x))
REAL(sin, sin(x))
COMPLEX(sin, csin(x))
REAL(cos, cos(x))
COMPLEX(cos, ccos(x))
REAL(tan, tan(x))
COMPLEX(tan, ctan(x))
REAL(asin, asin(x))
COMPLEX(asin, casin(x))
REAL(acos, acos(x))
COMPLEX(acos, cacos(x))
REAL(atan, atan(x))
COMPLEX(atan, catan(x))
REAL(sinh, sinh(x))
COMPLEX(sinh, csinh(x))
REAL(cosh, cosh(x))
COMPLEX(cosh, ccosh(x))
REAL(tanh, tanh(x))
COMPLEX(tanh, ctanh(x))
REAL(sinc, sinc(x))
COMPLEX(sinc, sinc_complex(x))
REAL(erf, erf(x))
REAL(erfinv, erfinv(x))
REAL(sigmoid, sigmoid(x))
COMPLEX(sigmoid, 1.0 / (1.0 + cexp(-x)))
REAL(nan_to_num, to_number(c, x))
COMPLEX(nan_to_num, __builtin_complex(to_number(c, creal(x)), to_number(c, cimag(x))))
REAL(relu, x > 0 || x != x ? x : 0.0)
WHOLE(relu, x > 0 ? x : 0)
REAL(relu6, clip(x, 0.0, 6.0))
WHOLE(relu6, x<0 ? 0 : x> 6 ? 6 : x)
REAL(leaky_relu, x > 0 ? x : x * c->p)
REAL(elu, x > 0 ? x : c->p * expm1(x))
REAL(celu, x > 0 ? x : c->p * expm1(x / c->p))
REAL(selu, 1.0507009873554804934 * (x > 0 ? x : 1.6732632423543772848 * expm1(x)))
REAL(gelu, gelu_erf(x))
REAL(gelu_tanh, gelu_tanh(x))
REAL(silu, x *sigmoid(x))
COMPLEX(silu, x / (1.0 + cexp(-x)))
REAL(mish, x *tanh(softplus(x)))
REAL(softplus, x * c->p > c->q ? x : softplus(x * c->p) / c->p)
REAL(softsign, x / (1.0 + fabs(x)))
COMPLEX(softsign, x / (1.0 + cabs(x)))
REAL(logsigmoid, -softplus(-x))
REAL(hardsigmoid, clip(x + 3.0, 0.0, 6.0) / 6.0)
REAL(hardswish, x *clip(x + 3.0, 0.0, 6.0) / 6.0)
REAL(hardtanh, clip(x, c->p, c->q))
REAL(threshold, x > c->p || x != x ? x : c->q)

REAL(exp2, exp2(x))
COMPLEX(exp2, cexp(x *M_LN2))
REAL(asinh, asinh(x))
COMPLEX(asinh, casinh(x))
REAL(acosh, acosh(x))
COMPLEX(acosh, cacosh(x))
REAL(atanh, atanh(x))
COMPLEX(atanh, catanh(x))
REAL(erfc, erfc(x))
REAL(lgamma, log_gamma(x))
REAL(digamma, digamma(x))
REAL(logit, logit(c, x))
REAL(angle, x != x ? x : x < 0.0 ? M_PI : 0.0)
REAL(hardshrink, hardshrink(x, c->p))
REAL(softshrink, softshrink(x, c->p))
REAL(tanhshrink, x - tanh(x))
COMPLEX(tanhshrink, x - ctanh(x))
WHOLE(bitwise_not, ~x)
WHOLE(opposite, x == 0)

/* ---- Running one ---------------------------------------------------------------------------------------------- */

static void kernel_loop(void *context, void *out, const void *const *in, int64_t n) {
    const unary_context *c = context;
    ((amp_unary_function *)c->kernel)(out, in[0], n);
}

static void kernel_loop_with(void *context, void *out, const void *const *in, int64_t n) {
    const unary_context *c = context;
    ((amp_unary_with_function *)c->kernel)(out, in[0], n, (float)c->p, (float)c->q);
}

static amp_status run(amp_call *call, const unary_op *op, amp_tensor *input, unary_context c) {
    const amp_operand v = amp_tensor_operand("input", input);
    amp_dtype dtype = op->i64 ? input->dtype : amp_floating_result(input->dtype);
    amp_dtype compute = amp_compute_dtype(dtype);
    if (compute == AMP_C128 && !op->c128) {
        return amp_fail(AMP_ERROR_DTYPE, "%s: input is %s; not defined for complex numbers", amp_call_name(call),
                        amp_describe(input));
    }
    amp_dense_function *loop = compute == AMP_C128 ? op->c128 : compute == AMP_I64 ? op->i64 : op->f64;
    int64_t cost = 16;
    if (compute == AMP_F32 && c.loop) {
        loop = c.loop;
        cost = 2;
    } else if (compute == AMP_F32 && op->family == NO_KERNEL) {
        compute = AMP_F64;
    } else if (compute == AMP_F32) {
        const amp_kernel_family family = (amp_kernel_family)op->family;
        compute = dtype == AMP_F32 ? AMP_F32 : amp_kernel_dtype(family, dtype);
        const amp_kernel *kernel = amp_kernel_select(family, compute, compute);
        if (!kernel) return amp_pending_error();
        call->note.kernel = kernel->name;
        c.kernel = kernel->function;
        loop = c.with_numbers ? kernel_loop_with : kernel_loop;
        cost = 2;
    }
    amp_tensor *out = amp_operands_output(call, &v, 1, dtype);
    if (!out) return amp_pending_error();
    amp_operands_run(&v, 1, compute, compute, loop, &c, cost, out);
    return AMP_OK;
}

/* DEFINE(op, family, f64 loop, i64 loop, c128 loop) */
#define DEFINE(op, family, f64, i64, c128)                                                                             \
    amp_status cpu_##op(amp_call *call) {                                                                              \
        static const unary_op row = {family, f64, i64, c128};                                                          \
        return run(call, &row, ((const amp_##op##_args *)call->args)->input, (unary_context){0});                      \
    }
DEFINE(neg, AMP_KERNEL_NEG, neg_f64, neg_i64, neg_c128)
DEFINE(sign, AMP_KERNEL_SIGN, sign_f64, sign_i64, NULL)
DEFINE(ceil, AMP_KERNEL_CEIL, ceil_f64, same_i64, NULL)
DEFINE(floor, AMP_KERNEL_FLOOR, floor_f64, same_i64, NULL)
DEFINE(trunc, AMP_KERNEL_TRUNC, trunc_f64, same_i64, NULL)
DEFINE(sqrt, AMP_KERNEL_SQRT, sqrt_f64, NULL, sqrt_c128)
DEFINE(rsqrt, AMP_KERNEL_RSQRT, rsqrt_f64, NULL, rsqrt_c128)
DEFINE(reciprocal, AMP_KERNEL_RECIPROCAL, reciprocal_f64, NULL, reciprocal_c128)
DEFINE(exp, AMP_KERNEL_EXP, exp_f64, NULL, exp_c128)
DEFINE(expm1, AMP_KERNEL_EXPM1, expm1_f64, NULL, expm1_c128)
DEFINE(log, AMP_KERNEL_LOG, log_f64, NULL, log_c128)
DEFINE(log2, AMP_KERNEL_LOG2, log2_f64, NULL, log2_c128)
DEFINE(log10, AMP_KERNEL_LOG10, log10_f64, NULL, log10_c128)
DEFINE(log1p, AMP_KERNEL_LOG1P, log1p_f64, NULL, log1p_c128)
DEFINE(sin, AMP_KERNEL_SIN, sin_f64, NULL, sin_c128)
DEFINE(cos, AMP_KERNEL_COS, cos_f64, NULL, cos_c128)
DEFINE(tan, AMP_KERNEL_TAN, tan_f64, NULL, tan_c128)
DEFINE(asin, AMP_KERNEL_ASIN, asin_f64, NULL, asin_c128)
DEFINE(acos, AMP_KERNEL_ACOS, acos_f64, NULL, acos_c128)
DEFINE(atan, AMP_KERNEL_ATAN, atan_f64, NULL, atan_c128)
DEFINE(sinh, AMP_KERNEL_SINH, sinh_f64, NULL, sinh_c128)
DEFINE(cosh, AMP_KERNEL_COSH, cosh_f64, NULL, cosh_c128)
DEFINE(tanh, AMP_KERNEL_TANH, tanh_f64, NULL, tanh_c128)
DEFINE(sinc, AMP_KERNEL_SINC, sinc_f64, NULL, sinc_c128)
DEFINE(erf, AMP_KERNEL_ERF, erf_f64, NULL, NULL)
DEFINE(erfinv, AMP_KERNEL_ERFINV, erfinv_f64, NULL, NULL)
DEFINE(sigmoid, AMP_KERNEL_SIGMOID, sigmoid_f64, NULL, sigmoid_c128)
DEFINE(relu, AMP_KERNEL_RELU, relu_f64, relu_i64, NULL)
DEFINE(relu6, AMP_KERNEL_RELU6, relu6_f64, relu6_i64, NULL)
DEFINE(selu, AMP_KERNEL_SELU, selu_f64, NULL, NULL)
DEFINE(silu, AMP_KERNEL_SILU, silu_f64, NULL, silu_c128)
DEFINE(mish, AMP_KERNEL_MISH, mish_f64, NULL, NULL)
DEFINE(softsign, AMP_KERNEL_SOFTSIGN, softsign_f64, NULL, softsign_c128)
DEFINE(logsigmoid, AMP_KERNEL_LOGSIGMOID, logsigmoid_f64, NULL, NULL)
DEFINE(hardsigmoid, AMP_KERNEL_HARDSIGMOID, hardsigmoid_f64, NULL, NULL)
DEFINE(hardswish, AMP_KERNEL_HARDSWISH, hardswish_f64, NULL, NULL)

DEFINE(exp2, NO_KERNEL, exp2_f64, NULL, exp2_c128)
DEFINE(asinh, NO_KERNEL, asinh_f64, NULL, asinh_c128)
DEFINE(acosh, NO_KERNEL, acosh_f64, NULL, acosh_c128)
DEFINE(atanh, NO_KERNEL, atanh_f64, NULL, atanh_c128)
DEFINE(erfc, NO_KERNEL, erfc_f64, NULL, NULL)
DEFINE(lgamma, NO_KERNEL, lgamma_f64, NULL, NULL)
DEFINE(digamma, NO_KERNEL, digamma_f64, NULL, NULL)
DEFINE(tanhshrink, NO_KERNEL, tanhshrink_f64, NULL, tanhshrink_c128)

/* With numbers: DEFINE_WITH(op, family, f64 loop, i64 loop, c128 loop, numbers …) */
#define DEFINE_WITH(op, family, f64, i64, c128, ...)                                                                   \
    amp_status cpu_##op(amp_call *call) {                                                                              \
        static const unary_op row = {family, f64, i64, c128};                                                          \
        const amp_##op##_args *a = call->args;                                                                         \
        return run(call, &row, a->input, (unary_context){.with_numbers = true, __VA_ARGS__});                          \
    }
static double real(amp_scalar number) {
    return amp_constant_of(&number, AMP_F64).f64;
}
DEFINE_WITH(leaky_relu, AMP_KERNEL_LEAKY_RELU, leaky_relu_f64, NULL, NULL, .p = a->negative_slope.value)
DEFINE_WITH(elu, AMP_KERNEL_ELU, elu_f64, NULL, NULL, .p = a->alpha.value, .q = 1.0)
DEFINE_WITH(celu, AMP_KERNEL_ELU, celu_f64, NULL, NULL, .p = a->alpha.value, .q = 1.0 / a->alpha.value)
DEFINE_WITH(softplus, AMP_KERNEL_SOFTPLUS, softplus_f64, NULL, NULL, .p = real(a->beta), .q = real(a->threshold))

DEFINE_WITH(logit, NO_KERNEL, logit_f64, NULL, NULL, .p = a->eps.value, .q = a->eps.set != 0)
DEFINE_WITH(hardshrink, NO_KERNEL, hardshrink_f64, NULL, NULL, .p = real(a->lambd))

amp_status cpu_softshrink(amp_call *call) {
    static const unary_op row = {NO_KERNEL, softshrink_f64, NULL, NULL};
    const amp_softshrink_args *a = call->args;
    AMP_TRY(amp_check_lambda(call, &a->lambd));
    return run(call, &row, a->input, (unary_context){.p = real(a->lambd)});
}

amp_status cpu_bitwise_not(amp_call *call) {
    static const unary_op whole = {NO_KERNEL, NULL, bitwise_not_i64, NULL};
    static const unary_op boolean = {NO_KERNEL, NULL, opposite_i64, NULL};
    const amp_bitwise_not_args *a = call->args;
    const amp_operand v[2] = {amp_tensor_operand("input", a->input), amp_tensor_operand("input", a->input)};
    AMP_TRY(amp_check_bits(call, v, a->input->dtype, false));
    return run(call, a->input->dtype == AMP_BOOL ? &boolean : &whole, a->input, (unary_context){0});
}

amp_status cpu_hardtanh(amp_call *call) {
    static const unary_op row = {AMP_KERNEL_HARDTANH, hardtanh_f64, NULL, NULL};
    const amp_hardtanh_args *a = call->args;
    if (amp_holds_whole_numbers(a->input)) return amp_whole_hardtanh(call);
    return run(call, &row, a->input,
               (unary_context){.with_numbers = true, .p = real(a->min_val), .q = real(a->max_val)});
}

amp_status cpu_threshold(amp_call *call) {
    static const unary_op row = {AMP_KERNEL_THRESHOLD, threshold_f64, NULL, NULL};
    const amp_threshold_args *a = call->args;
    if (amp_holds_whole_numbers(a->input)) return amp_whole_threshold(call);
    return run(call, &row, a->input,
               (unary_context){.with_numbers = true, .p = real(a->threshold), .q = real(a->value)});
}

/* The square of a bool is an integer, as is PyTorch's power 2 of one. */
amp_status cpu_square(amp_call *call) {
    static const unary_op row = {AMP_KERNEL_SQUARE, square_f64, square_i64, square_c128};
    const amp_square_args *a = call->args;
    amp_tensor *x = a->input->dtype == AMP_BOOL ? amp_to(a->input, AMP_I64) : a->input;
    return x ? run(call, &row, x, (unary_context){0}) : amp_pending_error();
}

amp_status cpu_round(amp_call *call) {
    static const unary_op whole = {AMP_KERNEL_ROUND, round_f64, same_i64, NULL};
    static const unary_op decimal = {NO_KERNEL, round_f64, same_i64, NULL};
    const amp_round_args *a = call->args;
    return run(call, a->decimals ? &decimal : &whole, a->input, (unary_context){.p = pow(10.0, (double)a->decimals)});
}

static float number_f32(float x, float nan, float most, float least) {
    return x != x ? nan : x > FLT_MAX ? most : x < -FLT_MAX ? least : x;
}

/* The kernel knows one number for both infinities: the negative one becomes another before, a block in cache at a
 * time. */
static void two_infinities(const unary_context *c, float *out, const float *in, int64_t n) {
    enum { BLOCK = 4096 };
    for (int64_t i = 0; i < n; i += BLOCK) {
        const int64_t count = n - i < BLOCK ? n - i : BLOCK;
        ((amp_unary_with_function *)c->first)(out + i, in + i, count, -INFINITY, (float)c->r);
        ((amp_unary_with_function *)c->kernel)(out + i, out + i, count, (float)c->p, (float)c->q);
    }
}

static void nan_to_num_f32(void *context, void *out, const void *const *in, int64_t n) {
    const unary_context *c = context;
    const float *x = in[0];
    float *o = out;
    if (isfinite((float)c->r)) {
        two_infinities(c, out, x, n);
    } else {
        for (int64_t i = 0; i < n; i++) o[i] = number_f32(x[i], (float)c->p, (float)c->q, (float)c->r);
    }
}

static amp_status nan_to_given(amp_call *call, const unary_op *op, const amp_nan_to_num_args *a, unary_context c) {
    const amp_kernel *threshold = amp_kernel_select(AMP_KERNEL_THRESHOLD, AMP_F32, AMP_F32);
    const amp_kernel *number = threshold ? amp_kernel_select(AMP_KERNEL_NAN_TO_NUM, AMP_F32, AMP_F32) : NULL;
    if (!number) return amp_pending_error();
    c.first = threshold->function;
    c.kernel = number->function;
    c.loop = nan_to_num_f32;
    return run(call, op, a->input, c);
}

amp_status cpu_nan_to_num(amp_call *call) {
    static const unary_op row = {AMP_KERNEL_NAN_TO_NUM, nan_to_num_f64, same_i64, nan_to_num_c128};
    const amp_nan_to_num_args *a = call->args;
    const double most = amp_dtype_largest(a->input->dtype);
    const unary_context c = {.with_numbers = true,
                             .p = a->nan,
                             .q = a->posinf.set ? a->posinf.value : most,
                             .r = a->neginf.set ? a->neginf.value : -most};
    return c.r == -c.q ? run(call, &row, a->input, c) : nan_to_given(call, &row, a, c);
}

amp_status cpu_gelu(amp_call *call) {
    static const unary_op by_erf = {AMP_KERNEL_GELU, gelu_f64, NULL, NULL};
    static const unary_op by_tanh = {AMP_KERNEL_GELU_TANH, gelu_tanh_f64, NULL, NULL};
    const amp_gelu_args *a = call->args;
    bool tanh_form;
    AMP_TRY(amp_read_gelu_form(call, a->approximate, &tanh_form));
    return run(call, tanh_form ? &by_tanh : &by_erf, a->input, (unary_context){0});
}

/* The modulus and the angle of a complex number are real. */
#define REAL_OF_COMPLEX(name, expression)                                                                              \
    static void name(void *context, void *out, const void *const *in, int64_t n) {                                     \
        const complex128 *a = in[0];                                                                                   \
        double *o = out;                                                                                               \
        (void)context;                                                                                                 \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            const complex128 x = a[i];                                                                                 \
            o[i] = (expression);                                                                                       \
        }                                                                                                              \
    }
REAL_OF_COMPLEX(modulus, cabs(x))
REAL_OF_COMPLEX(direction, carg(x))

static amp_status real_of_complex(amp_call *call, amp_tensor *input, amp_dense_function *loop) {
    const amp_operand v = amp_tensor_operand("input", input);
    amp_tensor *out = amp_operands_output(call, &v, 1, input->dtype == AMP_C64 ? AMP_F32 : AMP_F64);
    if (!out) return amp_pending_error();
    amp_operands_run(&v, 1, AMP_C128, AMP_F64, loop, NULL, 8, out);
    return AMP_OK;
}

amp_status cpu_abs(amp_call *call) {
    static const unary_op row = {AMP_KERNEL_ABS, abs_f64, abs_i64, NULL};
    const amp_abs_args *a = call->args;
    if (!amp_dtype_is_complex(a->input->dtype)) return run(call, &row, a->input, (unary_context){0});
    return real_of_complex(call, a->input, modulus);
}

amp_status cpu_angle(amp_call *call) {
    static const unary_op row = {NO_KERNEL, angle_f64, NULL, NULL};
    const amp_angle_args *a = call->args;
    if (!amp_dtype_is_complex(a->input->dtype)) return run(call, &row, a->input, (unary_context){0});
    return real_of_complex(call, a->input, direction);
}
