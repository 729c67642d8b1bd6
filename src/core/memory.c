/* The caching allocator: size classes (block.h), a small free list per thread for small blocks, chains of them per class
 * for all threads behind it, large blocks that are cut and joined (large_blocks.h), and the system allocator (or the
 * user's hook) below. When that has no memory, all that is kept goes back to it first.
 *
 * A block's header (block.h) remembers which allocator the block came from, so that the hook can change while blocks
 * are out; blocks of an earlier hook go back to it instead of being used again. Under AddressSanitizer nothing is
 * cached: every use after free shows. */
#include "core/memory.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/block.h"
#include "core/counters.h"
#include "core/debug.h"
#include "core/fail.h"
#include "core/hot.h"
#include "core/large_blocks.h"
#include "core/lock.h"
#include "core/struct_size.h"
#include "core/thread.h"

enum {
    SMALL_CLASSES = AMP_BLOCK_SMALL_CLASSES,
    LOCAL_BLOCKS = 16, /* of each small class, per thread; … */
    MOVED_BLOCKS = 8   /* … so many at once become all threads', and come back: a lock costs as much as a block */
};

typedef struct local_cache {
    amp_block *lists[SMALL_CLASSES];
    unsigned char counts[SMALL_CLASSES];
} local_cache;

/* Large blocks lie on huge pages where the system gives them on request: 180 MB of weights are read a tenth faster. */
static void *default_allocate(void *context, size_t bytes, size_t alignment) {
    (void)context;
    void *memory = NULL;
    if (bytes < AMP_BLOCK_HUGE_PAGE) return posix_memalign(&memory, alignment, bytes) == 0 ? memory : NULL;
    if (posix_memalign(&memory, AMP_BLOCK_HUGE_PAGE, bytes) != 0) return NULL;
#ifdef MADV_HUGEPAGE
    (void)madvise(memory, bytes / AMP_BLOCK_HUGE_PAGE * AMP_BLOCK_HUGE_PAGE,
                  MADV_HUGEPAGE); /* not the rest: it may never be used */
#endif
    return memory;
}

static void default_release(void *context, void *memory, size_t bytes) {
    (void)context;
    (void)bytes;
    free(memory);
}

static const amp_allocator system_allocator = {default_allocate, default_release, NULL};

static amp_allocator current = {default_allocate, default_release, NULL};
static amp_block *shared_chains[SMALL_CLASSES]; /* by next_chain */
static atomic_uint generation;                  /* counts the changes of the hook */

static atomic_size_t system_allocations;

static __thread local_cache local AMP_INITIAL_EXEC;

/* ---- The system ------------------------------------------------------------------------------------------------ */
void amp_block_to_system(amp_block *b) {
    const amp_allocator origin = b->origin;
    origin.release(origin.context, b, b->bytes);
}

size_t amp_blocks_kept_to_system(amp_block *chain) {
    size_t bytes = 0;
    for (amp_block *b = chain, *next = NULL; b; b = next) {
        next = b->next;
        bytes += b->bytes;
        amp_block_to_system(b);
    }
    amp_count(&amp_counters_mine()->cached_bytes, -bytes);
    return bytes;
}

bool amp_block_is_current(const amp_block *b) {
    return b->generation == atomic_load_explicit(&generation, memory_order_relaxed);
}

amp_block *amp_block_from_system(size_t bytes) {
    amp_lock(AMP_LOCK_MEMORY);
    const amp_allocator from = current;
    const unsigned from_generation = atomic_load_explicit(&generation, memory_order_relaxed);
    amp_unlock(AMP_LOCK_MEMORY);
    amp_block *b = from.allocate(from.context, bytes, AMP_BLOCK_HEADER);
    if (!b) return NULL;
    atomic_fetch_add_explicit(&system_allocations, 1, memory_order_relaxed);
    b->bytes = bytes;
    b->generation = from_generation;
    b->origin = from;
    return b;
}

/* ---- Small blocks ---------------------------------------------------------------------------------------------- */
/* The first `count` of this thread's become a chain of all threads'. They were freed last: walking them is cheap. */
static void share(unsigned size_class, unsigned count) {
    amp_block *const first = local.lists[size_class], *last = first;
    for (unsigned i = 1; i < count; i++) last = last->next;
    local.lists[size_class] = last->next;
    local.counts[size_class] -= (unsigned char)count;
    last->next = NULL;
    first->chained = (uint8_t)count;
    amp_lock(AMP_LOCK_MEMORY);
    first->next_chain = shared_chains[size_class];
    shared_chains[size_class] = first;
    amp_unlock(AMP_LOCK_MEMORY);
}

/* To a thread that has none. The chain is not walked: its blocks are cold. */
static void fetch(unsigned size_class) {
    amp_lock(AMP_LOCK_MEMORY);
    amp_block *const first = shared_chains[size_class];
    if (first) shared_chains[size_class] = first->next_chain;
    amp_unlock(AMP_LOCK_MEMORY);
    if (!first) return;
    amp_thread_watch_end();
    local.lists[size_class] = first;
    local.counts[size_class] = first->chained;
}

void amp_memory_end_thread(void) {
    for (unsigned k = 0; k < SMALL_CLASSES; k++) {
        if (local.lists[k]) share(k, local.counts[k]);
    }
}

