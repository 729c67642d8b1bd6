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

/* The gradients of a call: q, k, v and mask of `heads` are the arguments as they are, out is the gradient of its
 * result. q, k and v: what their gradients are written to, f32 or of the arguments' dtype; elements of a row are dense,
 * and k and v have a head for each `group` of q's. */
typedef struct amp_attention_slope {
    amp_attention heads;
    amp_tensor *q, *k, *v;
} amp_attention_slope;

/* Checks the arguments, and reads all but tensors out of them: the same on every device. */
amp_status amp_attention_read(const amp_call *call, amp_attention *t);

int64_t amp_attention_heads(const amp_attention *t);

/* Result `index` of the call, [batch, heads, rows, columns], which lies in memory as [batch, rows, heads, columns], so
 * that joining the heads of each row costs no copy; `heads` stands for the last of the batch's extents. */
amp_tensor *amp_attention_result(amp_call *call, int index, const amp_attention *t, int64_t heads, int64_t rows,
                                 int64_t columns, amp_dtype dtype);
/* The one of scaled_dot_product_attention. */
amp_tensor *amp_attention_output(amp_call *call, const amp_attention *t, amp_dtype dtype);

#endif /* AMP_STEPS_ATTENTION_HEADS_H */
