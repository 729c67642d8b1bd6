/* The caching allocator: size classes a quarter of a power of two apart, a small free list per thread for small
 * blocks, one list per class for all threads behind it, and the system allocator (or the user's hook) below.
 *
 * A block is a 64-byte header and the user's bytes. The header remembers which allocator the block came from, so that
 * the hook can change while blocks are out; blocks of an earlier hook go back to it instead of being used again. Under
 * AddressSanitizer nothing is cached: every use after free shows. */
#include "core/memory.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/counters.h"
#include "core/fail.h"
#include "core/hot.h"
#include "core/lock.h"
#include "core/thread.h"

enum {
    ALIGNMENT = 64,
    HUGE_PAGE = 2 << 20,
    CLASS_COUNT = 192,
    SMALLEST_LOG = 7,       /* the first class holds 128 bytes, header included */
    LOCAL_CLASSES = 4 * 10, /* classes up to 128 KiB have per-thread lists … */
    LOCAL_BLOCKS = 16       /* … of at most so many blocks each */
};

typedef struct block {
    struct block *next; /* in a free list */
    size_t bytes;       /* of the whole block, header included */
    unsigned size_class;
    unsigned generation; /* of the hook that it came from */
    amp_allocator origin;
} block;

_Static_assert(sizeof(block) <= ALIGNMENT, "the header must fit one alignment unit");

typedef struct local_cache {
    block *lists[LOCAL_CLASSES];
    unsigned char counts[LOCAL_CLASSES];
} local_cache;

#ifdef __SANITIZE_ADDRESS__
#define CACHING 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CACHING 0
#endif
#endif
#ifndef CACHING
#define CACHING 1
#endif

