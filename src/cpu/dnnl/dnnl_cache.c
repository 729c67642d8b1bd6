/* The table of primitives, their memory objects, and how weights are blocked. */
#include "cpu/dnnl/dnnl_cache.h"

#include <omp.h>
#include <stdatomic.h>
#include <string.h>

#include "core/lock.h"
#include "core/memory.h"
#include "core/parallel.h"
#include "cpu/dnnl/dnnl_engine.h"

enum {
    BUCKETS = 1024,
    ENTRIES = 1024, /* above, the one unused for longest goes */
    IDLE = 8,       /* memory objects kept of each */
    FORMATS = 64
};

struct amp_dnnl_operands {
    dnnl_stream_t stream;
    int count;
    dnnl_exec_arg_t list[AMP_DNNL_OPERANDS];
};

typedef struct entry {
    amp_dnnl_primitive shared; /* first: what users hold */
    struct entry *next;
    const amp_dnnl_kind *kind;
    uint64_t key[AMP_DNNL_KEY_WORDS];
    int users;
    uint64_t last_use;
    _Atomic(amp_dnnl_operands *) idle[IDLE];
} entry;

/* The order of dimensions by their strides, and the blocks inside. */
typedef struct blocking {
    int64_t rank, order[DNNL_MAX_NDIMS], count, blocks[DNNL_MAX_NDIMS], dims[DNNL_MAX_NDIMS];
} blocking;

/* Under AMP_LOCK_DNNL. */
static struct {
    entry *buckets[BUCKETS];
    uint64_t clock;
    amp_dnnl_cache_stats stats;
    blocking formats[FORMATS];
    int format_count;
} state;

/* ---- Formats -------------------------------------------------------------------------------------------------- */

static void read_order(const_dnnl_memory_desc_t d, blocking *b) {
    const dnnl_dims_t *strides = NULL;
    dnnl_memory_desc_query(d, dnnl_query_strides, &strides);
    for (int i = 0; i < b->rank; i++) {
        int place = 0;
        for (int j = 0; j < b->rank; j++)
            place += (*strides)[j] > (*strides)[i] || ((*strides)[j] == (*strides)[i] && j < i);
        b->order[place] = i;
    }
}

static bool read_blocking(const_dnnl_memory_desc_t d, blocking *b) {
    const dnnl_dims_t *blocks = NULL, *dims = NULL;
    dnnl_format_kind_t kind = dnnl_format_kind_undef;
    int32_t rank = 0, count = 0;
    dnnl_memory_desc_query(d, dnnl_query_format_kind, &kind);
    if (kind != dnnl_blocked) return false;
    dnnl_memory_desc_query(d, dnnl_query_ndims_s32, &rank);
    dnnl_memory_desc_query(d, dnnl_query_inner_nblks_s32, &count);
    dnnl_memory_desc_query(d, dnnl_query_inner_blks, &blocks);
    dnnl_memory_desc_query(d, dnnl_query_inner_idxs, &dims);
    memset(b, 0, sizeof *b);
    b->rank = rank;
    b->count = count;
    read_order(d, b);
    for (int i = 0; i < count; i++) {
        b->blocks[i] = (*blocks)[i];
        b->dims[i] = (*dims)[i];
    }
    return true;
}

/* Few kinds of blocks exist; were there more than there is room for, the primitives of the rest would go unused. */
static int format_of(const_dnnl_memory_desc_t weights) {
    blocking b;
    if (!weights || !read_blocking(weights, &b)) return -1;
    for (int i = 0; i < state.format_count; i++)
        if (memcmp(&state.formats[i], &b, sizeof b) == 0) return i;
    if (state.format_count == FORMATS) return -1;
    state.formats[state.format_count] = b;
    return state.format_count++;
}

/* ---- Memory objects ------------------------------------------------------------------------------------------- */

static void destroy_operands(amp_dnnl_operands *o) {
    for (int i = 0; i < o->count; i++) dnnl_memory_destroy(o->list[i].memory);
    if (o->stream) dnnl_stream_destroy(o->stream);
    amp_free(o);
}

static dnnl_status_t fill_operands(const entry *e, amp_dnnl_operands *o) {
    int arguments[AMP_DNNL_OPERANDS];
    const int count = e->kind->arguments(e->key, arguments);
    dnnl_status_t s = dnnl_stream_create(&o->stream, amp_dnnl_engine(), dnnl_stream_default_flags);
    for (int i = 0; s == dnnl_success && i < count; i++) {
        const const_dnnl_memory_desc_t d =
            dnnl_primitive_desc_query_md(e->shared.descriptor, dnnl_query_exec_arg_md, arguments[i]);
        s = dnnl_memory_create(&o->list[i].memory, d, amp_dnnl_engine(), DNNL_MEMORY_NONE);
        o->list[i].arg = arguments[i];
        o->count += s == dnnl_success;
    }
    return s;
}

