/* "Advanced usage" of apex's manual: two models, two optimizers, three losses with a scaler each; master parameters are
 * clipped. */
#include <amp/amp.h>
#include <stdio.h>

typedef struct model {
    amp_parameters *parameters;
    amp_tensor *weight;
    amp_optimizer *optimizer;
} model;

static model create(const char *name) {
    model m = {.parameters = amp_parameters_create()};
    m.weight = amp_parameters_add(m.parameters, name, amp_normal_(amp_empty(AMP_DIMS(8, 8)), 0, AMP_SET(0.3)));
    m.optimizer = amp_sgd(m.parameters, .lr = AMP_SET(0.5));
    return m;
}

static void destroy(model *m) {
    amp_optimizer_destroy(m->optimizer);
    amp_parameters_destroy(m->parameters);
}

static void clip_and_step(model *m) {
    amp_parameters *masters = amp_master_params(m->optimizer);
    amp_clip_grad_norm(masters, 1.0);
    amp_parameters_destroy(masters);
    amp_optimizer_step(m->optimizer);
    amp_optimizer_zero_grad(m->optimizer);
}

int main(void) {
    amp_scope_here();
    amp_manual_seed(2);
    model a = create("first"), b = create("second");
    amp_tensor *x = amp_randn(AMP_DIMS(64, 8)), *y = amp_linear(x, amp_randn(AMP_DIMS(8, 8)));
    amp_apex *apex = amp_initialize(AMP_MODELS(a.parameters, b.parameters), AMP_OPTIMIZERS(a.optimizer, b.optimizer),
                                    .opt_level = "O2", .loss_scale = "dynamic", .num_losses = AMP_SET(3));
    double last = 0;
    for (int step = 0; step < 200; step++) {
        amp_scope_here();
        amp_tensor *in = x;
        amp_model_inputs(apex, &in);
        amp_tensor *first = amp_model_output(apex, amp_linear(in, a.weight));
        amp_tensor *second = amp_model_output(apex, amp_linear(in, b.weight));
        amp_tensor *losses[3] = {amp_mse_loss(first, y), amp_mse_loss(second, y), amp_mse_loss(first, second)};
        amp_scale_loss(losses[0], a.optimizer, scaled) amp_backward(scaled, .retain_graph = true);
        amp_scale_loss(losses[1], b.optimizer, scaled, .loss_id = AMP_SET(1))
            amp_backward(scaled, .retain_graph = true);
        amp_scale_loss(losses[2], a.optimizer, scaled, .loss_id = AMP_SET(2),
                       .more_optimizers = AMP_OPTIMIZERS(b.optimizer)) amp_backward(scaled);
        clip_and_step(&a);
        clip_and_step(&b);
        last = amp_item(losses[0]) + amp_item(losses[1]);
    }
    printf("two losses: %.4f after 200 steps; scale %g\n", last, amp_apex_loss_scaler(apex, 0).loss_scale);
    if (amp_last_status() != AMP_OK) fprintf(stderr, "losses_and_optimizers: %s\n", amp_last_error());
    amp_apex_destroy(apex);
    destroy(&a), destroy(&b);
    return amp_last_status() != AMP_OK || last > 0.1;
}
