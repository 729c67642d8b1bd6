/* Gradients of functions of one element, PyTorch's formulas. Of a complex function f' is taken at the conjugate, which
 * is the conjugate of f' where f is real on the real line; 16-bit numbers are computed with in f32 and rounded once. */
#include <math.h>

#include "gradients/pieces.h"

static amp_tensor *prepared(amp_tensor *t) {
    return amp_conjugate(amp_wide(t));
}

/* d is the gradient of the result, x the input, y the result. */
#define FROM_INPUT(name, gradient)                                                                                     \
    void amp_gradient_##name(amp_gradient *g) {                                                                        \
        amp_tensor *const *input = amp_first_argument(g);                                                              \
        amp_tensor *d = g->of[0], *x = prepared(*input);                                                               \
        amp_gradient_give(g, input, gradient);                                                                         \
    }
#define FROM_RESULT(name, gradient)                                                                                    \
    void amp_gradient_##name(amp_gradient *g) {                                                                        \
        amp_tensor *d = g->of[0], *y = prepared(g->results[0]);                                                        \
        amp_gradient_give(g, amp_first_argument(g), gradient);                                                         \
    }

static amp_tensor *plus(amp_tensor *t, double number) {
    return amp_add_scalar(t, amp_float(number));
}
static amp_tensor *times(amp_tensor *t, double number) {
    return amp_mul_scalar(t, amp_float(number));
}
/* number - t */
static amp_tensor *less(double number, amp_tensor *t) {
    return plus(amp_neg(t), number);
}

FROM_INPUT(square, amp_mul(d, times(x, 2.0)))
FROM_RESULT(sqrt, amp_div(d, times(y, 2.0)))
FROM_RESULT(rsqrt, amp_mul(d, times(amp_mul(amp_square(y), y), -0.5)))
FROM_RESULT(reciprocal, amp_neg(amp_mul(d, amp_square(y))))

FROM_RESULT(exp, amp_mul(d, y))
FROM_RESULT(exp2, amp_mul(d, times(y, M_LN2)))
FROM_RESULT(expm1, amp_mul(d, plus(y, 1.0)))
FROM_INPUT(log, amp_div(d, x))
FROM_INPUT(log2, amp_div(d, times(x, M_LN2)))
FROM_INPUT(log10, amp_div(d, times(x, M_LN10)))
FROM_INPUT(log1p, amp_div(d, plus(x, 1.0)))

FROM_INPUT(sin, amp_mul(d, amp_cos(x)))
FROM_INPUT(cos, amp_neg(amp_mul(d, amp_sin(x))))
FROM_RESULT(tan, amp_mul(d, plus(amp_square(y), 1.0)))
FROM_INPUT(asin, amp_mul(d, amp_rsqrt(less(1.0, amp_square(x)))))
FROM_INPUT(acos, amp_neg(amp_mul(d, amp_rsqrt(less(1.0, amp_square(x))))))
FROM_INPUT(atan, amp_div(d, plus(amp_square(x), 1.0)))
FROM_INPUT(sinh, amp_mul(d, amp_cosh(x)))
FROM_INPUT(cosh, amp_mul(d, amp_sinh(x)))
FROM_INPUT(asinh, amp_mul(d, amp_rsqrt(plus(amp_square(x), 1.0))))
FROM_INPUT(acosh, amp_mul(d, amp_mul(amp_rsqrt(plus(x, 1.0)), amp_rsqrt(plus(x, -1.0)))))
FROM_INPUT(atanh, amp_div(d, less(1.0, amp_square(x))))

FROM_INPUT(erf, amp_mul(d, times(amp_exp(amp_neg(amp_square(x))), M_2_SQRTPI)))
FROM_INPUT(erfc, amp_mul(d, times(amp_exp(amp_neg(amp_square(x))), -M_2_SQRTPI)))
FROM_RESULT(erfinv, amp_mul(d, times(amp_exp(amp_square(y)), 1.0 / M_2_SQRTPI)))
FROM_INPUT(lgamma, amp_mul(d, amp_digamma(x)))

FROM_INPUT(digamma, amp_mul(d, amp_polygamma(1, x)))

void amp_gradient_polygamma(amp_gradient *g) {
    const amp_polygamma_args *a = g->args;
    amp_gradient_give(g, &a->input, amp_mul(g->of[0], amp_polygamma(a->n + 1, amp_wide(a->input))));
}

/* What jumps or is constant everywhere. */
void amp_gradient_zero(amp_gradient *g) {
    amp_gradient_give(g, amp_first_argument(g), amp_zero_gradient(g));
}

void amp_gradient_neg(amp_gradient *g) {
    amp_gradient_give(g, amp_first_argument(g), amp_neg(g->of[0]));
}

/* The direction of a complex number, 0 at 0; the sign of a real one. */
static amp_tensor *direction(amp_tensor *t) {
    if (!t || !amp_dtype_is_complex(t->dtype)) return amp_sign(t);
    amp_tensor *modulus = amp_abs(t);
    return amp_div(t, amp_masked_fill(modulus, amp_eq_scalar(modulus, amp_float(0)), amp_float(1)));
}

