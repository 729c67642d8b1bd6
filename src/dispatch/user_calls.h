/* Calls of ops that the program defined. */
#ifndef AMP_DISPATCH_USER_CALLS_H
#define AMP_DISPATCH_USER_CALLS_H

#include "call/backend.h"
#include "policy/user_ops.h"

/* What the device's table has for the call's op, which is a user's. */
amp_backend_op amp_user_row(const amp_call *call);

#endif /* AMP_DISPATCH_USER_CALLS_H */
