/* The group: its module, its beginning and its end, and what its members tell each other. */
#include "distributed/world.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "amp/distributed.h"
#include "amp/ops.h"
#include "core/memory.h"

/* One for the process, as MPI is. */
static amp_world world = {.transport = &amp_transport_alone, .size = 1};
static bool is_joined;
static pthread_t member; /* the thread that joined: MPI is to be called by one */
static pid_t process;    /* … and not by what was forked */

/* ---- The module -------------------------------------------------------------------------------------------------- */
static amp_mpi_module_entry *find_entry(void *module) {
    void *symbol = dlsym(module, AMP_MPI_MODULE_ENTRY);
    amp_mpi_module_entry *entry = NULL;
    memcpy(&entry, &symbol, sizeof entry); /* ISO C has no cast from an object to a function pointer */
    return entry;
}

static amp_status fail_open(const char *error) {
    const bool absent = !error || strncmp(error, AMP_MPI_MODULE_FILE ":", sizeof AMP_MPI_MODULE_FILE) == 0;
    if (absent)
        return amp_fail(AMP_ERROR_DEVICE,
                        "distributed_init: the module " AMP_MPI_MODULE_FILE
                        " is not installed (the package libamp-mpi, or a build that found libopenmpi-dev)");
    return amp_fail(AMP_ERROR_DEVICE, "distributed_init: the module " AMP_MPI_MODULE_FILE " cannot be loaded: %s",
                    error);
}

/* The module stays: MPI has what it needs of it until the process ends. */
static amp_status load(const amp_transport **transport) {
    void *file = dlopen(AMP_MPI_MODULE_FILE, RTLD_NOW | RTLD_LOCAL);
    if (!file) return fail_open(dlerror());
    amp_mpi_module_entry *entry = find_entry(file);
    const amp_transport *found = entry ? entry() : NULL;
    if (!found || found->abi != AMP_TRANSPORT_ABI)
        return amp_fail(AMP_ERROR_DEVICE, "distributed_init: " AMP_MPI_MODULE_FILE " belongs to another libamp");
    *transport = found;
    return AMP_OK;
}

/* ---- Beginning and end ------------------------------------------------------------------------------------------- */
/* Others would wait for it for ever. */
static void end_all(void) {
    if (!is_joined || getpid() != process) return;
    const char *why = amp_last_error();
    fprintf(stderr, "libamp: rank %d of %d ended before amp_distributed_end%s%s\n", world.rank, world.size,
            *why ? ": " : "", why);
    fflush(stderr);
    world.transport->abort(EXIT_FAILURE);
}

static amp_status join(const amp_transport *transport) {
    static bool is_registered;
    int rank = 0, size = 1;
    if (!transport->begin(&rank, &size)) return amp_fail(AMP_ERROR_DEVICE, "distributed_init: %s", transport->error());
    world = (amp_world){transport, rank, size};
    is_joined = true;
    member = pthread_self();
    process = getpid();
    if (!is_registered && atexit(end_all) != 0)
        return amp_fail(AMP_ERROR_MEMORY, "distributed_init: no memory for a function that is called at the end");
    is_registered = true;
    return AMP_OK;
}

amp_status amp_distributed_init(void) {
    const amp_transport *transport = NULL;
    AMP_TRY(amp_pending_error());
    if (is_joined)
        return amp_fail(AMP_ERROR_INVALID, "distributed_init: this process is rank %d of %d already", world.rank,
                        world.size);
    AMP_TRY(load(&transport));
    return join(transport);
}

amp_status amp_distributed_end(void) {
    const amp_transport *transport = world.transport;
    const amp_world *here = NULL;
    AMP_TRY(amp_pending_error()); /* MPI would wait for the others, and they for this rank: end_all tells them */
    if (!is_joined) return amp_fail(AMP_ERROR_INVALID, "distributed_end: there was no amp_distributed_init");
    AMP_TRY(amp_world_enter("distributed_end", &here));
    amp_place_leave_all();
    is_joined = false;
    world = (amp_world){.transport = &amp_transport_alone, .size = 1};
    if (transport->finish()) return AMP_OK;
    return amp_fail(AMP_ERROR_DEVICE, "distributed_end: %s", transport->error());
}

