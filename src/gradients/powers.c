/* Gradients of powers, logarithms of sums, and what else is made of both. Of complex functions f' is taken at the
 * conjugates. */
#include <math.h>

#include "gradients/pieces.h"

static amp_tensor *prepared(amp_tensor *t) {
    return amp_conjugate(amp_wide(t));
}

static amp_tensor *zero_where(amp_tensor *mask, amp_tensor *t) {
    return amp_masked_fill(t, mask, amp_float(0));
}

/* ---- Powers ------------------------------------------------------------------------------------------------------ */

static amp_scalar number_less_1(amp_scalar n) {
    if (n.kind == AMP_SCALAR_INT)
        n.i--;
    else
        n.re -= 1.0;
    return n;
}

static bool is_zero(amp_scalar n) {
    return n.kind == AMP_SCALAR_INT || n.kind == AMP_SCALAR_BOOL ? n.i == 0 : n.re == 0 && n.im == 0;
}

/* Power 0 is constant, at 0 too. */
void amp_gradient_pow_scalar(amp_gradient *g) {
    const amp_pow_scalar_args *a = g->args;
    const amp_scalar exponent = amp_scalar_conjugate(a->exponent);
    if (is_zero(exponent)) {
        amp_gradient_give(g, &a->input, amp_zero_gradient(g));
        return;
    }
    amp_tensor *power = amp_pow_scalar(prepared(a->input), number_less_1(exponent));
    amp_gradient_give(g, &a->input, amp_mul(g->of[0], amp_mul_scalar(power, exponent)));
}

/* Where a power of 0 is 0 or 1, whose logarithm is infinite. */
static amp_tensor *not_negative(amp_tensor *exponent) {
    amp_tensor *real = amp_dtype_is_complex(exponent->dtype) ? amp_real(exponent) : exponent;
    return amp_ge_scalar(real, amp_float(0));
}

void amp_gradient_pow(amp_gradient *g) {
    const amp_pow_args *a = g->args;
    amp_tensor *d = g->of[0], *x = prepared(a->input), *e = prepared(a->exponent);
    if (amp_gradient_wants(g, &a->input)) {
        amp_tensor *slope = amp_mul(e, amp_pow(x, amp_sub_scalar(e, amp_int(1))));
        amp_gradient_give(g, &a->input, zero_where(amp_eq_scalar(a->exponent, amp_float(0)), amp_mul(d, slope)));
    }
    if (amp_gradient_wants(g, &a->exponent)) {
        amp_tensor *at_zero = amp_logical_and(amp_eq_scalar(a->input, amp_float(0)), not_negative(a->exponent));
        amp_tensor *slope = amp_mul(prepared(g->results[0]), amp_log(x));
        amp_gradient_give(g, &a->exponent, zero_where(at_zero, amp_mul(d, slope)));
    }
}

void amp_gradient_pow_base(amp_gradient *g) {
    const amp_pow_scalar_base_args *a = g->args;
    amp_tensor *result = prepared(g->results[0]);
    amp_tensor *base = amp_full(AMP_DIMS(1), amp_scalar_conjugate(a->input), .dtype = result ? result->dtype : AMP_F32,
                                .device = (int)g->device);
    amp_tensor *gradient = amp_mul(g->of[0], amp_mul(result, amp_log(amp_reshape(base, (amp_dims)AMP_NO_DIMS))));
    if (is_zero(a->input)) gradient = zero_where(not_negative(a->exponent), gradient);
    amp_gradient_give(g, &a->exponent, gradient);
}

/* ---- Angles and lengths of sides --------------------------------------------------------------------------------- */

void amp_gradient_atan2(amp_gradient *g) {
    const amp_atan2_args *a = g->args;
    amp_tensor *y = amp_wide(a->input), *x = amp_wide(a->other);
    amp_tensor *square = amp_add(amp_square(y), amp_square(x));
    amp_tensor *d = zero_where(amp_eq_scalar(square, amp_float(0)), amp_div(g->of[0], square));
    if (amp_gradient_wants(g, &a->input)) amp_gradient_give(g, &a->input, amp_mul(d, x));
    if (amp_gradient_wants(g, &a->other)) amp_gradient_give(g, &a->other, amp_neg(amp_mul(d, y)));
}

void amp_gradient_hypot(amp_gradient *g) {
    const amp_hypot_args *a = g->args;
    amp_tensor *const d = g->of[0], *length = amp_wide(g->results[0]);
    if (amp_gradient_wants(g, &a->input)) amp_gradient_give(g, &a->input, amp_mul(d, amp_div(a->input, length)));
    if (amp_gradient_wants(g, &a->other)) amp_gradient_give(g, &a->other, amp_mul(d, amp_div(a->other, length)));
}

/* ---- Logarithms -------------------------------------------------------------------------------------------------- */

/* Each has its share of the sum: 1/(1 + base^(other - one)). */
static amp_tensor *share(amp_tensor *one, amp_tensor *other, double scale) {
    amp_tensor *power = amp_exp(amp_mul_scalar(amp_sub(other, one), amp_float(scale)));
    return amp_reciprocal(amp_add_scalar(power, amp_int(1)));
}

static void shares(amp_gradient *g, amp_tensor *const *input, amp_tensor *const *other, double scale) {
    amp_tensor *const x = prepared(*input), *y = prepared(*other), *d = g->of[0];
    if (amp_gradient_wants(g, input)) amp_gradient_give(g, input, amp_mul(d, share(x, y, scale)));
    if (amp_gradient_wants(g, other)) amp_gradient_give(g, other, amp_mul(d, share(y, x, scale)));
}

void amp_gradient_logaddexp(amp_gradient *g) {
    const amp_logaddexp_args *a = g->args;
    shares(g, &a->input, &a->other, 1.0);
}

void amp_gradient_logaddexp2(amp_gradient *g) {
    const amp_logaddexp2_args *a = g->args;
    shares(g, &a->input, &a->other, M_LN2);
}

void amp_gradient_xlogy(amp_gradient *g) {
    const amp_xlogy_args *a = g->args;
    amp_tensor *x = prepared(a->input), *y = prepared(a->other), *d = g->of[0];
    if (amp_gradient_wants(g, &a->input)) {
        amp_tensor *nothing = amp_eq_scalar(a->input, amp_float(0));
        if (!amp_dtype_is_complex(a->other->dtype)) nothing = amp_logical_and(nothing, amp_le_scalar(y, amp_float(0)));
        amp_gradient_give(g, &a->input, zero_where(nothing, amp_xlogy(d, y)));
    }
    if (amp_gradient_wants(g, &a->other)) amp_gradient_give(g, &a->other, amp_mul(d, amp_div(x, y)));
}

void amp_gradient_xlogy_other(amp_gradient *g) {
    const amp_xlogy_scalar_other_args *a = g->args;
    const bool is_positive =
        a->other.kind == AMP_SCALAR_INT || a->other.kind == AMP_SCALAR_BOOL ? a->other.i > 0 : a->other.re > 0;
    amp_tensor *gradient = amp_xlogy_scalar_other(g->of[0], amp_scalar_conjugate(a->other));
    if (!is_positive) gradient = zero_where(amp_eq_scalar(a->input, amp_float(0)), gradient);
    amp_gradient_give(g, &a->input, gradient);
}

void amp_gradient_xlogy_self(amp_gradient *g) {
    const amp_xlogy_scalar_self_args *a = g->args;
    amp_tensor *d = amp_mul_scalar(amp_wide(g->of[0]), amp_scalar_conjugate(a->input));
    amp_gradient_give(g, &a->other, amp_div(d, prepared(a->other)));
}
