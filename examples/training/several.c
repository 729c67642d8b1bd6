/* "Multiple models, losses, and optimizers" of PyTorch's AMP examples: one scaler for all; each optimizer is unscaled
 * and stepped by itself, and skips by itself; the scale is updated once, at the end of the round. */
#include <amp/amp.h>
#include <stdio.h>

typedef struct model {
    amp_parameters *parameters;
    amp_tensor *w1, *w2;
    amp_optimizer *optimizer;
} model;

static model create(double lr) {
    model m = {.parameters = amp_parameters_create()};
    m.w1 = amp_parameters_add(m.parameters, "w1", amp_normal_(amp_empty(AMP_DIMS(48, 12)), 0, AMP_SET(0.3)));
    m.w2 = amp_parameters_add(m.parameters, "w2", amp_normal_(amp_empty(AMP_DIMS(6, 48)), 0, AMP_SET(0.15)));
    m.optimizer = amp_adamw(m.parameters, .lr = AMP_SET(lr));
    return m;
}

static amp_tensor *forward(const model *m, amp_tensor *x) {
    return amp_linear(amp_gelu(amp_linear(x, m->w1)), m->w2);
}

static double train(amp_dtype dtype) {
    amp_scope_here();
    amp_manual_seed(5);
    amp_tensor *x = amp_randn(AMP_DIMS(128, 12)), *y = amp_tanh(amp_matmul(x, amp_randn(AMP_DIMS(12, 6))));
    model models[] = {create(0.01), create(0.005)};
    amp_grad_scaler *scaler = amp_grad_scaler_create(AMP_DEVICE_CPU, .enabled = AMP_SET(dtype == AMP_F16));
    double last = 0;
    for (int step = 0; step < 150; step++) {
        amp_scope_here();
        amp_tensor *losses[2] = {NULL};
        amp_autocast(AMP_DEVICE_CPU, .dtype = dtype) {
            amp_tensor *out0 = forward(&models[0], x), *out1 = forward(&models[1], x);
            losses[0] = amp_add(amp_mse_loss(out0, y), amp_mul_scalar(amp_mse_loss(out1, y), amp_float(0.5)));
            losses[1] = amp_sub(amp_mse_loss(out1, y), amp_mul_scalar(amp_mse_loss(out0, out1), amp_float(0.1)));
        }
        amp_backward(amp_grad_scaler_scale(scaler, losses[0]), .retain_graph = true); /* both need both models */
        amp_backward(amp_grad_scaler_scale(scaler, losses[1]));
        amp_grad_scaler_unscale(scaler, models[0].optimizer); /* only where gradients are looked at */
        amp_clip_grad_norm(models[0].parameters, 1.0);
        for (int i = 0; i < 2; i++) amp_grad_scaler_step(scaler, models[i].optimizer);
        amp_grad_scaler_update(scaler);
        for (int i = 0; i < 2; i++) amp_optimizer_zero_grad(models[i].optimizer);
        last = amp_item(losses[0]);
    }
    printf("%s: loss %.4f after 150 steps\n", amp_dtype_name(dtype), last);
    amp_grad_scaler_destroy(scaler);
    for (int i = 0; i < 2; i++) amp_optimizer_destroy(models[i].optimizer);
    for (int i = 0; i < 2; i++) amp_parameters_destroy(models[i].parameters);
    return last;
}

int main(void) {
    const bool learned = train(AMP_BF16) < 0.2 && train(AMP_F16) < 0.2;
    if (amp_last_status() != AMP_OK) fprintf(stderr, "several: %s\n", amp_last_error());
    return amp_last_status() != AMP_OK || !learned;
}
