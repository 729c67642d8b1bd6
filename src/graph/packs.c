/* Packed weights of a model in a file: written from the cast cache, and put back into it over a map of the file. What
 * is in the cache is what an op would have packed, so a run with the file and one without it give the same bits; what
 * the file lacks is packed as ever. */
#include <stddef.h>
#include <string.h>
#include <xxhash.h>

#include "core/memory.h"
#include "core/parallel.h"
#include "graph/graph.h"
#include "graph/packs_file.h"
#include "io/file_map.h"
#include "machine/isa.h"
#include "policy/cast_cache.h"

enum { MOST_OF_ONE = 32 }; /* casts of one tensor */

static uint64_t sum_of_table(amp_packs_head head, const amp_packs_row *rows) {
    head.sum = 0;
    return XXH3_64bits_withSeed(rows, (size_t)head.count * sizeof *rows, XXH3_64bits(&head, sizeof head));
}

static const amp_graph_weights *weights_of(const char *who, const amp_graph *g) {
    if (amp_failed()) return NULL;
    const amp_graph_source *s = g ? amp_graph_source_of(g) : NULL;
    if (s && s->weights) return s->weights;
    if (!s) {
        (void)amp_fail(AMP_ERROR_INVALID, "%s: the graph is NULL", who);
    } else {
        (void)amp_fail(AMP_ERROR_NOT_IMPLEMENTED, "%s: %s is a function of the program, whose weights are in no file",
                       who, s->name);
    }
    return NULL;
}

/* What a file must say to be of use here; the sum of the model's bytes is left to the caller. */
static amp_packs_head head_for(const amp_graph_weights *w) {
    amp_packs_head head = {.magic = AMP_PACKS_MAGIC, .format = AMP_PACKS_FORMAT, .layouts = AMP_LAYOUTS_VERSION};
    strncpy(head.version, amp_version_string(), sizeof head.version - 1);
    strncpy(head.isa, amp_isa_name(amp_isa_best()), sizeof head.isa - 1);
    head.structure = w->structure;
    head.stamp = w->stamp;
    return head;
}

/* ---- Writing --------------------------------------------------------------------------------------------------- */

typedef struct packs {
    amp_cast **casts;
    amp_packs_row *rows;
    int count;
} packs;

static amp_packs_row row_of(int tensor, const amp_cast *c) {
    const amp_cast_key *k = &c->key;
    amp_packs_row row = {.tensor = tensor, .offset = k->offset, .bytes = k->bytes};
    row.source_dtype = (int32_t)k->source_dtype;
    row.dtype = (int32_t)k->dtype;
    row.kind = (int32_t)k->layout.kind;
    row.variant = k->layout.variant;
    row.rank = k->rank;
    memcpy(row.shape, k->shape, (size_t)k->rank * sizeof *row.shape);
    memcpy(row.strides, k->strides, (size_t)k->rank * sizeof *row.strides);
    row.sum = XXH3_64bits(c->memory->data, k->bytes);
    return row;
}

static bool make_room(packs *p, int more) {
    amp_cast **casts = amp_alloc((size_t)(p->count + more) * sizeof *casts);
    amp_packs_row *rows = amp_alloc((size_t)(p->count + more) * sizeof *rows);
    if (!casts || !rows) {
        amp_free(casts);
        amp_free(rows);
        return false;
    }
    if (p->count > 0) memcpy(casts, p->casts, (size_t)p->count * sizeof *casts);
    if (p->count > 0) memcpy(rows, p->rows, (size_t)p->count * sizeof *rows);
    amp_free(p->casts);
    amp_free(p->rows);
    p->casts = casts;
    p->rows = rows;
    return true;
}

static void release_packs(packs *p) {
    for (int i = 0; i < p->count; i++) amp_cast_release(p->casts[i]);
    amp_free(p->casts);
    amp_free(p->rows);
}

/* All that is kept of the model's tensors. */
static amp_status collect(const amp_graph_weights *w, packs *p) {
    int room = 0;
    for (int t = 0; t < w->count && p->count < AMP_PACKS_MOST_ROWS - MOST_OF_ONE; t++) {
        if (room < p->count + MOST_OF_ONE) {
            room = 2 * p->count + 2 * MOST_OF_ONE;
            if (!make_room(p, room - p->count)) return amp_fail(AMP_ERROR_MEMORY, "graph_save_packs: no memory");
        }
        const int first = p->count;
        p->count += amp_casts_kept_of(w->tensors[t]->storage, p->casts + first, MOST_OF_ONE);
        for (int i = first; i < p->count; i++) p->rows[i] = row_of(t, p->casts[i]);
    }
    return AMP_OK;
}

