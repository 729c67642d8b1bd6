/* Plans: how a net runs without the dispatcher. A run through the dispatcher is recorded: the row that each call came
 * to, its arguments as autocast left them, and where results had their memory. A plan's run calls the rows, with
 * argument structs, tensors' headers and places of results that were laid out before. */
#ifndef AMP_GRAPH_PLAN_H
#define AMP_GRAPH_PLAN_H

#include "graph/net.h"

typedef struct amp_plan amp_plan;
typedef struct amp_plan_recorder amp_plan_recorder;

/* A run of the net on this thread is about to be recorded; NULL: it cannot be, for now. */
amp_plan_recorder *amp_plan_begin(const amp_net *net, amp_tensor *const *inputs);
/* Node k is dispatched next; … has been: its operands and results stand in `values`. */
void amp_plan_before(amp_plan_recorder *recorder, int k, amp_tensor *const *values);
void amp_plan_after(amp_plan_recorder *recorder, int k, amp_tensor *const *values);
/* The run ended, well or not. NULL: there is no plan. */
amp_plan *amp_plan_end(amp_plan_recorder *recorder, bool succeeded);

void amp_plan_free(amp_plan *plan); /* may be NULL; nobody runs it */

/* The net's outputs, as amp_net_execute gives them, by any number of threads. False: not for such inputs, or somebody
 * wants to see calls, or something was not as it was when it was recorded; then nothing is done, and the dispatcher is
 * the way. */
bool amp_plan_run(amp_plan *plan, amp_tensor *const *inputs, amp_tensor *const *into, amp_tensor **outputs,
                  amp_status *status);

/* Takes and touches what a run takes, and gives it back for that. */
void amp_plan_warm(amp_plan *plan);

/* Whether somebody wants to see this thread's calls, or an op is running: calls go through the dispatcher. */
bool amp_plan_is_watched(void);

#endif /* AMP_GRAPH_PLAN_H */
