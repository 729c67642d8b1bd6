/* Calls that run ahead of their computing: they say what an op's results are (dtype, shape, strides) and make no
 * element.
 *
 * An implementation asks for its results by amp_call_output when it has checked its arguments and is about to compute.
 * A call with `ahead` set ends there: it gets no tensor, as where memory is missing, and unwinds. So the rules of an op
 * stand once, in its implementation; what it changes of the strides before it computes, it changes of call->outputs[…],
 * which is there then too. Whoever sets `ahead` (graph/capture.c) knows that results which are no views of arguments
 * have no elements. A tensor made here says so (is_ahead), and dispatch refuses it outside of that layer. */
#ifndef AMP_CALL_AHEAD_H
#define AMP_CALL_AHEAD_H

#include "call/call.h"

/* A tensor of the CPU without elements, in the innermost scope: it reads as zeros and must not be written. NULL with an
 * error. */
amp_tensor *amp_ahead_tensor(const char *op, amp_dtype dtype, int rank, const int64_t *shape);

/* Notes result `index` of a call that runs ahead. NULL: the implementation is to return; it has noted all that are
 * wanted, or an error stands. */
amp_tensor *amp_ahead_output(amp_call *call, int index, amp_dtype dtype, int rank, const int64_t *shape);

/* What the layer that set `ahead` does with a call that the implementation makes on its way. An error where it cannot
 * be told whether the implementation would look at elements of the result: then it cannot run ahead. */
amp_status amp_ahead_run_part(amp_call *call);

/* The call ended ahead, and not by an error: takes what looked like one away. */
bool amp_ahead_ended(const amp_call *call);

#endif /* AMP_CALL_AHEAD_H */
