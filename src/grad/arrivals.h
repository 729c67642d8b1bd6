/* Where a backward stands: gradients that have arrived at nodes, the latest node first.
 *
 * A node's number is larger than those of all that it leads to, so taking the largest each time gives every node all of
 * its gradients before it runs, in an order that depends on nothing but the tape. */
#ifndef AMP_GRAD_ARRIVALS_H
#define AMP_GRAD_ARRIVALS_H

#include "grad/node.h"

typedef struct amp_arrival {
    amp_grad_node *node;
    amp_tensor **gradients; /* by result, owned; NULL until the first arrives */
    bool is_needed;         /* it leads to what is asked for */
    bool is_asked;          /* a gradient of one of its results is asked for itself */
    bool is_queued;
} amp_arrival;

typedef struct amp_arrivals {
    amp_arrival *items;
    int count;
    size_t room;
    int *table, *heap; /* by node: number + 1, or 0; numbers of those that wait, a heap */
    int table_size, heap_count;
} amp_arrivals;

/* The node's, new if it has none yet; its number, or -1: no memory. */
int amp_arrivals_of(amp_arrivals *a, amp_grad_node *node);
/* … -1: it has none. */
int amp_arrivals_find(const amp_arrivals *a, const amp_grad_node *node);
/* It waits, once. */
void amp_arrivals_queue(amp_arrivals *a, int number);
/* The latest that waits; -1: none. */
int amp_arrivals_next(amp_arrivals *a);
void amp_arrivals_free(amp_arrivals *a);

#endif /* AMP_GRAD_ARRIVALS_H */