static uint64_t to_page(uint64_t at) {
    return (at + AMP_PACKS_PAGE - 1) / AMP_PACKS_PAGE * AMP_PACKS_PAGE;
}

/* Behind the last one is a page more: kernels may look ahead. */
static amp_packs_head lay_out(const amp_graph_weights *w, packs *p) {
    amp_packs_head head = head_for(w);
    uint64_t at = to_page(sizeof head + (uint64_t)p->count * sizeof *p->rows);
    for (int i = 0; i < p->count; i++) {
        p->rows[i].at = at;
        at = to_page(at + p->rows[i].bytes);
    }
    head.contents = w->sum(w->context);
    head.count = (uint64_t)p->count;
    head.bytes = at + AMP_PACKS_PAGE;
    head.sum = sum_of_table(head, p->rows);
    return head;
}

static amp_status pad(amp_file_writer *writer, uint64_t *at, uint64_t to) {
    static const char zeros[2 * AMP_PACKS_PAGE];
    const size_t bytes = (size_t)(to - *at);
    *at = to;
    return amp_file_write(writer, zeros, bytes);
}

static amp_status write_packs(amp_file_writer *writer, const amp_packs_head *head, const packs *p) {
    const size_t table = (size_t)p->count * sizeof *p->rows;
    uint64_t at = sizeof *head + table;
    AMP_TRY(amp_file_write(writer, head, sizeof *head));
    AMP_TRY(amp_file_write(writer, p->rows, table));
    for (int i = 0; i < p->count; i++) {
        AMP_TRY(pad(writer, &at, p->rows[i].at));
        AMP_TRY(amp_file_write(writer, p->casts[i]->memory->data, p->rows[i].bytes));
        at += p->rows[i].bytes;
    }
    AMP_TRY(pad(writer, &at, to_page(at)));
    AMP_TRY(pad(writer, &at, head->bytes));
    return amp_file_commit(writer);
}

amp_status amp_graph_save_packs(amp_graph *g, const char *path) {
    packs p = {NULL, NULL, 0};
    amp_file_writer writer;
    const amp_graph_weights *w = weights_of("graph_save_packs", g);
    if (!w) return amp_pending_error();
    amp_status status = collect(w, &p);
    if (status == AMP_OK && p.count == 0)
        status = amp_fail(AMP_ERROR_INVALID,
                          "graph_save_packs: of the weights in %s none is packed; run it first, as it will be run",
                          amp_graph_source_of(g)->name);
    if (status == AMP_OK) {
        const amp_packs_head head = lay_out(w, &p);
        status = amp_file_create(&writer, "graph_save_packs", path);
        if (status == AMP_OK) status = write_packs(&writer, &head, &p);
        amp_file_abandon(&writer);
    }
    release_packs(&p);
    return status;
}

/* ---- Reading --------------------------------------------------------------------------------------------------- */

/* A file while it is looked at; everything in it may be anything. */
typedef struct mapped {
    const char *path;
    amp_file_map *map;
    const unsigned char *data;
    uint64_t bytes;
    amp_packs_head head;
    const amp_packs_row *rows;
} mapped;

#define REFUSE(m, format, ...) amp_fail(AMP_ERROR_IO, "graph_load_packs: %s " format, (m)->path, __VA_ARGS__)

static amp_status check_whole(mapped *m) {
    if (m->bytes < sizeof m->head || memcmp(m->data, AMP_PACKS_MAGIC, sizeof m->head.magic) != 0)
        return REFUSE(m, "is no file of %s", "packed weights");
    memcpy(&m->head, m->data, sizeof m->head);
    const amp_packs_head *h = &m->head;
    if (h->format != AMP_PACKS_FORMAT)
        return REFUSE(m, "has format %u; this libamp reads format %d", h->format, AMP_PACKS_FORMAT);
    if (h->bytes != m->bytes)
        return REFUSE(m, "has %llu bytes, expected %llu: it is not whole", (unsigned long long)m->bytes,
                      (unsigned long long)h->bytes);
    if (h->count > AMP_PACKS_MOST_ROWS || h->count * sizeof *m->rows > m->bytes - sizeof *h)
        return REFUSE(m, "is damaged: there is no room for its %llu rows", (unsigned long long)h->count);
    m->rows = (const void *)(m->data + sizeof *h);
    if (sum_of_table(*h, m->rows) == h->sum) return AMP_OK;
    return REFUSE(m, "is damaged: the checksum of its %s is another", "table");
}

