/* add, sub, mul, div and their kin: two operands, each a tensor or a number. f32, f16 and bf16 run in the vector
 * kernels; f64, integers and complex numbers in the typed loops here. */
#include <complex.h>
#include <math.h>
#include <stdatomic.h>

#include "amp/ops.h"
#include "cpu/convert/element.h"
#include "cpu/cpu_steps.h"
#include "cpu/elementwise/elementwise.h"
#include "cpu/elementwise/log_add_exp.h"
#include "cpu/registry/kernels.h"
#include "policy/promotion.h"
#include "steps/argument_rules.h"
#include "steps/constants.h"

typedef double _Complex complex128;

/* What a loop gets besides its operands. */
typedef struct binary_context {
    amp_binary_function *kernel;
    float scale;         /* of the second operand, or an operand that is a number, as f32 … */
    double alpha;        /* … as f64 … */
    int64_t alpha_whole; /* … and as an integer */
    complex128 alpha_complex;
    atomic_bool divided_by_zero; /* an integer quotient has no value */
} binary_context;

enum { NO_KERNEL = -1 };

typedef struct binary_op {
    int family;                           /* of f32 kernels; NO_KERNEL: narrow floats are computed in f64 */
    amp_dense_function *f64, *i64, *c128; /* NULL: no such type */
    /* as in PyTorch: */
    bool rounds; /* a number meets a 16-bit tensor rounded to its dtype, not as f32 */
    bool no_bool;
} binary_op;

/* ---- Typed loops ---------------------------------------------------------------------------------------------- */

#define DEFINE_LOOP(name, type, suffix, expression)                                                                    \
    static void name##_##suffix(void *context, void *out, const void *const *in, int64_t n) {                          \
        binary_context *c = context;                                                                                   \
        const type *a = in[0], *b = in[1];                                                                             \
        type *o = out;                                                                                                 \
        (void)c;                                                                                                       \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            const type x = a[i], y = b[i];                                                                             \
            o[i] = (expression);                                                                                       \
        }                                                                                                              \
    }

/* Integers wrap, as their widths do in memory. */
#define WRAP(operation) (int64_t)((uint64_t)x operation(uint64_t) y)

static int64_t checked_quotient(binary_context *c, int64_t x, int64_t y) {
    if (y == 0) atomic_store_explicit(&c->divided_by_zero, true, memory_order_relaxed);
    if (y == 0 || y == -1) return (int64_t)(0 - (uint64_t)x);
    return x / y;
}

static int64_t floor_quotient(binary_context *c, int64_t x, int64_t y) {
    const int64_t q = checked_quotient(c, x, y);
    return y != 0 && y != -1 && x % y != 0 && (x < 0) != (y < 0) ? q - 1 : q;
}

static int64_t checked_remainder(binary_context *c, int64_t x, int64_t y, bool floor) {
    const int64_t q = floor ? floor_quotient(c, x, y) : checked_quotient(c, x, y);
    return (int64_t)((uint64_t)x - (uint64_t)q * (uint64_t)y);
}

/* ⌊x/y⌋ from the exact remainder, so that no quotient is rounded up to the next integer first. */
static double floor_quotient_f64(double x, double y) {
    if (y == 0.0) return x / y;
    const double rest = fmod(x, y);
    double q = (x - rest) / y;
    if (rest != 0.0 && (y < 0.0) != (rest < 0.0)) q -= 1.0;
    return q == 0.0 ? copysign(0.0, x / y) : nearbyint(q);
}

static double modulo(double x, double y) {
    const double rest = fmod(x, y);
    return rest != 0.0 && (y < 0.0) != (rest < 0.0) ? rest + y : rest;
}

static int64_t power_i64(int64_t base, int64_t exponent) {
    if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent & 1 ? -1 : 1) : 0;
    uint64_t result = 1, square = (uint64_t)base;
    for (uint64_t e = (uint64_t)exponent; e; e >>= 1, square *= square) {
        if (e & 1) result *= square;
    }
    return (int64_t)result;
}

