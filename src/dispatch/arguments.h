/* The argument struct of a call: copied, completed with defaults, checked. */
#ifndef AMP_DISPATCH_ARGUMENTS_H
#define AMP_DISPATCH_ARGUMENTS_H

#include "call/call.h"

/* Fills `call->args` (room for AMP_MAX_ARGS_BYTES) from the caller's struct, and call->device from the tensors in it.
 * Refuses what no op may see: released tensors, absent required arguments, lists and dtypes that are none. */
amp_status amp_arguments_prepare(amp_call *call, const void *given);

#endif /* AMP_DISPATCH_ARGUMENTS_H */