static amp_block *take_any_cached(unsigned size_class) {
    if (!local.lists[size_class]) fetch(size_class);
    amp_block *const b = local.lists[size_class];
    if (!b) return NULL;
    local.lists[size_class] = b->next;
    local.counts[size_class]--;
    return b;
}

/* A kept block, but none of an earlier hook: another thread may have kept such a one since before the change. */
static amp_block *take_small(unsigned size_class) {
    for (;;) {
        amp_block *b = take_any_cached(size_class);
        if (!b || __builtin_expect(amp_block_is_current(b), 1)) return b;
        b->next = NULL;
        (void)amp_blocks_kept_to_system(b);
    }
}

static amp_block *make_small(unsigned size_class) {
    amp_block *b = amp_block_from_system(amp_block_class_bytes(size_class));
    if (b) b->size_class = (uint16_t)size_class;
    return b;
}

static void keep_small(amp_block *b) {
    const unsigned k = b->size_class;
    if (local.counts[k] == LOCAL_BLOCKS) share(k, MOVED_BLOCKS);
    amp_thread_watch_end();
    b->next = local.lists[k];
    local.lists[k] = b;
    local.counts[k]++;
}

/* Returns the bytes that went back to the system. */
static size_t trim(void) {
    amp_memory_end_thread();
    size_t bytes = amp_large_trim();
    for (unsigned k = 0; k < SMALL_CLASSES; k++) {
        amp_lock(AMP_LOCK_MEMORY);
        amp_block *chain = shared_chains[k];
        shared_chains[k] = NULL;
        amp_unlock(AMP_LOCK_MEMORY);
        for (amp_block *next = NULL; chain; chain = next) {
            next = chain->next_chain;
            bytes += amp_blocks_kept_to_system(chain);
        }
    }
    return bytes;
}

/* ---- Handing out and taking back ------------------------------------------------------------------------------- */
static amp_block *take(unsigned size_class) {
    amp_block *b = NULL;
    if (AMP_BLOCKS_ARE_KEPT) b = size_class < SMALL_CLASSES ? take_small(size_class) : amp_large_take(size_class);
    if (b) amp_count(&amp_counters_mine()->cached_bytes, -b->bytes);
    return b;
}

static amp_block *make(unsigned size_class) {
    return size_class < SMALL_CLASSES ? make_small(size_class) : amp_large_make(size_class);
}

AMP_HOT void *amp_alloc(size_t bytes) {
    if (bytes > (size_t)PTRDIFF_MAX / 2) return NULL;
    const unsigned size_class = amp_block_class_of(bytes + AMP_BLOCK_HEADER);
    if (size_class >= AMP_BLOCK_CLASSES) return NULL; /* more than any address space */
    amp_block *b = take(size_class);
    if (!b) b = make(size_class);
    if (!b && trim() > 0) b = make(size_class);
    if (!b) return NULL;
    amp_count(&amp_counters_mine()->live_bytes, b->bytes);
    return (char *)b + AMP_BLOCK_HEADER;
}

void *amp_alloc_zeroed(size_t bytes) {
    void *memory = amp_alloc(bytes);
    if (memory) memset(memory, 0, bytes);
    return memory;
}

AMP_HOT void amp_free(void *memory) {
    if (!memory) return;
    amp_block *b = (amp_block *)(void *)((char *)memory - AMP_BLOCK_HEADER);
    const bool is_small = b->size_class < SMALL_CLASSES;
    amp_counters *counters = amp_counters_mine();
    amp_count(&counters->live_bytes, -b->bytes);
    if (__builtin_expect(amp_debug, 0)) amp_debug_poison(memory, b->bytes - AMP_BLOCK_HEADER);
    if (!AMP_BLOCKS_ARE_KEPT || (is_small && __builtin_expect(!amp_block_is_current(b), 0))) {
        amp_block_to_system(b);
        return;
    }
    amp_count(&counters->cached_bytes, b->bytes);
    if (is_small) {
        keep_small(b);
    } else {
        amp_large_keep(b);
    }
}

void amp_memory_trim(void) {
    amp_tensor_trim();
    (void)trim();
}

amp_status amp_set_allocator(const amp_allocator *allocator) {
    if (allocator && (!allocator->allocate || !allocator->release)) {
        return amp_fail(AMP_ERROR_INVALID, "set_allocator: both allocate and release must be given");
    }
    amp_memory_trim(); /* the new allocator sees the next request of every size */
    amp_lock(AMP_LOCK_MEMORY);
    amp_large_forget();
    current = allocator ? *allocator : system_allocator;
    atomic_fetch_add_explicit(&generation, 1, memory_order_relaxed);
    amp_unlock(AMP_LOCK_MEMORY);
    return AMP_OK;
}

amp_status amp_memory_get_statistics(amp_memory_stats *stats, size_t bytes) {
    const amp_memory_stats now = {
        .live_bytes = amp_counters_sum(offsetof(amp_counters, live_bytes)),
        .cached_bytes = amp_counters_sum(offsetof(amp_counters, cached_bytes)),
        .system_allocations = atomic_load_explicit(&system_allocations, memory_order_relaxed),
        .live_tensors = amp_counters_sum(offsetof(amp_counters, live_tensors)),
    };
    return amp_struct_write("memory_get_statistics", stats, bytes, &now, sizeof now);
}
