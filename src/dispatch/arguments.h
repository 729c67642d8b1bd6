/* The argument struct of a call: copied, completed with defaults, checked. */
#ifndef AMP_DISPATCH_ARGUMENTS_H
#define AMP_DISPATCH_ARGUMENTS_H

#include <stdint.h>

#include "call/call.h"

/* Fills `call->args` (room for AMP_MAX_ARGS_BYTES) from the caller's struct, and call->device from the tensors in it.
 * Refuses what no op may see: released tensors, absent required arguments, lists and dtypes that are none. */
amp_status amp_arguments_prepare(amp_call *call, const void *given);

/* The field of an argument in that copy, to be written: by what completes the arguments, and by autocast, which puts
 * casts in their places. */
static inline void *amp_call_slot(const amp_call *call, const amp_arg_info *arg) {
    return (void *)(uintptr_t)amp_call_field(call, arg);
}

#endif /* AMP_DISPATCH_ARGUMENTS_H */
