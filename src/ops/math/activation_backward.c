/* The gradients of activations as ops: made of others, for devices that have no kernel, and for gradients of gradients.
 * In all, d is the gradient of the result, x the input and y the result; 16-bit numbers are computed with in f32 and
 * rounded once. */
#include <math.h>

#include "ops/math/compose.h"
#include "policy/promotion.h"
#include "steps/argument_rules.h"
#include "steps/constants.h"
#include "steps/shape_rules.h"
#include "steps/steps.h"

static amp_tensor *plus(amp_tensor *t, double number) {
    return amp_add_scalar(t, amp_float(number));
}
static amp_tensor *times(amp_tensor *t, double number) {
    return amp_mul_scalar(t, amp_float(number));
}
static amp_tensor *less(double number, amp_tensor *t) {
    return plus(amp_neg(t), number);
}
static amp_tensor *zero_where(amp_tensor *mask, amp_tensor *t) {
    return amp_masked_fill(t, mask, amp_float(0));
}

/* One pass, unless the parts are recorded for their gradients. */
static bool has_step(const amp_call *call, const amp_slope *s) {
    const bool are_real = amp_dtype_is_floating(s->d->dtype) && amp_dtype_is_floating(s->x->dtype);
    return are_real && call->inner_layers == 0 && amp_steps_of(call)->slope;
}

static amp_status give(amp_call *call, amp_tensor *d, amp_tensor *x, amp_tensor *gradient) {
    const amp_dtype dtype = amp_floating_result(amp_result_type((amp_tensor *[]){d, x}, 2, NULL, 0));
    return amp_return(call, gradient && gradient->dtype != dtype ? amp_to(gradient, dtype) : gradient);
}

/* `...`: numbers of the step. */
#define BACKWARD(NAME, name, second, gradient, ...)                                                                    \
    amp_status amp_op_##name##_backward(amp_call *call) {                                                              \
        const amp_##name##_backward_args *a = call->args;                                                              \
        const amp_slope step = {AMP_SLOPE_##NAME, a->grad_output, a->second, {__VA_ARGS__}};                           \
        if (has_step(call, &step)) return amp_steps_of(call)->slope(call, &step);                                      \
        amp_tensor *d = a->grad_output, *x = amp_wide(a->second);                                                      \
        return give(call, d, a->second, gradient);                                                                     \
    }

BACKWARD(SIGMOID, sigmoid, output, amp_mul(d, amp_mul(x, less(1.0, x))), 0)
BACKWARD(TANH, tanh, output, amp_mul(d, less(1.0, amp_square(x))), 0)
BACKWARD(THRESHOLD, threshold, input, zero_where(amp_le_scalar(x, a->threshold), d), amp_real_part(&a->threshold))
BACKWARD(HARDTANH, hardtanh, input,
         zero_where(amp_logical_or(amp_le_scalar(x, a->min_val), amp_ge_scalar(x, a->max_val)), d),
         amp_real_part(&a->min_val), amp_real_part(&a->max_val))
BACKWARD(LEAKY_RELU, leaky_relu, input,
         amp_where(amp_gt_scalar(x, amp_float(0)), amp_wide(d), times(amp_wide(d), a->negative_slope)),
         a->negative_slope)

/* Above zero the exponential, which may be infinite there, is not used. */
static amp_tensor *elu_slope(const amp_elu_backward_args *a, amp_tensor *x, amp_tensor *is_below) {
    amp_tensor *power = amp_exp(times(amp_masked_fill(x, amp_logical_not(is_below), amp_float(0)), a->input_scale));
    amp_tensor *below = times(power, a->alpha * a->scale * a->input_scale);
    return amp_masked_fill(below, amp_logical_not(is_below), amp_float(a->scale));
}
BACKWARD(ELU, elu, input, amp_mul(d, elu_slope(a, x, amp_le_scalar(x, amp_float(0)))),
         a->alpha * a->scale * a->input_scale, a->input_scale, a->scale)

/* φ(x) = e^(-x²/2)/√2π. */
static amp_tensor *gelu_slope(amp_tensor *x) {
    amp_tensor *density = times(amp_exp(times(amp_square(x), -0.5)), 0.5 * M_SQRT1_2 * M_2_SQRTPI);
    amp_tensor *below = times(plus(amp_erf(times(x, M_SQRT1_2)), 1.0), 0.5);
    return amp_add(below, amp_mul(x, density));
}

/* Of x·σ(u): σ + x·σ·(1 - σ)·u'. */
static amp_tensor *gelu_tanh_slope(amp_tensor *x) {
    const double scale = 2.0 * M_2_SQRTPI * M_SQRT1_2, cube = 0.044715;
    amp_tensor *square = amp_square(x), *u = amp_mul(x, times(plus(times(square, cube), 1.0), scale));
    amp_tensor *rise = times(plus(times(square, 3.0 * cube), 1.0), scale), *s = amp_sigmoid(u);
    return amp_mul(s, plus(amp_mul(amp_mul(x, less(1.0, s)), rise), 1.0));
}
amp_status amp_op_gelu_backward(amp_call *call) {
    const amp_gelu_backward_args *a = call->args;
    bool by_tanh;
    AMP_TRY(amp_read_gelu_form(call, a->approximate, &by_tanh));
    const amp_slope step = {by_tanh ? AMP_SLOPE_GELU_TANH : AMP_SLOPE_GELU, a->grad_output, a->input, {0}};
    if (has_step(call, &step)) return amp_steps_of(call)->slope(call, &step);
    amp_tensor *x = amp_wide(a->input), *slope = by_tanh ? gelu_tanh_slope(x) : gelu_slope(x);
    return give(call, a->grad_output, a->input, amp_mul(a->grad_output, slope));
}

