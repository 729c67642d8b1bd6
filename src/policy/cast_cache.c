/* The cast cache. Entries hang from the storage that they were made of, so that a look-up walks a list of one or two
 * and a storage that goes takes its casts along; one more list orders them by use, for the budget. One lock guards
 * both; data is built outside of it. */
#include "policy/cast_cache.h"

#include <stddef.h>
#include <string.h>

#include "amp/autocast.h"
#include "core/debug.h"
#include "core/hot.h"
#include "core/lock.h"
#include "core/memory.h"
#include "core/struct_size.h"

/* Those of a storage that goes. */
__attribute__((constructor)) static void watch_storages(void) {
    amp_storage_on_drop(AMP_KEEPER_CASTS, amp_casts_drop_of);
}

static amp_cast *newest, *oldest;
static amp_cast_cache_stats stats = {.budget = SIZE_MAX};
static int transient_entries; /* entries that are not persistent */

static void unlink_use(amp_cast *c) {
    *(c->newer ? &c->newer->older : &newest) = c->older;
    *(c->older ? &c->older->newer : &oldest) = c->newer;
    c->newer = c->older = NULL;
}

static void link_newest(amp_cast *c) {
    c->older = newest;
    c->newer = NULL;
    *(newest ? &newest->newer : &oldest) = c;
    newest = c;
}

static amp_cast *casts_of(const amp_storage *storage) {
    return storage->kept[AMP_KEEPER_CASTS];
}

/* Takes an entry out of both lists; the caller releases the cache's reference once the lock is open. */
static void unlink_entry(amp_cast *c) {
    amp_cast *first = casts_of(c->key.storage), *before = first;
    if (first == c) {
        c->key.storage->kept[AMP_KEEPER_CASTS] = c->next_of_storage;
    } else {
        while (before->next_of_storage != c) before = before->next_of_storage;
        before->next_of_storage = c->next_of_storage;
    }
    unlink_use(c);
    c->key.storage = NULL;
    stats.bytes -= c->memory->bytes;
    stats.entries--;
    if (!c->persistent) transient_entries--;
}

AMP_HOT void amp_cast_release(amp_cast *c) {
    if (!c) return;
    const bool only_one = atomic_load_explicit(&c->references, memory_order_acquire) == 1;
    if (!only_one && atomic_fetch_sub_explicit(&c->references, 1, memory_order_acq_rel) != 1) return;
    amp_storage_drop(c->memory);
    amp_free(c);
}

/* Unlinked entries on their way out, chained through next_of_storage. */
static void release_chain(amp_cast *c) {
    while (c) {
        amp_cast *next = c->next_of_storage;
        amp_cast_release(c);
        c = next;
    }
}

static void unlink_onto(amp_cast *c, amp_cast **chain) {
    unlink_entry(c);
    c->next_of_storage = *chain;
    *chain = c;
}

/* Of one storage and version. */
static bool same_key(const amp_cast_key *a, const amp_cast_key *b) {
    if (a->dtype != b->dtype || a->layout.kind != b->layout.kind || a->layout.variant != b->layout.variant)
        return false;
    if (a->bytes != b->bytes || a->source_dtype != b->source_dtype || a->rank != b->rank || a->offset != b->offset)
        return false;
    for (int i = 0; i < b->rank; i++) {
        if (a->shape[i] != b->shape[i] || a->strides[i] != b->strides[i]) return false;
    }
    return true;
}

/* The source was written since, or the cast itself was, by an op or a user's function that got it as an argument. */
static bool is_stale(const amp_cast *c, uint64_t version) {
    return c->key.version != version ||
           atomic_load_explicit(&c->memory->version, memory_order_relaxed) != c->memory_version;
}

/* Looks up under the lock; stale entries are dropped on the way. */
AMP_HOT static amp_cast *find(const amp_cast_key *key, amp_cast **stale) {
    amp_cast *found = NULL, *next = NULL;
    for (amp_cast *c = casts_of(key->storage); c; c = next) {
        next = c->next_of_storage;
        if (is_stale(c, key->version)) {
            unlink_onto(c, stale);
        } else if (same_key(&c->key, key)) {
            found = c;
        }
    }
    return found;
}

