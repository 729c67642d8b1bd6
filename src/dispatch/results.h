/* The results of a call: fresh tensors, or the target of an in-place or out= form. */
#ifndef AMP_DISPATCH_RESULTS_H
#define AMP_DISPATCH_RESULTS_H

#include "call/call.h"

/* Checks that the op has the call's form, and that what the call is to write can be written: its first argument (in
 * place, noted as the target here) or the tensors given (out=). */
amp_status amp_results_check_targets(amp_call *call);
/* After the kernel: copies temporaries into the targets, bumps the versions of what was written. */
amp_status amp_results_finish(amp_call *call);
/* Bumps the versions of what the call writes. */
void amp_results_written(amp_call *call);
/* Hands the results to the scope that was open at the call (NULL: to the caller): all of them, or none with an
 * error. */
amp_status amp_results_move_home(amp_call *call, amp_scope_frame *home);
/* After a failure: the second, third, … results that the caller's struct asks for are NULL, as the first is. */
void amp_results_clear(const amp_call *call, const void *given);

#endif /* AMP_DISPATCH_RESULTS_H */
