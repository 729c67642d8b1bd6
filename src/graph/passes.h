/* What makes a net faster. */
#ifndef AMP_GRAPH_PASSES_H
#define AMP_GRAPH_PASSES_H

#include "graph/net.h"

/* Runs all passes, in the order of the table in passes.c. True: something has changed. `name`: the graph's, for
 * AMP_VERBOSE=graph. A pass that finds no memory leaves the net as it was. */
bool amp_net_improve(amp_net *net, const char *name);

/* ---- The passes, a file each: how many places were changed ---- */
int amp_pass_batch_norm(amp_net *net);

#endif /* AMP_GRAPH_PASSES_H */
