/* One layer and direction of a recurrent network as devices take it. */
#ifndef AMP_STEPS_RNN_H
#define AMP_STEPS_RNN_H

#include "core/tensor_impl.h"

typedef enum amp_rnn_kind { AMP_RNN_TANH, AMP_RNN_RELU, AMP_RNN_GRU, AMP_RNN_LSTM } amp_rnn_kind;

/* Rows of a weight for each element of h: 1, 1, 3, 4. */
static inline int64_t amp_rnn_gates(amp_rnn_kind kind) {
    return kind == AMP_RNN_LSTM ? 4 : kind == AMP_RNN_GRU ? 3 : 1;
}

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
    amp_tensor *h0, *c0;   /* [batch, width], [batch, hidden]; c0 for an LSTM only */
    amp_tensor *hn, *cn;   /* written; the same shapes */
    amp_tensor *workspace; /* NULL, or written for the way back: amp_rnn_workspace */
} amp_rnn_pass;

/* What a pass keeps for the way back lies in one vector of f32, by step and batch entry: the sums of the gates before
 * their sigmoid and tanh, [steps, batch, G·hidden] (of a GRU those that the input gives); of an LSTM and a GRU the
 * state after each step (c, or h), [steps, batch, hidden]; of a GRU what h gives to the gates, [steps, batch,
 * 3·hidden]. */
typedef struct amp_rnn_workspace {
    int64_t states, h_gates,
        elements; /* where the second and the third begin (0: there is none), and how many in all */
} amp_rnn_workspace;

static inline amp_rnn_workspace amp_rnn_workspace_of(amp_rnn_kind kind, int64_t steps, int64_t batch, int64_t hidden) {
    const int64_t states = steps * batch * hidden, gates = amp_rnn_gates(kind) * states;
    if (kind == AMP_RNN_LSTM) return (amp_rnn_workspace){.states = gates, .elements = gates + states};
    if (kind != AMP_RNN_GRU) return (amp_rnn_workspace){.elements = gates};
    return (amp_rnn_workspace){gates, gates + states, 2 * gates + states};
}

/* Back through the steps of a pass, from the last to the first. */
typedef struct amp_rnn_back {
    amp_rnn_kind kind;
    int64_t steps, batch, hidden, width;
    amp_tensor *w_hh, *w_hr;
    bool reverse; /* as the pass ran */
    const float *workspace;
    amp_tensor *h0, *c0;                   /* [batch, width], [batch, hidden], of the pass's dtype */
    amp_sequence grad_out;                 /* of the pass's dtype */
    amp_tensor *grad_hn, *grad_cn;         /* dense, or NULL: zeros */
    amp_tensor *grad_gates, *grad_h_gates; /* written: dense f32 [steps, batch, G·hidden]; the second of a GRU */
    amp_tensor *grad_projected;            /* … dense f32 [steps, batch, width], where h is projected */
    amp_tensor *grad_h0, *grad_c0;         /* … dense, of the pass's dtype */
} amp_rnn_back;

/* "lstm", "gru", "rnn_tanh", "rnn_relu"; false: none of them. */
bool amp_rnn_kind_named(const char *mode, amp_rnn_kind *kind);

/* One step made of other ops, on any device and in the types of its arguments: h of the gates that the input (`x`) and
 * the last h (`h`) give, [batch, G·hidden] or without the batch; `state` is the last c of an LSTM, whose next goes to
 * *c, and the last h of a GRU. NULL with an error. */
amp_tensor *amp_rnn_step(amp_rnn_kind kind, amp_tensor *x, amp_tensor *h, amp_tensor *state, amp_tensor **c);

#endif /* AMP_STEPS_RNN_H */
