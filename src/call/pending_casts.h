/* Casts that outlive a call. Those of one call's arguments are in call/call.h. */
#ifndef AMP_CALL_PENDING_CASTS_H
#define AMP_CALL_PENDING_CASTS_H

#include "call/call.h"

/* A tensor over the cast that the cast cache has of `source`, or makes and keeps as `life` says; not for AMP_CAST_ONCE.
 * The tensor is the caller's or the innermost scope's. NULL with an error. */
amp_tensor *amp_cached_cast(const char *op, amp_tensor *source, amp_dtype dtype, amp_cast_life life);

#endif /* AMP_CALL_PENDING_CASTS_H */
