/* Gradients of activations: those that take time are ops of their own. */
#include <math.h>

#include "gradients/pieces.h"

/* d is the gradient of the result, x the input, y the result. */
#define FROM_INPUT(name, gradient)                                                                                     \
    void amp_gradient_##name(amp_gradient *g) {                                                                        \
        const amp_##name##_args *a = g->args;                                                                          \
        amp_tensor *d = amp_laid_out_as(g->of[0], a->input), *x = a->input;                                            \
        amp_gradient_give(g, &a->input, gradient);                                                                     \
    }
#define FROM_RESULT(name, gradient)                                                                                    \
    void amp_gradient_##name(amp_gradient *g) {                                                                        \
        amp_tensor *d = amp_laid_out_as(g->of[0], g->results[0]), *y = amp_conjugate(g->results[0]);                   \
        amp_gradient_give(g, amp_first_argument(g), gradient);                                                         \
    }

static amp_tensor *zero_where(amp_tensor *mask, amp_tensor *t) {
    return amp_masked_fill(t, mask, amp_float(0));
}

static const double selu_alpha = 1.6732632423543772848, selu_scale = 1.0507009873554804934;

FROM_RESULT(relu, amp_threshold_backward(d, y, amp_int(0)))
FROM_RESULT(sigmoid, amp_sigmoid_backward(d, y))
FROM_RESULT(tanh, amp_tanh_backward(d, y))
FROM_INPUT(relu6, amp_hardtanh_backward(d, x, amp_int(0), amp_int(6)))
FROM_INPUT(hardtanh, amp_hardtanh_backward(d, x, a->min_val, a->max_val))
FROM_INPUT(leaky_relu, amp_leaky_relu_backward(d, x, a->negative_slope.value))
FROM_INPUT(elu, amp_elu_backward(d, x, a->alpha.value, 1.0, 1.0))
FROM_INPUT(celu, amp_elu_backward(d, x, a->alpha.value, 1.0, 1.0 / a->alpha.value))
FROM_INPUT(selu, amp_elu_backward(d, x, selu_alpha, selu_scale, 1.0))
FROM_INPUT(gelu, amp_gelu_backward(d, x, .approximate = a->approximate))
FROM_INPUT(silu, amp_silu_backward(d, amp_conjugate(x)))
FROM_INPUT(mish, amp_mish_backward(d, x))
FROM_INPUT(softplus, amp_softplus_backward(d, x, a->beta, a->threshold))
FROM_INPUT(logsigmoid, amp_log_sigmoid_backward(d, x))
FROM_INPUT(hardsigmoid, amp_hardsigmoid_backward(d, x))
FROM_INPUT(hardswish, amp_hardswish_backward(d, x))
FROM_INPUT(threshold, amp_threshold_backward(d, x, a->threshold))
FROM_INPUT(tanhshrink, amp_mul(d, amp_square(amp_tanh(amp_conjugate(amp_wide(x))))))

/* Of what is straight between its kinks the slope is constant: zeros for the input, as PyTorch has it. */
#define OF_STRAIGHT(name, again)                                                                                       \
    void amp_gradient_##name##_backward(amp_gradient *g) {                                                             \
        const amp_##name##_backward_args *a = g->args;                                                                 \
        amp_tensor *d = g->of[0], *x = a->input;                                                                       \
        if (amp_gradient_wants(g, &a->grad_output)) amp_gradient_give(g, &a->grad_output, again);                      \
        if (amp_gradient_wants(g, &a->input)) amp_gradient_give(g, &a->input, amp_zero_gradient(g));                   \
    }
OF_STRAIGHT(threshold, amp_threshold_backward(d, x, a->threshold))
OF_STRAIGHT(hardtanh, amp_hardtanh_backward(d, x, a->min_val, a->max_val))
OF_STRAIGHT(leaky_relu, amp_leaky_relu_backward(d, x, a->negative_slope))
OF_STRAIGHT(hardsigmoid, amp_hardsigmoid_backward(d, x))

/* What is kept within lambda of 0 has none. */
static amp_tensor *shrunk(amp_tensor *d, amp_tensor *x, amp_scalar lambda) {
    amp_tensor *size = amp_abs(x);
    return zero_where(amp_le_scalar(size, lambda), d);
}
FROM_INPUT(hardshrink, shrunk(d, x, a->lambd))
FROM_INPUT(softshrink, shrunk(d, x, a->lambd))

/* 1/(1 + |x|)², at infinity NaN as PyTorch's quotient; of a complex x both what the quotient and what the modulus
 * give. */