static void evict_beyond_budget(const amp_cast *spare, amp_cast **chain) {
    for (amp_cast *c = oldest; c && stats.bytes > stats.budget;) {
        amp_cast *newer = c->newer;
        if (c != spare) {
            unlink_onto(c, chain);
            stats.evictions++;
        }
        c = newer;
    }
}

static void *no_memory(const amp_cast_key *key) {
    amp_fail(AMP_ERROR_MEMORY, "cast: no memory to cast %s %s to %s", amp_describe_shape(key->rank, key->shape),
             amp_dtype_name(key->source_dtype), amp_dtype_name(key->dtype));
    return NULL;
}

static amp_cast *new_cast(const amp_cast_key *key) {
    const size_t extents = (size_t)key->rank * sizeof *key->shape;
    amp_cast *c = amp_alloc_zeroed(sizeof *c);
    if (!c) return no_memory(key);
    atomic_init(&c->references, 1);
    memcpy(&c->key, key, offsetof(amp_cast_key, shape));
    memcpy(c->key.shape, key->shape, extents);
    memcpy(c->key.strides, key->strides, extents);
    c->key.storage = NULL;
    return c;
}

/* Puts a built cast into the cache unless another thread was first, or it exceeds the budget alone. */
static amp_cast *insert(amp_cast *made, const amp_cast_key *key, amp_cast **chain) {
    amp_cast *other = find(key, chain);
    if (other) {
        atomic_fetch_add_explicit(&other->references, 1, memory_order_relaxed);
        made->next_of_storage = *chain;
        *chain = made;
        return other;
    }
    if (made->memory->bytes > stats.budget) return made;
    made->key.storage = key->storage;
    made->next_of_storage = casts_of(key->storage);
    key->storage->kept[AMP_KEEPER_CASTS] = made;
    amp_storage_watch(key->storage, AMP_KEEPER_CASTS);
    atomic_fetch_add_explicit(&made->references, 1, memory_order_relaxed);
    link_newest(made);
    stats.bytes += made->memory->bytes;
    stats.entries++;
    if (!made->persistent) transient_entries++;
    evict_beyond_budget(made, chain);
    return made;
}

AMP_HOT static amp_cast *look_up(const amp_cast_key *key) {
    amp_cast *stale = NULL;
    amp_lock(AMP_LOCK_CASTS);
    amp_cast *c = find(key, &stale);
    if (c) {
        atomic_fetch_add_explicit(&c->references, 1, memory_order_relaxed);
        if (c != newest) {
            unlink_use(c);
            link_newest(c);
        }
        stats.hits++;
    } else {
        stats.misses++;
    }
    amp_unlock(AMP_LOCK_CASTS);
    release_chain(stale);
    return c;
}

static bool is_lent(const amp_storage *storage) {
    return storage->user_memory && storage->device == AMP_DEVICE_CPU;
}

static uint64_t sum_of(const amp_cast_key *key) {
    return amp_debug_sum(amp_cast_key_pointer(key), amp_dtype_size(key->source_dtype), key->rank, key->shape,
                         key->strides);
}

/* AMP_DEBUG: the owner of lent memory writes it unseen. The version's step ends the cast, so that the sentence comes
 * once for each such write. */
static amp_status check_unchanged(amp_cast *c, const amp_cast_key *key) {
    if (!c->sum || c->sum == sum_of(key)) return AMP_OK;
    amp_fail(
        AMP_ERROR_INVALID,
        "cast: the memory lent as %s %s was written after its cast to %s was cached, which the next call would have "
        "used; call amp_tensor_mark_dirty after writing it (found by AMP_DEBUG)",
        amp_describe_shape(key->rank, key->shape), amp_dtype_name(key->source_dtype), amp_dtype_name(key->dtype));
    atomic_fetch_add_explicit(&key->storage->version, 1, memory_order_release);
    amp_cast_release(c);
    return amp_pending_error();
}

