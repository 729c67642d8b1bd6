/* The nets of a graph: one for each set of input shapes and each kind of region, made by its first run. */
#ifndef AMP_GRAPH_NETS_H
#define AMP_GRAPH_NETS_H

#include "graph/graph.h"
#include "graph/net.h"

enum { AMP_NETS = 8 }; /* kept; the one unused for longest goes */

typedef struct amp_nets amp_nets;

amp_nets *amp_nets_new(void); /* NULL: no memory, without an error */
void amp_nets_free(amp_nets *nets);

/* Computes the source's outputs: by the net for such inputs or, where there is none yet, by the source, whose calls are
 * captured. Inputs have been checked; outputs belong to the innermost scope. into: as that of
 * amp_net_execute. */
amp_status amp_nets_compute(amp_nets *nets, const amp_graph_source *source, amp_tensor *const *inputs,
                            amp_tensor *const *into, amp_tensor **outputs);

/* What the first of such runs does beside computing (amp_graph_prepare). */
amp_status amp_nets_prepare(amp_nets *nets, const amp_graph_source *source, amp_tensor *const *inputs);

/* amp_nets_compute with a watcher, which has been checked. An error where there can be no net. */
amp_status amp_nets_watch(amp_nets *nets, const amp_graph_source *source, amp_tensor *const *inputs,
                          amp_tensor **outputs, const amp_graph_watcher *watcher);

#endif /* AMP_GRAPH_NETS_H */
