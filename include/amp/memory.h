/* Where memory comes from: the allocator hook, and the figures of the caching allocator above it. */
#ifndef AMP_MEMORY_H
#define AMP_MEMORY_H

#include "amp/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The system allocator below libamp's cache. `allocate` returns memory aligned to `alignment` (a power of two, at
 * least 64) or NULL; `release` gets the same size back. Both may be called from any thread. */
typedef struct amp_allocator {
    void *(*allocate)(void *context, size_t bytes, size_t alignment);
    void (*release)(void *context, void *block, size_t bytes);
    void *context;
} amp_allocator;

/* Replaces the system allocator; NULL restores the default. Blocks already handed out go back to the allocator that
 * they came from, each when it is freed next: `context` must live until then. The struct is copied. */
AMP_API amp_status amp_set_allocator(const amp_allocator *allocator);

/* Counters of the process since its start. A later libamp may add some at the end. */
typedef struct amp_memory_stats {
    size_t live_bytes;         /* handed out now, to the explain report and other records too */
    size_t cached_bytes;       /* free blocks kept for reuse */
    size_t system_allocations; /* requests that went to the system allocator */
    size_t live_tensors;       /* tensors not yet released */
} amp_memory_stats;

/* Fills the first `bytes` of *stats, which is sizeof(amp_memory_stats): what this libamp does not know of them is 0.
 * AMP_ERROR_INVALID: stats is NULL; bytes is 0. */
AMP_API amp_status amp_memory_get_statistics(amp_memory_stats *stats, size_t bytes);
/* Gives free blocks back to the system: those that this thread keeps, and those of threads that ended. */
AMP_API void amp_memory_trim(void);

#ifdef __cplusplus
}
#endif

/* The same as a value, of the size that the program was compiled with. */
static inline amp_memory_stats amp_memory_statistics(void) {
    amp_memory_stats stats;
    (void)amp_memory_get_statistics(&stats, sizeof stats);
    return stats;
}

#endif /* AMP_MEMORY_H */