static double log2_add_exp2(double x, double y) {
    if (x == y) return x + 1.0; /* equal infinities too */
    const double high = fmax(x, y);
    return isnan(x) || isnan(y) ? NAN : high + log1p(exp2(fmin(x, y) - high)) * M_LOG2E;
}

static complex128 x_log_y(complex128 x, complex128 y) {
    if (isnan(creal(y)) || isnan(cimag(y))) return __builtin_complex(NAN, NAN);
    return x == 0.0 ? 0.0 : amp_complex_product(x, clog(y));
}

DEFINE_LOOP(add, double, f64, x + c->alpha * y)

DEFINE_LOOP(add, int64_t, i64, (int64_t)((uint64_t)x + (uint64_t)c->alpha_whole * (uint64_t)y))

DEFINE_LOOP(add, complex128, c128, x + c->alpha_complex * y)

DEFINE_LOOP(mul, double, f64, x *y)

DEFINE_LOOP(mul, int64_t, i64, WRAP(*))

DEFINE_LOOP(mul, complex128, c128, amp_complex_product(x, y))

DEFINE_LOOP(div, double, f64, x / y)

DEFINE_LOOP(div, complex128, c128, x / y)

DEFINE_LOOP(div_trunc, double, f64, trunc(x / y))

DEFINE_LOOP(div_trunc, int64_t, i64, checked_quotient(c, x, y))

DEFINE_LOOP(div_floor, double, f64, floor_quotient_f64(x, y))

DEFINE_LOOP(div_floor, int64_t, i64, floor_quotient(c, x, y))

DEFINE_LOOP(maximum, double, f64, isnan(x) || x > y ? x : y)

DEFINE_LOOP(maximum, int64_t, i64, x > y ? x : y)

DEFINE_LOOP(minimum, double, f64, isnan(x) || x < y ? x : y)

DEFINE_LOOP(minimum, int64_t, i64, x < y ? x : y)

DEFINE_LOOP(pow, double, f64, pow(x, y))

DEFINE_LOOP(pow, int64_t, i64, power_i64(x, y))

DEFINE_LOOP(pow, complex128, c128, cpow(x, y))

DEFINE_LOOP(fmod, double, f64, fmod(x, y))

DEFINE_LOOP(fmod, int64_t, i64, checked_remainder(c, x, y, false))

DEFINE_LOOP(remainder, double, f64, modulo(x, y))

DEFINE_LOOP(remainder, int64_t, i64, checked_remainder(c, x, y, true))

DEFINE_LOOP(atan2, double, f64, atan2(x, y))

DEFINE_LOOP(logaddexp, double, f64, amp_log_add_exp(x, y))

DEFINE_LOOP(logaddexp, complex128, c128, amp_log_add_exp_complex(x, y))

DEFINE_LOOP(logaddexp2, double, f64, log2_add_exp2(x, y))

DEFINE_LOOP(fmax, double, f64, fmax(x, y))

DEFINE_LOOP(fmin, double, f64, fmin(x, y))

DEFINE_LOOP(hypot, double, f64, hypot(x, y))

DEFINE_LOOP(copysign, double, f64, copysign(x, y))

DEFINE_LOOP(xlogy, double, f64, isnan(y) ? NAN : x == 0.0 ? 0.0 : x * log(y))

DEFINE_LOOP(xlogy, complex128, c128, x_log_y(x, y))

DEFINE_LOOP(bitwise_and, int64_t, i64, x &y)

DEFINE_LOOP(bitwise_or, int64_t, i64, x | y)

DEFINE_LOOP(bitwise_xor, int64_t, i64, x ^ y)

DEFINE_LOOP(left_shift, int64_t, i64, (uint64_t)y >= (uint64_t)c->alpha_whole ? 0 : (int64_t)((uint64_t)x << y))

