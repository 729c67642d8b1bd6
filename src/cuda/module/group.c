/* Bytes between the GPUs of several processes, by NCCL, which is opened at the first use. It is built without NCCL's
 * header: what is needed of its interface is little, and has been the same since version 2.7. All of a group's work is
 * on the thread's stream, in the order of the calls, and so behind what made the bytes and before what reads them. */
#include <stdio.h>
#include <stdlib.h>

#include "cuda/module/driver.h"

#define LIBRARY "libnccl.so.2"

typedef struct ncclComm ncclComm; /* NCCL's own */
typedef struct amp_cuda_group_id id;

enum { DONE = 0, UNDER_WAY = 7, BYTES = 1 /* the type ncclUint8 */ };

/* Name, and type without the parentheses around it. Statuses are enums there. */
#define FUNCTIONS(X)                                                                                                   \
    X(ncclGetUniqueId, int, (id * made))                                                                               \
    X(ncclCommInitRank, int, (ncclComm * *made, int size, id of, int rank))                                            \
    X(ncclCommDestroy, int, (ncclComm * comm))                                                                         \
    X(ncclCommAbort, int, (ncclComm * comm))                                                                           \
    X(ncclCommGetAsyncError, int, (ncclComm * comm, int *status))                                                      \
    X(ncclGetErrorString, const char *, (int status))                                                                  \
    X(ncclGroupStart, int, (void))                                                                                     \
    X(ncclGroupEnd, int, (void))                                                                                       \
    X(ncclSend, int, (const void *from, size_t count, int type, int peer, ncclComm *comm, CUstream stream))            \
    X(ncclRecv, int, (void *to, size_t count, int type, int peer, ncclComm *comm, CUstream stream))                    \
    X(ncclAllGather, int, (const void *from, void *to, size_t count, int type, ncclComm *comm, CUstream stream))       \
    X(ncclBroadcast, int,                                                                                              \
      (const void *from, void *to, size_t count, int type, int root, ncclComm *comm, CUstream stream))

static struct {
#define X(name, result, parameters) result(*name) parameters;
    FUNCTIONS(X)
#undef X
} nccl;
static char missing[512]; /* what of the library is not there */
static pthread_once_t load_once = PTHREAD_ONCE_INIT;

struct amp_cuda_group {
    ncclComm *comm;
    int device, rank, size;
};

static void load(void) {
    static const amp_cuda_function functions[] = {
#define X(name, result, parameters) {#name, &nccl.name},
        FUNCTIONS(X)
#undef X
    };
    const size_t count = sizeof functions / sizeof *functions;
    char why[400];
    if (amp_cuda_load_library(LIBRARY, LIBRARY, functions, count, why, sizeof why)) return;
    snprintf(missing, sizeof missing, "tensors on GPUs go between processes by NCCL 2.7 or newer: %s", why);
}

const char *amp_cuda_group_missing(void) {
    pthread_once(&load_once, load);
    return *missing ? missing : NULL;
}

static amp_cuda_result check(const char *call, int status) {
    if (status == DONE) return AMP_CUDA_OK;
    return amp_cuda_say(AMP_CUDA_FAILED, "%s failed: %s (status %d)", call, nccl.ncclGetErrorString(status), status);
}

/* ---- Groups ------------------------------------------------------------------------------------------------------ */
amp_cuda_result amp_cuda_group_name(struct amp_cuda_group_id *made) {
    CUstream stream;
    if (amp_cuda_group_missing()) return amp_cuda_say(AMP_CUDA_MISSING, "%s", missing);
    AMP_CUDA_TRY(amp_cuda_enter(&stream));
    return check("ncclGetUniqueId", nccl.ncclGetUniqueId(made));
}

