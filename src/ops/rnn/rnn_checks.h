/* Rules of arguments that the layers, passes and cells of recurrent networks share. */
#ifndef AMP_OPS_RNN_CHECKS_H
#define AMP_OPS_RNN_CHECKS_H

#include "call/call.h"
#include "steps/rnn.h"

amp_status amp_rnn_check_input(const amp_call *call, const amp_tensor *input);
/* Weights and biases of a pass, which have the input's dtype and shapes that fit. */
amp_status amp_rnn_check_weights(const amp_call *call, const amp_tensor *input, const amp_rnn_pass *l);
/* Inputs and h have at least one element. */
amp_status amp_rnn_check_extents(const amp_call *call, const amp_tensor *input, const amp_rnn_pass *l);
/* Time first or batch first, as strides say. */
amp_sequence amp_rnn_sequence(amp_tensor *t, bool batch_first);
/* "lstm", "gru", "rnn_tanh", "rnn_relu". */
amp_status amp_rnn_kind_of(const amp_call *call, const char *mode, amp_rnn_kind *kind);

#endif /* AMP_OPS_RNN_CHECKS_H */