DEFINE_LOOP(right_shift, int64_t, i64, x >> ((uint64_t)y >= (uint64_t)c->alpha_whole ? 63 : y))

static const binary_op add_op = {AMP_KERNEL_ADD, add_f64, add_i64, add_c128, .rounds = true};

/* with −alpha */
static const binary_op sub_op = {AMP_KERNEL_SUB, add_f64, add_i64, add_c128, .rounds = true};

static const binary_op add_scaled_op = {AMP_KERNEL_ADD_SCALED, add_f64, add_i64, add_c128, .rounds = true};

static const binary_op mul_op = {AMP_KERNEL_MUL, mul_f64, mul_i64, mul_c128, .rounds = false};

static const binary_op div_op = {AMP_KERNEL_DIV, div_f64, NULL, div_c128, .rounds = false};

static const binary_op div_trunc_op = {AMP_KERNEL_DIV_TRUNC, div_trunc_f64, div_trunc_i64, NULL, .rounds = false};

static const binary_op div_floor_op = {AMP_KERNEL_DIV_FLOOR, div_floor_f64, div_floor_i64, NULL, .no_bool = true};

static const binary_op maximum_op = {AMP_KERNEL_MAXIMUM, maximum_f64, maximum_i64, NULL, .rounds = false};

static const binary_op minimum_op = {AMP_KERNEL_MINIMUM, minimum_f64, minimum_i64, NULL, .rounds = false};

static const binary_op pow_op = {AMP_KERNEL_POW, pow_f64, pow_i64, pow_c128, .rounds = true};

static const binary_op fmod_op = {AMP_KERNEL_FMOD, fmod_f64, fmod_i64, NULL, .rounds = true, .no_bool = true};

static const binary_op remainder_op = {AMP_KERNEL_REMAINDER, remainder_f64,  remainder_i64, NULL,
                                       .rounds = true,       .no_bool = true};

static const binary_op atan2_op = {AMP_KERNEL_ATAN2, atan2_f64, NULL, NULL, .rounds = false};

static const binary_op logaddexp_op = {AMP_KERNEL_LOGADDEXP, logaddexp_f64, NULL, logaddexp_c128, .rounds = false};

static const binary_op logaddexp2_op = {NO_KERNEL, logaddexp2_f64, NULL, NULL, .rounds = true};

static const binary_op fmax_op = {NO_KERNEL, fmax_f64, maximum_i64, NULL, .rounds = true};

static const binary_op fmin_op = {NO_KERNEL, fmin_f64, minimum_i64, NULL, .rounds = true};

static const binary_op hypot_op = {NO_KERNEL, hypot_f64, NULL, NULL, .rounds = true};

static const binary_op copysign_op = {NO_KERNEL, copysign_f64, NULL, NULL, .rounds = true};

static const binary_op xlogy_op = {NO_KERNEL, xlogy_f64, NULL, xlogy_c128, .rounds = true};

static const binary_op bitwise_and_op = {NO_KERNEL, NULL, bitwise_and_i64, NULL, .rounds = false};

static const binary_op bitwise_or_op = {NO_KERNEL, NULL, bitwise_or_i64, NULL, .rounds = false};

static const binary_op bitwise_xor_op = {NO_KERNEL, NULL, bitwise_xor_i64, NULL, .rounds = false};

static const binary_op left_shift_op = {NO_KERNEL, NULL, left_shift_i64, NULL, .no_bool = true};

static const binary_op right_shift_op = {NO_KERNEL, NULL, right_shift_i64, NULL, .no_bool = true};

/* ---- Running one ---------------------------------------------------------------------------------------------- */

static void kernel_loop(void *context, void *out, const void *const *in, int64_t n) {
    const binary_context *c = context;
    c->kernel(out, in[0], in[1], n, c->scale);
}

