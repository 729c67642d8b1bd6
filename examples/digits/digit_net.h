/* A small network for digits, and how it is trained: what is of libamp in examples/train_digits.c. */
#ifndef EXAMPLES_DIGIT_NET_H
#define EXAMPLES_DIGIT_NET_H

#include <amp/amp.h>

#include "digit_data.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Two convolutions and two layers; its tensors are those of its parameters. */
typedef struct digit_net {
    amp_parameters *parameters;
    amp_tensor *conv1_weight, *conv1_bias, *conv2_weight, *conv2_bias, *fc1_weight, *fc1_bias, *fc2_weight, *fc2_bias;
} digit_net;

/* Makes the parameters from the default generator's numbers, as PyTorch's modules do. amp_last_status(). */
amp_status digit_net_create(digit_net *net);
void digit_net_destroy(digit_net *net);
/* images [N, 1, 8, 8] to scores [N, 10]. */
amp_tensor *digit_net_forward(const digit_net *net, amp_tensor *images, bool training);

/* What goes on while the network learns: in one process, or in several that were started together (mpirun), each of
 * which has the whole network and takes its share of every step's digits. */
typedef struct digit_training {
    amp_dtype dtype; /* AMP_F32: no region */
    digit_net net;
    amp_data_parallel *ddp;
    amp_optimizer *optimizer;
    amp_scheduler *scheduler;
    amp_grad_scaler *scaler; /* does nothing unless the dtype is AMP_F16 */
    amp_tensor *images, *labels, *held_images, *held_labels;
    int64_t batch; /* digits in a step, … */
    int parts; /* … in so many parts, which gradients are added up from: the same bits for any number of processes */
    uint64_t seed;
    int steps_of_epoch, epoch;
} digit_training;

/* For `epochs` rounds over all digits but those that are held back, from one seed. The number of processes divides
 * `parts`, and that the batch. amp_last_status(). */
amp_status digit_training_create(digit_training *t, const digit_data *data, amp_dtype dtype, int epochs, int64_t batch,
                                 int parts, uint64_t seed);
void digit_training_destroy(digit_training *t);
/* One round; the loss of each step goes to losses[0 … steps_of_epoch − 1]. amp_last_status(). */
amp_status digit_training_epoch(digit_training *t, double *losses);
/* The share of the digits that were held back which the network knows; NaN with an error. */
double digit_training_accuracy(const digit_training *t);

#ifdef __cplusplus
}
#endif

#endif /* EXAMPLES_DIGIT_NET_H */
