/* The cache of packed operands. An address that is met a second time is worth a checksum: 128 bits of XXH3 over all
 * elements, at every call, so what a program has written in between is always seen (two different operands have one
 * checksum with a chance of 2^-128). Where it was written to, the entry waits for twice as many calls as the last time
 * before it tries again. Measured on a Zen 4 (bench_blas), M x 2048 x 2048 in bf16, GFLOP/s with B packed each time,
 * and with its checksum instead: M = 32 70.4, 118.6; 128 132.2, 176.6; 2048 203.6, 207.1. */
#include "blas/cache.h"

#include <omp.h>
#include <string.h>
#include <xxhash.h>

#include "blas/split.h"
#include "core/lock.h"
#include "core/memory.h"
#include "core/parallel.h"

enum { ENTRIES = 64, PIECE_BYTES = 64 * 1024, MOST_MISSES = 10 };

typedef struct key {
    const amp_blas_way *way;
    amp_blas_operand b;
    int64_t n, k;
} key;

typedef struct entry {
    key key;
    XXH128_hash_t sum;
    amp_blas_packed packed; /* data: NULL, or what was packed of elements with that checksum */
    size_t bytes;
    uint64_t used; /* the call that met it last */
    int users;     /* calls that look at it: it stays where it is */
    int misses;    /* times that it was written to, since it last was not */
    int wait;      /* so many calls more do not try */
    bool making;   /* a call packs it */
} entry;

/* All behind AMP_LOCK_BLAS. */
static entry entries[ENTRIES];
static size_t kept_bytes;
static uint64_t calls, hits;

/* ---- The checksum ----------------------------------------------------------------------------------------------- */

/* Lines of dense elements; a dense matrix in pieces of its own. */
typedef struct lines {
    const char *data;
    int64_t count, pitch, bytes, rest; /* rest: bytes of the last line */
} lines;

static bool lines_of(const amp_blas_operand *b, int64_t n, int64_t k, lines *l) {
    const bool by_rows = b->column == 1;
    if (!by_rows && b->row != 1) return false;
    const int64_t length = (by_rows ? n : k) * 4, pitch = (by_rows ? b->row : b->column) * 4, count = by_rows ? k : n;
    *l = (lines){(const char *)b->data, count, pitch, length, length};
    if (pitch != length) return true;
    const int64_t whole = count * length, pieces = (whole + PIECE_BYTES - 1) / PIECE_BYTES;
    *l = (lines){(const char *)b->data, pieces, PIECE_BYTES, PIECE_BYTES, whole - (pieces - 1) * PIECE_BYTES};
    return true;
}

/* One checksum of those of all lines: the same for any number of threads. */
static bool checksum(const lines *l, XXH128_hash_t *sum) {
    const int threads = amp_parallel_threads(l->count * l->bytes / 4, AMP_GRAIN_ELEMENTS);
    XXH128_hash_t *sums = amp_alloc((size_t)l->count * sizeof *sums);
    if (!sums) return false;
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
    for (int64_t i = 0; i < l->count; i++)
        sums[i] = XXH3_128bits_withSeed(l->data + i * l->pitch, (size_t)(i + 1 < l->count ? l->bytes : l->rest),
                                        (uintptr_t)&entries);
    *sum = XXH3_128bits(sums, (size_t)l->count * sizeof *sums);
    amp_free(sums);
    return true;
}

/* ---- Entries ---------------------------------------------------------------------------------------------------- */

static bool same_key(const key *x, const key *y) {
    return x->way == y->way && x->b.data == y->b.data && x->b.row == y->b.row && x->b.column == y->b.column &&
           x->n == y->n && x->k == y->k;
}

static void drop(entry *e) {
    amp_free(e->packed.data);
    e->packed.data = NULL;
    kept_bytes -= e->bytes;
    e->bytes = 0;
}

/* The entry that was met longest ago, of those that nobody looks at; with_data: of those that keep something. */
static entry *oldest(bool with_data) {
    entry *found = NULL;
    for (entry *e = entries; e < entries + ENTRIES; e++)
        if (!e->users && (!with_data || e->packed.data) && (!found || e->used < found->used)) found = e;
    return found;
}

