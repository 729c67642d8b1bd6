/* apex before amp.initialize: a handle that casts ops and scales one loss; then an optimizer that is wrapped, for two
 * losses in a step. */
#include <amp/amp.h>
#include <stdio.h>

static amp_tensor *loss_of(const amp_apex *handle, amp_tensor *w, amp_tensor *x, amp_tensor *y) {
    amp_tensor *loss = NULL;
    amp_model_region(handle) {
        loss = amp_mse_loss(amp_linear(x, w), y);
    }
    return loss;
}

int main(void) {
    amp_scope_here();
    amp_manual_seed(4);
    amp_tensor *x = amp_randn(AMP_DIMS(64, 16)), *y = amp_linear(x, amp_randn(AMP_DIMS(4, 16)));
    amp_parameters *p = amp_parameters_create();
    amp_tensor *w = amp_parameters_add(p, "weight", amp_zeros(AMP_DIMS(4, 16)));
    amp_optimizer *opt = amp_sgd(p, .lr = AMP_SET(1));
    amp_apex *handle = amp_init(.enabled = AMP_SET(true));
    double one = 0, two = 0;
    for (int step = 0; step < 30; step++) {
        amp_scope_here();
        amp_tensor *loss = loss_of(handle, w, x, y);
        amp_handle_scale_loss(handle, loss, opt, scaled) amp_backward(scaled);
        amp_optimizer_step(opt);
        amp_optimizer_zero_grad(opt);
        one = amp_item(loss);
    }
    amp_optimizer_wrapper *wrapped = amp_wrap_optimizer(handle, opt, 2);
    for (int step = 0; step < 30; step++) {
        amp_scope_here();
        amp_tensor *half = amp_narrow(x, 0, 0, 32), *rest = amp_narrow(x, 0, 32, 32);
        amp_tensor *first = loss_of(handle, w, half, amp_narrow(y, 0, 0, 32));
        amp_tensor *second = loss_of(handle, w, rest, amp_narrow(y, 0, 32, 32));
        amp_wrapped_scale_loss(wrapped, first, scaled) amp_backward(scaled);
        amp_wrapped_scale_loss(wrapped, second, scaled) amp_backward(scaled);
        (void)amp_wrapped_step(wrapped);
        amp_optimizer_zero_grad(opt);
        two = amp_item(first);
    }
    printf("loss %.4f after 30 steps, %.4f after 30 more with two losses each\n", one, two);
    if (amp_last_status() != AMP_OK) fprintf(stderr, "legacy_handle: %s\n", amp_last_error());
    amp_apex_destroy(handle);
    amp_optimizer_destroy(opt);
    amp_parameters_destroy(p);
    return amp_last_status() != AMP_OK || one > 0.2 || two > one;
}
