/* apex's opt levels: the same loop at each of them. The level decides whether ops are cast (O1) or the model (O2, O3),
 * and what is updated. */
#include <amp/amp.h>
#include <stdio.h>

typedef struct net {
    amp_parameters *parameters;
    amp_tensor *weight, *bn_weight, *bn_bias, *bn_mean, *bn_var, *out;
} net;

static void create(net *m) {
    amp_parameters *p = m->parameters = amp_parameters_create();
    m->weight = amp_parameters_add(p, "fc.weight", amp_normal_(amp_empty(AMP_DIMS(32, 16)), 0, AMP_SET(0.25)));
    m->bn_weight = amp_parameters_add(p, "bn.weight", amp_ones(AMP_DIMS(32)));
    m->bn_bias = amp_parameters_add(p, "bn.bias", amp_zeros(AMP_DIMS(32)));
    m->out = amp_parameters_add(p, "out.weight", amp_normal_(amp_empty(AMP_DIMS(4, 32)), 0, AMP_SET(0.2)));
    m->bn_mean = amp_zeros(AMP_DIMS(32));
    m->bn_var = amp_ones(AMP_DIMS(32));
}

static amp_tensor *forward(const net *m, const amp_apex *apex, amp_tensor *x) {
    amp_model_inputs(apex, &x);
    x = amp_linear(x, m->weight);
    x = amp_relu(amp_batch_norm(x, m->bn_mean, m->bn_var, m->bn_weight, m->bn_bias, .training = true));
    return amp_model_output(apex, amp_linear(x, m->out));
}

static double train(const char *level) {
    amp_scope_here();
    amp_manual_seed(1);
    net m;
    create(&m);
    amp_tensor *x = amp_randn(AMP_DIMS(128, 16));
    amp_tensor *labels = amp_argmax(amp_matmul(x, amp_randn(AMP_DIMS(16, 4))), .dim = AMP_SET(1));
    amp_optimizer *opt = amp_sgd(m.parameters, .lr = AMP_SET(0.1), .momentum = AMP_SET(0.9));
    amp_apex *apex = amp_initialize(AMP_MODELS(m.parameters), AMP_OPTIMIZERS(opt), .opt_level = level);
    double last = 0;
    for (int step = 0; step < 60; step++) {
        amp_scope_here();
        amp_tensor *loss = NULL;
        amp_model_region(apex) {
            loss = amp_cross_entropy(forward(&m, apex, x), labels);
        }
        amp_scale_loss(loss, opt, scaled) amp_backward(scaled);
        amp_optimizer_step(opt);
        amp_optimizer_zero_grad(opt);
        last = amp_item(loss);
    }
    printf("%s: fc.weight is %s, bn.weight %s; loss %.4f\n", level, amp_dtype_name(amp_tensor_dtype(m.weight)),
           amp_dtype_name(amp_tensor_dtype(m.bn_weight)), last);
    amp_apex_destroy(apex);
    amp_optimizer_destroy(opt);
    amp_parameters_destroy(m.parameters);
    return last;
}

int main(void) {
    const bool learned = train("O0") < 0.3 && train("O1") < 0.3 && train("O2") < 0.3 && train("O3") < 0.5;
    if (amp_last_status() != AMP_OK) fprintf(stderr, "opt_levels: %s\n", amp_last_error());
    return amp_last_status() != AMP_OK || !learned;
}
