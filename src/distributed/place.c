/* The CPU as a place, and what holds for all. */
#include "distributed/place.h"

#include "amp/cuda.h"
#include "amp/ops.h"
#include "core/memory.h"
#include "distributed/world.h"

enum { LINE = 64 };

/* Memory that several tensors lie in. */
typedef struct shared_bytes {
    _Alignas(LINE) atomic_int references;
    _Alignas(LINE) char bytes[];
} shared_bytes;

static bool take(const amp_place *p, size_t bytes, amp_room *room) {
    shared_bytes *s = amp_alloc(sizeof *s + bytes);
    (void)p;
    if (!s) return false;
    atomic_init(&s->references, 1);
    *room = (amp_room){s->bytes, s};
    return true;
}

static void drop_shared(void *context) {
    shared_bytes *s = context;
    if (s && atomic_fetch_sub_explicit(&s->references, 1, memory_order_acq_rel) == 1) amp_free(s);
}

static void drop(amp_room *room) {
    drop_shared(room->owner);
    *room = (amp_room){NULL, NULL};
}

static amp_tensor *over(const amp_room *room, size_t at, amp_dtype dtype, int rank, const int64_t *shape) {
    return amp_from_memory(room->bytes + at, dtype, rank, shape, NULL, NULL, NULL);
}

/* It lies in the room, where that has its dtype. */
static amp_tensor *keep(const amp_room *room, size_t at, amp_dtype dtype, amp_tensor *like) {
    shared_bytes *s = room->owner;
    atomic_fetch_add_explicit(&s->references, 1, memory_order_relaxed);
    amp_tensor *t = amp_from_memory(room->bytes + at, dtype, like->rank, like->shape, NULL, drop_shared, s);
    if (!t) drop_shared(s);
    return t && like->dtype != dtype ? amp_to(t, like->dtype) : t;
}

static char *address(const char *what, const amp_place *p, const amp_tensor *t) {
    (void)what;
    (void)p;
    return amp_tensor_pointer(t);
}

static char *reach(const char *what, const amp_place *p, const amp_room *room) {
    (void)what;
    (void)p;
    return room->bytes;
}

static amp_status copy(const char *what, const amp_place *p, void *to, const void *from, size_t bytes) {
    (void)what;
    (void)p;
    memcpy(to, from, bytes);
    return AMP_OK;
}

static amp_status gather(const char *what, const amp_place *p, const void *from, void *to, size_t bytes) {
    (void)p;
    return amp_world_gather(what, from, to, bytes);
}

static amp_status broadcast(const char *what, const amp_place *p, void *bytes, size_t count, int root) {
    const amp_world *g = NULL;
    (void)p;
    AMP_TRY(amp_world_enter(what, &g));
    return g->transport->broadcast(bytes, count, root) ? AMP_OK : amp_world_fail(what);
}

const amp_place_kind amp_place_cpu = {.name = "the CPU",
                                      .take = take,
                                      .drop = drop,
                                      .over = over,
                                      .keep = keep,
                                      .address = address,
                                      .reach = reach,
                                      .copy = copy,
                                      .gather = gather,
                                      .broadcast = broadcast};

/* ---- Of any kind ------------------------------------------------------------------------------------------------- */
amp_status amp_place_add(const char *what, amp_place *p, const char *name, const amp_tensor *t) {
    const bool is_cuda = t->storage->device == AMP_DEVICE_CUDA;
    const amp_place_kind *kind = is_cuda ? &amp_place_cuda : &amp_place_cpu;
    const int device = is_cuda ? amp_cuda_device_of(t) : 0;
    if (!p->kind) *p = (amp_place){.kind = kind, .device = device};
    if (p->kind != kind)
        return amp_fail(AMP_ERROR_DEVICE, "%s: %s is on %s, others are on %s; all must be on one device", what, name,
                        kind->name, p->kind->name);
    if (p->device == device) return AMP_OK;
    return amp_fail(AMP_ERROR_DEVICE, "%s: %s is on CUDA device %d, others are on %d; all must be on one device", what,
                    name, device, p->device);
}

amp_status amp_place_settle(const char *what, const amp_place *p, amp_status status) {
    if (!p->kind->is_apart) return status;
    if (status == AMP_OK) status = amp_place_check(what, p);
    status = amp_world_agree(what, status, 0);
    if (status != AMP_OK) amp_place_part(p);
    return status;
}
