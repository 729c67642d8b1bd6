/* What amp_memory_statistics counts, per thread: an ordinary addition instead of a locked one. A total is the sum over
 * all threads; one thread's share may be negative (it freed what another allocated), modulo 2^64. */
#ifndef AMP_CORE_COUNTERS_H
#define AMP_CORE_COUNTERS_H

#include <stdatomic.h>
#include <stddef.h>

#include "core/thread.h"

typedef struct amp_counters {
    atomic_size_t live_bytes, cached_bytes, live_tensors; /* written by one thread only, read by all */
    struct amp_counters *next;
    atomic_bool owned; /* by a thread; those of threads that ended go to the next one that starts, values and all */
} amp_counters;

/* This thread's: the slow way, the first time. Never NULL. */
amp_counters *amp_counters_obtain(void);

static inline amp_counters *amp_counters_mine(void) {
    amp_counters *mine = amp_this_thread.counters;
    return __builtin_expect(mine != NULL, 1) ? mine : amp_counters_obtain();
}

/* Adds to one of this thread's counters; SIZE_MAX takes one away. */
static inline void amp_count(atomic_size_t *counter, size_t change) {
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + change, memory_order_relaxed);
}

/* The sum over all threads of the counter at that offset in amp_counters. */
size_t amp_counters_sum(size_t offset);

#endif /* AMP_CORE_COUNTERS_H */
