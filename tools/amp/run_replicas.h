/* amp run --numa replicate: a process on each further node, with weights of its own, which does what this one does. */
#ifndef AMP_TOOL_RUN_REPLICAS_H
#define AMP_TOOL_RUN_REPLICAS_H

#include "run.h"
#include "run_process.h"

typedef struct run_replica {
    const run_options *options;
    const run_node *node;
    run_process process;
    bool is_alive;
    run_times times[RUN_KINDS]; /* sorted, once they have been collected */
} run_replica;

struct run_replicas {
    int count; /* of the nodes beside this process's own */
    run_replica *items;
};

/* Starts them. No thread may have been started here. To be ended by run_replicas_end also where it fails. */
int run_replicas_start(run_replicas *replicas, const run_options *o);
/* Lets them load the model and run it once: what is wrong with it has been said by then. */
int run_replicas_load(run_replicas *replicas);
/* Waits until all are ready, and lets them run in turns. An error where one's outputs have other bits than those
 * given. */
int run_replicas_go(run_replicas *replicas, const run_results *results, const run_model *m);
/* Waits for their times. */
int run_replicas_collect(run_replicas *replicas);
void run_replicas_end(run_replicas *replicas);

#endif /* AMP_TOOL_RUN_REPLICAS_H */
