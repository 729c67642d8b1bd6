#include "digit_net.h"

#include <math.h>

/* ---- The network ------------------------------------------------------------------------------------------------- */
static void add_layer(amp_parameters *p, const char *weight_name, amp_dims shape, const char *bias_name,
                      amp_tensor **weight, amp_tensor **bias) {
    double inputs = 1;
    for (int i = 1; i < shape.count; i++) inputs *= (double)shape.values[i];
    const double most = 1 / sqrt(inputs);
    *weight = amp_parameters_add(p, weight_name, amp_uniform_(amp_empty(shape), -most, AMP_SET(most)));
    *bias = amp_parameters_add(p, bias_name, amp_uniform_(amp_empty(AMP_DIMS(shape.values[0])), -most, AMP_SET(most)));
}

amp_status digit_net_create(digit_net *net) {
    amp_scope_here(); /* the parameters' list is an owner of them, too */
    amp_parameters *p = net->parameters = amp_parameters_create();
    add_layer(p, "conv1.weight", AMP_DIMS(32, 1, 3, 3), "conv1.bias", &net->conv1_weight, &net->conv1_bias);
    add_layer(p, "conv2.weight", AMP_DIMS(64, 32, 3, 3), "conv2.bias", &net->conv2_weight, &net->conv2_bias);
    add_layer(p, "fc1.weight", AMP_DIMS(128, 1024), "fc1.bias", &net->fc1_weight, &net->fc1_bias);
    add_layer(p, "fc2.weight", AMP_DIMS(10, 128), "fc2.bias", &net->fc2_weight, &net->fc2_bias);
    return amp_last_status();
}

void digit_net_destroy(digit_net *net) {
    amp_parameters_destroy(net->parameters);
}

amp_tensor *digit_net_forward(const digit_net *net, amp_tensor *images, bool training) {
    const amp_dims around = AMP_DIMS(1);
    amp_tensor *x = amp_relu(amp_conv2d(images, net->conv1_weight, net->conv1_bias, .padding = around));
    x = amp_relu(amp_conv2d(x, net->conv2_weight, net->conv2_bias, .padding = around));
    x = amp_flatten(amp_max_pool2d(x, AMP_DIMS(2)), .start_dim = 1);
    x = amp_relu(amp_linear(x, net->fc1_weight, net->fc1_bias));
    x = amp_dropout(x, .p = AMP_SET(0.3), .training = AMP_SET(training));
    return amp_linear(x, net->fc2_weight, net->fc2_bias);
}

/* ---- Its training ------------------------------------------------------------------------------------------------ */
static void take_data(digit_training *t, const digit_data *d) {
    const int64_t held = DIGITS_HELD_BACK, rest = d->count - held;
    const int64_t seen_shape[] = {rest, 1, DIGIT_SIZE, DIGIT_SIZE}, held_shape[] = {held, 1, DIGIT_SIZE, DIGIT_SIZE};
    t->held_images = amp_from_data(d->pixels, AMP_F32, 4, held_shape);
    t->held_labels = amp_from_data(d->labels, AMP_I64, 1, &held);
    t->images = amp_from_data(d->pixels + held * DIGIT_PIXELS, AMP_F32, 4, seen_shape);
    t->labels = amp_from_data(d->labels + held, AMP_I64, 1, &rest);
    amp_keep(t->held_images);
    amp_keep(t->held_labels);
    amp_keep(t->images);
    amp_keep(t->labels);
}

amp_status digit_training_create(digit_training *t, const digit_data *data, amp_dtype dtype, int epochs, int64_t batch,
                                 int parts, uint64_t seed) {
    *t = (digit_training){.dtype = dtype, .batch = batch, .parts = parts, .seed = seed};
    t->steps_of_epoch = (int)((data->count - DIGITS_HELD_BACK) / batch);
    amp_scope_here();
    take_data(t, data);
    amp_manual_seed(seed);
    digit_net_create(&t->net);
    t->ddp = amp_data_parallel_create(t->net.parameters, .reduction = AMP_GRADIENT_SUM);
    t->optimizer = amp_adamw(t->net.parameters, .lr = AMP_SET(3e-3));
    t->scheduler = amp_cosine_annealing_lr(t->optimizer, .t_max = AMP_SET(epochs * t->steps_of_epoch));
    t->scaler = amp_grad_scaler_create(AMP_DEVICE_CPU, .enabled = AMP_SET(dtype == AMP_F16));
    return amp_last_status();
}

