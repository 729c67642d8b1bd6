/* The group of processes that this one is in, and what its members agree upon. None of these functions cares whether an
 * error stands: who has failed takes part all the same, and says so. Where a rank cannot (no memory for what it would
 * receive) it returns an error, and the others wait until its process ends, which ends theirs. */
#ifndef AMP_DISTRIBUTED_WORLD_H
#define AMP_DISTRIBUTED_WORLD_H

#include <stdint.h>

#include "core/tensor_impl.h"
#include "distributed/place.h"
#include "distributed/transport.h"

typedef struct amp_world {
    const amp_transport *transport;
    int rank, size;
} amp_world;

/* A mark of what it was of before, and one number more. */
static inline uint64_t amp_world_mix(uint64_t mark, uint64_t more) {
    mark = (mark ^ more) * 0x9e3779b97f4a7c15u;
    return mark ^ mark >> 29;
}

/* A process by itself: what it sends arrives. */
extern const amp_transport amp_transport_alone;

/* The group, for a function that all ranks call; an error on another thread than the one that joined it. */
amp_status amp_world_enter(const char *what, const amp_world **group);
/* After a function of the transport has returned false. */
amp_status amp_world_fail(const char *what);

/* `bytes` of each rank, at `to` by rank. */
amp_status amp_world_gather(const char *what, const void *from, void *to, size_t bytes);
/* Whether all ranks are well, and have the same mark (0 where there is nothing to compare). What failed elsewhere is an
 * error here, which names the rank. */
amp_status amp_world_agree(const char *what, amp_status status, uint64_t mark);
/* An error unless it is there and contiguous. */
amp_status amp_world_check_tensor(const char *what, const char *name, const amp_tensor *tensor);
/* The values of rank `root`'s, of a tensor that has been checked, in a place that is connected. */
amp_status amp_world_broadcast_tensor(const char *what, const amp_place *place, amp_tensor *tensor, int root);

#endif /* AMP_DISTRIBUTED_WORLD_H */
