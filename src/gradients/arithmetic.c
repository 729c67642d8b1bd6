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
