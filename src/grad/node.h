/* The tape: a node for each recorded call, edges to what made its arguments.
 *
 * A node keeps the call's struct, and of its tensors what gradient functions need: geometry of all, elements of those
 * that `saves` names. It holds storages and never headers, so nothing that the program does to a tensor's header
 * reaches it; the version that a storage had tells whether its elements are still those. Of a pending cast it keeps the
 * source, with the dtype that it stood for: a weight's packed forms serve the backward as well.
 *
 * Edges lead from later nodes to earlier ones, which `sequence` says too. A leaf has a node of its own, the earliest of
 * all, in which gradients arrive. */
#ifndef AMP_GRAD_NODE_H
#define AMP_GRAD_NODE_H

#include "amp/grad.h"
#include "call/gradient.h"
#include "core/tensor_impl.h"
#include "generated/gradients.h"

/* Where gradients stay: of a leaf, or of a result that retains its own. */
typedef struct amp_grad_cell {
    atomic_int references;
    amp_tensor *_Atomic gradient;
} amp_grad_cell;

typedef struct amp_grad_hook {
    struct amp_grad_hook *next;
    amp_gradient_hook call; /* NULL: the cell keeps the gradient */
    void *context;
    void (*release)(void *context); /* NULL: the context is somebody else's */
    amp_grad_cell *cell;
    int output;
    bool is_last; /* those that are added later come before it */
} amp_grad_hook;

/* Of one tensor of a call. */
typedef struct amp_saved {
    amp_storage *storage; /* NULL: its elements were not saved */
    uint64_t version;
    bool is_present;         /* the argument was given, the result made */
    amp_dtype dtype, source; /* source: of a pending cast, else AMP_DTYPE_NONE */
    amp_cast_life cast_life;
    int rank;
    int64_t shape[AMP_MAX_RANK], strides[AMP_MAX_RANK], offset;
} amp_saved;

typedef struct amp_grad_edge {
    struct amp_grad_node *node; /* NULL: nobody wants this gradient */
    int output;                 /* … which it is of the node's results */
    amp_dtype dtype;            /* what it is converted to: a cast has none of its own */
} amp_grad_edge;

typedef struct amp_grad_node {
    atomic_int references;
    uint64_t sequence;           /* 0: a leaf */
    const amp_gradient_row *row; /* NULL: a leaf */
    const amp_op_info *op;       /* NULL: none of the table (history.c) */
    const char *name;            /* for messages: "add_", "view of a tensor that was written" */
    void *args;                  /* behind the node */
    int slot_count, result_count;
    amp_grad_edge *edges;       /* by tensor argument; behind the node */
    amp_saved *slots, *results; /* results: an allocation of their own */
    amp_device device;
    amp_random_place random;
    unsigned wanted;     /* a bit for each argument whose gradient somebody wants */
    unsigned needed[2];  /* … for each argument, and each result, whose elements its function reads for those */
    bool owns_results;   /* they are an allocation of their own */
    bool reaches_leaves; /* its function goes back to leaves by itself: it cannot be asked for some gradients alone */
    bool may_create;     /* of no op, and its function calls ops only, which create_graph may record */
    bool is_spent;       /* what it saved is gone */
    amp_grad_cell *cell; /* a leaf's */
    atomic_int keepers;  /* of a leaf: saved slots of nodes that were not gone over yet */
    amp_grad_hook *hooks;
    struct amp_grad_node *next_dead;
} amp_grad_node;

/* A node for a call of `slots` tensors, whose arguments take `args_bytes`, with that many results; all else 0, its
 * number too. NULL: no memory. */
amp_grad_node *amp_grad_node_new(int slots, int results, size_t args_bytes);
/* Gives it its number, once what its edges lead to is found: that may make nodes, and those come before it. */
void amp_grad_node_number(amp_grad_node *node);
/* Room for more results than it was made with, for an op that returns a list. False: no memory. */
bool amp_grad_node_make_results(amp_grad_node *node, int64_t count);
/* The node of a leaf, and the cell that it shares with the leaf's history. */
amp_grad_node *amp_grad_leaf_new(amp_grad_cell *cell);
amp_grad_node *amp_grad_node_retain(amp_grad_node *node);
/* Frees without recursion, however long the tape. NULL is allowed. */
void amp_grad_node_drop(amp_grad_node *node);
/* Saves the elements of an argument, whose edge it has. */
void amp_grad_node_save(amp_grad_node *node, int slot, const amp_tensor *tensor);
/* No other node that was not gone over has saved a leaf that this one has. */
bool amp_grad_node_keeps_alone(const amp_grad_node *node);
/* Lets what it saved go. */
void amp_grad_node_spend(amp_grad_node *node);
/* … and of the leaves that nobody else has saved the casts: their gradients have come, and they are written next. So
 * packed forms of all weights and gradients of all weights are never there at once. */
void amp_grad_node_spend_casts(amp_grad_node *node);

amp_grad_cell *amp_grad_cell_new(void);
amp_grad_cell *amp_grad_cell_retain(amp_grad_cell *cell);
void amp_grad_cell_drop(amp_grad_cell *cell);
/* Takes the caller's reference; NULL empties it. */
void amp_grad_cell_set(amp_grad_cell *cell, amp_tensor *gradient);

/* Adds one that keeps what arrives in the cell; false: no memory. */
bool amp_grad_hook_add_cell(amp_grad_node *node, int output, amp_grad_cell *cell);
/* Adds one of a program's, which ends with the node; false: no memory. */
bool amp_grad_hook_add(amp_grad_node *node, int output, amp_gradient_hook call, void *context,
                       void (*release)(void *context));
/* Adds a hook that sees what all others have made of the gradient. */
bool amp_grad_hook_add_last(amp_grad_node *node, int output, amp_gradient_hook call, void *context);
/* Takes a hook away that was added with this context. */
void amp_grad_hook_remove(amp_grad_node *node, amp_gradient_hook call, const void *context);
/* Whether what arrives at the node goes to the cell. */
bool amp_grad_node_fills(const amp_grad_node *node, const amp_grad_cell *cell);

/* The cell of a tensor that has got another node keeps that one's gradient from now on. */
void amp_grad_hook_move(amp_grad_node *from, amp_grad_node *to, int output, amp_grad_cell *cell);

/* Geometry, and with `keep` the elements. */
void amp_saved_take(amp_saved *saved, const amp_tensor *tensor, bool keep);
/* A tensor of the innermost scope again: with its elements, or NaN in the place of each. NULL with an error: they were
 * written since. `node` and `name` are for the sentence. */
amp_tensor *amp_saved_tensor(const amp_saved *saved, const amp_grad_node *node, const char *name);

#endif /* AMP_GRAD_NODE_H */
