/* A GPU as a place, and the groups of NCCL's ("links") in which the ranks' GPUs are. A link is made when ranks first
 * need it, by all of them; has the same number on all; and stays until the group ends, or until an error that all ranks
 * have: then the next that needs one makes another. */
#include "amp/distributed.h"
#include "amp/ops.h"
#include "core/memory.h"
#include "cuda/cuda_backend.h"
#include "distributed/place.h"
#include "distributed/world.h"

enum { LINKS = 64, LINE = 64 };

typedef struct gpu_link {
    unsigned number; /* 0: there is none */
    int device;
    amp_cuda_group *group;
    bool is_lost; /* a call has failed here: no more of them, the other ranks have had that one alone */
} gpu_link;

static gpu_link links[LINKS];
static unsigned last_number;

/* NULL: it is gone. */
static gpu_link *find(unsigned number) {
    for (int i = 0; number && i < LINKS; i++) {
        if (links[i].number == number) return &links[i];
    }
    return NULL;
}

/* The device's own, on which the thread works until `leave`. */
static const amp_cuda_module *enter(const char *what, const amp_place *p, int *before) {
    const amp_cuda_module *module = amp_cuda_loaded();
    *before = module->selected();
    (void)module->select(p->device);
    module->begin(what);
    return module;
}

static void leave(int before) {
    (void)amp_cuda_loaded()->select(before);
}

/* ---- Memory ------------------------------------------------------------------------------------------------------ */
static bool take(const amp_place *p, size_t bytes, amp_room *room) {
    int before;
    void *address = NULL;
    amp_cuda_block *block = NULL;
    const amp_cuda_result result = enter("distributed", p, &before)->allocate(bytes ? bytes : 1, &block, &address);
    leave(before);
    if (result == AMP_CUDA_OK) *room = (amp_room){address, block};
    return result == AMP_CUDA_OK;
}

static void drop(amp_room *room) {
    if (room->owner) amp_cuda_loaded()->release(room->owner);
    *room = (amp_room){NULL, NULL};
}

/* The room has the block. */
static void keep_block(void *block) {
    (void)block;
}

static amp_tensor *over(const amp_room *room, size_t at, amp_dtype dtype, int rank, const int64_t *shape) {
    amp_tensor *t = amp_from_memory(room->bytes + at, dtype, rank, shape, NULL, keep_block, room->owner);
    if (t) t->storage->device = AMP_DEVICE_CUDA;
    return t;
}

/* A copy: the block has one owner, and gradients have many. */
static amp_tensor *keep(const amp_room *room, size_t at, amp_dtype dtype, amp_tensor *like) {
    amp_no_grad_here();
    amp_tensor *made = amp_empty_like(like);
    return made ? amp_copy_(made, over(room, at, dtype, like->rank, like->shape)) : NULL;
}

static char *address(const char *what, const amp_place *p, const amp_tensor *t) {
    int before;
    (void)enter(what, p, &before);
    char *found = amp_cuda_address(what, t);
    leave(before);
    return found;
}

static char *reach(const char *what, const amp_place *p, const amp_room *room) {
    int before;
    const amp_cuda_result result = enter(what, p, &before)->use(room->owner);
    leave(before);
    return amp_cuda_status(what, result) == AMP_OK ? room->bytes : NULL;
}

static amp_status copy(const char *what, const amp_place *p, void *to, const void *from, size_t bytes) {
    int before;
    const amp_cuda_result result = enter(what, p, &before)->copy(to, from, bytes);
    leave(before);
    return amp_cuda_status(what, result);
}

amp_status amp_place_store(const char *what, amp_tensor *t, const amp_tensor *host) {
    int before;
    amp_place p = {.kind = NULL};
    AMP_TRY(amp_place_add(what, &p, "the tensor", t));
    char *to = address(what, &p, t);
    if (!to) return amp_pending_error();
    const size_t bytes = (size_t)amp_tensor_elements(t) * amp_dtype_size(t->dtype);
    const amp_cuda_result result = enter(what, &p, &before)->upload(to, amp_tensor_pointer(host), bytes);
    leave(before);
    amp_tensor_written(t);
    return amp_cuda_status(what, result);
}

