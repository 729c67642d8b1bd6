/* "Gradient accumulation across iterations" of apex's manual: of three parts of a batch the first two only add to
 * gradients, which stay scaled; after the last they are unscaled, once, and stepped with. */
#include <amp/amp.h>
#include <stdio.h>

enum { PARTS = 3, ROWS = 32 };

int main(void) {
    amp_scope_here();
    amp_manual_seed(3);
    amp_tensor *truth = amp_randn(AMP_DIMS(4, 16));
    amp_parameters *p = amp_parameters_create();
    amp_tensor *weight = amp_parameters_add(p, "weight", amp_zeros(AMP_DIMS(4, 16)));
    amp_optimizer *opt = amp_adam(p, .lr = AMP_SET(0.05));
    amp_apex *apex = amp_initialize(AMP_MODELS(p), AMP_OPTIMIZERS(opt), .opt_level = "O1", .loss_scale = "dynamic");
    double last = 0;
    for (int iteration = 0; iteration < 100 * PARTS; iteration++) {
        amp_scope_here();
        const bool is_last = (iteration + 1) % PARTS == 0;
        amp_tensor *x = amp_randn(AMP_DIMS(ROWS, 16)), *loss = NULL;
        amp_tensor *y = amp_linear(x, truth);
        amp_model_region(apex) {
            loss = amp_div_scalar(amp_mse_loss(amp_linear(x, weight), y), amp_int(PARTS));
        }
        amp_scale_loss(loss, opt, scaled, .delay_unscale = !is_last) amp_backward(scaled);
        if (!is_last) continue;
        amp_optimizer_step(opt);
        amp_optimizer_zero_grad(opt);
        last = amp_item(loss) * PARTS;
    }
    printf("loss %.5f after 100 steps of %d parts; %lld steps since the scale changed\n", last, PARTS,
           (long long)amp_apex_loss_scaler(apex, 0).unskipped);
    if (amp_last_status() != AMP_OK) fprintf(stderr, "delayed_unscale: %s\n", amp_last_error());
    amp_apex_destroy(apex);
    amp_optimizer_destroy(opt);
    amp_parameters_destroy(p);
    return amp_last_status() != AMP_OK || last > 0.1;
}
