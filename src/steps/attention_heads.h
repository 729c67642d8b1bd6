/* scaled_dot_product_attention in terms of heads. */
#ifndef AMP_STEPS_ATTENTION_HEADS_H
#define AMP_STEPS_ATTENTION_HEADS_H

#include "call/call.h"

/* Every combination of the leading dimensions is a head. */
typedef struct amp_attention {
    amp_tensor *q, *k, *v, *mask, *out; /* mask: f32, or f64 for f64 inputs; NULL: none */
    int batch_rank;
    int64_t batch[AMP_MAX_RANK];
    int64_t group; /* query heads that share a key head */
    int64_t rows, keys, depth, width;
    double scale;
    bool causal;
} amp_attention;

/* Checks the arguments, and reads all but tensors out of them: the same on every device. */
amp_status amp_attention_read(const amp_call *call, amp_attention *t);

int64_t amp_attention_heads(const amp_attention *t);

/* The call's result, which lies in memory as [batch, L, heads, E], so that joining the heads of each row costs no
 * copy. */
amp_tensor *amp_attention_output(amp_call *call, const amp_attention *t, amp_dtype dtype);

#endif /* AMP_STEPS_ATTENTION_HEADS_H */
