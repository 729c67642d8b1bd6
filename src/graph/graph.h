/* A graph: inputs and outputs by name, and a function that computes the ones from the others by calling ops. */
#ifndef AMP_GRAPH_GRAPH_H
#define AMP_GRAPH_GRAPH_H

#include "amp/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a model's maker wants to be known of it. */
typedef struct amp_graph_property {
    const char *key, *value;
} amp_graph_property;

/* The weights of a model's file, and numbers by which it is known. */
typedef struct amp_graph_weights {
    amp_tensor *const *tensors; /* in an order that the file decides; NULL: it has none of that number */
    int count;
    uint64_t structure; /* of all but the weights' elements */
    uint64_t stamp;     /* of the sizes of the files and the times when they were written */
    /* Of all bytes of the files, which are read for it. */
    uint64_t (*sum)(const void *context);
    const void *context;
} amp_graph_weights;

/* Where a graph comes from. */
typedef struct amp_graph_source {
    const char *name; /* for messages: the file */
    int input_count, output_count;
    const amp_graph_value *inputs, *outputs;
    int metadata_count;
    const amp_graph_property *metadata;
    amp_graph_function compute; /* inputs have been checked; outputs belong to the innermost scope */
    bool exact;                 /* amp_graph_options.exact */
    bool
        is_programs; /* a program's function, which may use what ops made before; else all constants come from the file */
    const amp_graph_weights *weights; /* NULL: they are the program's */
    void (*release)(void *context);   /* of the context, with all texts above */
    void *context;
} amp_graph_source;

/* What the caller gave, which may be NULL; `what` is for messages. */
amp_status amp_graph_read_options(const char *what, amp_graph_options *options, const amp_graph_options *given);

/* NULL with an error; the context is the caller's then. */
amp_graph *amp_graph_new(const amp_graph_source *source);

const amp_graph_source *amp_graph_source_of(const amp_graph *graph);
/* An error unless these are inputs that amp_graph_run would take. */
amp_status amp_graph_check_inputs(const amp_graph *graph, amp_tensor *const *inputs, int count);

#ifdef __cplusplus
}
#endif

#endif /* AMP_GRAPH_GRAPH_H */
