/* "Gradient penalty" of PyTorch's AMP examples: the loss has a term of the gradients' own norm, so the backward goes
 * over the gradients' record too. amp_grad makes gradients of a scaled loss; they are unscaled before their norm is
 * taken. */
#include <amp/amp.h>
#include <stdio.h>

/* The norm of all gradients together, as an op of them. */
static amp_tensor *norm_of(amp_tensor_list gradients, double scale) {
    amp_tensor *sum = NULL;
    for (int64_t i = 0; i < gradients.count; i++) {
        amp_tensor *g = amp_div_scalar(gradients.items[i], amp_float(scale)), *square = amp_sum(amp_mul(g, g));
        sum = sum ? amp_add(sum, square) : square;
    }
    return amp_sqrt(sum);
}

/* The last loss without the penalty. */
static double train(amp_dtype dtype) {
    amp_scope_here();
    amp_manual_seed(4);
    amp_tensor *x = amp_randn(AMP_DIMS(64, 8)), *y = amp_sin(amp_sum(x, .dim = AMP_DIMS(1), .keepdim = true));
    amp_parameters *p = amp_parameters_create();
    amp_tensor *w1 = amp_parameters_add(p, "w1", amp_normal_(amp_empty(AMP_DIMS(32, 8)), 0, AMP_SET(0.4)));
    amp_tensor *w2 = amp_parameters_add(p, "w2", amp_normal_(amp_empty(AMP_DIMS(1, 32)), 0, AMP_SET(0.2)));
    amp_optimizer *opt = amp_adam(p, .lr = AMP_SET(0.01));
    amp_grad_scaler *scaler = amp_grad_scaler_create(AMP_DEVICE_CPU, .enabled = AMP_SET(dtype == AMP_F16));
    double last = 0, norm = 0;
    for (int step = 0; step < 100; step++) {
        amp_scope_here();
        amp_tensor *loss = NULL, *penalty = NULL;
        amp_autocast(AMP_DEVICE_CPU, .dtype = dtype) {
            loss = amp_mse_loss(amp_linear(amp_tanh(amp_linear(x, w1)), w2), y);
        }
        const amp_tensor_list leaves = AMP_LIST(w1, w2);
        amp_tensor_list gradients =
            amp_grad(AMP_LIST(amp_grad_scaler_scale(scaler, loss)), leaves, .create_graph = true);
        penalty = norm_of(gradients, amp_grad_scaler_get_scale(scaler));
        amp_tensor *both = amp_add(loss, amp_mul_scalar(penalty, amp_float(0.1)));
        amp_backward(amp_grad_scaler_scale(scaler, both));
        amp_grad_scaler_step(scaler, opt);
        amp_grad_scaler_update(scaler);
        amp_optimizer_zero_grad(opt);
        last = amp_item(loss);
        norm = amp_item(penalty);
    }
    printf("%s: loss %.4f after 100 steps, gradients of norm %.4f\n", amp_dtype_name(dtype), last, norm);
    amp_grad_scaler_destroy(scaler);
    amp_optimizer_destroy(opt);
    amp_parameters_destroy(p);
    return last;
}

int main(void) {
    const bool good = train(AMP_BF16) < 0.2 && train(AMP_F16) < 0.2;
    if (amp_last_status() != AMP_OK) fprintf(stderr, "penalty: %s\n", amp_last_error());
    return amp_last_status() != AMP_OK || !good;
}
