/* What a tensor knows of how it was made: the node whose result it is, and of a view the tensor that it is one of.
 *
 * Writing a tensor in place gives it another node. Views of it find that out by the generation of their base, and take
 * a node that leads there; writing a view gives its base a node that has the base's old values but for those. So a
 * tensor and its views always agree. */
#ifndef AMP_GRAD_HISTORY_H
#define AMP_GRAD_HISTORY_H

#include "grad/node.h"

/* Where a view lies in memory. */
typedef struct amp_geometry {
    amp_dtype dtype;
    int rank;
    int64_t shape[AMP_MAX_RANK], strides[AMP_MAX_RANK], offset;
} amp_geometry;

typedef struct amp_history {
    atomic_int references;
    amp_grad_node *node; /* NULL: nothing that requires gradients made it */
    int output;
    amp_grad_cell *cell;      /* of a leaf, or retained; NULL: none */
    struct amp_history *base; /* of a view; NULL: it is none */
    uint64_t generation;      /* of a base: how often it was written */
    uint64_t seen;            /* of a view: when its node was found */
    bool of_several;          /* a view that an op made with others: it cannot be written */
    bool of_another_dtype;    /* a view of numbers of another dtype: nor can it */
    amp_geometry geometry;
} amp_history;

amp_history *amp_history_new(const amp_tensor *tensor);
amp_history *amp_history_retain(amp_history *history);
void amp_history_drop(amp_history *history);
/* Of the tensor, made if it has none. NULL: no memory, with an error. */
amp_history *amp_history_of(amp_tensor *tensor);

/* The tensor as ops see it, and not the cast that autocast has put in its place. */
static inline amp_tensor *amp_grad_source(amp_tensor *t) {
    return t->source ? t->source : t;
}

/* The node that the gradient of a tensor goes to, and *output, which it is of its results; NULL: it requires none, or
 * an error stands. */
amp_grad_node *amp_history_node(const amp_tensor *tensor, int *output);

/* Whether tensors of its dtype can have one. */
static inline bool amp_grad_is_possible(const amp_tensor *t) {
    return amp_dtype_is_floating(t->dtype) || amp_dtype_is_complex(t->dtype);
}

/* An edge to what made the tensor, if that wants a gradient. */
static inline void amp_grad_node_lead(amp_grad_node *node, int slot, amp_tensor *t) {
    int output = 0;
    const amp_tensor *source = amp_grad_source(t);
    amp_grad_node *before = amp_history_node(source, &output);
    if (before) node->edges[slot] = (amp_grad_edge){amp_grad_node_retain(before), output, source->dtype};
}

/* The tensor is result `output` of a node from now on. `of`: what it is a view of, if its memory is that one's; else
 * NULL. */
amp_status amp_history_begin(amp_tensor *tensor, amp_grad_node *node, int output, amp_tensor *of, bool of_several);
/* … after it was written in place; NULL: by what leads no gradient on. `reshapes`: only its shape and strides were. */
amp_status amp_history_rewrite(amp_tensor *tensor, amp_grad_node *node, bool reshapes);
/* An error if it must not be written in place while calls are recorded. */
amp_status amp_history_check_writable(const char *op, const amp_tensor *tensor);

#endif /* AMP_GRAD_HISTORY_H */
