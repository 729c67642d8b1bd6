/* How many floating-point operations a call is, of the ops whose work their shapes tell. */
#ifndef AMP_EXPLAIN_OPERATIONS_H
#define AMP_EXPLAIN_OPERATIONS_H

#include "call/call.h"

/* Of a call that has its results: additions and multiplications of its products, bias and activation not counted; 0 of
 * an op that is not known. */
double amp_call_operations(const amp_call *call);

#endif /* AMP_EXPLAIN_OPERATIONS_H */
