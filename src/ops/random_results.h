/* Random ops on every device: rules, and the way from an op to a device's amp_random_task. */
#ifndef AMP_OPS_RANDOM_RESULTS_H
#define AMP_OPS_RANDOM_RESULTS_H

#include "call/call.h"
#include "cpu/random/random_task.h"

/* Fills `out`, row by row whatever its strides, as `task` says but for count, dtype, out and place, which are set here.
 * The place is the next one of the generator (NULL: of the device's), and is noted in the call. */
amp_status amp_random_fill(amp_call *call, amp_tensor *out, amp_random_task *task, amp_generator *generator);

/* The numbers of a task of kind AMP_RANDOM_KEEP that keeps with probability `keep`, times `scale`. */
void amp_random_keeping(amp_random_task *task, double keep, double scale);

/* dropout's result, and, given the gradient of that as `input`, the gradient of its input: input times the mask that
 * `place`, noted in the call of dropout, stands for. Needs no generator. */
amp_status amp_dropout_at(amp_call *call, amp_tensor *out, amp_tensor *input, double p, amp_random_place place);

#endif /* AMP_OPS_RANDOM_RESULTS_H */
