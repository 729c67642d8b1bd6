/* One layer and direction of a recurrent network as devices take it. */
#ifndef AMP_STEPS_RNN_H
#define AMP_STEPS_RNN_H

#include "core/tensor_impl.h"

typedef enum amp_rnn_kind { AMP_RNN_TANH, AMP_RNN_RELU, AMP_RNN_GRU, AMP_RNN_LSTM } amp_rnn_kind;

/* Rows of a weight for each element of h: 1, 1, 3, 4. */
int64_t amp_rnn_gates(amp_rnn_kind kind);

/* Element i of batch entry b at step t is at t·time + b·batch + i·column, in elements of the tensor. */
typedef struct amp_sequence {
    amp_tensor *tensor; /* an input may be a pending cast that the matrix product reads as it is */
    int64_t time, batch, column;
} amp_sequence;

/* All tensors have one floating dtype other than f16, and shapes that fit: w_ih [G·hidden, inputs], w_hh [G·hidden,
 * width], biases [G·hidden], w_hr [width, hidden]. Biases may be NULL; w_hr NULL: no projection, width is hidden.
 * Weights may be pending casts; they are packed, or taken from the cast cache, once. */
typedef struct amp_rnn_pass {
    amp_rnn_kind kind;
    int64_t steps, batch, inputs, hidden, width;
    amp_tensor *w_ih, *w_hh, *b_ih, *b_hh, *w_hr;
    amp_sequence in, out;
    bool reverse;
    amp_tensor *h0, *c0; /* [batch, width], [batch, hidden]; c0 for an LSTM only */
    amp_tensor *hn, *cn; /* written; the same shapes */
} amp_rnn_pass;

/* One step made of other ops, on any device and in the types of its arguments: h of the gates that the input (`x`) and
 * the last h (`h`) give, [batch, G·hidden] or without the batch; `state` is the last c of an LSTM, whose next goes to
 * *c, and the last h of a GRU. NULL with an error. */
amp_tensor *amp_rnn_step(amp_rnn_kind kind, amp_tensor *x, amp_tensor *h, amp_tensor *state, amp_tensor **c);

#endif /* AMP_STEPS_RNN_H */
