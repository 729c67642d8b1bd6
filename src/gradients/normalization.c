/* Gradients of norms. */
#include "gradients/pieces.h"

static void give(amp_gradient *g, amp_tensor *const *field, amp_tensor *gradient) {
    if (*field && gradient && amp_gradient_wants(g, field)) amp_gradient_give(g, field, gradient);
}

/* Where the parameter's gradient goes; NULL, which spares it, if nobody wants it. */
static amp_tensor **if_wanted(amp_gradient *g, amp_tensor *const *field, amp_tensor **gradient) {
    return *field && amp_gradient_wants(g, field) ? gradient : NULL;
}

void amp_gradient_layer_norm(amp_gradient *g) {
    const amp_layer_norm_args *a = g->args;
    amp_tensor *weight = NULL, *bias = NULL;
    give(g, &a->input,
         amp_layer_norm_backward(g->of[0], a->input, a->normalized_shape,
                                 .grad_weight = if_wanted(g, &a->weight, &weight),
                                 .grad_bias = if_wanted(g, &a->bias, &bias), .weight = a->weight, .eps = a->eps));
    give(g, &a->weight, weight);
    give(g, &a->bias, bias);
}

void amp_gradient_rms_norm(amp_gradient *g) {
    const amp_rms_norm_args *a = g->args;
    amp_tensor *weight = NULL;
    give(g, &a->input,
         amp_rms_norm_backward(g->of[0], a->input, a->normalized_shape,
                               .grad_weight = if_wanted(g, &a->weight, &weight), .weight = a->weight, .eps = a->eps));
    give(g, &a->weight, weight);
}

void amp_gradient_group_norm(amp_gradient *g) {
    const amp_group_norm_args *a = g->args;
    amp_tensor *weight = NULL, *bias = NULL;
    give(g, &a->input,
         amp_group_norm_backward(g->of[0], a->input, a->num_groups, .grad_weight = if_wanted(g, &a->weight, &weight),
                                 .grad_bias = if_wanted(g, &a->bias, &bias), .weight = a->weight, .eps = a->eps));
    give(g, &a->weight, weight);
    give(g, &a->bias, bias);
}

void amp_gradient_batch_norm(amp_gradient *g) {
    const amp_batch_norm_args *a = g->args;
    amp_tensor *weight = NULL, *bias = NULL;
    give(g, &a->input,
         amp_batch_norm_backward(g->of[0], a->input, .grad_weight = if_wanted(g, &a->weight, &weight),
                                 .grad_bias = if_wanted(g, &a->bias, &bias), .running_mean = a->running_mean,
                                 .running_var = a->running_var, .weight = a->weight, .training = a->training,
                                 .eps = a->eps));
    give(g, &a->weight, weight);
    give(g, &a->bias, bias);
}

/* A group for each channel; by running statistics it is batch_norm's. */
void amp_gradient_instance_norm(amp_gradient *g) {
    const amp_instance_norm_args *a = g->args;
    amp_tensor *input, *weight = NULL, *bias = NULL;
    const int64_t channels = a->input->shape[1] > 0 ? a->input->shape[1] : 1;
    if (a->use_input_stats.value || !a->running_mean)
        input = amp_group_norm_backward(g->of[0], a->input, channels, .grad_weight = if_wanted(g, &a->weight, &weight),
                                        .grad_bias = if_wanted(g, &a->bias, &bias), .weight = a->weight, .eps = a->eps);
    else
        input = amp_batch_norm_backward(g->of[0], a->input, .grad_weight = if_wanted(g, &a->weight, &weight),
                                        .grad_bias = if_wanted(g, &a->bias, &bias), .running_mean = a->running_mean,
                                        .running_var = a->running_var, .weight = a->weight, .eps = a->eps);
    give(g, &a->input, input);
    give(g, &a->weight, weight);
    give(g, &a->bias, bias);
}
