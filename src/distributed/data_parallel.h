/* What data-parallel training is made of: parameters with what their gradients are, and buckets, in which those go
 * round.
 *
 * A bucket's elements are cut in as many chunks as there are ranks. Chunk c of every rank goes to rank c, behind a flag
 * for each parameter: whether the rank has a gradient of it. Rank c adds them in the order of the ranks, and all ranks
 * gather the sums. So every sum has one order, on whatever rank it is made. No thread is made for this: buckets move on
 * when a gradient arrives (bucket_advance in its hook), and at the end of the backward, where they are waited for.
 *
 * On GPUs the flags go apart, by the transport, while the backward goes on: the host must know them before it enqueues
 * sums. Elements follow at the end of the backward, when all ranks have the memory for them. */
#ifndef AMP_DISTRIBUTED_DATA_PARALLEL_H
#define AMP_DISTRIBUTED_DATA_PARALLEL_H

#include "amp/distributed.h"
#include "distributed/world.h"

/* What was at a leaf when a backward began. */
typedef enum amp_held {
    AMP_HELD_NOTHING,
    AMP_HELD_REDUCED, /* a data-parallel backward's: the sum begins with it */
    AMP_HELD_LOCAL,   /* plain backwards': part of this rank's contribution */
    AMP_HELD_MIXED    /* both */
} amp_held;

/* A parameter. */
typedef struct amp_reduced {
    struct amp_data_parallel *ddp;
    char *name;
    amp_tensor *tensor;
    struct amp_grad_node *node; /* the leaf's that has the hook, one more owner of it; NULL: none, it is frozen */
    int64_t begin, count;       /* its elements in the bucket */
    int bucket;
    amp_tensor *placed; /* what the last data-parallel backward put there; NULL: nothing */
    bool is_asked;      /* a plain backward, or amp_grad, has come by since, … */
    uint64_t version;   /* … when that had this one: a backward has written it, amp_grad has not */
    /* During a backward. */
    amp_tensor *before; /* was at the leaf; NULL: nothing */
    amp_held held;
    bool is_given;    /* this rank's contribution is in the bucket */
    bool is_there;    /* there will be a gradient: some rank's, or the one before */
    amp_tensor *made; /* … which waits for all ranks to have theirs */
} amp_reduced;

typedef struct amp_bucket {
    int first, count; /* its parameters */
    amp_dtype sum, wire;
    int64_t elements, chunk; /* of all chunks, padded; of one */
    size_t flags, piece;     /* bytes: the flags in front of a chunk; both together, on the wire */
    char *apart;             /* flags for and then of each rank that are in no piece; NULL: they are in front */
    bool is_written;         /* a transport that failed may still write to it */
    /* During a backward. */
    int waits_for;           /* parameters whose gradient has not come */
    amp_room sent, received; /* a piece of and for each rank */
    amp_room gathered;       /* chunks of the wire's dtype, where that is not the sum's */
    amp_room result;         /* in the dtype of the sum */
    amp_transfer *transfer;
} amp_bucket;

struct amp_data_parallel {
    amp_dtype wire;
    amp_gradient_reduction reduction;
    int64_t bucket_bytes;
    bool overlaps;
    int size; /* of the group that it was made in */
    amp_place place;
    amp_reduced *items;
    int count;
    amp_tensor **buffers;
    int64_t buffer_count;
    amp_bucket *buckets;
    int bucket_count;
    /* During a backward. */
    bool is_active;
    bool is_broken; /* this rank cannot go on: it has no memory for what comes, … */
    bool is_lost;   /* … or the transport has failed */
    bool is_flushing;
    int exchanged, gathered; /* buckets that have begun so */
    int through;
    amp_reduced *last; /* whose gradient came last: it is at the leaf after the hook */
    amp_data_parallel_stats stats;
};

/* ---- buckets.c ---- */
/* Puts parameters in buckets, from the last to the first: so they come in a backward. */
amp_status amp_buckets_lay_out(amp_data_parallel *d);
/* Before a backward. */
void amp_buckets_begin(amp_data_parallel *d);
/* A contribution, which is written into the bucket. */
amp_status amp_bucket_give(amp_data_parallel *d, amp_reduced *r, amp_tensor *gradient);
/* Starts what can be started, and sums what has come; `waits`: until all buckets are through, those that were not
 * filled too. */
amp_status amp_buckets_advance(amp_data_parallel *d, bool waits);
/* The gradient of a parameter that is there, of its dtype, in the open scope. */
amp_tensor *amp_bucket_result(const amp_data_parallel *d, const amp_reduced *r);
/* After it: what buckets hold goes. */
void amp_buckets_end(amp_data_parallel *d);
void amp_buckets_free(amp_data_parallel *d);

/* ---- data_parallel.c ---- */
/* For a function that all ranks call with it; NULL and a group that has ended are errors. */
amp_status amp_data_parallel_enter(const char *what, const amp_data_parallel *d, const amp_world **group);
double amp_distributed_now(void);

#endif /* AMP_DISTRIBUTED_DATA_PARALLEL_H */
