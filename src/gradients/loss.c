/* Gradients of losses of pairs of elements. */
#include "gradients/pieces.h"

/* The gradient of each element's loss, of which there are those of `like`. */
static amp_tensor *by_element(const amp_gradient *g, const char *reduction, const amp_tensor *like) {
    if (!like) return NULL;
    const bool is_mean = strcmp(reduction, "mean") == 0;
    return is_mean ? amp_div_scalar(g->of[0], amp_int(amp_tensor_elements(like))) : g->of[0];
}

/* Input and target of opposite signs: losses of their difference, whose slope is that. */
static void give_opposite(amp_gradient *g, amp_tensor *const *input, amp_tensor *const *target, const char *reduction,
                          amp_tensor *slope) {
    amp_tensor *t = amp_mul(by_element(g, reduction, slope), slope);
    amp_gradient_give(g, input, t);
    if (t && amp_gradient_wants(g, target)) amp_gradient_give(g, target, amp_neg(t));
}

void amp_gradient_mse_loss(amp_gradient *g) {
    const amp_mse_loss_args *a = g->args;
    amp_tensor *slope = amp_mul_scalar(amp_sub(a->input, a->target), amp_int(2));
    give_opposite(g, &a->input, &a->target, a->reduction, slope);
}

void amp_gradient_l1_loss(amp_gradient *g) {
    const amp_l1_loss_args *a = g->args;
    give_opposite(g, &a->input, &a->target, a->reduction, amp_sign(amp_sub(a->input, a->target)));
}

void amp_gradient_smooth_l1_loss(amp_gradient *g) {
    const amp_smooth_l1_loss_args *a = g->args;
    const double beta = a->beta.value;
    amp_tensor *d = amp_sub(a->input, a->target);
    amp_tensor *slope = beta == 0
                            ? amp_sign(d)
                            : amp_clamp(amp_div_scalar(d, amp_float(beta)), .min = amp_float(-1), .max = amp_float(1));
    give_opposite(g, &a->input, &a->target, a->reduction, slope);
}

void amp_gradient_huber_loss(amp_gradient *g) {
    const amp_huber_loss_args *a = g->args;
    const double delta = a->delta.value;
    amp_tensor *slope = amp_clamp(amp_sub(a->input, a->target), .min = amp_float(-delta), .max = amp_float(delta));
    give_opposite(g, &a->input, &a->target, a->reduction, slope);
}

static amp_tensor *weighted(amp_tensor *t, amp_tensor *weight) {
    return weight ? amp_mul(t, weight) : t;
}

/* (x − y) / (x (1 − x)), the product at least PyTorch's 1e-12f; and log(1 − x) − log(x). */
void amp_gradient_binary_cross_entropy(amp_gradient *g) {
    const amp_binary_cross_entropy_args *a = g->args;
    amp_tensor *back = weighted(by_element(g, a->reduction, a->input), a->weight);
    amp_tensor *rest = amp_add_scalar(amp_neg(a->input), amp_int(1));
    if (amp_gradient_wants(g, &a->input)) {
        amp_tensor *product = amp_clamp(amp_mul(a->input, rest), .min = amp_float(1e-12F));
        amp_gradient_give(g, &a->input, amp_div(amp_mul(back, amp_sub(a->input, a->target)), product));
    }
    if (!amp_gradient_wants(g, &a->target)) return;
    amp_gradient_give(g, &a->target, amp_mul(back, amp_sub(amp_log(rest), amp_log(a->input))));
}

void amp_gradient_binary_cross_entropy_with_logits(amp_gradient *g) {
    const amp_binary_cross_entropy_with_logits_args *a = g->args;
    amp_tensor *back = weighted(by_element(g, a->reduction, a->input), a->weight), *slope;
    amp_tensor *sigmoid = amp_sigmoid(a->input);
    if (a->pos_weight) { /* ((p − 1) y + 1) σ(x) − p y */
        amp_tensor *positive = amp_mul(a->pos_weight, a->target);
        slope = amp_sub(amp_mul(amp_add_scalar(amp_sub(positive, a->target), amp_int(1)), sigmoid), positive);
    } else {
        slope = amp_sub(sigmoid, a->target);
    }
    if (amp_gradient_wants(g, &a->input)) amp_gradient_give(g, &a->input, amp_mul(back, slope));
    if (!amp_gradient_wants(g, &a->target)) return;
    amp_tensor *other =
        a->pos_weight ? amp_sub(amp_logsigmoid(amp_neg(a->input)), amp_mul(a->pos_weight, amp_logsigmoid(a->input)))
                      : amp_neg(a->input);
    amp_gradient_give(g, &a->target, amp_mul(back, other));
}

void amp_gradient_soft_margin_loss(amp_gradient *g) {
    const amp_soft_margin_loss_args *a = g->args;
    amp_tensor *back = by_element(g, a->reduction, a->input);
    /* −1 / (1 + exp(y x)), by its logarithm, whose slope keeps its digits near 1 */
    amp_tensor *share = amp_neg(amp_exp(amp_logsigmoid(amp_neg(amp_mul(a->target, a->input)))));
    if (amp_gradient_wants(g, &a->input)) amp_gradient_give(g, &a->input, amp_mul(back, amp_mul(a->target, share)));
    if (amp_gradient_wants(g, &a->target)) amp_gradient_give(g, &a->target, amp_mul(back, amp_mul(a->input, share)));
}