static amp_tensor *softsign_gradient(amp_tensor *d, amp_tensor *x) {
    amp_tensor *modulus = amp_abs(x), *below = amp_add_scalar(modulus, amp_int(1)), *square = amp_square(below);
    if (!x || !amp_dtype_is_complex(x->dtype))
        return amp_masked_fill(amp_div(d, square), amp_isinf(x), amp_float((double)NAN));
    amp_tensor *along = amp_real(amp_mul(amp_conjugate(d), x));
    amp_tensor *safe = amp_masked_fill(modulus, amp_eq_scalar(modulus, amp_int(0)), amp_int(1));
    return amp_sub(amp_div(d, below), amp_mul(amp_div(x, safe), amp_div(along, square)));
}
FROM_INPUT(softsign, softsign_gradient(d, amp_wide(x)))

/* ---- prelu ------------------------------------------------------------------------------------------------------- */

/* The slopes along dimension 1 of the input, or one for all. */
static amp_dims slopes_shape(const amp_prelu_args *a) {
    const bool is_one = amp_tensor_elements(a->weight) == 1;
    amp_dims shape = {.set = AMP_PRESENT, .count = is_one || a->input->rank < 2 ? 0 : a->input->rank - 1};
    for (int i = 0; i < shape.count; i++) shape.values[i] = i ? 1 : amp_tensor_elements(a->weight);
    return shape;
}

/* Summed over all but the dimension of the slopes. */
static amp_tensor *slopes_gradient(const amp_prelu_args *a, amp_tensor *d, amp_tensor *is_above) {
    amp_tensor *each = zero_where(is_above, amp_mul(amp_wide(d), a->input));
    amp_dims dims = {.set = AMP_PRESENT};
    for (int i = 0; i < a->input->rank; i++) {
        if (i != 1 || amp_tensor_elements(a->weight) == 1) dims.values[dims.count++] = i;
    }
    return amp_reshape(dims.count ? amp_sum(each, .dim = dims) : each, amp_shape_of(a->weight));
}

void amp_gradient_prelu(amp_gradient *g) {
    const amp_prelu_args *a = g->args;
    amp_tensor *const d = g->of[0], *is_above = amp_gt_scalar(a->input, amp_int(0));
    if (amp_gradient_wants(g, &a->input)) {
        amp_tensor *below = amp_mul(d, amp_reshape(a->weight, slopes_shape(a)));
        amp_gradient_give(g, &a->input, amp_where(is_above, d, below));
    }
    if (amp_gradient_wants(g, &a->weight)) amp_gradient_give(g, &a->weight, slopes_gradient(a, d, is_above));
}

/* ---- glu --------------------------------------------------------------------------------------------------------- */

void amp_gradient_glu(amp_gradient *g) {
    const amp_glu_args *a = g->args;
    const int64_t dim = amp_dim_from_front(a->dim.value, a->input->rank), half = a->input->shape[dim] / 2;
    amp_tensor *first = amp_narrow(a->input, dim, 0, half), *second = amp_wide(amp_narrow(a->input, dim, half, half));
    amp_tensor *s = amp_sigmoid(second), *passed = amp_mul(g->of[0], s);
    amp_tensor *gated = amp_mul(amp_mul(passed, first), amp_add_scalar(amp_neg(s), amp_int(1)));
    amp_tensor *halves[2] = {passed, gated};
    amp_gradient_give(g, &a->input, amp_cat((amp_tensor_list){halves, 2, NULL}, dim));
}

/* ---- softmax ----------------------------------------------------------------------------------------------------- */

/* A number's softmax is 1, whatever it is. */
static amp_tensor *softmax_gradient(const amp_gradient *g, int64_t dim) {
    amp_tensor *y = amp_conjugate(g->results[0]);
    return g->results[0]->rank == 0 ? amp_zero_gradient(g) : amp_softmax_backward(g->of[0], y, dim);
}

void amp_gradient_softmax(amp_gradient *g) {
    const amp_softmax_args *a = g->args;
    amp_gradient_give(g, &a->input, softmax_gradient(g, a->dim));
}

void amp_gradient_softmin(amp_gradient *g) {
    const amp_softmin_args *a = g->args;
    amp_gradient_give(g, &a->input, amp_neg(softmax_gradient(g, a->dim)));
}

void amp_gradient_log_softmax(amp_gradient *g) {
    const amp_log_softmax_args *a = g->args;
    amp_tensor *y = amp_conjugate(g->results[0]);
    amp_tensor *gradient =
        g->results[0]->rank == 0 ? amp_zero_gradient(g) : amp_log_softmax_backward(g->of[0], y, a->dim);
    amp_gradient_give(g, &a->input, gradient);
}
