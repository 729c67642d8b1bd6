/* "Working with unscaled gradients" of PyTorch's AMP examples: gradients are divided by the scale before something
 * looks at them, here what keeps their norm at most 1; the scaler's step knows that it has been done. A recurrent
 * network, whose gradients explode. */
#include <amp/amp.h>
#include <stdio.h>

enum { STEPS = 20, BATCH = 32, WIDTH = 32 };

/* One number for each sequence of numbers. */
static amp_tensor *forward(amp_tensor *const *w, amp_tensor *x) {
    amp_tensor *h = amp_zeros(AMP_DIMS(BATCH, WIDTH));
    for (int t = 0; t < STEPS; t++)
        h = amp_tanh(amp_add(amp_linear(amp_select(x, 1, t), w[0], w[1]), amp_linear(h, w[2])));
    return amp_squeeze(amp_linear(h, w[3]), .dim = AMP_DIMS(1));
}

static void create(amp_parameters *p, amp_tensor **w) {
    w[0] = amp_parameters_add(p, "in.weight", amp_randn(AMP_DIMS(WIDTH, 1)));
    w[1] = amp_parameters_add(p, "in.bias", amp_zeros(AMP_DIMS(WIDTH)));
    w[2] = amp_parameters_add(p, "hidden.weight", amp_normal_(amp_empty(AMP_DIMS(WIDTH, WIDTH)), 0, AMP_SET(0.3)));
    w[3] = amp_parameters_add(p, "out.weight", amp_normal_(amp_empty(AMP_DIMS(1, WIDTH)), 0, AMP_SET(0.2)));
}

static double train(amp_dtype dtype) {
    amp_scope_here();
    amp_manual_seed(2);
    amp_tensor *w[4];
    amp_parameters *p = amp_parameters_create();
    create(p, w);
    amp_optimizer *opt = amp_adam(p, .lr = AMP_SET(0.01));
    amp_grad_scaler *scaler = amp_grad_scaler_create(AMP_DEVICE_CPU, .enabled = AMP_SET(dtype == AMP_F16));
    double mean = 1, norm = 0;
    for (int step = 0; step < 200; step++) {
        amp_scope_here();
        amp_tensor *x = amp_randn(AMP_DIMS(BATCH, STEPS, 1)), *loss = NULL;
        amp_tensor *target =
            amp_tanh(amp_select(amp_select(x, 2, 0), 1, STEPS - 3)); /* the number three from the end */
        amp_autocast(AMP_DEVICE_CPU, .dtype = dtype) {
            loss = amp_mse_loss(forward(w, x), target);
        }
        amp_backward(amp_grad_scaler_scale(scaler, loss));
        amp_grad_scaler_unscale(scaler, opt);
        norm = amp_clip_grad_norm(p, 1.0);
        amp_grad_scaler_step(scaler, opt);
        amp_grad_scaler_update(scaler);
        amp_optimizer_zero_grad(opt);
        mean = 0.95 * mean + 0.05 * amp_item(loss);
    }
    printf("%s: loss %.4f after 200 steps, the last gradient's norm %.2f\n", amp_dtype_name(dtype), mean, norm);
    amp_grad_scaler_destroy(scaler);
    amp_optimizer_destroy(opt);
    amp_parameters_destroy(p);
    return mean;
}

int main(void) {
    const bool learned = train(AMP_BF16) < 0.15 && train(AMP_F16) < 0.15;
    if (amp_last_status() != AMP_OK) fprintf(stderr, "clipping: %s\n", amp_last_error());
    return amp_last_status() != AMP_OK || !learned;
}