int amp_distributed_rank(void) {
    return world.rank;
}

int amp_distributed_size(void) {
    return world.size;
}

bool amp_distributed_is_launched(void) {
    static const char *const variables[] = {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_SIZE", "PMI_RANK",
                                            "MV2_COMM_WORLD_SIZE"};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        if (getenv(variables[i])) return true;
    }
    return false;
}

/* ---- What its members tell each other ---------------------------------------------------------------------------- */
amp_status amp_world_enter(const char *what, const amp_world **entered) {
    *entered = &world;
    if (!is_joined || (pthread_equal(member, pthread_self()) && getpid() == process)) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: this is not the thread that called amp_distributed_init", what);
}

amp_status amp_world_fail(const char *what) {
    return amp_fail(AMP_ERROR_DEVICE, "%s: %s", what, world.transport->error());
}

amp_status amp_world_gather(const char *what, const void *from, void *to, size_t bytes) {
    amp_transfer *t = world.transport->start_gather(from, to, bytes);
    return t && world.transport->wait(t) ? AMP_OK : amp_world_fail(what);
}

/* What a rank says of itself. */
typedef struct state {
    uint64_t mark;
    int32_t status;
    char sentence[244];
} state;

static amp_status compare_states(const char *what, const state *all) {
    const state *own = &all[world.rank];
    if (own->status != AMP_OK) return (amp_status)own->status;
    for (int r = 0; r < world.size; r++) {
        if (all[r].status != AMP_OK)
            return amp_fail((amp_status)all[r].status, "%s: rank %d of %d failed: %.*s", what, r, world.size,
                            (int)sizeof all[r].sentence, all[r].sentence);
    }
    for (int r = 1; r < world.size; r++) {
        if (all[r].mark != all[0].mark)
            return amp_fail(AMP_ERROR_INVALID,
                            "%s: ranks 0 and %d do not stand at the same place: their calls, or the gradients that "
                            "they hold, differ",
                            what, r);
    }
    return AMP_OK;
}

amp_status amp_world_agree(const char *what, amp_status status, uint64_t mark) {
    state own = {.mark = mark, .status = (int32_t)status}, *all = amp_alloc((size_t)world.size * sizeof *all);
    if (!all) return amp_fail(AMP_ERROR_MEMORY, "%s: no memory", what);
    snprintf(own.sentence, sizeof own.sentence, "%s", status == AMP_OK ? "" : amp_last_error());
    amp_status agreed = amp_world_gather(what, &own, all, sizeof own);
    if (agreed == AMP_OK) agreed = compare_states(what, all);
    amp_free(all);
    return agreed;
}

amp_status amp_world_check_tensor(const char *what, const char *name, const amp_tensor *t) {
    if (!t) return amp_fail(AMP_ERROR_INVALID, "%s: %s is NULL", what, name);
    if (!amp_tensor_is_live(t)) return amp_fail(AMP_ERROR_INVALID, "%s: %s was released before", what, name);
    if (amp_tensor_is_dense(t)) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: %s, %s, is not contiguous", what, name, amp_describe(t));
}

amp_status amp_world_broadcast_tensor(const char *what, const amp_place *p, amp_tensor *t, int root) {
    const size_t bytes = (size_t)amp_tensor_elements(t) * amp_dtype_size(t->dtype);
    if (world.size == 1 || bytes == 0) return AMP_OK;
    char *address = p->kind->address(what, p, t);
    const amp_status status = address ? p->kind->broadcast(what, p, address, bytes, root) : amp_pending_error();
    if (world.rank != root) amp_tensor_written(t);
    return status;
}

