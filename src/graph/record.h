/* A graph as the calls that it makes for given inputs, as they stand: what is saved. */
#ifndef AMP_GRAPH_RECORD_H
#define AMP_GRAPH_RECORD_H

#include "graph/graph.h"
#include "graph/net.h"

enum { AMP_RECORD_OPERANDS = 64 }; /* of one call, whose dtypes are kept as they are; of more, those of the first */

/* What the region made of a call. */
typedef struct amp_recorded_call {
    void *args;                            /* the op's struct as its implementation saw it */
    amp_dtype dtypes[AMP_RECORD_OPERANDS]; /* by operand: what the region cast it to */
} amp_recorded_call;

typedef struct amp_record {
    amp_net *net;
    amp_recorded_call *calls; /* by node */
    uint64_t reads;           /* the inputs whose elements decided what is computed: bits as in amp_net_value.depends */
} amp_record;

/* Runs the graph once on these inputs, in the calling thread's region, and writes down what it does, no pass applied.
 * To be freed by amp_record_end also where it fails: an input that does not fit, a graph that cannot be captured. */
amp_status amp_record_make(amp_record *record, const amp_graph *graph, amp_tensor *const *inputs, int input_count);
void amp_record_end(amp_record *record);

/* The same in steps, for graphs whose extents are to be free: calls on constants are written down too, for what they
 * give may depend on extents. First for inputs of several extents each: … */
amp_status amp_record_capture(amp_record *record, const amp_graph *graph, amp_tensor *const *inputs, int input_count);
/* … which of the calls, that are the same in all records, come out otherwise, by their arguments or by constants that
 * they read, … The array is the caller's, by node. AMP_ERROR_NOT_IMPLEMENTED: the calls are not the same. */
amp_status amp_record_compare(const char *name, const amp_record *records, int count, bool **varies);
/* … the others' results, where no input is in them, become constants, as do those of calls that read nothing; then the
 * region looks at what is left. */
amp_status amp_record_finish(amp_record *record, const char *name, amp_tensor *const *inputs, const bool *varies);

#endif /* AMP_GRAPH_RECORD_H */
