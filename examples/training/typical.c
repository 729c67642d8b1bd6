/* "Typical mixed precision training" of PyTorch's AMP examples: the forward pass and the loss in a region, the backward
 * outside of it. In f16 a scaler keeps small gradients from becoming 0; bf16 needs none. */
#include <amp/amp.h>
#include <stdio.h>

typedef struct classifier {
    amp_tensor *w1, *b1, *w2, *b2;
} classifier;

static classifier create(amp_parameters *p) {
    return (classifier){
        amp_parameters_add(p, "hidden.weight", amp_normal_(amp_empty(AMP_DIMS(64, 16)), 0, AMP_SET(0.25))),
        amp_parameters_add(p, "hidden.bias", amp_zeros(AMP_DIMS(64))),
        amp_parameters_add(p, "out.weight", amp_normal_(amp_empty(AMP_DIMS(4, 64)), 0, AMP_SET(0.125))),
        amp_parameters_add(p, "out.bias", amp_zeros(AMP_DIMS(4)))};
}

static amp_tensor *forward(const classifier *m, amp_tensor *x) {
    return amp_linear(amp_relu(amp_linear(x, m->w1, m->b1)), m->w2, m->b2);
}

/* The last loss of 100 steps, starting from some 1.5. */
static double train(amp_dtype dtype) {
    amp_scope_here();
    amp_manual_seed(1);
    amp_tensor *x = amp_randn(AMP_DIMS(256, 16)), *classes = amp_randn(AMP_DIMS(16, 4));
    amp_tensor *labels = amp_argmax(amp_matmul(x, classes), .dim = AMP_SET(1));
    amp_parameters *p = amp_parameters_create();
    const classifier model = create(p);
    amp_optimizer *opt = amp_sgd(p, .lr = AMP_SET(0.2), .momentum = AMP_SET(0.9));
    amp_grad_scaler *scaler = amp_grad_scaler_create(AMP_DEVICE_CPU, .enabled = AMP_SET(dtype == AMP_F16));
    double last = 0;
    for (int step = 0; step < 100; step++) {
        amp_scope_here(); /* what the step makes, and its record, go at its end */
        amp_tensor *loss = NULL;
        amp_autocast(AMP_DEVICE_CPU, .dtype = dtype) {
            loss = amp_cross_entropy(forward(&model, x), labels);
        }
        amp_backward(amp_grad_scaler_scale(scaler, loss));
        amp_grad_scaler_step(scaler, opt); /* divides gradients by the scale; skips where one is not finite */
        amp_grad_scaler_update(scaler);
        amp_optimizer_zero_grad(opt);
        last = amp_item(loss);
    }
    printf("%s: loss %.4f after 100 steps, scale %g\n", amp_dtype_name(dtype), last, amp_grad_scaler_get_scale(scaler));
    amp_grad_scaler_destroy(scaler);
    amp_optimizer_destroy(opt);
    amp_parameters_destroy(p);
    return last;
}

int main(void) {
    const bool learned = train(AMP_BF16) < 0.2 && train(AMP_F16) < 0.2;
    if (amp_last_status() != AMP_OK) fprintf(stderr, "typical: %s\n", amp_last_error());
    return amp_last_status() != AMP_OK || !learned;
}
