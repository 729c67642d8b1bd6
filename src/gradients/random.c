/* Gradients of dropout and its kin: the same random numbers once more, from where the call took them. */
#include <math.h>

#include "gradients/pieces.h"

/* (input, p, training) of all three. */
static bool drops(const amp_gradient *g, double p, bool training) {
    return training && p != 0.0 && amp_tensor_elements(g->of[0]) > 0;
}

static amp_tensor *masked(const amp_gradient *g, amp_tensor *t, double p) {
    return amp_dropout_backward(t, p, (int64_t)g->random.seed, (int64_t)g->random.offset);
}

void amp_gradient_dropout(amp_gradient *g) {
    const amp_dropout_args *a = g->args;
    const double p = a->p.value;
    amp_gradient_give(g, &a->input, drops(g, p, a->training.value) ? masked(g, g->of[0], p) : g->of[0]);
}

void amp_gradient_dropout_backward(amp_gradient *g) {
    const amp_dropout_backward_args *a = g->args;
    amp_gradient_give(g, &a->grad_output, amp_dropout_backward(g->of[0], a->p, a->seed, a->offset));
}

/* A number for each channel (N, C, 1, …). */
void amp_gradient_feature_dropout(amp_gradient *g) {
    const amp_feature_dropout_args *a = g->args;
    amp_tensor *t = g->of[0];
    if (drops(g, a->p.value, a->training.value)) {
        amp_dims shape = amp_shape_of(a->input);
        for (int d = 2; d < shape.count; d++) shape.values[d] = 1;
        t = amp_mul(t, masked(g, amp_ones(shape, .dtype = a->input->dtype, .device = (int)g->device), a->p.value));
    }
    amp_gradient_give(g, &a->input, t);
}

/* What is kept was scaled by a; the mask of dropout scales by 1/(1 - p). */
void amp_gradient_alpha_dropout(amp_gradient *g) {
    const amp_alpha_dropout_args *a = g->args;
    const double alpha = 1.7580993408473766, p = a->p.value;
    amp_tensor *t = g->of[0];
    if (drops(g, p, a->training.value)) {
        const double scale = p < 1.0 ? sqrt((1.0 - p) / (alpha * alpha * p + 1.0)) : 0.0;
        t = amp_mul_scalar(masked(g, t, p), amp_float(scale));
    }
    amp_gradient_give(g, &a->input, t);
}