AMP_HOT void amp_cast_key_start(amp_cast_key *key, const amp_tensor *memory) {
    key->storage = memory->storage;
    key->reads_anywhere = false;
    key->version = atomic_load_explicit(&memory->storage->version, memory_order_acquire);
    key->source_dtype = memory->dtype;
    key->offset = memory->offset;
}

void amp_cast_key_of(amp_cast_key *key, const amp_tensor *memory, amp_dtype dtype) {
    const size_t extents = (size_t)memory->rank * sizeof *key->shape;
    amp_cast_key_start(key, memory);
    key->dtype = dtype;
    key->layout = (amp_layout){AMP_LAYOUT_DENSE, 0};
    key->bytes = (size_t)amp_tensor_elements(memory) * amp_dtype_size(dtype);
    key->rank = memory->rank;
    memcpy(key->shape, memory->shape, extents);
    memcpy(key->strides, memory->strides, extents);
}

/* Half of its storage and more: not a part of a long table. */
static bool reads_most(const amp_cast_key *key) {
    size_t bytes = amp_dtype_size(key->source_dtype);
    for (int i = 0; i < key->rank; i++) bytes *= (size_t)key->shape[i];
    return bytes >= key->storage->bytes / 2;
}

/* Elements that lie unaligned in a file are packed from there, or from a copy that goes at once; whatever of a file was
 * packed for good need not stay in memory. */
static amp_tensor *build_from_file(const amp_cast_key *key, amp_cast_life life, amp_cast_builder build, void *context) {
    amp_storage *s = key->storage, copy = {.device = AMP_DEVICE_CPU, .bytes = s->bytes};
    amp_cast_key near;
    void *copied = NULL;
    const bool unaligned = amp_storage_is_unaligned(s);
    if (reads_most(key)) amp_storage_bring_in(s);
    if (unaligned) {
        memcpy(&near, key, offsetof(amp_cast_key, shape));
        memcpy(near.shape, key->shape, (size_t)key->rank * sizeof *key->shape);
        memcpy(near.strides, key->strides, (size_t)key->rank * sizeof *key->strides);
        const void *bytes = amp_storage_bytes(s); /* which stay, should another thread align them */
        copied = key->reads_anywhere ? NULL : amp_alloc(s->bytes);
        if (!copied && !key->reads_anywhere) return no_memory(key);
        copy.data = copied ? memcpy(copied, bytes, s->bytes) : (void *)(uintptr_t)bytes;
        near.storage = &copy;
    }
    amp_tensor *made = build(unaligned ? &near : key, context);
    amp_free(copied);
    if (made && life == AMP_CAST_PERSISTENT) amp_storage_let_go(s);
    return made;
}

AMP_HOT amp_cast *amp_cast_obtain(const amp_cast_key *key, amp_cast_life life, amp_cast_builder build, void *context,
                                  bool *was_cached) {
    amp_cast *c = life != AMP_CAST_ONCE ? look_up(key) : NULL;
    if (was_cached) *was_cached = c != NULL;
    if (c && __builtin_expect(amp_debug, 0) && check_unchanged(c, key) != AMP_OK) return NULL;
    if (c) return c;
    c = new_cast(key);
    if (!c) return NULL;
    if (__builtin_expect(amp_debug, 0) && life != AMP_CAST_ONCE && is_lent(key->storage)) c->sum = sum_of(key);
    const bool in_file = atomic_load_explicit(&key->storage->in_file, memory_order_relaxed);
    amp_tensor *made = in_file ? build_from_file(key, life, build, context) : build(key, context);
    if (!made) {
        amp_cast_release(c);
        return NULL;
    }
    c->memory = amp_storage_retain(made->storage);
    c->memory_version = atomic_load_explicit(&c->memory->version, memory_order_relaxed);
    amp_tensor_drop(made);
    if (life == AMP_CAST_ONCE) return c;
    c->persistent = life == AMP_CAST_PERSISTENT;
    amp_cast *chain = NULL;
    amp_lock(AMP_LOCK_CASTS);
    c = insert(c, key, &chain);
    amp_unlock(AMP_LOCK_CASTS);
    release_chain(chain);
    return c;
}

