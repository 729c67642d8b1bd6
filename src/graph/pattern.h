/* Patterns of calls, as text: what idioms are found by.
 *
 *     mul(mul(x, add(erf(div(x, 1.41421)), 1)), 0.5)
 *
 * A name with arguments is a call of that op (any overload) with these tensors, in the order of its schema; `add` and
 * `mul` take theirs in either order. A name alone is any value, the same wherever it stands again; with # in front, a
 * constant. A number is a constant of one element that has it, to five digits; `y=sub(x, m)` gives what a call makes a
 * name, by which it can be named further right. What calls inside the pattern make, nobody else may read. It begins with
 * a call. */
#ifndef AMP_GRAPH_PATTERN_H
#define AMP_GRAPH_PATTERN_H

#include "graph/net.h"

enum { AMP_PATTERN_NAMES = 16, AMP_PATTERN_NODES = 48 };

/* How far a match has come: what is taken back where arguments are tried in the other order. */
typedef struct amp_match_progress {
    int names, inner;                        /* how many of amp_match's arrays */
    unsigned char visits[AMP_PATTERN_NODES]; /* how often the pattern reads inner[i] */
} amp_match_progress;

typedef struct amp_match {
    const amp_net *net;
    int root; /* the node that makes the result */
    char names[AMP_PATTERN_NAMES][8];
    int values[AMP_PATTERN_NAMES];
    int inner[AMP_PATTERN_NODES]; /* values made inside */
    amp_match_progress so_far;
} amp_match;

/* The pattern with node `root` as its last call. */
bool amp_pattern_match(const char *pattern, const amp_net *net, int root, amp_match *m);

/* The value of a name of the pattern; AMP_NET_NONE: there is none. */
int amp_match_value(const amp_match *m, const char *name);
/* The node that made it; NULL: it is an input or a constant. */
const amp_net_node *amp_match_node(const amp_match *m, const char *name);

/* The number in a constant of one element, whatever its dtype; false: it is none. */
bool amp_net_number(const amp_net *net, int value, double *number);

#endif /* AMP_GRAPH_PATTERN_H */
