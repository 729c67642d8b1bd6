/* "Gradient accumulation" of PyTorch's AMP examples: the gradients of four small batches add up to those of a large
 * one, at one scale, before a step. */
#include <amp/amp.h>
#include <math.h>
#include <stdio.h>

enum { ROWS = 256, PARTS = 4, STEPS = 20 };

static amp_tensor *loss_of(amp_tensor *w, amp_tensor *x, amp_tensor *y, amp_dtype dtype) {
    amp_autocast_here(AMP_DEVICE_CPU, .dtype = dtype);
    return amp_mse_loss(amp_linear(x, w), y);
}

/* The loss of all rows in the end, if each step's gradient comes from so many parts. */
static double train(amp_dtype dtype, int parts) {
    amp_scope_here();
    amp_manual_seed(3);
    amp_tensor *x = amp_randn(AMP_DIMS(ROWS, 32)), *truth = amp_randn(AMP_DIMS(8, 32)), *y = amp_linear(x, truth);
    amp_parameters *p = amp_parameters_create();
    amp_tensor *w = amp_parameters_add(p, "weight", amp_zeros(AMP_DIMS(8, 32)));
    amp_optimizer *opt = amp_sgd(p, .lr = AMP_SET(2));
    amp_grad_scaler *scaler = amp_grad_scaler_create(AMP_DEVICE_CPU, .enabled = AMP_SET(dtype == AMP_F16));
    for (int step = 0; step < STEPS; step++) {
        for (int part = 0; part < parts; part++) {
            amp_scope_here();
            const int rows = ROWS / parts;
            amp_tensor *some = amp_narrow(x, 0, part * rows, rows), *wanted = amp_narrow(y, 0, part * rows, rows);
            amp_tensor *loss = amp_div_scalar(loss_of(w, some, wanted, dtype), amp_int(parts));
            amp_backward(amp_grad_scaler_scale(scaler, loss)); /* adds to the gradients that are there */
        }
        amp_grad_scaler_step(scaler, opt);
        amp_grad_scaler_update(scaler);
        amp_optimizer_zero_grad(opt);
    }
    const double last = amp_item(loss_of(w, x, y, dtype));
    amp_grad_scaler_destroy(scaler);
    amp_optimizer_destroy(opt);
    amp_parameters_destroy(p);
    return last;
}

int main(void) {
    bool good = true;
    const amp_dtype dtypes[] = {AMP_BF16, AMP_F16};
    for (int i = 0; i < 2; i++) {
        const double whole = train(dtypes[i], 1), parts = train(dtypes[i], PARTS);
        printf("%s: loss %.5f with whole batches, %.5f in %d parts\n", amp_dtype_name(dtypes[i]), whole, parts, PARTS);
        good = good && whole < 0.5 && fabs(whole - parts) < 0.1 * whole + 1e-3;
    }
    if (amp_last_status() != AMP_OK) fprintf(stderr, "accumulation: %s\n", amp_last_error());
    return amp_last_status() != AMP_OK || !good;
}
