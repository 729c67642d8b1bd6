/* Functions of the program that a node calls: what they leave open is closed, and what they return is believed only
 * with an error. */
#ifndef AMP_GRAD_PROGRAM_H
#define AMP_GRAD_PROGRAM_H

#include "core/thread.h"
#include "grad/history.h"

/* What is open around the call. */
typedef struct amp_grad_around {
    const amp_scope_frame *frame;
    int nesting;
} amp_grad_around;

amp_grad_around amp_grad_look_around(void);

/* After the call: scopes and regions that it left open are closed, and an error, as is a status while no error stands.
 * Sentences begin with `name` and the function's role ("its forward"). */
amp_status amp_grad_settle(const char *name, const char *role, amp_grad_around before, amp_status status);

/* The results of the function are the node's from now on: each gets a header of its own, for an input that comes back
 * keeps its history. */
amp_status amp_grad_begin_results(amp_grad_node *node, amp_tensor **results);

#endif /* AMP_GRAD_PROGRAM_H */
