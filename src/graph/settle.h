/* Settling: computing values of a capture that were written down and not computed (call/ahead.h), when somebody needs
 * them. */
#ifndef AMP_GRAPH_SETTLE_H
#define AMP_GRAPH_SETTLE_H

#include "graph/net.h"
#include "policy/regions.h"

/* A storage without elements, and how they come about; also where they are there by now, for what comes from them. */
typedef struct amp_unsettled {
    struct amp_unsettled_list *list;
    struct amp_unsettled *next, *previous;
    amp_tensor as; /* the tensor that was made over the storage, whose references are others' */
    int value;     /* that it is */
} amp_unsettled;

/* Of one capture, and what it is computed from. */
typedef struct amp_unsettled_list {
    amp_unsettled *first;      /* the newest */
    const amp_net *net;        /* of which … */
    int nodes;                 /* … so many are complete */
    amp_tensor *const *inputs; /* of the run */
    const amp_region_state *regions;
    unsigned layers; /* of the thread, outside of the capture */
} amp_unsettled_list;

/* The tensor, alone over its storage, has no elements and is that value. An error: no memory. */
amp_status amp_unsettled_add(amp_unsettled_list *list, const amp_tensor *t, int value);
/* Forgets the values from this number on. */
void amp_unsettled_drop_from(amp_unsettled_list *list, int value);
/* Those that are still there afterwards never get elements. */
void amp_unsettled_free(amp_unsettled_list *list);

/* Which list has it; NULL: the tensor's elements are there. */
amp_unsettled_list *amp_unsettled_in(const amp_tensor *t);

/* Whether one of them has no elements. */
bool amp_unsettled_any(const amp_unsettled_list *list);

/* Computes the elements of a tensor, if they are not there; of all. An error leaves them as they were. */
amp_status amp_settle(const amp_tensor *t);
amp_status amp_settle_all(const amp_unsettled_list *list);

#endif /* AMP_GRAPH_SETTLE_H */
