/* Gradients of arithmetic. */
#include "gradients/pieces.h"

static bool is_one(amp_scalar s) {
    return s.kind == AMP_SCALAR_INT ? s.i == 1 : s.kind != AMP_SCALAR_COMPLEX && s.re == 1;
}

static amp_tensor *times(amp_tensor *t, amp_scalar factor) {
    return is_one(factor) ? t : amp_mul_scalar(t, amp_scalar_conjugate(factor));
}

void amp_gradient_add(amp_gradient *g) {
    const amp_add_args *a = g->args;
    amp_gradient_give(g, &a->input, g->of[0]);
    if (amp_gradient_wants(g, &a->other)) amp_gradient_give(g, &a->other, times(g->of[0], a->alpha));
}

void amp_gradient_add_scalar(amp_gradient *g) {
    const amp_add_scalar_args *a = g->args;
    amp_gradient_give(g, &a->input, g->of[0]);
}

void amp_gradient_sub(amp_gradient *g) {
    const amp_sub_args *a = g->args;
    amp_gradient_give(g, &a->input, g->of[0]);
    if (amp_gradient_wants(g, &a->other)) amp_gradient_give(g, &a->other, amp_neg(times(g->of[0], a->alpha)));
}

void amp_gradient_mul(amp_gradient *g) {
    const amp_mul_args *a = g->args;
    if (amp_gradient_wants(g, &a->input)) amp_gradient_give(g, &a->input, amp_mul(g->of[0], amp_conjugate(a->other)));
    if (amp_gradient_wants(g, &a->other)) amp_gradient_give(g, &a->other, amp_mul(g->of[0], amp_conjugate(a->input)));
}

void amp_gradient_mul_scalar(amp_gradient *g) {
    const amp_mul_scalar_args *a = g->args;
    amp_gradient_give(g, &a->input, times(g->of[0], a->other));
}

/* ---- Quotients and remainders ------------------------------------------------------------------------------------ */

/* A quotient that is rounded jumps, and is constant between. */
void amp_gradient_div(amp_gradient *g) {
    const amp_div_args *a = g->args;
    amp_tensor *const zero = a->rounding_mode ? amp_zero_gradient(g) : NULL, *y = amp_conjugate(a->other);
    if (amp_gradient_wants(g, &a->input)) amp_gradient_give(g, &a->input, zero ? zero : amp_div(g->of[0], y));
    if (!amp_gradient_wants(g, &a->other)) return;
    if (!zero) y = amp_wide(y);
    /* g/y first: of x/x both gradients are the same number then, and cancel. */
    amp_gradient_give(g, &a->other,
                      zero ? zero : amp_neg(amp_mul(amp_div(g->of[0], y), amp_div(amp_conjugate(a->input), y))));
}

void amp_gradient_div_scalar(amp_gradient *g) {
    const amp_div_scalar_args *a = g->args;
    amp_tensor *gradient =
        a->rounding_mode ? amp_zero_gradient(g) : amp_div_scalar(g->of[0], amp_scalar_conjugate(a->other));
    amp_gradient_give(g, &a->input, gradient);
}

/* x - q·y, where q, a quotient that is rounded, is constant. */
static void remainder_gradient(amp_gradient *g, amp_tensor *const *input, amp_tensor *const *other,
                               const char *rounding) {
    amp_gradient_give(g, input, g->of[0]);
    if (!amp_gradient_wants(g, other)) return;
    amp_tensor *quotient = amp_div(amp_wide(*input), *other, .rounding_mode = rounding);
    amp_gradient_give(g, other, amp_neg(amp_mul(g->of[0], quotient)));
}

void amp_gradient_remainder(amp_gradient *g) {
    const amp_remainder_args *a = g->args;
    remainder_gradient(g, &a->input, &a->other, "floor");
}

void amp_gradient_fmod(amp_gradient *g) {
    const amp_fmod_args *a = g->args;
    remainder_gradient(g, &a->input, &a->other, "trunc");
}

/* ---- Three operands ---------------------------------------------------------------------------------------------- */

void amp_gradient_lerp(amp_gradient *g) {
    const amp_lerp_args *a = g->args;
    amp_tensor *d = g->of[0], *weight = amp_conjugate(amp_wide(a->weight));
    if (amp_gradient_wants(g, &a->input))
        amp_gradient_give(g, &a->input, amp_mul(d, amp_add_scalar(amp_neg(weight), amp_float(1))));
    if (amp_gradient_wants(g, &a->end)) amp_gradient_give(g, &a->end, amp_mul(d, weight));
    if (amp_gradient_wants(g, &a->weight))
        amp_gradient_give(g, &a->weight, amp_mul(d, amp_conjugate(amp_sub(amp_wide(a->end), amp_wide(a->input)))));
}

static amp_scalar one_less(amp_scalar number) {
    return amp_complex(1.0 - number.re, -number.im);
}

void amp_gradient_lerp_scalar(amp_gradient *g) {
    const amp_lerp_scalar_args *a = g->args;
    const amp_scalar weight = a->weight.kind == AMP_SCALAR_INT ? amp_float((double)a->weight.i) : a->weight;
    const bool is_complex = weight.kind == AMP_SCALAR_COMPLEX;
    const amp_scalar rest = is_complex ? one_less(weight) : amp_float(1.0 - weight.re);
    amp_tensor *d = g->of[0];
    if (amp_gradient_wants(g, &a->input)) amp_gradient_give(g, &a->input, times(d, rest));
    if (amp_gradient_wants(g, &a->end)) amp_gradient_give(g, &a->end, times(d, weight));
}

void amp_gradient_addcmul(amp_gradient *g) {
    const amp_addcmul_args *a = g->args;
    amp_tensor *d = times(amp_wide(g->of[0]), a->value);
    amp_gradient_give(g, &a->input, g->of[0]);
    if (amp_gradient_wants(g, &a->tensor1)) amp_gradient_give(g, &a->tensor1, amp_mul(d, amp_conjugate(a->tensor2)));
    if (amp_gradient_wants(g, &a->tensor2)) amp_gradient_give(g, &a->tensor2, amp_mul(d, amp_conjugate(a->tensor1)));
}

void amp_gradient_addcdiv(amp_gradient *g) {
    const amp_addcdiv_args *a = g->args;
    amp_tensor *d = times(amp_wide(g->of[0]), a->value), *below = amp_conjugate(amp_wide(a->tensor2));
    amp_gradient_give(g, &a->input, g->of[0]);
    if (amp_gradient_wants(g, &a->tensor1)) amp_gradient_give(g, &a->tensor1, amp_div(d, below));
    if (!amp_gradient_wants(g, &a->tensor2)) return;
    amp_tensor *slope = amp_div(amp_conjugate(amp_wide(a->tensor1)), amp_square(below));
    amp_gradient_give(g, &a->tensor2, amp_neg(amp_mul(d, slope)));
}
