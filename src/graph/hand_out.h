/* What a run gives to whoever asked. */
#ifndef AMP_GRAPH_HAND_OUT_H
#define AMP_GRAPH_HAND_OUT_H

#include "core/thread.h"

/* The tensors `values[which[i]]`, each with one owner, the frame outside of `frame`: what the frame has moves out of
 * it, all else, and what stands there twice, is a view. All of them or, with an error, none. */
amp_status amp_hand_out(const amp_scope_frame *frame, amp_tensor *const *values, const int *which, int count,
                        amp_tensor **outputs);

#endif /* AMP_GRAPH_HAND_OUT_H */