void amp_gradient_abs(amp_gradient *g) {
    const amp_abs_args *a = g->args;
    amp_gradient_give(g, &a->input, amp_mul(g->of[0], direction(a->input)));
}

/* (cos πx - sinc x)/x, where both nearly cancel: in f64. */
void amp_gradient_sinc(amp_gradient *g) {
    const amp_sinc_args *a = g->args;
    const bool is_complex = amp_dtype_is_complex(a->input->dtype);
    amp_tensor *x = amp_conjugate(amp_to(a->input, is_complex ? AMP_C128 : AMP_F64));
    amp_tensor *angle = times(x, M_PI), *below = amp_mul(angle, x);
    amp_tensor *slope = amp_div(amp_sub(amp_mul(angle, amp_cos(angle)), amp_sin(angle)), below);
    slope = amp_masked_fill(slope, amp_eq_scalar(below, amp_float(0)), amp_float(0));
    amp_gradient_give(g, &a->input, amp_mul(g->of[0], slope));
}

/* 1/(x(1 - x)), and with eps nothing outside of [eps, 1 - eps]. */
void amp_gradient_logit(amp_gradient *g) {
    const amp_logit_args *a = g->args;
    amp_tensor *x = amp_wide(a->input), *gradient = amp_div(g->of[0], amp_mul(x, less(1.0, x)));
    if (a->eps.set) {
        const amp_scalar low = amp_float(a->eps.value), high = amp_float(1.0 - a->eps.value);
        gradient =
            amp_masked_fill(gradient, amp_logical_or(amp_lt_scalar(x, low), amp_gt_scalar(x, high)), amp_float(0));
    }
    amp_gradient_give(g, &a->input, gradient);
}

/* i·z/|z|²: across the direction. Real numbers have one of two angles. */
void amp_gradient_angle(amp_gradient *g) {
    const amp_angle_args *a = g->args;
    if (!amp_dtype_is_complex(a->input->dtype)) {
        amp_gradient_zero(g);
        return;
    }
    amp_tensor *square = amp_square(amp_abs(a->input));
    amp_tensor *across = amp_mul_scalar(a->input, amp_complex(0.0, 1.0));
    amp_tensor *safe = amp_masked_fill(square, amp_eq_scalar(square, amp_float(0)), amp_float(1));
    amp_gradient_give(g, &a->input, amp_mul(g->of[0], amp_div(across, safe)));
}

void amp_gradient_nan_to_num(amp_gradient *g) {
    const amp_nan_to_num_args *a = g->args;
    amp_gradient_give(g, &a->input, amp_masked_fill(g->of[0], amp_logical_not(amp_isfinite(a->input)), amp_float(0)));
}

/* abs·e^(i·angle): a real gradient is the part of d that points along it. */
void amp_gradient_polar(amp_gradient *g) {
    const amp_polar_args *a = g->args;
    amp_tensor *d = amp_conjugate(g->of[0]);
    if (amp_gradient_wants(g, &a->abs))
        amp_gradient_give(g, &a->abs, amp_real(amp_mul(d, amp_polar(amp_ones_like(a->abs), a->angle))));
    if (amp_gradient_wants(g, &a->angle)) {
        amp_tensor *along = amp_mul_scalar(g->results[0], amp_complex(0.0, 1.0));
        amp_gradient_give(g, &a->angle, amp_real(amp_mul(d, along)));
    }
}

/* Passes where rounding stays within the grid: PyTorch's straight-through estimate. */
static amp_tensor *within_grid(amp_tensor *d, amp_tensor *steps, int64_t low, int64_t high) {
    amp_tensor *outside = amp_logical_or(amp_lt_scalar(steps, amp_int(low)), amp_gt_scalar(steps, amp_int(high)));
    return amp_masked_fill(d, outside, amp_float(0));
}

void amp_gradient_fake_quantize(amp_gradient *g) {
    const amp_fake_quantize_per_tensor_affine_args *a = g->args;
    const float inverse = 1.0F / (float)a->scale;
    amp_tensor *steps = plus(amp_round(times(amp_wide(a->input), (double)inverse)), (double)a->zero_point);
    amp_gradient_give(g, &a->input, within_grid(g->of[0], steps, a->quant_min, a->quant_max));
}

void amp_gradient_fake_quantize_tensors(amp_gradient *g) {
    const amp_fake_quantize_per_tensor_affine_tensor_qparams_args *a = g->args;
    amp_tensor *x = amp_wide(a->input), *inverse = amp_reciprocal(amp_to(a->scale, AMP_F32));
    amp_tensor *grid =
        amp_round(amp_mul(x, amp_to(amp_reshape(inverse, (amp_dims)AMP_NO_DIMS), x ? x->dtype : AMP_F32)));
    amp_tensor *steps = amp_add(grid, amp_reshape(a->zero_point, (amp_dims)AMP_NO_DIMS));
    amp_gradient_give(g, &a->input, within_grid(g->of[0], steps, a->quant_min, a->quant_max));
}
