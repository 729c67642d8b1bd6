/* Gradients of pointwise functions. */
#include "gradients/pieces.h"

void amp_gradient_sin(amp_gradient *g) {
    const amp_sin_args *a = g->args;
    amp_gradient_give(g, &a->input, amp_mul(g->of[0], amp_conjugate(amp_cos(a->input))));
}

void amp_gradient_exp(amp_gradient *g) {
    const amp_exp_args *a = g->args;
    amp_gradient_give(g, &a->input, amp_mul(g->of[0], amp_conjugate(g->results[0])));
}

/* 0 where the result is; NaN leads on. */
void amp_gradient_relu(amp_gradient *g) {
    const amp_relu_args *a = g->args;
    amp_gradient_give(g, &a->input,
                      amp_masked_fill(g->of[0], amp_le_scalar(g->results[0], amp_float(0)), amp_float(0)));
}