static void number_last_loop(void *context, void *out, const void *const *in, int64_t n) {
    const binary_context *c = context;
    c->kernel(out, in[0], NULL, n, c->scale);
}

static void number_first_loop(void *context, void *out, const void *const *in, int64_t n) {
    const binary_context *c = context;
    c->kernel(out, NULL, in[0], n, c->scale);
}

enum { AT_ONCE = 16384 }; /* elements that are not worth a second thread */

/* Two dense f32 tensors of one small shape: what a call costs matters, and there is nothing to promote or broadcast. */
static bool fits_at_once(const amp_operand v[2]) {
    const amp_tensor *a = v[0].tensor, *b = v[1].tensor;
    return a && b && a->dtype == AMP_F32 && b->dtype == AMP_F32 && amp_same_shape(a, b) &&
           amp_tensor_elements(a) <= AT_ONCE && amp_tensor_is_dense(a) && amp_tensor_is_dense(b);
}

static amp_status run_at_once(amp_call *call, amp_kernel_family family, const amp_operand v[2]) {
    const amp_kernel *kernel = amp_kernel_select(family, AMP_F32, AMP_F32);
    amp_tensor *out = kernel ? amp_call_output(call, 0, AMP_F32, v[0].tensor->rank, v[0].tensor->shape) : NULL;
    if (!out) return amp_pending_error();
    call->note.kernel = kernel->name;
    if (amp_tensor_is_dense(out)) {
        ((amp_binary_function *)kernel->function)(amp_tensor_pointer(out), amp_tensor_pointer(v[0].tensor),
                                                  amp_tensor_pointer(v[1].tensor), amp_tensor_elements(out), 1.0f);
    } else { /* a strided target of an in-place or out= form */
        binary_context c = {.kernel = (amp_binary_function *)kernel->function, .scale = 1.0f};
        amp_operands_run(v, 2, AMP_F32, AMP_F32, kernel_loop, &c, 1, out);
    }
    return AMP_OK;
}

static amp_status no_such_type(const amp_call *call, amp_dtype dtype, const amp_operand *v) {
    return amp_fail(AMP_ERROR_DTYPE, "%s: '%s' is %s: not defined for %s", amp_call_name(call), v[0].name,
                    v[0].tensor ? amp_describe(v[0].tensor) : "a number", amp_dtype_name(dtype));
}

static amp_status run_typed(amp_call *call, const binary_op *op, binary_context *c, const amp_operand *v,
                            amp_dtype compute, amp_tensor *out) {
    amp_dense_function *loop = compute == AMP_F64 ? op->f64 : compute == AMP_C128 ? op->c128 : op->i64;
    amp_operands_run(v, 2, compute, compute, loop, c, 4, out);
    if (!atomic_load_explicit(&c->divided_by_zero, memory_order_relaxed)) return AMP_OK;
    return amp_fail_zero_divisor(call, &v[1]);
}

/* f32 and narrower. Tensors of mixed dtypes meet in f32. */
static amp_status run_kernel(amp_call *call, const binary_op *op, binary_context *c, const amp_operand *v,
                             amp_tensor *out) {
    const int number = v[0].tensor ? v[1].tensor ? -1 : 1 : 0;
    amp_dtype compute = amp_kernel_dtype((amp_kernel_family)op->family, out->dtype);
    for (int i = 0; i < 2; i++) {
        if (v[i].tensor && v[i].tensor->dtype != compute) compute = AMP_F32;
    }
    const bool with_number = number >= 0 && v[1 - number].tensor && op->family != (int)AMP_KERNEL_ADD_SCALED;
    if (number >= 0 && !with_number) compute = AMP_F32;
    const amp_kernel *kernel = amp_kernel_select((amp_kernel_family)op->family, compute, compute);
    if (!kernel) return amp_pending_error();
    call->note.kernel = kernel->name;
    c->kernel = (amp_binary_function *)kernel->function;
    if (with_number) {
        c->scale = amp_constant_of(&v[number].number, AMP_F32).f32;
        amp_operands_run(&v[1 - number], 1, compute, compute, number ? number_last_loop : number_first_loop, c, 1, out);
    } else {
        amp_operands_run(v, 2, compute, compute, kernel_loop, c, 1, out);
    }
    return AMP_OK;
}