static amp_tensor *silu_slope(amp_tensor *x, amp_tensor *s) {
    return amp_mul(s, plus(amp_mul(x, less(1.0, s)), 1.0));
}
BACKWARD(SILU, silu, input, amp_mul(d, silu_slope(x, amp_sigmoid(x))), 0)

/* t = tanh(softplus x): t + x·σ·(1 - t²). */
static amp_tensor *mish_slope(amp_tensor *x) {
    amp_tensor *t = amp_tanh(amp_softplus(x));
    return amp_add(t, amp_mul(amp_mul(x, amp_sigmoid(x)), less(1.0, amp_square(t))));
}

/* Slopes of it cancel: those are taken in f64. */
static amp_tensor *mish_gradient(const amp_call *call, amp_tensor *d, amp_tensor *x) {
    return amp_mul(d, mish_slope(call->inner_layers && x && !amp_dtype_is_complex(x->dtype) ? amp_to(x, AMP_F64) : x));
}
BACKWARD(MISH, mish, input, mish_gradient(call, d, x), 0)

static amp_tensor *softplus_gradient(amp_tensor *d, amp_tensor *x, amp_scalar beta, amp_scalar threshold) {
    amp_tensor *scaled = amp_mul_scalar(x, beta);
    return amp_where(amp_gt_scalar(scaled, threshold), amp_wide(d), amp_mul(amp_wide(d), amp_sigmoid(scaled)));
}
BACKWARD(SOFTPLUS, softplus, input, softplus_gradient(d, x, a->beta, a->threshold), amp_real_part(&a->beta),
         amp_real_part(&a->threshold))

/* From the side whose sigmoid is small, so that slopes of it keep their digits. */
static amp_tensor *log_sigmoid_slope(amp_tensor *x) {
    return amp_where(amp_lt_scalar(x, amp_float(0)), less(1.0, amp_sigmoid(x)), amp_sigmoid(amp_neg(x)));
}
BACKWARD(LOG_SIGMOID, log_sigmoid, input, amp_mul(d, log_sigmoid_slope(x)), 0)

/* Not within (-3, 3). */
static amp_tensor *is_flat(amp_tensor *x) {
    return amp_logical_or(amp_le_scalar(x, amp_float(-3)), amp_ge_scalar(x, amp_float(3)));
}
/* The sixth is f32's in f64 too, as PyTorch has it. */
BACKWARD(HARDSIGMOID, hardsigmoid, input, zero_where(is_flat(x), times(amp_wide(d), (double)(1.0F / 6.0F))), 0)

static amp_tensor *hardswish_gradient(amp_tensor *d, amp_tensor *x) {
    amp_tensor *inner = amp_mul(d, plus(times(x, 1.0 / 3.0), 0.5));
    amp_tensor *upper = amp_where(amp_ge_scalar(x, amp_float(3)), d, inner);
    return zero_where(amp_le_scalar(x, amp_float(-3)), upper);
}
BACKWARD(HARDSWISH, hardswish, input, hardswish_gradient(amp_wide(d), x), 0)

/* ---- softmax ----------------------------------------------------------------------------------------------------- */

static amp_tensor *sum_along(amp_tensor *t, int64_t dim) {
    return amp_sum(t, .dim = AMP_DIMS(dim), .keepdim = true);
}

static amp_tensor *softmax_parts(amp_tensor *d, amp_tensor *y, int64_t dim, bool logarithm) {
    if (logarithm) return amp_sub(d, amp_mul(amp_exp(y), sum_along(d, dim)));
    return amp_mul(y, amp_sub(d, sum_along(amp_mul(y, d), dim)));
}

static amp_status softmax_backward(amp_call *call, amp_tensor *d, amp_tensor *y, int64_t dim, bool logarithm) {
    int wrapped;
    AMP_TRY(amp_wrap_dim(call, "dim", dim, y->rank, &wrapped));
    AMP_TRY(amp_call_check_shape(call, "grad_output", d, y->rank, y->shape));
    const bool is_plain = d->dtype == y->dtype && amp_dtype_is_floating(y->dtype) && wrapped == y->rank - 1;
    if (is_plain && call->inner_layers == 0 && amp_steps_of(call)->softmax_slope)
        return amp_steps_of(call)->softmax_slope(call, d, y, logarithm);
    return give(call, d, y, softmax_parts(amp_wide(d), amp_wide(y), dim, logarithm));
}

amp_status amp_op_softmax_backward(amp_call *call) {
    const amp_softmax_backward_args *a = call->args;
    return softmax_backward(call, a->grad_output, a->output, a->dim, false);
}
amp_status amp_op_log_softmax_backward(amp_call *call) {
    const amp_log_softmax_backward_args *a = call->args;
    return softmax_backward(call, a->grad_output, a->output, a->dim, true);
}
