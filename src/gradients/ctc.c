/* The gradient of ctc_loss: the recursion of src/ops/ctc_loss.c for all samples at once, frame by frame, in f64. It is
 * the derivative itself, where PyTorch's presumes that the probabilities of a frame sum to 1; behind a log_softmax the
 * two are one. */
#include <math.h>
#include <string.h>

#include "gradients/again.h"

/* The logarithm of 0, of which sums and differences are no NaN. */
static const double NEVER = -1e200;

typedef struct alignment {
    amp_tensor *all;      /* [T, N, C] */
    amp_tensor *logs;     /* [T, N, states]: of each state's label */
    amp_tensor *can_skip; /* [N, states]: what may be reached from two states before */
    amp_tensor *frames;   /* [N, 1] */
    amp_tensor *lengths;  /* [N, 1]: of the targets */
} alignment;

static amp_tensor *column(amp_tensor *t) {
    return amp_to(amp_reshape(t, AMP_DIMS(-1, 1)), AMP_I64);
}

static amp_tensor *numbers(int64_t count, const amp_tensor *like) {
    return amp_arange(amp_int(count), .device = (int)like->storage->device);
}

/* The labels as rows [N, longest], whatever stands behind a target's end. */
static amp_tensor *rows_of_labels(amp_tensor *targets, amp_tensor *lengths, int64_t longest) {
    if (targets->rank == 2) return amp_narrow(amp_to(targets, AMP_I64), 1, 0, longest);
    amp_tensor *begins = amp_sub(amp_cumsum(lengths, 0), lengths);
    amp_tensor *at = amp_add(begins, numbers(longest, targets));
    const int64_t last = amp_tensor_elements(targets) - 1;
    if (!at || last < 0) return at;
    at = amp_clamp(at, .max = amp_int(last));
    amp_tensor *labels = amp_index_select(amp_to(targets, AMP_I64), 0, amp_reshape(at, AMP_DIMS(-1)));
    return amp_reshape(labels, amp_shape_of(at));
}

/* A blank before, between and after the labels: [N, 2 · longest + 1]. */
static amp_tensor *states_of(amp_tensor *labels, int64_t blank) {
    const int64_t n = labels->shape[0], longest = labels->shape[1];
    amp_tensor *blanks = amp_full_like(labels, amp_int(blank));
    amp_tensor *both = amp_reshape(amp_stack(AMP_LIST(blanks, labels), 2), AMP_DIMS(n, 2 * longest));
    amp_tensor *last =
        amp_full(AMP_DIMS(n, 1), amp_int(blank), .dtype = AMP_I64, .device = (int)labels->storage->device);
    return amp_cat(AMP_LIST(both, last), 1);
}

/* Behind the last but `by`, with what never happens before. */
static amp_tensor *shifted(amp_tensor *t, int64_t by) {
    const int64_t states = t->shape[1];
    amp_tensor *padded = amp_constant_pad_nd(t, AMP_DIMS(by, 0), amp_float(NEVER));
    return padded ? amp_narrow(padded, 1, 0, states) : NULL;
}

static bool align(const amp_ctc_loss_args *a, alignment *x) {
    amp_tensor *logs = amp_to(a->log_probs, AMP_F64);
    if (logs && logs->rank == 2) logs = amp_unsqueeze(logs, 1);
    x->frames = column(a->input_lengths);
    x->lengths = column(a->target_lengths);
    if (!logs || !x->frames || !x->lengths) return false;
    const int64_t longest = x->lengths->shape[0] > 0 ? (int64_t)amp_item(amp_max(x->lengths)) : 0;
    amp_tensor *labels = rows_of_labels(a->targets, x->lengths, longest);
    amp_tensor *states = labels ? states_of(labels, a->blank) : NULL;
    if (!states) return false;
    /* a class that is none stands behind a target's end alone */
    states = amp_clamp(states, .min = amp_int(0), .max = amp_int(logs->shape[2] - 1));
    amp_dims shape = amp_shape_of(logs);
    shape.values[2] = 2 * longest + 1;
    x->all = logs = amp_clamp(logs, .min = amp_float(NEVER));
    x->logs = amp_gather(logs, 2, amp_expand(amp_unsqueeze(states, 0), shape));
    amp_tensor *before = amp_constant_pad_nd(states, AMP_DIMS(2, 0), amp_int(a->blank));
    before = before ? amp_narrow(before, 1, 0, shape.values[2]) : NULL;
    x->can_skip = amp_logical_and(amp_ne(states, before), amp_ne_scalar(states, amp_int(a->blank)));
    return x->logs && x->can_skip;
}