/* `alpha` times the second operand; `sign` −1 for differences. NULL: 1. */
static binary_context context_of(const amp_scalar *alpha, int sign) {
    const amp_scalar one = amp_int(1);
    const amp_constant real = amp_constant_of(alpha ? alpha : &one, AMP_C128);
    const amp_constant whole = amp_constant_of(alpha ? alpha : &one, AMP_I64);
    return (binary_context){.scale = (float)(sign * real.c128[0]),
                            .alpha = sign * real.c128[0],
                            .alpha_whole = (int64_t)((uint64_t)(int64_t)sign * (uint64_t)whole.i64),
                            .alpha_complex = __builtin_complex(sign * real.c128[0], sign * real.c128[1])};
}

/* A number is stored in the dtype of the tensor that it meets, and read again. */
static amp_operand rounded(amp_operand operand, amp_dtype dtype) {
    const bool narrow = dtype == AMP_BF16 || dtype == AMP_F16;
    if (operand.tensor || !narrow) return operand;
    const uint16_t half = amp_constant_of(&operand.number, dtype).half;
    operand.number = amp_float(dtype == AMP_BF16 ? amp_f32_from_bf16(half) : amp_f32_from_f16(half));
    return operand;
}

static amp_status binary(amp_call *call, const binary_op *op, const amp_operand given[2], amp_dtype dtype,
                         binary_context c) {
    const bool by_loop = op->family == NO_KERNEL;
    const amp_dtype natural = amp_compute_dtype(dtype), compute = natural == AMP_F32 && by_loop ? AMP_F64 : natural;
    const amp_operand v[2] = {op->rounds ? rounded(given[0], dtype) : given[0],
                              op->rounds ? rounded(given[1], dtype) : given[1]};
    if ((compute == AMP_F64 && !op->f64) || (compute == AMP_I64 && !op->i64) || (compute == AMP_C128 && !op->c128) ||
        (dtype == AMP_BOOL && op->no_bool))
        return no_such_type(call, dtype, v);
    amp_tensor *out = amp_operands_output(call, v, 2, dtype);
    if (!out) return amp_pending_error();
    return compute == AMP_F32 ? run_kernel(call, op, &c, v, out) : run_typed(call, op, &c, v, compute, out);
}

/* ---- add, sub ------------------------------------------------------------------------------------------------- */

static bool is_one(const amp_scalar *alpha) {
    return alpha->kind == AMP_SCALAR_FLOAT ? alpha->re == 1.0 : alpha->kind != AMP_SCALAR_COMPLEX && alpha->i == 1;
}

static amp_status sum_or_difference(amp_call *call, amp_operand a, amp_operand b, const amp_scalar *alpha, int sign) {
    const amp_operand v[2] = {a, b};
    const binary_op *op = !is_one(alpha) ? &add_scaled_op : sign < 0 ? &sub_op : &add_op;
    if (op != &add_scaled_op && fits_at_once(v)) return run_at_once(call, (amp_kernel_family)op->family, v);
    const amp_dtype dtype = amp_operands_dtype(v, 2);
    AMP_TRY(amp_check_sum(call, v, alpha, sign, dtype));
    return binary(call, op, v, dtype, context_of(alpha, sign));
}

#define DEFINE_SUM(op, sign)                                                                                           \
    amp_status cpu_##op(amp_call *call) {                                                                              \
        const amp_##op##_args *a = call->args;                                                                         \
        return sum_or_difference(call, amp_tensor_operand("input", a->input), amp_tensor_operand("other", a->other),   \
                                 &a->alpha, sign);                                                                     \
    }                                                                                                                  \
    amp_status cpu_##op##_scalar(amp_call *call) {                                                                     \
        const amp_##op##_scalar_args *a = call->args;                                                                  \
        return sum_or_difference(call, amp_tensor_operand("input", a->input), amp_number_operand("other", a->other),   \
                                 &a->alpha, sign);                                                                     \
    }

