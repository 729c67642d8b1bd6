/* A small GPT of bytes (Radford et al., "Language models are unsupervised multitask learners", 2019): what is of libamp
 * in examples/train_text.c. */
#ifndef EXAMPLES_GPT_H
#define EXAMPLES_GPT_H

#include <amp/amp.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { GPT_VOCABULARY = 256, GPT_CONTEXT = 128, GPT_WIDTH = 128, GPT_HEADS = 4, GPT_LAYERS = 4 };

/* A layer: attention, then two products, each behind a norm and beside what it is added to. */
typedef struct gpt_layer {
    amp_tensor *norm1_weight, *norm1_bias, *qkv_weight, *qkv_bias, *out_weight, *out_bias;
    amp_tensor *norm2_weight, *norm2_bias, *up_weight, *up_bias, *down_weight, *down_bias;
} gpt_layer;

typedef struct gpt {
    amp_parameters *parameters, *decayed, *others; /* all; matrices, which the optimizer lets decay; norms and biases */
    amp_tensor *tokens, *positions, *norm_weight, *norm_bias;
    gpt_layer layers[GPT_LAYERS];
} gpt;

/* Parameters from the default generator. amp_last_status(). */
amp_status gpt_create(gpt *model);
void gpt_destroy(gpt *model);
int64_t gpt_count(const gpt *model);
/* bytes [B, T] of i64, T up to GPT_CONTEXT, to scores [B, T, 256] of the byte that follows each. */
amp_tensor *gpt_forward(const gpt *model, amp_tensor *bytes);
/* The mean cross entropy of the bytes that follow, in nats; targets [B, T]. */
amp_tensor *gpt_loss(const gpt *model, amp_tensor *bytes, amp_tensor *targets);
/* Writes `count` bytes behind the `given` ones, drawn at a temperature; text has room for all. amp_last_status(). */
amp_status gpt_write(const gpt *model, char *text, int given, int count, double temperature);

#ifdef __cplusplus
}
#endif

#endif /* EXAMPLES_GPT_H */