/* The times of the model's files say that they are what they were; if not, their bytes do. */
static amp_status check_fits(const mapped *m, const amp_graph_weights *w, const char *model) {
    const amp_packs_head ours = head_for(w), *h = &m->head;
    if (memcmp(h->version, ours.version, sizeof ours.version) != 0 || h->layouts != ours.layouts)
        return REFUSE(m, "was written by libamp %.31s, layouts %u; this is %s, layouts %u", h->version, h->layouts,
                      ours.version, ours.layouts);
    if (memcmp(h->isa, ours.isa, sizeof ours.isa) != 0)
        return REFUSE(m, "was packed for %.31s; here ops run with %s", h->isa, ours.isa);
    const bool same = h->structure == ours.structure && (h->stamp == ours.stamp || h->contents == w->sum(w->context));
    return same ? AMP_OK : REFUSE(m, "was packed for another model than %s", model);
}

/* In the order of the table, one behind the other: no byte is read twice. */
static amp_status check_row(const mapped *m, const amp_graph_weights *w, int number) {
    const amp_packs_row *r = &m->rows[number];
    const uint64_t end = number > 0 ? r[-1].at + r[-1].bytes : sizeof m->head;
    const bool inside =
        r->at >= end && r->at <= m->bytes && r->bytes <= m->bytes - r->at && r->at % AMP_PACKS_PAGE == 0;
    const bool known = r->tensor >= 0 && r->tensor < w->count && r->rank >= 0 && r->rank <= AMP_MAX_RANK;
    if (inside && known && r->bytes > 0 && r->bytes <= INT64_MAX) return AMP_OK;
    return REFUSE(m, "is damaged: row %d of its table is of nothing in it", number);
}

/* Reading all bytes takes longer than everything else: on all threads. */
static int first_damaged(const mapped *m) {
    int damaged = INT32_MAX;
    const int count = (int)m->head.count, threads = amp_parallel_threads((int64_t)m->bytes, AMP_GRAIN_ELEMENTS);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(dynamic) reduction(min : damaged)
    for (int i = 0; i < count; i++) {
        const amp_packs_row *r = &m->rows[i];
        if (XXH3_64bits(m->data + r->at, (size_t)r->bytes) != r->sum && i < damaged) damaged = i;
    }
    return damaged;
}

static void release_map(void *map) {
    amp_file_map_release(map);
}

static amp_status offer(const mapped *m, const amp_graph_weights *w, const amp_packs_row *r) {
    const int64_t bytes = (int64_t)r->bytes;
    amp_cast_key key = {.storage = w->tensors[r->tensor]->storage,
                        .version = 0, /* what is in the file */
                        .offset = r->offset,
                        .source_dtype = (amp_dtype)r->source_dtype,
                        .dtype = (amp_dtype)r->dtype,
                        .layout = {(amp_layout_kind)r->kind, r->variant},
                        .bytes = (size_t)r->bytes,
                        .rank = r->rank};
    memcpy(key.shape, r->shape, sizeof key.shape);
    memcpy(key.strides, r->strides, sizeof key.strides);
    amp_file_map_retain(m->map);
    amp_tensor *memory =
        amp_tensor_over_file("graph_load_packs", m->data + r->at, AMP_U8, 1, &bytes, release_map, m->map);
    if (!memory) {
        amp_file_map_release(m->map);
        return amp_pending_error();
    }
    const amp_status status = amp_cast_offer(&key, memory->storage);
    amp_tensor_drop(memory);
    return status;
}

static amp_status take(mapped *m, const amp_graph_weights *w, const char *model) {
    AMP_TRY(check_whole(m));
    AMP_TRY(check_fits(m, w, model));
    for (int i = 0; i < (int)m->head.count; i++) AMP_TRY(check_row(m, w, i));
    const int damaged = first_damaged(m);
    if (damaged != INT32_MAX) return REFUSE(m, "is damaged: the checksum of its weights number %d is another", damaged);
    for (int i = 0; i < (int)m->head.count; i++) AMP_TRY(offer(m, w, &m->rows[i]));
    return AMP_OK;
}

amp_status amp_graph_load_packs(amp_graph *g, const char *path) {
    const amp_graph_weights *w = weights_of("graph_load_packs", g);
    if (!w) return amp_pending_error();
    mapped m = {.path = path, .map = amp_file_map_open("graph_load_packs", path)};
    if (!m.map) return amp_pending_error();
    m.data = amp_file_map_data(m.map);
    m.bytes = amp_file_map_bytes(m.map);
    const amp_status status = take(&m, w, amp_graph_source_of(g)->name);
    amp_file_map_release(m.map);
    return status;
}
