/* One layer of a recurrent network in one direction: what cells and layers share. */
#ifndef AMP_CPU_RNN_H
#define AMP_CPU_RNN_H

#include "call/call.h"
#include "steps/rnn.h"

/* Writes h of every step to `out`, and the last h and c. Sums, gates and c are f32 (f64 for f64 inputs) throughout; h
 * is rounded to the inputs' dtype where it is written and enters the next product. steps ≥ 1. */
amp_status amp_cpu_rnn_pass(amp_call *call, const amp_rnn_pass *layer);

#endif /* AMP_CPU_RNN_H */