/* The logarithms of the probabilities of all beginnings that end in each state. */
static amp_tensor *forward(const alignment *x) {
    const int64_t count = x->logs->shape[0];
    if (count == 0) return NULL;
    const amp_tensor_list frames = amp_unbind(x->logs, 0);
    if (frames.count != count) return NULL;
    amp_tensor *is_first = amp_lt_scalar(numbers(x->logs->shape[2], x->logs), amp_int(2));
    amp_tensor *alpha = amp_where_scalar_other(is_first, frames.items[0], amp_float(NEVER));
    for (int64_t t = 1; t < count && alpha; t++) {
        amp_tensor *skipped = amp_where_scalar_other(x->can_skip, shifted(alpha, 2), amp_float(NEVER));
        amp_tensor *arrived = amp_logsumexp(amp_stack(AMP_LIST(alpha, shifted(alpha, 1), skipped)), AMP_DIMS(0));
        amp_tensor *is_on = amp_gt_scalar(x->frames, amp_int(t));
        alpha = amp_where(is_on, amp_add(arrived, frames.items[t]), alpha);
    }
    return alpha;
}

/* 0, or NaN for a sample that never happens, and so the gradients of all its frames. */
static amp_tensor *nothing_where_possible(const alignment *x, amp_tensor *is_impossible) {
    amp_tensor *frames = amp_unsqueeze(numbers(x->all->shape[0], x->all), 1);
    amp_tensor *is_off = amp_ge(frames, amp_reshape(x->frames, AMP_DIMS(1, -1)));
    amp_tensor *sums = amp_sum(amp_masked_fill(x->all, amp_unsqueeze(is_off, 2), amp_int(0)), .dim = AMP_DIMS(0, 2));
    return amp_mul(amp_unsqueeze(sums, 1), amp_where_scalar(is_impossible, amp_float((double)NAN), amp_float(0)));
}

/* A loss for each sample, [N]: what never happens costs infinitely much, or by zero_infinity nothing. */
static amp_tensor *losses_of(const alignment *x, amp_tensor *alpha, bool zero_infinity) {
    amp_tensor *end = amp_mul_scalar(x->lengths, amp_int(2));
    amp_tensor *label = amp_clamp(amp_sub_scalar(end, amp_int(1)), .min = amp_int(0));
    amp_tensor *is_empty = amp_eq_scalar(x->lengths, amp_int(0));
    amp_tensor *by_label = amp_masked_fill(amp_gather(alpha, 1, label), is_empty, amp_float(NEVER));
    amp_tensor *ends = amp_cat(AMP_LIST(amp_gather(alpha, 1, end), by_label), 1);
    amp_tensor *losses = amp_neg(amp_logsumexp(ends, AMP_DIMS(1), .keepdim = true));
    amp_tensor *is_impossible = amp_gt_scalar(losses, amp_float(-0.5 * NEVER));
    losses = zero_infinity ? amp_masked_fill(losses, is_impossible, amp_int(0))
                           : amp_add(losses, nothing_where_possible(x, is_impossible));
    amp_tensor *is_none = amp_eq_scalar(x->frames, amp_int(0));
    return amp_reshape(amp_masked_fill(losses, is_none, amp_int(0)), AMP_DIMS(-1));
}

static void compose_ctc_loss(const void *args, amp_tensor **results) {
    const amp_ctc_loss_args *a = args;
    alignment x;
    if (!align(a, &x)) return;
    amp_tensor *alpha = forward(&x), *losses = alpha ? losses_of(&x, alpha, a->zero_infinity) : NULL;
    if (!losses) return;
    if (strcmp(a->reduction, "mean") == 0)
        losses = amp_div(losses, amp_reshape(amp_clamp(x.lengths, .min = amp_int(1)), AMP_DIMS(-1)));
    if (strcmp(a->reduction, "none") == 0 && a->log_probs->rank == 2)
        losses = amp_reshape(losses, (amp_dims){.set = AMP_PRESENT});
    results[0] = amp_reduce_losses(losses, a->reduction);
}
AMP_GRADIENT_AGAIN(ctc_loss)