DEFINE_SUM(add, 1)

DEFINE_SUM(sub, -1)

/* ---- The others ----------------------------------------------------------------------------------------------- */

static amp_status plain(amp_call *call, const binary_op *op, amp_operand a, amp_operand b) {
    const amp_operand v[2] = {a, b};
    if (op->family != NO_KERNEL && fits_at_once(v)) return run_at_once(call, (amp_kernel_family)op->family, v);
    return binary(call, op, v, amp_operands_dtype(v, 2), context_of(NULL, 1));
}

/* Integers give f32. */
static amp_status floating(amp_call *call, const binary_op *op, amp_operand a, amp_operand b) {
    const amp_operand v[2] = {a, b};
    if (op->family != NO_KERNEL && fits_at_once(v)) return run_at_once(call, (amp_kernel_family)op->family, v);
    return binary(call, op, v, amp_floating_result(amp_operands_dtype(v, 2)), context_of(NULL, 1));
}

/* Integers and bools only, whose width says how far they can be shifted. */
static amp_status bitwise(amp_call *call, const binary_op *op, amp_operand a, amp_operand b) {
    const amp_operand v[2] = {a, b};
    const amp_dtype dtype = amp_operands_dtype(v, 2);
    binary_context c = context_of(NULL, 1);
    AMP_TRY(amp_check_bits(call, v, dtype, op->no_bool));
    c.alpha_whole = 8 * (int64_t)amp_dtype_size(dtype);
    return binary(call, op, v, dtype, c);
}

static amp_status divide(amp_call *call, amp_operand a, amp_operand b, const char *rounding_mode) {
    char rounding;
    AMP_TRY(amp_read_rounding(call, rounding_mode, &rounding));
    if (!rounding) return floating(call, &div_op, a, b);
    return plain(call, rounding == 't' ? &div_trunc_op : &div_floor_op, a, b);
}

#define DEFINE_TENSOR(op, first, second, run)                                                                          \
    amp_status cpu_##op(amp_call *call) {                                                                              \
        const amp_##op##_args *a = call->args;                                                                         \
        const amp_operand x = amp_tensor_operand(#first, a->first), y = amp_tensor_operand(#second, a->second);        \
        return run;                                                                                                    \
    }

#define DEFINE_SCALAR(op, first, second, run)                                                                          \
    amp_status cpu_##op##_scalar(amp_call *call) {                                                                     \
        const amp_##op##_scalar_args *a = call->args;                                                                  \
        const amp_operand x = amp_tensor_operand(#first, a->first), y = amp_number_operand(#second, a->second);        \
        return run;                                                                                                    \
    }

#define DEFINE_BOTH(op, first, second, run) DEFINE_TENSOR(op, first, second, run) DEFINE_SCALAR(op, first, second, run)
DEFINE_BOTH(mul, input, other, plain(call, &mul_op, x, y))

DEFINE_BOTH(div, input, other, divide(call, x, y, a->rounding_mode))

DEFINE_BOTH(floor_divide, input, other, plain(call, &div_floor_op, x, y))

DEFINE_BOTH(remainder, input, other, plain(call, &remainder_op, x, y))

DEFINE_BOTH(fmod, input, other, plain(call, &fmod_op, x, y))

DEFINE_TENSOR(atan2, input, other, floating(call, &atan2_op, x, y))

DEFINE_TENSOR(logaddexp, input, other, plain(call, &logaddexp_op, x, y))

DEFINE_TENSOR(maximum, input, other, plain(call, &maximum_op, x, y))

DEFINE_TENSOR(minimum, input, other, plain(call, &minimum_op, x, y))