/* Those of an earlier run, if it left any; NULL: no memory. */
static amp_dnnl_operands *take_operands(amp_dnnl_primitive *p) {
    entry *e = (entry *)p;
    for (int i = 0; i < IDLE; i++) {
        if (!atomic_load_explicit(&e->idle[i], memory_order_relaxed)) continue;
        amp_dnnl_operands *o = atomic_exchange_explicit(&e->idle[i], NULL, memory_order_acquire);
        if (o) return o;
    }
    amp_dnnl_operands *o = amp_alloc_zeroed(sizeof *o);
    if (!o || fill_operands(e, o) == dnnl_success) return o;
    destroy_operands(o);
    return NULL;
}

static void give_operands_back(amp_dnnl_primitive *p, amp_dnnl_operands *o) {
    entry *e = (entry *)p;
    for (int i = 0; i < IDLE; i++) {
        amp_dnnl_operands *none = NULL;
        if (atomic_compare_exchange_strong_explicit(&e->idle[i], &none, o, memory_order_release, memory_order_relaxed))
            return;
    }
    destroy_operands(o);
}

dnnl_status_t amp_dnnl_execute(const amp_dnnl_primitive *p, const amp_dnnl_operands *o, void *const data[]) {
    for (int i = 0; i < o->count; i++) dnnl_memory_set_data_handle(o->list[i].memory, data[i]);
    const dnnl_status_t s = dnnl_primitive_execute(p->primitive, o->stream, o->count, o->list);
    return s == dnnl_success ? dnnl_stream_wait(o->stream) : s;
}

/* ---- Slices --------------------------------------------------------------------------------------------------- */

static dnnl_status_t run_part(const amp_dnnl_slices *s, amp_range part, char *own) {
    dnnl_status_t status = dnnl_success;
    amp_dnnl_operands *o = NULL;
    amp_dnnl_primitive *of = NULL; /* whose operands they are */
    for (int64_t i = part.begin; status == dnnl_success && i < part.end; i++) {
        amp_dnnl_primitive *const needed = s->primitive(s->work, i);
        if (needed != of) {
            if (o) give_operands_back(of, o);
            of = needed;
            o = take_operands(of);
        }
        status = o ? s->run(s->work, i, o, own) : dnnl_out_of_memory;
    }
    if (o) give_operands_back(of, o);
    return status;
}

static dnnl_status_t run_on_threads(const amp_dnnl_slices *s, int threads, char *own) {
    dnnl_status_t failed = dnnl_success;
#pragma omp parallel num_threads(threads)
    {
        const int thread = omp_get_thread_num();
        const amp_range part = amp_parallel_part(s->count, 1, thread, omp_get_num_threads());
        const dnnl_status_t status = run_part(s, part, own ? own + (size_t)thread * s->own_bytes : NULL);
        if (status != dnnl_success) {
#pragma omp atomic write
            failed = status;
        }
    }
    return failed;
}

/* A region of one thread costs what a small product does. */
dnnl_status_t amp_dnnl_run_slices(const amp_dnnl_slices *s) {
    const int threads = amp_parallel_threads(s->count, 1);
    char *const own = s->own_bytes ? amp_alloc((size_t)threads * s->own_bytes) : NULL;
    if (s->own_bytes && !own) return dnnl_out_of_memory;
    const int limit = amp_parallel_limit(1), previous = amp_parallel_enter_library();
    const dnnl_status_t status =
        threads == 1 ? run_part(s, (amp_range){0, s->count}, own) : run_on_threads(s, threads, own);
    amp_parallel_leave_library(previous);
    amp_parallel_limit(limit);
    amp_free(own);
    return status;
}

/* ---- The table ------------------------------------------------------------------------------------------------ */

static void destroy_entry(entry *e) {
    for (int i = 0; i < IDLE; i++) {
        amp_dnnl_operands *o = atomic_load(&e->idle[i]);
        if (o) destroy_operands(o);
    }
    if (e->shared.primitive) dnnl_primitive_destroy(e->shared.primitive);
    if (e->shared.descriptor) dnnl_primitive_desc_destroy(e->shared.descriptor);
    amp_free(e);
}

static size_t bytes_of(const entry *e, dnnl_query_t what) {
    return amp_dnnl_lines(dnnl_memory_desc_get_size(dnnl_primitive_desc_query_md(e->shared.descriptor, what, 0)));
}

static bool is_loops(const entry *e) {
    const char *implementation = "";
    dnnl_primitive_desc_query(e->shared.descriptor, dnnl_query_impl_info_str, 0, &implementation);
    return strncmp(implementation, "ref", strlen("ref")) == 0;
}