static bool make_room(size_t bytes, size_t limit) {
    if (bytes > limit) return false;
    while (kept_bytes > limit - bytes) {
        entry *e = oldest(true);
        if (!e) return false;
        drop(e);
    }
    return true;
}

/* The key's entry, for this call to look at; NULL: it was not met before, or is not to be tried now. */
static entry *look_up(const key *k) {
    calls++;
    for (entry *e = entries; e < entries + ENTRIES; e++) {
        if (!same_key(&e->key, k)) continue;
        e->used = calls;
        if (e->making || e->wait > 0) {
            e->wait -= e->wait > 0;
            return NULL;
        }
        e->users++;
        e->making = !e->packed.data;
        return e;
    }
    entry *e = oldest(false);
    if (!e) return NULL;
    drop(e);
    *e = (entry){.key = *k, .used = calls};
    return NULL;
}

static bool is_stale(entry *e, XXH128_hash_t sum) {
    if (XXH128_isEqual(e->sum, sum)) {
        e->misses = 0;
        hits++;
        return false;
    }
    if (e->users == 1) drop(e);
    e->misses += e->misses < MOST_MISSES;
    e->wait = 1 << e->misses;
    return true;
}

/* Packs what an entry is made for, and puts it in; false: it stays empty. */
static bool make(entry *e, XXH128_hash_t sum, size_t limit) {
    const key *k = &e->key;
    const size_t bytes = amp_blas_packed_bytes(k->way, k->n, k->k);
    amp_lock(AMP_LOCK_BLAS);
    const bool fits = make_room(bytes, limit);
    if (fits) kept_bytes += e->bytes = bytes;
    amp_unlock(AMP_LOCK_BLAS);
    amp_blas_packed packed = {.data = fits ? amp_alloc(bytes) : NULL};
    bool made = packed.data && amp_blas_pack_b(packed.data, k->way, &k->b, k->n, k->k) == AMP_OK;
    if (made && k->way->parts) packed.range = amp_blas_range_of(&k->b, k->k, k->n);
    amp_lock(AMP_LOCK_BLAS);
    e->packed = packed;
    e->sum = sum;
    if (!made) drop(e);
    e->making = false;
    amp_unlock(AMP_LOCK_BLAS);
    return made;
}

static void leave(entry *e) {
    amp_lock(AMP_LOCK_BLAS);
    e->users--;
    amp_unlock(AMP_LOCK_BLAS);
}

/* What is kept is what was packed of these very elements. */
static bool reuse(entry *e, XXH128_hash_t sum) {
    amp_lock(AMP_LOCK_BLAS);
    const bool fresh = e->packed.data && !is_stale(e, sum);
    amp_unlock(AMP_LOCK_BLAS);
    return fresh;
}

bool amp_blas_cache_obtain(const amp_blas_way *way, const amp_blas_operand *b, int64_t n, int64_t k, size_t limit,
                           amp_blas_packed *packed) {
    const key wanted = {way, *b, n, k};
    lines l;
    XXH128_hash_t sum;
    if (limit == 0 || !lines_of(b, n, k, &l)) return false;
    amp_lock(AMP_LOCK_BLAS);
    entry *e = look_up(&wanted);
    const bool makes = e && e->making;
    amp_unlock(AMP_LOCK_BLAS);
    if (!e) return false;
    const bool summed = checksum(&l, &sum);
    const bool there = makes ? make(e, sum, summed ? limit : 0) : summed && reuse(e, sum);
    if (there) *packed = e->packed;
    if (!there) leave(e);
    return there;
}

void amp_blas_cache_release(const amp_blas_packed *packed) {
    amp_lock(AMP_LOCK_BLAS);
    for (entry *e = entries; e < entries + ENTRIES; e++)
        if (e->users && e->packed.data == packed->data) e->users--;
    amp_unlock(AMP_LOCK_BLAS);
}

uint64_t amp_blas_cache_hits(void) {
    amp_lock(AMP_LOCK_BLAS);
    const uint64_t n = hits;
    amp_unlock(AMP_LOCK_BLAS);
    return n;
}