DEFINE_TENSOR(max_other, input, other, plain(call, &maximum_op, x, y))

DEFINE_TENSOR(min_other, input, other, plain(call, &minimum_op, x, y))

DEFINE_TENSOR(logaddexp2, input, other, plain(call, &logaddexp2_op, x, y))

DEFINE_TENSOR(fmax, input, other, plain(call, &fmax_op, x, y))

DEFINE_TENSOR(fmin, input, other, plain(call, &fmin_op, x, y))

DEFINE_TENSOR(hypot, input, other, plain(call, &hypot_op, x, y))

DEFINE_BOTH(copysign, input, other, floating(call, &copysign_op, x, y))

DEFINE_TENSOR(xlogy, input, other, floating(call, &xlogy_op, x, y))

DEFINE_BOTH(bitwise_and, input, other, bitwise(call, &bitwise_and_op, x, y))

DEFINE_BOTH(bitwise_or, input, other, bitwise(call, &bitwise_or_op, x, y))

DEFINE_BOTH(bitwise_xor, input, other, bitwise(call, &bitwise_xor_op, x, y))

DEFINE_BOTH(bitwise_left_shift, input, other, bitwise(call, &left_shift_op, x, y))

DEFINE_BOTH(bitwise_right_shift, input, other, bitwise(call, &right_shift_op, x, y))

amp_status cpu_xlogy_scalar_other(amp_call *call) {
    const amp_xlogy_scalar_other_args *a = call->args;
    return floating(call, &xlogy_op, amp_tensor_operand("input", a->input), amp_number_operand("other", a->other));
}

amp_status cpu_xlogy_scalar_self(amp_call *call) {
    const amp_xlogy_scalar_self_args *a = call->args;
    return floating(call, &xlogy_op, amp_number_operand("input", a->input), amp_tensor_operand("other", a->other));
}

/* Powers of f32 and narrower floats that have kernels of their own, as in PyTorch: (−0)^½ is −0, but 0 in f16 and where
 * the exponent is a tensor. */
static int family_of_power(amp_dtype dtype, const amp_scalar *exponent, bool is_tensor) {
    static const struct {
        double exponent;
        int family;
        bool is_root;
    } known[] = {{2.0, AMP_KERNEL_SQUARE, false},
                 {0.5, AMP_KERNEL_SQRT, true},
                 {-0.5, AMP_KERNEL_RSQRT, true},
                 {-1.0, AMP_KERNEL_RECIPROCAL, false}};
    if (!amp_dtype_is_floating(dtype) || dtype == AMP_F64 || exponent->kind == AMP_SCALAR_COMPLEX)
        return AMP_KERNEL_FAMILY_COUNT;
    const double e = exponent->kind == AMP_SCALAR_FLOAT ? exponent->re : (double)exponent->i;
    const bool has_roots = dtype != AMP_F16 && !is_tensor;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (known[i].exponent == e && (has_roots || !known[i].is_root)) return known[i].family;
    }
    return AMP_KERNEL_FAMILY_COUNT;
}

static void power_loop(void *context, void *out, const void *const *in, int64_t n) {
    ((amp_unary_function *)*(amp_kernel_function *const *)context)(out, in[0], n);
}

static amp_status power_by(amp_call *call, int family, amp_tensor *input) {
    const amp_operand x = amp_tensor_operand("input", input);
    const amp_dtype compute = amp_kernel_dtype((amp_kernel_family)family, input->dtype);
    const amp_kernel *kernel = amp_kernel_select((amp_kernel_family)family, compute, compute);
    amp_tensor *out = kernel ? amp_operands_output(call, &x, 1, input->dtype) : NULL;
    if (!out) return amp_pending_error();
    amp_kernel_function *function = kernel->function;
    call->note.kernel = kernel->name;
    amp_operands_run(&x, 1, compute, compute, power_loop, &function, 1, out);
    return AMP_OK;
}