amp_status amp_distributed_barrier(void) {
    const amp_world *g = NULL;
    AMP_TRY(amp_world_enter("distributed_barrier", &g));
    return amp_world_agree("distributed_barrier", amp_pending_error(), 0);
}

/* Of the shape and dtype. */
static uint64_t mark_of(const amp_tensor *t, uint64_t more) {
    uint64_t mark = amp_world_mix(more, (uint64_t)t->dtype + 1);
    for (int i = 0; i < t->rank; i++) mark = amp_world_mix(mark, (uint64_t)t->shape[i] + 1);
    return mark;
}

amp_status amp_distributed_broadcast(amp_tensor *t, int root) {
    static const char what[] = "distributed_broadcast";
    const amp_world *g = NULL;
    AMP_TRY(amp_world_enter(what, &g));
    amp_place p = {.kind = NULL};
    amp_status status = amp_pending_error();
    if (status == AMP_OK) status = amp_world_check_tensor(what, "the tensor", t);
    if (status == AMP_OK) status = amp_place_add(what, &p, "the tensor", t);
    if (status == AMP_OK && (root < 0 || root >= g->size))
        status = amp_fail(AMP_ERROR_INVALID, "%s: there is no rank %d; there are %d", what, root, g->size);
    if (status == AMP_OK) status = amp_tensor_check_writable(what, "tensor", t);
    AMP_TRY(amp_world_agree(what, status, status == AMP_OK ? mark_of(t, (uint64_t)root + 1) : 0));
    AMP_TRY(amp_place_connect(what, &p));
    return amp_place_settle(what, &p, amp_world_broadcast_tensor(what, &p, t, root));
}

/* Of all ranks' at `all`, by rank, into the tensor. */
static amp_status add_all(amp_tensor *t, char *all, size_t bytes) {
    amp_no_grad_here();
    amp_scope_here();
    for (int r = 0; r < world.size; r++) {
        amp_tensor *part = amp_from_memory(all + (size_t)r * bytes, t->dtype, t->rank, t->shape, NULL, NULL, NULL);
        if (!(r == 0 ? amp_copy_(t, part) : amp_add_(t, part))) return amp_pending_error();
    }
    return AMP_OK;
}

/* The tensor itself, or what is on a GPU, in memory of the host. */
static amp_tensor *on_host(amp_tensor *t) {
    amp_no_grad_here();
    return t->storage->device == AMP_DEVICE_CPU ? t : amp_to_device(t, AMP_DEVICE_CPU);
}

amp_status amp_distributed_all_reduce(amp_tensor *t) {
    static const char what[] = "distributed_all_reduce";
    const amp_world *g = NULL;
    AMP_TRY(amp_world_enter(what, &g));
    amp_scope_here();
    amp_status status = amp_pending_error();
    if (status == AMP_OK) status = amp_world_check_tensor(what, "the tensor", t);
    if (status == AMP_OK && t->dtype == AMP_BOOL)
        status = amp_fail(AMP_ERROR_DTYPE, "%s: the tensor is %s; expected numbers", what, amp_describe(t));
    if (status == AMP_OK) status = amp_tensor_check_writable(what, "tensor", t);
    amp_tensor *host = status == AMP_OK ? on_host(t) : NULL;
    if (status == AMP_OK && !host) status = amp_pending_error();
    const size_t bytes = host ? (size_t)amp_tensor_elements(t) * amp_dtype_size(t->dtype) : 0;
    char *all = amp_alloc(bytes * (size_t)g->size);
    if (!all) status = amp_fail(AMP_ERROR_MEMORY, "%s: no memory for %d tensors", what, g->size);
    status = amp_world_agree(what, status, status == AMP_OK ? mark_of(t, 0) : 0);
    if (status == AMP_OK && bytes > 0) status = amp_world_gather(what, amp_tensor_pointer(host), all, bytes);
    if (status == AMP_OK && bytes > 0) status = add_all(host, all, bytes);
    if (status == AMP_OK && bytes > 0 && host != t) status = amp_place_store(what, t, host);
    amp_free(all);
    return status;
}
