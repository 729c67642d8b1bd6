/* Capturing: while a function computes, the calls of ops that it makes are written down as a net.
 *
 * What is written down is the call as the function made it, before autocast looks at it. Calls whose arguments do not
 * depend on the inputs' elements are not written down: their results are constants of the net. So arithmetic with
 * shapes, and transformations of weights, are done once.
 *
 * A tensor's `mark` says which value of which capture it is; a tensor without one is a constant. */
#ifndef AMP_GRAPH_CAPTURE_H
#define AMP_GRAPH_CAPTURE_H

#include "graph/graph.h"
#include "graph/net.h"
#include "policy/regions.h"

typedef struct amp_capture {
    amp_net *net;
    uint64_t number; /* of this capture, in the upper half of marks */
    uint64_t reads;  /* the inputs whose elements decided something outside of ops: bits as in amp_net_value.depends */
    const char *failed;  /* why there will be no net: static text */
    const char *at;      /* … the op where */
    bool is_approximate; /* what the function computes while it is captured may differ in bits from the net */
    bool is_programs;    /* tensors that ops made before it began are constants */
    amp_region_state regions[AMP_DEVICE_COUNT]; /* when it began */
    struct amp_capture *outer;
} amp_capture;

/* Begins on this thread. The inputs that `compute` is to be given are views, in the innermost scope, which it puts into
 * `views`. An error only where memory is missing. */
amp_status amp_capture_begin(amp_capture *c, const amp_graph_source *source, amp_tensor *const *inputs,
                             amp_tensor **views);
/* Ends it, after `compute` has returned `outputs` (NULL: it failed). Returns the net, which is the caller's; NULL: there
 * can be none, c->failed says why. */
amp_net *amp_capture_end(amp_capture *c, amp_tensor *const *outputs);

#endif /* AMP_GRAPH_CAPTURE_H */