amp_status cpu_pow_scalar(amp_call *call) {
    const amp_pow_scalar_args *a = call->args;
    AMP_TRY(amp_check_power(call, a->input, &a->exponent));
    const int family = family_of_power(a->input->dtype, &a->exponent, false);
    if (family != AMP_KERNEL_FAMILY_COUNT) return power_by(call, family, a->input);
    return plain(call, &pow_op, amp_tensor_operand("input", a->input), amp_number_operand("exponent", a->exponent));
}

/* An exponent as files have it: one element, which changes neither shape nor type. */
static bool is_number(const amp_tensor *exponent, const amp_tensor *input) {
    return exponent->dtype == input->dtype && amp_dtype_is_floating(exponent->dtype) && exponent->rank <= input->rank &&
           amp_tensor_elements(exponent) == 1;
}

amp_status cpu_pow(amp_call *call) {
    const amp_pow_args *a = call->args;
    if (is_number(a->exponent, a->input)) {
        const amp_scalar e = amp_float(amp_element_double(a->exponent->dtype, amp_tensor_pointer(a->exponent)));
        const int family = family_of_power(a->input->dtype, &e, true);
        if (family != AMP_KERNEL_FAMILY_COUNT) return power_by(call, family, a->input);
    }
    return plain(call, &pow_op, amp_tensor_operand("input", a->input), amp_tensor_operand("exponent", a->exponent));
}

amp_status cpu_pow_scalar_base(amp_call *call) {
    const amp_pow_scalar_base_args *a = call->args;
    return plain(call, &pow_op, amp_number_operand("input", a->input), amp_tensor_operand("exponent", a->exponent));
}

/* The result has another type than the operands. */
static void polar_loop(void *context, void *out, const void *const *in, int64_t n) {
    const double *abs = in[0], *angle = in[1];
    complex128 *o = out;
    (void)context;
    for (int64_t i = 0; i < n; i++) o[i] = __builtin_complex(abs[i] * cos(angle[i]), abs[i] * sin(angle[i]));
}

/* f32 by the kernels of cos and sin, rounded twice. */
typedef struct polar_kernels {
    amp_unary_function *cos, *sin;
} polar_kernels;

static void polar_f32_loop(void *context, void *out, const void *const *in, int64_t n) {
    const polar_kernels *k = context;
    const float *abs = in[0];
    float cosine[AMP_BLOCK_BYTES / sizeof(float)], sine[AMP_BLOCK_BYTES / sizeof(float)], *o = out;
    k->cos(cosine, in[1], n);
    k->sin(sine, in[1], n);
    for (int64_t i = 0; i < n; i++) {
        o[2 * i] = abs[i] * cosine[i];
        o[2 * i + 1] = abs[i] * sine[i];
    }
}

static amp_status polar_f32(const amp_operand *v, amp_tensor *out) {
    const amp_kernel *cosine = amp_kernel_select(AMP_KERNEL_COS, AMP_F32, AMP_F32);
    const amp_kernel *sine = amp_kernel_select(AMP_KERNEL_SIN, AMP_F32, AMP_F32);
    if (!cosine || !sine) return amp_pending_error();
    polar_kernels k = {(amp_unary_function *)cosine->function, (amp_unary_function *)sine->function};
    amp_operands_run(v, 2, AMP_F32, AMP_C64, polar_f32_loop, &k, 16, out);
    return AMP_OK;
}

amp_status amp_cpu_polar(const amp_call *call, const amp_polar_args *a, amp_tensor *out) {
    const amp_operand v[2] = {amp_tensor_operand("abs", a->abs), amp_tensor_operand("angle", a->angle)};
    (void)call;
    if (out->dtype == AMP_C64) return polar_f32(v, out);
    amp_operands_run(v, 2, AMP_F64, AMP_C128, polar_loop, NULL, 64, out);
    return AMP_OK;
}