/* ---- Transfers --------------------------------------------------------------------------------------------------- */
/* Which, and with what. */
typedef struct transfer {
    amp_cuda_result (*run)(const amp_cuda_module *module, const amp_cuda_group *group, const struct transfer *t);
    const void *from;
    void *to;
    size_t bytes;
    int root;
} transfer;

static amp_cuda_result run_exchange(const amp_cuda_module *module, const amp_cuda_group *group, const transfer *t) {
    return module->group_exchange(group, t->from, t->to, t->bytes);
}

static amp_cuda_result run_gather(const amp_cuda_module *module, const amp_cuda_group *group, const transfer *t) {
    return module->group_gather(group, t->from, t->to, t->bytes);
}

static amp_cuda_result run_broadcast(const amp_cuda_module *module, const amp_cuda_group *group, const transfer *t) {
    return module->group_broadcast(group, t->to, t->bytes, t->root);
}

static amp_status carry(const char *what, const amp_place *p, const transfer *t) {
    gpu_link *l = find(p->link);
    int before;
    if (t->bytes == 0) return AMP_OK;
    if (amp_distributed_size() == 1) return t->from == t->to ? AMP_OK : copy(what, p, t->to, t->from, t->bytes);
    if (!l) return amp_fail(AMP_ERROR_DEVICE, "%s: the GPUs' connection has ended with an earlier error", what);
    if (l->is_lost) return amp_pending_error();
    const amp_cuda_result result = t->run(enter(what, p, &before), l->group, t);
    leave(before);
    l->is_lost = result != AMP_CUDA_OK;
    return amp_cuda_status(what, result);
}

static amp_status exchange(const char *what, const amp_place *p, const void *from, void *to, size_t bytes) {
    return carry(what, p, &(transfer){run_exchange, from, to, bytes, 0});
}

static amp_status gather(const char *what, const amp_place *p, const void *from, void *to, size_t bytes) {
    return carry(what, p, &(transfer){run_gather, from, to, bytes, 0});
}

static amp_status broadcast(const char *what, const amp_place *p, void *bytes, size_t count, int root) {
    return carry(what, p, &(transfer){run_broadcast, bytes, bytes, count, root});
}

const amp_place_kind amp_place_cuda = {.name = "a GPU",
                                       .is_apart = true,
                                       .take = take,
                                       .drop = drop,
                                       .over = over,
                                       .keep = keep,
                                       .address = address,
                                       .reach = reach,
                                       .copy = copy,
                                       .gather = gather,
                                       .broadcast = broadcast,
                                       .exchange = exchange};

/* ---- Connecting -------------------------------------------------------------------------------------------------- */
/* What a rank tells of its place: the newest link, for ranks' devices may meet otherwise than before. */
typedef struct told {
    uint32_t is_apart, number; /* of a link that it has for the device */
} told;

static told tell(const amp_place *p) {
    told own = {p->kind->is_apart, 0};
    for (int i = 0; own.is_apart && i < LINKS; i++) {
        if (links[i].number > own.number && links[i].device == p->device) own.number = links[i].number;
    }
    return own;
}

static amp_status compare(const char *what, const amp_world *g, const told *all, bool *is_new) {
    static const char *const names[] = {"the CPU", "a GPU"};
    *is_new = all[0].is_apart && !all[0].number;
    for (int r = 1; r < g->size; r++) {
        if (all[r].is_apart != all[0].is_apart)
            return amp_fail(AMP_ERROR_DEVICE, "%s: rank %d has its tensors on %s, and rank 0 on %s", what, r,
                            names[all[r].is_apart], names[all[0].is_apart]);
        *is_new = *is_new || all[r].number != all[0].number;
    }
    return AMP_OK;
}

/* A free place of the list, the same on all ranks. */
static gpu_link *find_free(void) {
    for (int i = 0; i < LINKS; i++) {
        if (!links[i].number) return &links[i];
    }
    return NULL;
}

static amp_status check_ready(const char *what) {
    const char *missing = amp_cuda_loaded()->group_missing();
    if (missing) return amp_fail(AMP_ERROR_DEVICE, "%s: %s", what, missing);
    if (find_free()) return AMP_OK;
    return amp_fail(AMP_ERROR_DEVICE, "%s: there are %d groups of GPUs already", what, (int)LINKS);
}

static void leave_link(gpu_link *l, bool aborts) {
    int before;
    const amp_place p = {.device = l->device};
    if (l->group) {
        enter("distributed", &p, &before)->group_leave(l->group, aborts);
        leave(before);
    }
    *l = (gpu_link){.number = 0};
}