void digit_training_destroy(digit_training *t) {
    amp_grad_scaler_destroy(t->scaler);
    amp_scheduler_destroy(t->scheduler);
    amp_optimizer_destroy(t->optimizer);
    amp_data_parallel_destroy(t->ddp);
    digit_net_destroy(&t->net);
    amp_release(t->images);
    amp_release(t->labels);
    amp_release(t->held_images);
    amp_release(t->held_labels);
}

/* The network's scores, in the type that is trained in. */
static amp_tensor *scores(const digit_training *t, amp_tensor *images, bool training) {
    amp_autocast_here(AMP_DEVICE_CPU, .dtype = t->dtype == AMP_F16 ? AMP_F16 : AMP_BF16,
                      .enabled = AMP_SET(t->dtype != AMP_F32));
    return digit_net_forward(&t->net, images, training);
}

/* The loss of one part, whose gradients join those of the others. */
static double go_back(digit_training *t, amp_tensor *chosen) {
    amp_scope_here(); /* what it makes, and its record, go at its end */
    amp_tensor *images = amp_index_select(t->images, 0, chosen), *labels = amp_index_select(t->labels, 0, chosen);
    amp_tensor *loss = amp_div_scalar(amp_cross_entropy(scores(t, images, true), labels), amp_int(t->parts));
    amp_data_parallel_backward(t->ddp, amp_grad_scaler_scale(t->scaler, loss));
    return amp_item(loss);
}

/* `order` has this process's digits of the epoch: of each step every size-th part. The loss is that of all
 * processes. */
static double step(digit_training *t, amp_tensor *order, int number) {
    const int size = amp_distributed_size(), own_parts = t->parts / size;
    const int64_t digits = t->batch / t->parts;
    double loss = 0;
    for (int i = 0; i < own_parts; i++) {
        const int part = i * size + amp_distributed_rank();
        amp_manual_seed(t->seed + (uint64_t)((t->epoch * t->steps_of_epoch + number) * t->parts + part)); /* dropout */
        loss += go_back(t, amp_narrow(order, 0, (number * own_parts + i) * digits, digits));
    }
    (void)amp_grad_scaler_step(t->scaler, t->optimizer);
    (void)amp_grad_scaler_update(t->scaler);
    (void)amp_optimizer_zero_grad(t->optimizer);
    (void)amp_scheduler_step(t->scheduler);
    amp_tensor *sum = amp_full(AMP_DIMS(1), amp_float(loss), .dtype = AMP_F64);
    (void)amp_distributed_all_reduce(sum);
    return amp_item(sum);
}

amp_status digit_training_epoch(digit_training *t, double *losses) {
    amp_scope_here();
    amp_tensor *order = amp_distributed_sampler(amp_tensor_size(t->labels, 0), .seed = t->seed, .epoch = t->epoch,
                                                .batch = AMP_SET(t->batch / t->parts), .drop_last = true);
    for (int i = 0; i < t->steps_of_epoch && amp_last_status() == AMP_OK; i++) {
        amp_scope_here();
        losses[i] = step(t, order, i);
    }
    t->epoch++;
    return amp_last_status();
}

double digit_training_accuracy(const digit_training *t) {
    amp_scope_here();
    amp_no_grad_here();
    amp_tensor *guess = amp_argmax(scores(t, t->held_images, false), .dim = AMP_SET(1));
    amp_tensor *right = amp_to(amp_eq(guess, t->held_labels), AMP_F32);
    const double accuracy = amp_item(amp_mean(right));
    return amp_last_status() == AMP_OK ? accuracy : NAN;
}
