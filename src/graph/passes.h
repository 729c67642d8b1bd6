/* What makes a net faster. */
#ifndef AMP_GRAPH_PASSES_H
#define AMP_GRAPH_PASSES_H

#include "graph/net.h"

/* Runs all passes, in the order of the table in passes.c. True: something that may change bits has changed. exact: only
 * passes that never do. `name`: the graph's, for AMP_VERBOSE=graph. A pass that finds no memory leaves the net as it
 * was. */
bool amp_net_improve(amp_net *net, const char *name, bool exact);

/* ---- The passes, a file each: how many places were changed ---- */
int amp_pass_same(amp_net *net);      /* calls that compute the same are one */
int amp_pass_idioms(amp_net *net);    /* several calls that are one op: GELU, layer_norm, … */
int amp_pass_epilogues(amp_net *net); /* what follows a product, convolution or batch norm becomes part of it */
int amp_pass_rounding(amp_net *net);  /* results in f32 that every reader rounds are rounded by what makes them */
int amp_pass_layout(amp_net *net);    /* channels last from the first convolution on */

/* ---- What they do ---- */

/* A tensor argument of a call that is made. */
typedef struct amp_net_argument {
    const char *name;
    int value; /* AMP_NET_NONE: absent */
} amp_net_argument;

/* Node k becomes a call of `op` with these tensors, all other options absent; its first result stays the value that it
 * was. NULL: no memory, and the node is as before. Texts that are put into the struct must live for ever. */
amp_net_node *amp_net_rewrite(amp_net *net, int k, const char *op, const amp_net_argument *arguments, int count);

/* A new value with the shape and dtype of another; AMP_NET_NONE: no memory. */
int amp_net_value_like(amp_net *net, int value);
/* A call of `op`, whose one tensor is `value`, that makes `result`, in front of node k, which moves on; NULL: no
 * memory. */
amp_net_node *amp_net_insert(amp_net *net, int k, const char *op, int value, int result);
/* What the CPU's region, its rules and its pins say of a call. */
amp_policy amp_net_policy(const amp_net *net, const amp_net_node *node);
/* In a region of bf16: everyone who reads the value sees but its rounded elements. False without memory, too. */
bool amp_net_is_rounded(const amp_net *net, int value);
/* A constant that is another one, a matrix, transposed: a view. AMP_NET_NONE: no memory. */
int amp_net_add_transposed(amp_net *net, int value);

/* The calls as text on standard error. */
void amp_net_print(const amp_net *net);

#endif /* AMP_GRAPH_PASSES_H */
