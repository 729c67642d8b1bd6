/* Where the tensors of a group's ranks lie: on the CPU, or on a GPU of each. A table for either says what memory is
 * there and how it goes round, so that buckets and shards know neither. On the CPU the transport carries all. On GPUs
 * it carries what ranks tell each other, and NCCL the elements, on the stream that computes them: nobody waits for
 * bytes there, and all ranks must begin transfers in one order. */
#ifndef AMP_DISTRIBUTED_PLACE_H
#define AMP_DISTRIBUTED_PLACE_H

#include "core/tensor_impl.h"

typedef struct amp_place_kind amp_place_kind;

typedef struct amp_place {
    const amp_place_kind *kind; /* NULL: no tensor has said it yet */
    int device;                 /* which GPU */
    unsigned link;              /* the number of NCCL's group, the same on all ranks; 0: none */
} amp_place;

/* Memory of a place. */
typedef struct amp_room {
    char *bytes;
    void *owner; /* the place's own; NULL: there is none */
} amp_room;

struct amp_place_kind {
    const char *name;
    /* The place's transfers are not the transport's, which goes on when one of them has failed: an error stands then,
     * and the ranks tell each other when they agree next. */
    bool is_apart;
    /* False: no memory, and no error. */
    bool (*take)(const amp_place *p, size_t bytes, amp_room *room);
    /* Nothing where there is none. */
    void (*drop)(amp_room *room);
    /* A tensor over what begins at byte `at`, which is gone before the room is. */
    amp_tensor *(*over)(const amp_room *room, size_t at, amp_dtype dtype, int rank, const int64_t *shape);
    /* A tensor of the same elements, of another one's shape and dtype, that may outlive the room. */
    amp_tensor *(*keep)(const amp_room *room, size_t at, amp_dtype dtype, amp_tensor *like);
    /* The addresses for the functions below: of a dense tensor, of a room. NULL with an error. */
    char *(*address)(const char *what, const amp_place *p, const amp_tensor *t);
    char *(*reach)(const char *what, const amp_place *p, const amp_room *room);
    amp_status (*copy)(const char *what, const amp_place *p, void *to, const void *from, size_t bytes);
    /* As amp_world_gather, and `bytes` of rank `root` are everybody's. */
    amp_status (*gather)(const char *what, const amp_place *p, const void *from, void *to, size_t bytes);
    amp_status (*broadcast)(const char *what, const amp_place *p, void *bytes, size_t count, int root);
    /* Where it is apart: as the transport's start_exchange. */
    amp_status (*exchange)(const char *what, const amp_place *p, const void *from, void *to, size_t bytes);
};

extern const amp_place_kind amp_place_cpu, amp_place_cuda;

/* A tensor, which is live, is to lie there too: the first says where. */
amp_status amp_place_add(const char *what, amp_place *p, const char *name, const amp_tensor *t);
/* All ranks: theirs are of one kind, and can reach each other. */
amp_status amp_place_connect(const char *what, amp_place *p);
/* All ranks: the same, where an earlier error has parted them. */
amp_status amp_place_renew(const char *what, amp_place *p);
/* Whether its transfers are well, as far as this rank knows. */
amp_status amp_place_check(const char *what, const amp_place *p);
/* After a failure of this rank's before a transfer: it begins no more of them until all have parted. */
void amp_place_lose(const amp_place *p);
/* After an error that all ranks have: whatever is under way ends. */
void amp_place_part(const amp_place *p);
/* All ranks, after transfers: one status for all. */
amp_status amp_place_settle(const char *what, const amp_place *p, amp_status status);
/* All ranks, when the group ends. */
void amp_place_leave_all(void);
/* The elements of a tensor on the CPU, of its shape and dtype. */
amp_status amp_place_store(const char *what, amp_tensor *t, const amp_tensor *host);

#endif /* AMP_DISTRIBUTED_PLACE_H */
