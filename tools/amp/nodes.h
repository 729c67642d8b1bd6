/* amp run and bench, --numa: the NUMA nodes of the machine, and a process on one of them. */
#ifndef AMP_TOOL_NODES_H
#define AMP_TOOL_NODES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef enum run_numa { RUN_ANYWHERE, RUN_LOCAL, RUN_REPLICATE } run_numa;

enum { RUN_CPUS = 4096, RUN_NODES = 64, RUN_CPU_WORDS = RUN_CPUS / 64 };

/* A bit for each, as sched_setaffinity takes them. */
typedef struct run_cpus {
    uint64_t words[RUN_CPU_WORDS];
} run_cpus;

typedef struct run_node {
    int number;    /* the system's */
    run_cpus cpus; /* those that this process may use: at least one */
} run_node;

typedef struct run_nodes {
    run_numa numa;
    int count, used; /* nodes that have CPUs for this process; those that it runs on: 0 for RUN_ANYWHERE */
    run_node items[RUN_NODES];
} run_nodes;

/* Finds the nodes and binds this process to the first that is to be used, so that what it allocates and starts from
 * here on lies and runs there. To be called before anything of libamp has run. With one node nothing is bound, and
 * nothing is used. Says what is wrong, and returns an exit code. */
int run_nodes_enter(run_nodes *nodes, run_numa numa);
/* Binds a process that was forked off to another node. */
int run_node_bind(const run_node *node);
bool run_cpus_has(const run_cpus *cpus, int cpu);
/* "0-3,8" */
void run_cpus_write(FILE *out, const run_cpus *cpus);
/* "On NUMA node 0, CPUs 0-3.", in one line; nothing for RUN_ANYWHERE. */
void run_nodes_write(FILE *out, const run_nodes *nodes);

#endif /* AMP_TOOL_NODES_H */
