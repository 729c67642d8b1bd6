/* Capturing: while a function computes, the calls of ops that it makes are written down as a net.
 *
 * What is written down is the call as the function made it, before autocast looks at it. Calls whose arguments do not
 * depend on the inputs' elements are not written down: their results are constants of the net. So arithmetic with
 * shapes, and transformations of weights, are done once.
 *
 * The others do not compute: they run ahead (call/ahead.h), and the net computes once it is complete. Where somebody
 * needs elements before, they are settled (settle.h): what the function looks at, prints or keeps, arguments of ops
 * that the program defined, everything before anything is written. An op that cannot run ahead computes.
 *
 * A tensor's `mark` says which value of which capture it is; a tensor without one is a constant. */
#ifndef AMP_GRAPH_CAPTURE_H
#define AMP_GRAPH_CAPTURE_H

#include "graph/graph.h"
#include "graph/net.h"
#include "graph/settle.h"

typedef struct amp_capture {
    amp_net *net;
    uint64_t number; /* of this capture, in the upper half of marks */
    uint64_t reads;  /* the inputs whose elements decided something outside of ops: bits as in amp_net_value.depends */
    const char *failed; /* why there will be no net: static text */
    const char *at;     /* … the op where */
    bool is_late;       /* … and what was called must be called again */
    bool is_whole;      /* calls on constants are written down too, and compute on the way */
    size_t large_bytes; /* of the large results among those that were folded, by this capture and before it */
    bool is_exact;      /* as the calls one by one: none is kept in f32 but by the region's rules */
    bool is_programs;   /* tensors that ops made before it began are constants */
    amp_unsettled_list unsettled;
    amp_region_state regions[AMP_DEVICE_COUNT]; /* when it began */
    struct amp_capture *outer;
} amp_capture;

/* Of which kind it is: without, calls on constants are folded. */
typedef enum amp_capture_kind { AMP_CAPTURE_FOLDED = 0, AMP_CAPTURE_WHOLE } amp_capture_kind;

/* What a net has of large results that were folded. */
size_t amp_capture_large_bytes(const amp_net *net);

/* Calls the source's function once, on this thread; `large_bytes`: what other nets of it hold. What it did is c->net
 * then, the caller's, and `outputs` are left alone; or c->net is NULL: there can be none, c->failed says why, and the
 * outputs have been computed; they belong to the innermost scope. */
amp_status amp_capture_run(amp_capture *c, amp_capture_kind kind, size_t large_bytes, const amp_graph_source *source,
                           amp_tensor *const *inputs, amp_tensor **outputs);

#endif /* AMP_GRAPH_CAPTURE_H */
