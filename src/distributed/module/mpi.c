/* libamp_mpi.so: the table of transport.h, of MPI. It is all of libamp that links MPI, and knows nothing else of
 * libamp.
 *
 * Exchanges and gathers have a communicator each: MPI pairs nonblocking collectives by their order on a communicator,
 * and a rank may start its first gather when another one has started three exchanges. No thread is made: MPI moves on
 * when it is called. */
#include <mpi.h>

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "distributed/transport.h"

#define SHOWN __attribute__((visibility("default")))

struct amp_transfer {
    MPI_Request request;
};

enum { BLOCK = 1 << 20 }; /* MPI counts in int: what is longer is counted in blocks */

static MPI_Comm everybody = MPI_COMM_NULL, exchanges = MPI_COMM_NULL, gathers = MPI_COMM_NULL;
static bool is_ours; /* we have initialized MPI, and finalize it */
static char said[2 * MPI_MAX_ERROR_STRING];

static bool succeeds(const char *call, int code) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    if (code == MPI_SUCCESS) return true;
    if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) snprintf(text, sizeof text, "error %d", code);
    snprintf(said, sizeof said, "%s failed: %s", call, text);
    return false;
}

static const char *error(void) {
    return said;
}

static bool duplicate(MPI_Comm from, MPI_Comm *to) {
    return succeeds("MPI_Comm_dup", MPI_Comm_dup(from, to)) &&
           succeeds("MPI_Comm_set_errhandler", MPI_Comm_set_errhandler(*to, MPI_ERRORS_RETURN));
}

static bool initialize(void) {
    int is_there = 0, is_over = 0, level = MPI_THREAD_SINGLE;
    if (!succeeds("MPI_Initialized", MPI_Initialized(&is_there)) || !succeeds("MPI_Finalized", MPI_Finalized(&is_over)))
        return false;
    if (is_over) {
        snprintf(said, sizeof said, "this process has called MPI_Finalize already");
        return false;
    }
    if (is_there) return true;
    is_ours = succeeds("MPI_Init_thread", MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level));
    return is_ours;
}

static bool begin(int *rank, int *size) {
    return initialize() && duplicate(MPI_COMM_WORLD, &everybody) && duplicate(MPI_COMM_WORLD, &exchanges) &&
           duplicate(MPI_COMM_WORLD, &gathers) && succeeds("MPI_Comm_rank", MPI_Comm_rank(everybody, rank)) &&
           succeeds("MPI_Comm_size", MPI_Comm_size(everybody, size));
}

/* Bytes, or where an int cannot count them blocks, into which they can be divided then. */
static bool type_of(size_t bytes, MPI_Datatype *type, int *count) {
    if (bytes <= INT_MAX) {
        *type = MPI_BYTE;
        *count = (int)bytes;
        return true;
    }
    if (bytes % BLOCK != 0 || bytes / BLOCK > INT_MAX) {
        snprintf(said, sizeof said, "a transfer of %zu bytes cannot be counted in blocks of %d", bytes, (int)BLOCK);
        return false;
    }
    *count = (int)(bytes / BLOCK);
    return succeeds("MPI_Type_contiguous", MPI_Type_contiguous(BLOCK, MPI_BYTE, type)) &&
           succeeds("MPI_Type_commit", MPI_Type_commit(type));
}

static void drop_type(MPI_Datatype type) {
    if (type != MPI_BYTE && type != MPI_DATATYPE_NULL) (void)MPI_Type_free(&type); /* which transfers outlive */
}

static amp_transfer *start(bool gathers_them, const void *from, void *to, size_t bytes) {
    MPI_Datatype type = MPI_DATATYPE_NULL;
    int count = 0;
    amp_transfer *t = malloc(sizeof *t);
    if (!t) snprintf(said, sizeof said, "there is no memory for a transfer");
    bool begun = t && type_of(bytes, &type, &count);
    if (begun && gathers_them) {
        int rank = 0;
        begun = succeeds("MPI_Comm_rank", MPI_Comm_rank(gathers, &rank));
        const void *place = from == (char *)to + (size_t)rank * bytes ? MPI_IN_PLACE : from;
        begun = begun &&
                succeeds("MPI_Iallgather", MPI_Iallgather(place, count, type, to, count, type, gathers, &t->request));
    } else if (begun) {
        begun = succeeds("MPI_Ialltoall", MPI_Ialltoall(from, count, type, to, count, type, exchanges, &t->request));
    }
    drop_type(type);
    if (begun) return t;
    free(t);
    return NULL;
}

static amp_transfer *start_exchange(const void *from, void *to, size_t chunk_bytes) {
    return start(false, from, to, chunk_bytes);
}

static amp_transfer *start_gather(const void *from, void *to, size_t chunk_bytes) {
    return start(true, from, to, chunk_bytes);
}

static bool test(amp_transfer *t, bool *is_through) {
    int done = 0;
    const bool good = succeeds("MPI_Test", MPI_Test(&t->request, &done, MPI_STATUS_IGNORE));
    *is_through = done || !good;
    if (*is_through) free(t);
    return good;
}

static bool wait_for(amp_transfer *t) {
    const bool good = succeeds("MPI_Wait", MPI_Wait(&t->request, MPI_STATUS_IGNORE));
    free(t);
    return good;
}

static bool broadcast(void *bytes, size_t count, int root) {
    for (size_t done = 0; done < count;) {
        const size_t now = count - done < INT_MAX ? count - done : INT_MAX;
        if (!succeeds("MPI_Bcast", MPI_Bcast((char *)bytes + done, (int)now, MPI_BYTE, root, everybody))) return false;
        done += now;
    }
    return true;
}

static void abort_all(int status) {
    int is_over = 0;
    if (MPI_Finalized(&is_over) == MPI_SUCCESS && !is_over) (void)MPI_Abort(MPI_COMM_WORLD, status);
}

static bool finish(void) {
    int is_over = 0;
    if (!succeeds("MPI_Finalized", MPI_Finalized(&is_over)) || is_over) return true;
    MPI_Comm *all[] = {&gathers, &exchanges, &everybody};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (*all[i] != MPI_COMM_NULL && !succeeds("MPI_Comm_free", MPI_Comm_free(all[i]))) return false;
    }
    return !is_ours || succeeds("MPI_Finalize", MPI_Finalize());
}

SHOWN const amp_transport *amp_mpi_module(void);

const amp_transport *amp_mpi_module(void) {
    static const amp_transport table = {.abi = AMP_TRANSPORT_ABI,
                                        .name = "MPI",
                                        .begin = begin,
                                        .start_exchange = start_exchange,
                                        .start_gather = start_gather,
                                        .test = test,
                                        .wait = wait_for,
                                        .broadcast = broadcast,
                                        .abort = abort_all,
                                        .finish = finish,
                                        .error = error};
    return &table;
}
