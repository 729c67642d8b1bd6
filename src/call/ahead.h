/* Calls that run ahead of their computing: they say what an op's results are (dtype, shape, strides) and make no element.
 *
 * An implementation asks for its results by amp_call_output when it has checked its arguments and is about to compute. A call
 * with `ahead` set ends there: it gets no tensor, as where memory is missing, and unwinds. So the rules of an op stand once, in
 * its implementation. Its own calls of other ops run ahead too. Whoever sets `ahead` (graph/capture.c) knows that the results
 * have no elements: their storages say so (is_ahead), and dispatch refuses them elsewhere. */
#ifndef AMP_CALL_AHEAD_H
#define AMP_CALL_AHEAD_H

#include "call/call.h"

/* A tensor of the CPU without elements, in the innermost scope: it reads as zeros and must not be written. NULL with an error. */
amp_tensor *amp_ahead_tensor(const char *op, amp_dtype dtype, int rank, const int64_t *shape);

/* Notes result `index` of a call that runs ahead. NULL: the implementation is to return; it has noted all that are wanted, or
 * an error stands. */
amp_tensor *amp_ahead_output(amp_call *call, int index, amp_dtype dtype, int rank, const int64_t *shape);

/* The call ended ahead, and not by an error: takes what looked like one away. */
bool amp_ahead_ended(const amp_call *call);

#endif /* AMP_CALL_AHEAD_H */
