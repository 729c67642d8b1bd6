/* A network as data: calls of ops in their order, each with the op's own argument struct, and numbered values in the
 * place of tensors. Shapes are numbers: a net is for inputs of one shape. capture.c makes one, passes change it,
 * execute.c runs it. */
#ifndef AMP_GRAPH_NET_H
#define AMP_GRAPH_NET_H

#include "amp/autocast.h"
#include "amp/graph.h"
#include "core/tensor_impl.h"
#include "graph/pool.h"
#include "policy/op_table.h"

enum { AMP_NET_NONE = -1 };

typedef struct amp_net_value {
    amp_tensor *constant; /* held by the net; NULL: an input, or what a node makes */
    uint64_t version;     /* of the constant's storage, then */
    bool is_given;        /* the constant was there before; else it was made of such ones */
    uint64_t depends;     /* bit i: its elements depend on those of input i, bit 63: of an input from there on */
    amp_dtype dtype;      /* as they were when it was captured, … */
    int rank;
    int64_t shape[AMP_MAX_RANK];
    int node;     /* that makes it; AMP_NET_NONE */
    int uses;     /* by nodes and outputs: amp_net_count */
    int last_use; /* the last node that reads it; INT_MAX: an output */
} amp_net_value;

/* Where a tensor stands among an op's arguments. */
typedef struct amp_net_operand {
    short argument; /* in op->args */
    short place;    /* in a list; 0 of a tensor */
    int value;      /* AMP_NET_NONE: absent (of a list) */
} amp_net_operand;

typedef struct amp_net_node {
    const amp_op_info *op;     /* NULL: taken out */
    void *args;                /* the op's struct, complete, but its tensors */
    amp_net_operand *operands; /* by argument, then place */
    int *results;              /* values, by the op's outputs or places in its list; AMP_NET_NONE: not wanted */
    int operand_count, result_count;
    char *places; /* where its calls were made: names of nodes or labels, a line each; NULL: not known */
    bool is_f32;  /* in a region too: rules keep one of its calls so */
} amp_net_node;

/* What a pass did. */
typedef struct amp_net_change {
    const char *pass;
    int places, before, after; /* calls */
} amp_net_change;

enum { AMP_NET_CHANGES = 16 };

typedef struct amp_net {
    amp_net_value *values;
    amp_net_node *nodes;
    int *inputs, *outputs; /* values */
    int value_count, node_count, input_count, output_count;
    size_t value_room, node_room;    /* bytes */
    amp_pool pool;                   /* of what nodes point to, those that are gone too */
    const amp_autocast_rules *rules; /* of the region that it is for, while passes run; else NULL */
    amp_net_change changes[AMP_NET_CHANGES];
    int change_count;
    _Atomic(struct amp_plan *) plan; /* graph/plan.h; NULL: none, … */
    atomic_bool is_recorded;         /* … yet, if a run is being recorded, or for good */
    bool
        keeps_given; /* constants that were there before stay, without a reader too: their versions say whether the net holds */
} amp_net;

amp_net *amp_net_new(int inputs, int outputs); /* NULL: no memory, without an error */
void amp_net_free(amp_net *net);               /* may be NULL */

/* A new value like `like`'s; AMP_NET_NONE: no memory. */
int amp_net_add_value(amp_net *net, const amp_tensor *like, uint64_t depends);
/* A value that is this tensor, which the net holds from now on. */
int amp_net_add_constant(amp_net *net, amp_tensor *tensor);
/* A new node at the end, with a copy of `args`, and room for operands and results; NULL: no memory. */
amp_net_node *amp_net_add_node(amp_net *net, const amp_op_info *op, const void *args, int operands, int results);

/* The value of a node's argument; AMP_NET_NONE: absent. */
int amp_net_operand_of(const amp_net_node *node, const char *argument);
void *amp_net_field(const amp_net_node *node, const char *argument);

/* Puts `value` in the place of `old` everywhere. */
void amp_net_replace(amp_net *net, int old, int value);
/* The same in what is read from node k on. */
void amp_net_replace_from(amp_net *net, int k, int old, int value);
/* Takes out nodes whose results nobody reads, closes the gaps, and counts uses and last uses. */
void amp_net_count(amp_net *net);
/* Lets go of what no node or constant needs: values, which get new numbers, and the memory of nodes that are gone. A
 * net that passes have done with; without memory it stays as it is. */
void amp_net_compact(amp_net *net);

/* The node's calls were made there; "": not known. */
void amp_net_note_place(amp_net *net, amp_net_node *node, const char *place);
/* Node k is about to become `made`, which gets its places and is_f32, and those of the calls that it takes the place
 * of: all between its operands and those of `made`. */
void amp_net_join(amp_net *net, int k, amp_net_node *made);
/* No constant was written since it was captured. */
bool amp_net_is_fresh(const amp_net *net);

/* Runs it: by its plan or, the first time and where that does not hold, node by node through the dispatcher. Nobody
 * changes it any more. Outputs belong to the innermost scope. `into`, which may be NULL: a tensor or NULL for each
 * output; one that lies there already, in the same storage, needs not be copied. */
amp_status amp_net_execute(amp_net *net, amp_tensor *const *inputs, amp_tensor *const *into, amp_tensor **outputs);

/* All that the first such run does beside computing: weights are packed, kernels tested, the plan is made, its memory
 * taken once. There are no outputs: products are zeros meanwhile. An error may come of that. Where ops of the program
 * would see them, or somebody watches, it is a run. */
amp_status amp_net_prepare(amp_net *net, amp_tensor *const *inputs);

/* amp_net_execute node by node, of a net that may still change. */
amp_status amp_net_dispatch(const amp_net *net, amp_tensor *const *inputs, amp_tensor **outputs);

/* One node, whose operands stand in `values`; so do its results afterwards, of the innermost scope. */
amp_status amp_net_run_node(const amp_net *net, const amp_net_node *node, amp_tensor **values);

/* amp_net_execute with a watcher, which has been checked. */
amp_status amp_net_watch(const amp_net *net, amp_tensor *const *inputs, amp_tensor **outputs,
                         const amp_graph_watcher *watcher);

#endif /* AMP_GRAPH_NET_H */
