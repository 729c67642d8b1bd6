/* What the gradient of a program's op reads: amp_op_definition.saves, in the notation of ops.def. */
#ifndef AMP_POLICY_USER_GRADIENTS_H
#define AMP_POLICY_USER_GRADIENTS_H

#include "generated/gradients.h"
#include "policy/schema.h"

enum { AMP_MAX_GRADIENT_NEEDS = 16 };

/* Fills at most AMP_MAX_GRADIENT_NEEDS needs from "x:w,w:x,out"; `saves` may be NULL. An error that names what is no
 * argument and no result. */
amp_status amp_gradient_needs_parse(const amp_schema *schema, const char *saves, amp_gradient_need *needs, int *count);

#endif /* AMP_POLICY_USER_GRADIENTS_H */
