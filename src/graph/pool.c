/* Chunks, each twice as large as the one before it. */
#include "graph/pool.h"

#include <stdalign.h>
#include <stdint.h>
#include <string.h>

#include "core/memory.h"

enum { FIRST_BYTES = 2 << 10, MOST_BYTES = 64 << 10 };

typedef struct amp_pool_chunk {
    struct amp_pool_chunk *before;
    size_t bytes, used; /* of the parts */
    alignas(max_align_t) char parts[];
} chunk;

static chunk *add_chunk(amp_pool *pool, size_t least) {
    size_t bytes = pool->last ? 2 * pool->last->bytes : FIRST_BYTES;
    if (bytes > MOST_BYTES) bytes = MOST_BYTES;
    if (bytes < least) bytes = least;
    chunk *made = amp_alloc(sizeof *made + bytes);
    if (!made) return NULL;
    *made = (chunk){.before = pool->last, .bytes = bytes};
    return pool->last = made;
}

void *amp_pool_take(amp_pool *pool, size_t bytes) {
    if (bytes > SIZE_MAX / 4) return NULL;
    const size_t room = (bytes + alignof(max_align_t) - 1) / alignof(max_align_t) * alignof(max_align_t);
    chunk *c = pool->last;
    if (!c || c->bytes - c->used < room) c = add_chunk(pool, room);
    if (!c) return NULL;
    void *part = c->parts + c->used;
    c->used += room;
    return part;
}

void *amp_pool_take_zeroed(amp_pool *pool, size_t bytes) {
    void *part = amp_pool_take(pool, bytes);
    if (part) memset(part, 0, bytes);
    return part;
}

void amp_pool_end(amp_pool *pool) {
    for (chunk *c = pool->last, *before = NULL; c; c = before) {
        before = c->before;
        amp_free(c);
    }
    pool->last = NULL;
}
