/* What a plan is made of: plan.c records it, plan_run.c runs it. */
#ifndef AMP_GRAPH_PLAN_DATA_H
#define AMP_GRAPH_PLAN_DATA_H

#include <stdatomic.h>

#include "graph/arena.h"
#include "graph/plan.h"
#include "graph/pool.h"
#include "policy/regions.h"

/* Values that share memory. */
typedef enum amp_plan_place {
    AMP_PLAN_ARENA,
    AMP_PLAN_OUTER, /* an output's, or what an op of the program sees: may outlive the run, made for each */
    AMP_PLAN_INPUT, /* the caller's */
    AMP_PLAN_HEAP   /* what a call through the dispatcher made */
} amp_plan_place;

typedef struct amp_plan_family {
    amp_plan_place place;
    int value;    /* the one that it began with */
    int block;    /* of the arena */
    size_t bytes; /* of the block */
    int members;
} amp_plan_family;

typedef struct amp_plan_cast {
    int operand;
    amp_dtype dtype;
    amp_cast_life life;
} amp_plan_cast;

typedef struct amp_plan_step {
    int node;
    bool dispatches;      /* through the dispatcher: the rest is unused, but for the drops */
    bool is_viewed;       /* views of a result, or an output, were laid out for its strides */
    void *args;           /* as autocast left them, but tensors */
    amp_plan_cast *casts; /* operands that become others */
    int cast_count;
    int first_drop, drop_count; /* in plan->drops: values that nobody needs after it */
} amp_plan_step;

struct amp_plan_state;

struct amp_plan {
    const amp_net *net;
    amp_pool pool;                              /* of what it points to */
    amp_region_state regions[AMP_DEVICE_COUNT]; /* it holds in these, … */
    unsigned policies;                          /* … and with this version of the policies */
    amp_plan_step *steps;
    amp_tensor *headers; /* by value: as they are in each run, but for storages; magic 0: the value has none */
    int *families;       /* by value; AMP_NET_NONE: a constant, or without a header */
    amp_plan_family *family;
    amp_arena_block *blocks; /* of the families that lie in the arena */
    int *adopted;            /* values that a call through the dispatcher makes */
    int *drops;              /* the same by the step that is the last to need them; outputs are not among them */
    int *placed;             /* values of inputs' and outputs' families */
    int step_count, family_count, block_count, adopted_count, placed_count;
    size_t arena_bytes;
    size_t args_bytes; /* of all steps' structs, each rounded up for any type */
    int operand_count, cast_count, place_count;
    atomic_bool broken;            /* a run was not as the recorded one */
    struct amp_plan_state *states; /* not in use; AMP_LOCK_GRAPHS */
};

/* The room of a struct in a row of such. */
size_t amp_plan_args_room(const amp_op_info *op);

void amp_plan_free_state(struct amp_plan_state *state);

#endif /* AMP_GRAPH_PLAN_DATA_H */
