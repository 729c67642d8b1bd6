/* Extents of a graph's inputs that stay free in a file: which, and of which sizes the graph is captured to find what
 * depends on them. */
#ifndef AMP_ONNX_WRITE_FREE_EXTENTS_H
#define AMP_ONNX_WRITE_FREE_EXTENTS_H

#include "graph/graph.h"

/* Captures: two say what a number is of the extents, the others that it is so. */
enum { AMP_FREE_EXTENTS = 8, AMP_EXTENT_CAPTURES = 4 };

typedef struct amp_free_extent {
    const char *name;
    int input, dim; /* the first that has it */
    int64_t given;  /* how many it is in the caller's inputs */
    int64_t sizes[AMP_EXTENT_CAPTURES];
} amp_free_extent;

typedef struct amp_free_extents {
    amp_free_extent items[AMP_FREE_EXTENTS];
    const char *names[AMP_FREE_EXTENTS];
    int count;
    bool is_models;     /* those that the model leaves open: one that cannot be free is fixed */
    signed char *which; /* by input · AMP_MAX_RANK + dimension: of items; -1: fixed */
    char *text;
} amp_free_extents;

/* "ids:0=batch,ids:1=length,mask:0=batch"; an input by its name or number, a dimension from 0 on; "*": all that the
 * model has names for. To be ended by amp_free_extents_end also where it fails. */
amp_status amp_free_extents_read(amp_free_extents *f, const amp_graph_source *source, amp_tensor *const *inputs,
                                 const char *words);
/* Sizes, with which the graph can be captured; `inputs` are the caller's, whose elements are repeated. */
amp_status amp_free_extents_choose(amp_free_extents *f, const amp_graph *graph, amp_tensor *const *inputs);
/* The inputs of capture `capture`, of the innermost scope. */
amp_status amp_free_extents_inputs(const amp_free_extents *f, const amp_graph_source *source, int capture,
                                   amp_tensor *const *inputs, amp_tensor **made);
void amp_free_extents_end(amp_free_extents *f);

#endif /* AMP_ONNX_WRITE_FREE_EXTENTS_H */
