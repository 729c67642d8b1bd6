/* What carries bytes between the processes of a group: one table of functions, which libamp_mpi.so has of MPI, and
 * alone.c of a process that is by itself. Neither side links the other. Bytes are bytes to it: sums, dtypes and
 * sentences about tensors are libamp's. All functions are called from the thread that called `begin`. */
#ifndef AMP_DISTRIBUTED_TRANSPORT_H
#define AMP_DISTRIBUTED_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Counts up with every change of this file. */
enum { AMP_TRANSPORT_ABI = 1 };

/* Something under way; the transport's own, until it is through. */
typedef struct amp_transfer amp_transfer;

/* Functions that return bool: false is a failure, and error() tells. After one the group is not to be used but for
 * `abort`. */
typedef struct amp_transport {
    unsigned abi;
    const char *name; /* "MPI" */
    /* Joins the group. */
    bool (*begin)(int *rank, int *size);
    /* Chunk c of `from` goes to rank c, whose chunk of this rank's lies at `to`, by rank: MPI_Ialltoall. All ranks
     * start exchanges in one order, and gathers in one order of their own. NULL: a failure. */
    amp_transfer *(*start_exchange)(const void *from, void *to, size_t chunk_bytes);
    /* `from`, of every rank, lies at `to` by rank: MPI_Iallgather. `from` may lie there already, at its place. */
    amp_transfer *(*start_gather)(const void *from, void *to, size_t chunk_bytes);
    /* Moves on what is under way; *is_through: the transfer is, and must not be asked about again. */
    bool (*test)(amp_transfer *transfer, bool *is_through);
    /* Until it is. */
    bool (*wait)(amp_transfer *transfer);
    /* The bytes of rank `root` are everybody's. */
    bool (*broadcast)(void *bytes, size_t count, int root);
    /* Ends all processes of the group with that exit status. */
    void (*abort)(int status);
    /* Leaves the group. */
    bool (*finish)(void);
    /* What failed last: a sentence without its full stop. */
    const char *(*error)(void);
} amp_transport;

#define AMP_MPI_MODULE_FILE "libamp_mpi.so"
/* Returns the table. */
typedef const amp_transport *amp_mpi_module_entry(void);
#define AMP_MPI_MODULE_ENTRY "amp_mpi_module"

#ifdef __cplusplus
}
#endif

#endif /* AMP_DISTRIBUTED_TRANSPORT_H */