amp_status amp_cast_offer(const amp_cast_key *key, amp_storage *memory) {
    amp_cast *c = new_cast(key), *chain = NULL;
    if (!c) return amp_pending_error();
    c->memory = amp_storage_retain(memory);
    c->memory_version = atomic_load_explicit(&memory->version, memory_order_relaxed);
    c->persistent = true;
    amp_lock(AMP_LOCK_CASTS);
    c = insert(c, key, &chain);
    amp_unlock(AMP_LOCK_CASTS);
    release_chain(chain);
    amp_cast_release(c); /* the caller's reference */
    return AMP_OK;
}

int amp_casts_kept_of(amp_storage *storage, amp_cast **casts, int most) {
    int count = 0;
    amp_lock(AMP_LOCK_CASTS);
    const uint64_t version = atomic_load_explicit(&storage->version, memory_order_relaxed);
    for (amp_cast *c = casts_of(storage); c && count < most; c = c->next_of_storage) {
        const bool of_known_size = c->key.bytes != 0 && c->key.bytes == c->memory->bytes;
        if (!c->persistent || !of_known_size || is_stale(c, version)) continue;
        atomic_fetch_add_explicit(&c->references, 1, memory_order_relaxed);
        casts[count++] = c;
    }
    amp_unlock(AMP_LOCK_CASTS);
    return count;
}

AMP_HOT amp_cast_life amp_cast_life_of(const amp_tensor *source, bool weight_position) {
    const amp_storage *s = source->storage;
    if (atomic_load_explicit(&s->parameter, memory_order_relaxed)) return AMP_CAST_PERSISTENT;
    const bool made_by_op = atomic_load_explicit(&s->produced, memory_order_relaxed);
    return weight_position && !made_by_op ? AMP_CAST_PERSISTENT : AMP_CAST_ONCE;
}

void amp_casts_drop_of(amp_storage *storage) {
    amp_cast *chain = NULL;
    amp_lock(AMP_LOCK_CASTS);
    while (casts_of(storage)) unlink_onto(casts_of(storage), &chain);
    amp_unlock(AMP_LOCK_CASTS);
    release_chain(chain);
}

static void drop_where(bool transient_only) {
    amp_cast *chain = NULL;
    amp_lock(AMP_LOCK_CASTS);
    for (amp_cast *c = newest, *older = NULL; c; c = older) {
        older = c->older;
        if (!transient_only || !c->persistent) unlink_onto(c, &chain);
    }
    amp_unlock(AMP_LOCK_CASTS);
    release_chain(chain);
}

void amp_cast_cache_end_region(void) {
    amp_lock(AMP_LOCK_CASTS);
    const bool any = transient_entries > 0;
    amp_unlock(AMP_LOCK_CASTS);
    if (any) drop_where(true);
}

void amp_cast_cache_clear(void) {
    drop_where(false);
}

void amp_cast_cache_set_budget(size_t bytes) {
    amp_cast *chain = NULL;
    amp_lock(AMP_LOCK_CASTS);
    stats.budget = bytes;
    evict_beyond_budget(NULL, &chain);
    amp_unlock(AMP_LOCK_CASTS);
    release_chain(chain);
}

amp_status amp_cast_cache_get_statistics(amp_cast_cache_stats *wanted, size_t bytes) {
    amp_lock(AMP_LOCK_CASTS);
    const amp_cast_cache_stats copy = stats;
    amp_unlock(AMP_LOCK_CASTS);
    return amp_struct_write("cast_cache_get_statistics", wanted, bytes, &copy, sizeof copy);
}