/* Large blocks lie on huge pages where the system gives them on request: 180 MB of weights are read a tenth faster. */
static void *default_allocate(void *context, size_t bytes, size_t alignment) {
    (void)context;
    void *memory = NULL;
    if (bytes < HUGE_PAGE) return posix_memalign(&memory, alignment, bytes) == 0 ? memory : NULL;
    if (posix_memalign(&memory, HUGE_PAGE, bytes) != 0) return NULL;
#ifdef MADV_HUGEPAGE
    (void)madvise(memory, bytes / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE); /* not the rest: it may never be used */
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
static block *shared_lists[CLASS_COUNT];
static atomic_uint generation; /* counts the changes of the hook */

static atomic_size_t system_allocations;

static __thread local_cache local AMP_INITIAL_EXEC;
static pthread_key_t local_key;
static pthread_once_t local_once = PTHREAD_ONCE_INIT;
static __thread bool local_registered AMP_INITIAL_EXEC;

/* Class k holds blocks of (4 + k % 4) << (SMALLEST_LOG - 2 + k / 4) bytes. */
static size_t class_bytes(unsigned size_class) {
    return (size_t)(4 + size_class % 4) << (SMALLEST_LOG - 2 + size_class / 4);
}

static unsigned class_of(size_t bytes) {
    if (bytes <= (size_t)1 << SMALLEST_LOG) return 0;
    const unsigned log = 63u - (unsigned)__builtin_clzll((unsigned long long)(bytes - 1));
    const unsigned quarter = (unsigned)((bytes - 1) >> (log - 2)) & 3u; /* of the step that bytes - 1 falls into */
    return (log - SMALLEST_LOG) * 4 + quarter + 1;
}

static void give_back_to_system(block *b) {
    const amp_allocator origin = b->origin;
    origin.release(origin.context, b, b->bytes);
}

static bool is_current(const block *b) {
    return b->generation == atomic_load_explicit(&generation, memory_order_relaxed);
}

static void share(block *b) {
    amp_lock(AMP_LOCK_MEMORY);
    b->next = shared_lists[b->size_class];
    shared_lists[b->size_class] = b;
    amp_unlock(AMP_LOCK_MEMORY);
}

static void flush_local(void *cache) {
    local_cache *c = cache;
    for (unsigned k = 0; k < LOCAL_CLASSES; k++) {
        while (c->lists[k]) {
            block *b = c->lists[k];
            c->lists[k] = b->next;
            share(b);
        }
        c->counts[k] = 0;
    }
    local_registered = false; /* what a later destructor of this thread frees registers anew */
}

static void make_local_key(void) {
    (void)pthread_key_create(&local_key, flush_local);
}

static void register_local(void) {
    pthread_once(&local_once, make_local_key);
    (void)pthread_setspecific(local_key, &local);
    local_registered = true;
}

static block *take_any_cached(unsigned size_class) {
    if (size_class < LOCAL_CLASSES && local.lists[size_class]) {
        block *b = local.lists[size_class];
        local.lists[size_class] = b->next;
        local.counts[size_class]--;
        return b;
    }
    amp_lock(AMP_LOCK_MEMORY);
    block *b = shared_lists[size_class];
    if (b) shared_lists[size_class] = b->next;
    amp_unlock(AMP_LOCK_MEMORY);
    return b;
}

/* A kept block, but none of an earlier hook: another thread may have kept such a one since before the change. */
static block *take_cached(unsigned size_class) {
    for (;;) {
        block *b = take_any_cached(size_class);
        if (!b) return NULL;
        amp_count(&amp_counters_mine()->cached_bytes, -b->bytes);
        if (__builtin_expect(is_current(b), 1)) return b;
        give_back_to_system(b);
    }
}

static block *take_from_system(unsigned size_class) {
    amp_lock(AMP_LOCK_MEMORY);
    const amp_allocator from = current;
    const unsigned from_generation = atomic_load_explicit(&generation, memory_order_relaxed);
    amp_unlock(AMP_LOCK_MEMORY);
    const size_t bytes = class_bytes(size_class);
    block *b = from.allocate(from.context, bytes, ALIGNMENT);
    if (!b) return NULL;
    atomic_fetch_add_explicit(&system_allocations, 1, memory_order_relaxed);
    b->bytes = bytes;
    b->size_class = size_class;
    b->generation = from_generation;
    b->origin = from;
    return b;
}

AMP_HOT void *amp_alloc(size_t bytes) {
    if (bytes > (size_t)PTRDIFF_MAX / 2) return NULL;
    const unsigned size_class = class_of(bytes + ALIGNMENT);
    if (size_class >= CLASS_COUNT) return NULL; /* more than any address space */
    block *b = CACHING ? take_cached(size_class) : NULL;
    if (!b) b = take_from_system(size_class);
    if (!b) return NULL;
    amp_count(&amp_counters_mine()->live_bytes, b->bytes);
    return (char *)b + ALIGNMENT;
}

void *amp_alloc_zeroed(size_t bytes) {
    void *memory = amp_alloc(bytes);
    if (memory) memset(memory, 0, bytes);
    return memory;
}

AMP_HOT void amp_free(void *memory) {
    if (!memory) return;
    block *b = (block *)(void *)((char *)memory - ALIGNMENT);
    amp_counters *counters = amp_counters_mine();
    amp_count(&counters->live_bytes, -b->bytes);
    if (!CACHING || __builtin_expect(!is_current(b), 0)) {
        give_back_to_system(b);
        return;
    }
    amp_count(&counters->cached_bytes, b->bytes);
    const unsigned k = b->size_class;
    if (k < LOCAL_CLASSES && local.counts[k] < LOCAL_BLOCKS) {
        if (!local_registered) register_local();
        b->next = local.lists[k];
        local.lists[k] = b;
        local.counts[k]++;
    } else {
        share(b);
    }
}

void amp_memory_trim(void) {
    amp_tensor_trim();
    flush_local(&local);
    for (unsigned k = 0; k < CLASS_COUNT; k++) {
        amp_lock(AMP_LOCK_MEMORY);
        block *b = shared_lists[k];
        shared_lists[k] = NULL;
        amp_unlock(AMP_LOCK_MEMORY);
        while (b) {
            block *next = b->next;
            amp_count(&amp_counters_mine()->cached_bytes, -b->bytes);
            give_back_to_system(b);
            b = next;
        }
    }
}

amp_status amp_set_allocator(const amp_allocator *allocator) {
    if (allocator && (!allocator->allocate || !allocator->release)) {
        return amp_fail(AMP_ERROR_INVALID, "set_allocator: both allocate and release must be given");
    }
    amp_memory_trim(); /* the new allocator sees the next request of every size */
    amp_lock(AMP_LOCK_MEMORY);
    current = allocator ? *allocator : system_allocator;
    atomic_fetch_add_explicit(&generation, 1, memory_order_relaxed);
    amp_unlock(AMP_LOCK_MEMORY);
    return AMP_OK;
}

amp_memory_stats amp_memory_statistics(void) {
    const amp_memory_stats stats = {
        .live_bytes = amp_counters_sum(offsetof(amp_counters, live_bytes)),
        .cached_bytes = amp_counters_sum(offsetof(amp_counters, cached_bytes)),
        .system_allocations = atomic_load_explicit(&system_allocations, memory_order_relaxed),
        .live_tensors = amp_counters_sum(offsetof(amp_counters, live_tensors)),
    };
    return stats;
}