static dnnl_status_t make_primitive(entry *e) {
    const int limit = amp_parallel_limit(1), previous = amp_parallel_enter_library();
    amp_lock(AMP_LOCK_DNNL_MAKING);
    dnnl_status_t s = amp_dnnl_engine() ? e->kind->describe(e->key, &e->shared.descriptor) : dnnl_unimplemented;
    if (s == dnnl_success && e->kind->refuses_loops(e->key) && is_loops(e)) s = dnnl_unimplemented;
    if (s == dnnl_success) s = dnnl_primitive_create(&e->shared.primitive, e->shared.descriptor);
    amp_unlock(AMP_LOCK_DNNL_MAKING);
    amp_parallel_leave_library(previous);
    amp_parallel_limit(limit);
    return s;
}

/* Without a primitive where oneDNN has none; NULL where it fails. */
static entry *make_entry(const amp_dnnl_kind *kind, const void *key, dnnl_status_t *status) {
    entry *e = amp_alloc_zeroed(sizeof *e);
    *status = dnnl_out_of_memory;
    if (!e || !amp_dnnl_has_room()) {
        amp_free(e);
        return NULL;
    }
    e->kind = kind;
    memcpy(e->key, key, kind->key_bytes);
    *status = make_primitive(e);
    if (*status == dnnl_unimplemented || *status == dnnl_invalid_arguments) return e;
    if (*status != dnnl_success) {
        destroy_entry(e);
        return NULL;
    }
    e->shared.scratch_bytes = bytes_of(e, dnnl_query_scratchpad_md);
    e->shared.weight_bytes = bytes_of(e, dnnl_query_weights_md);
    return e;
}

static entry **bucket_of(const amp_dnnl_kind *kind, const void *key) {
    uint64_t h = 0x9e3779b97f4a7c15u;
    for (size_t at = 0; at < kind->key_bytes; at += sizeof h) {
        uint64_t word;
        memcpy(&word, (const char *)key + at, sizeof word);
        h = (h ^ word) * 0xff51afd7ed558ccdu;
        h ^= h >> 32;
    }
    return &state.buckets[h % BUCKETS];
}

static entry *find_entry(entry *e, const amp_dnnl_kind *kind, const void *key) {
    while (e && (e->kind != kind || memcmp(e->key, key, kind->key_bytes) != 0)) e = e->next;
    return e;
}

static void evict_oldest(void) {
    entry **oldest = NULL;
    for (int i = 0; i < BUCKETS; i++)
        for (entry **at = &state.buckets[i]; *at; at = &(*at)->next)
            if (!(*at)->users && (!oldest || (*at)->last_use < (*oldest)->last_use)) oldest = at;
    if (!oldest) return;
    entry *e = *oldest;
    *oldest = e->next;
    destroy_entry(e);
    state.stats.entries--;
    state.stats.evictions++;
}

static void add_entry(entry **bucket, entry *e) {
    if (state.stats.entries >= ENTRIES) evict_oldest();
    if (e->shared.primitive) {
        e->shared.name = amp_dnnl_name(e->shared.descriptor);
        e->shared.format = format_of(dnnl_primitive_desc_query_md(e->shared.descriptor, dnnl_query_weights_md, 0));
    }
    e->next = *bucket;
    *bucket = e;
    state.stats.entries++;
}

/* Made outside the lock, for that takes long. */
amp_dnnl_primitive *amp_dnnl_take(const amp_dnnl_kind *kind, const void *key, dnnl_status_t *status) {
    entry **bucket = bucket_of(kind, key), *made = NULL;
    *status = dnnl_success;
    amp_lock(AMP_LOCK_DNNL);
    entry *e = find_entry(*bucket, kind, key);
    state.stats.hits += e != NULL;
    if (!e) {
        state.stats.misses++;
        amp_unlock(AMP_LOCK_DNNL);
        made = make_entry(kind, key, status);
        if (!made) return NULL;
        amp_lock(AMP_LOCK_DNNL);
        e = find_entry(*bucket, kind, key); /* another thread may have been faster */
    }
    if (!e) {
        add_entry(bucket, made);
        e = made;
        made = NULL;
    }
    e->users++;
    e->last_use = ++state.clock;
    amp_unlock(AMP_LOCK_DNNL);
    if (made) destroy_entry(made);
    return &e->shared;
}

void amp_dnnl_give_back(amp_dnnl_primitive *p) {
    if (!p) return;
    amp_lock(AMP_LOCK_DNNL);
    ((entry *)p)->users--;
    amp_unlock(AMP_LOCK_DNNL);
}

amp_dnnl_cache_stats amp_dnnl_cache_statistics(void) {
    amp_lock(AMP_LOCK_DNNL);
    const amp_dnnl_cache_stats stats = state.stats;
    amp_unlock(AMP_LOCK_DNNL);
    return stats;
}
