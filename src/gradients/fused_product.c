/* Gradients of products and norms that something is done to before they are stored. */
#include <string.h>

#include "gradients/again.h"

static void compose_addmm_activation(const void *args, amp_tensor **results) {
    const amp_addmm_activation_args *a = args;
    amp_tensor *t = amp_addmm(a->input, a->mat1, a->mat2, .beta = a->beta, .alpha = a->alpha);
    results[0] = a->use_gelu ? amp_gelu(t) : amp_relu(t);
}
AMP_GRADIENT_AGAIN(addmm_activation)

/* The words of linear_pointwise. */
static amp_tensor *activated(amp_tensor *t, const char *word, amp_floats scalars, const char *algorithm) {
    if (strcmp(word, "relu") == 0) return amp_relu(t);
    if (strcmp(word, "sigmoid") == 0) return amp_sigmoid(t);
    if (strcmp(word, "tanh") == 0) return amp_tanh(t);
    if (strcmp(word, "swish") == 0) return amp_silu(t);
    if (strcmp(word, "hardswish") == 0) return amp_hardswish(t);
    if (strcmp(word, "gelu") == 0) return amp_gelu(t, .approximate = algorithm);
    const bool given = scalars.set && scalars.count > 0;
    if (strcmp(word, "leaky_relu") == 0)
        return amp_leaky_relu(t, .negative_slope = AMP_SET(given ? scalars.values[0] : 0.01));
    if (strcmp(word, "hardtanh") == 0)
        return amp_hardtanh(t, .min_val = amp_float(given ? scalars.values[0] : -1.0),
                            .max_val = amp_float(given ? scalars.values[1] : 1.0));
    return t;
}

static void compose_linear_pointwise(const void *args, amp_tensor **results) {
    const amp_linear_pointwise_args *a = args;
    amp_tensor *t = amp_linear(a->input, a->weight, a->bias);
    if (a->shift) t = amp_add(t, a->shift);
    if (a->residual) t = amp_add(t, a->residual);
    results[0] = activated(t, a->attr, a->scalars, a->algorithm);
}
AMP_GRADIENT_AGAIN(linear_pointwise)

static void compose_batch_norm_pointwise(const void *args, amp_tensor **results) {
    const amp_batch_norm_pointwise_args *a = args;
    amp_tensor *t = amp_batch_norm(a->input, .running_mean = a->running_mean, .running_var = a->running_var,
                                   .weight = a->weight, .bias = a->bias, .eps = a->eps);
    results[0] = activated(t, a->attr, a->scalars, a->algorithm);
}
AMP_GRADIENT_AGAIN(batch_norm_pointwise)

static void compose_linear_pointwise_binary(const void *args, amp_tensor **results) {
    const amp_linear_pointwise_binary_args *a = args;
    amp_tensor *t = amp_linear(a->input, a->weight, a->bias);
    if (strcmp(a->attr, "add") == 0) results[0] = amp_add(t, a->other);
    if (strcmp(a->attr, "sub") == 0) results[0] = amp_sub(t, a->other);
    if (strcmp(a->attr, "mul") == 0) results[0] = amp_mul(t, a->other);
    if (strcmp(a->attr, "div") == 0) results[0] = amp_div(t, a->other);
}
AMP_GRADIENT_AGAIN(linear_pointwise_binary)
