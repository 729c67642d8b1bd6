/* The counters of all threads, in a list that only grows: a reader never meets one that is gone. */
#include "core/counters.h"

#include <pthread.h>
#include <stdlib.h>

static _Atomic(amp_counters *) all;
static amp_counters shared; /* for threads that get no memory: their figures may be lost, nothing else */
static pthread_once_t once = PTHREAD_ONCE_INIT;

void amp_counters_end_thread(void) {
    amp_counters *mine = amp_this_thread.counters;
    amp_this_thread.counters = NULL;
    if (mine && mine != &shared) atomic_store_explicit(&mine->owned, false, memory_order_release);
}

static void list_shared(void) {
    shared.next = NULL;
    atomic_store(&shared.owned, true);
    atomic_store(&all, &shared);
}

static amp_counters *adopt(void) {
    for (amp_counters *c = atomic_load_explicit(&all, memory_order_acquire); c; c = c->next) {
        _Bool free_one = false;
        if (atomic_compare_exchange_strong_explicit(&c->owned, &free_one, true, memory_order_acquire,
                                                    memory_order_relaxed)) {
            return c;
        }
    }
    return NULL;
}

/* malloc, not amp_alloc, which counts. On lines of their own: two threads must not share one. */
static amp_counters *make(void) {
    amp_counters *c = aligned_alloc(64, 64);
    _Static_assert(sizeof(amp_counters) <= 64, "one cache line");
    if (!c) return &shared;
    *c = (amp_counters){0};
    atomic_init(&c->owned, true);
    c->next = atomic_load_explicit(&all, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&all, &c->next, c, memory_order_release, memory_order_relaxed)) {
    }
    return c;
}

amp_counters *amp_counters_obtain(void) {
    pthread_once(&once, list_shared);
    amp_counters *c = adopt();
    if (!c) c = make();
    amp_thread_watch_end();
    return amp_this_thread.counters = c;
}

size_t amp_counters_sum(size_t offset) {
    size_t sum = 0;
    for (const amp_counters *c = atomic_load_explicit(&all, memory_order_acquire); c; c = c->next) {
        const atomic_size_t *counter = (const atomic_size_t *)(const void *)((const char *)c + offset);
        sum += atomic_load_explicit(counter, memory_order_relaxed);
    }
    return sum;
}