amp_cuda_result amp_cuda_group_join(const struct amp_cuda_group_id *of, int rank, int size, amp_cuda_group **made) {
    CUstream stream;
    if (amp_cuda_group_missing()) return amp_cuda_say(AMP_CUDA_MISSING, "%s", missing);
    AMP_CUDA_TRY(amp_cuda_enter(&stream)); /* NCCL takes the device of the current context */
    amp_cuda_group *g = calloc(1, sizeof *g);
    if (!g) return amp_cuda_say(AMP_CUDA_NO_MEMORY, "the host has no memory for a group");
    *g = (amp_cuda_group){.device = amp_cuda_selected(), .rank = rank, .size = size};
    amp_cuda_relax();
    const int status = nccl.ncclCommInitRank(&g->comm, size, *of, rank);
    if (status == DONE) {
        *made = g;
        return AMP_CUDA_OK;
    }
    free(g);
    return amp_cuda_say(AMP_CUDA_FAILED,
                        "ncclCommInitRank failed: %s (status %d); each rank of a machine needs a GPU of its own, and "
                        "this one has device %d",
                        nccl.ncclGetErrorString(status), status, amp_cuda_selected());
}

/* Of a process that was forked it is the parent's. */
void amp_cuda_group_leave(amp_cuda_group *g, bool aborts) {
    CUstream stream;
    if (amp_cuda_is_forked()) return;
    const bool usable = amp_cuda_enter(&stream) == AMP_CUDA_OK;
    amp_cuda_relax();
    if (aborts || !usable || amp_cuda_wait(stream) != AMP_CUDA_OK)
        (void)nccl.ncclCommAbort(g->comm);
    else
        (void)nccl.ncclCommDestroy(g->comm);
    free(g);
}

/* ---- Transfers --------------------------------------------------------------------------------------------------- */
/* What failed on its way since the last call is an error of this one. */
static amp_cuda_result enter(const amp_cuda_group *g, CUstream *stream) {
    int status = DONE;
    if (g->device != amp_cuda_selected())
        return amp_cuda_say(AMP_CUDA_INVALID, "the group is device %d's, and device %d is selected", g->device,
                            amp_cuda_selected());
    AMP_CUDA_TRY(amp_cuda_enter(stream));
    amp_cuda_relax();
    AMP_CUDA_TRY(check("ncclCommGetAsyncError", nccl.ncclCommGetAsyncError(g->comm, &status)));
    return status == UNDER_WAY ? AMP_CUDA_OK : check("an earlier transfer of NCCL's", status);
}

amp_cuda_result amp_cuda_group_check(const amp_cuda_group *g) {
    CUstream stream;
    return enter(g, &stream);
}

/* The group of calls is closed where one failed, too. */
amp_cuda_result amp_cuda_group_exchange(const amp_cuda_group *g, const void *from, void *to, size_t chunk) {
    CUstream stream;
    AMP_CUDA_TRY(enter(g, &stream));
    AMP_CUDA_TRY(check("ncclGroupStart", nccl.ncclGroupStart()));
    amp_cuda_result result = AMP_CUDA_OK;
    for (int r = 0; r < g->size && result == AMP_CUDA_OK; r++) {
        const char *out = (const char *)from + (size_t)r * chunk;
        char *in = (char *)to + (size_t)r * chunk;
        result = check("ncclSend", nccl.ncclSend(out, chunk, BYTES, r, g->comm, stream));
        if (result == AMP_CUDA_OK) result = check("ncclRecv", nccl.ncclRecv(in, chunk, BYTES, r, g->comm, stream));
    }
    const int ended = nccl.ncclGroupEnd();
    return result == AMP_CUDA_OK ? check("ncclGroupEnd", ended) : result;
}

amp_cuda_result amp_cuda_group_gather(const amp_cuda_group *g, const void *from, void *to, size_t chunk) {
    CUstream stream;
    AMP_CUDA_TRY(enter(g, &stream));
    return check("ncclAllGather", nccl.ncclAllGather(from, to, chunk, BYTES, g->comm, stream));
}

amp_cuda_result amp_cuda_group_broadcast(const amp_cuda_group *g, void *bytes, size_t count, int root) {
    CUstream stream;
    AMP_CUDA_TRY(enter(g, &stream));
    return check("ncclBroadcast", nccl.ncclBroadcast(bytes, bytes, count, BYTES, root, g->comm, stream));
}