/* NCCL connects GPUs in the first calls of a kind, which wait for the other ranks in the call itself: so these come
 * before anything else can have failed. The room has a line for each rank, twice. */
static amp_status try_link(const char *what, const amp_place *p, const amp_world *g, char *lines) {
    char *second = lines + (size_t)g->size * LINE;
    AMP_TRY(exchange(what, p, lines, second, LINE));
    AMP_TRY(gather(what, p, second + (size_t)g->rank * LINE, second, LINE));
    return broadcast(what, p, lines, LINE, 0);
}

/* Tells the others what the group is called. */
static amp_status name_link(const char *what, const amp_place *p, const amp_world *g, struct amp_cuda_group_id *id) {
    int before;
    const amp_cuda_module *module = enter(what, p, &before);
    const amp_status status = g->rank == 0 ? amp_cuda_status(what, module->group_name(id)) : AMP_OK;
    leave(before);
    if (!g->transport->broadcast(id, sizeof *id, 0)) return amp_world_fail(what);
    return amp_world_agree(what, status, 0);
}

static amp_status join(const char *what, amp_place *p, const amp_world *g, const struct amp_cuda_group_id *id) {
    int before;
    gpu_link *l = find_free();
    *l = (gpu_link){.number = ++last_number, .device = p->device};
    p->link = l->number;
    const amp_cuda_result result = enter(what, p, &before)->group_join(id, g->rank, g->size, &l->group);
    leave(before);
    return amp_world_agree(what, amp_cuda_status(what, result), 0);
}

/* Nobody joins unless all can; and all go on, or none. */
static amp_status make_link(const char *what, amp_place *p, const amp_world *g) {
    struct amp_cuda_group_id id = {{0}};
    amp_room room = {NULL, NULL};
    amp_status status = check_ready(what);
    if (status == AMP_OK && !take(p, 2 * (size_t)g->size * LINE, &room))
        status = amp_fail(AMP_ERROR_MEMORY, "%s: no memory on the GPU", what);
    status = amp_world_agree(what, status, 0);
    if (status == AMP_OK) status = name_link(what, p, g, &id);
    if (status == AMP_OK) status = join(what, p, g, &id);
    if (status == AMP_OK) status = amp_world_agree(what, try_link(what, p, g, room.bytes), 0);
    drop(&room);
    if (status != AMP_OK) amp_place_part(p);
    return status;
}

amp_status amp_place_connect(const char *what, amp_place *p) {
    const amp_world *g = NULL;
    bool is_new = false;
    AMP_TRY(amp_world_enter(what, &g));
    if (g->size == 1) return AMP_OK;
    const told own = tell(p);
    told *all = amp_alloc((size_t)g->size * sizeof *all);
    if (!all) return amp_fail(AMP_ERROR_MEMORY, "%s: no memory", what);
    amp_status status = amp_world_gather(what, &own, all, sizeof own);
    if (status == AMP_OK) status = compare(what, g, all, &is_new);
    amp_free(all);
    if (status != AMP_OK) return status;
    if (is_new) return make_link(what, p, g);
    p->link = own.number;
    return AMP_OK;
}

amp_status amp_place_renew(const char *what, amp_place *p) {
    const bool is_parted = p->kind->is_apart && amp_distributed_size() > 1 && !find(p->link);
    return is_parted ? amp_place_connect(what, p) : AMP_OK;
}

amp_status amp_place_check(const char *what, const amp_place *p) {
    gpu_link *l = find(p->link);
    int before;
    if (!l) return AMP_OK;
    if (l->is_lost) return amp_pending_error();
    const amp_cuda_result result = enter(what, p, &before)->group_check(l->group);
    leave(before);
    l->is_lost = result != AMP_CUDA_OK;
    return amp_cuda_status(what, result);
}

void amp_place_lose(const amp_place *p) {
    gpu_link *l = find(p->link);
    if (l) l->is_lost = true;
}

void amp_place_part(const amp_place *p) {
    gpu_link *l = find(p->link);
    if (l) leave_link(l, true);
}

void amp_place_leave_all(void) {
    for (int i = 0; i < LINKS; i++) {
        if (links[i].number) leave_link(&links[i], links[i].is_lost);
    }
}
