/* Data-parallel training: one process for each part of the data, a model in each, and gradients that are the same in
 * all of them.
 *
 *     if (amp_distributed_is_launched()) amp_distributed_init(); // mpirun -n 4 ./program
 *     …
 *     amp_data_parallel *ddp = amp_data_parallel_create(p);
 *     for (…) {
 *         amp_tensor *loss = …; // of this rank's part of the batch
 *         amp_data_parallel_backward(ddp, loss);
 *         amp_optimizer_step(opt);
 *         amp_optimizer_zero_grad(opt);
 *     }
 *     amp_data_parallel_destroy(ddp);
 *     amp_distributed_end();
 *
 * Bytes go over MPI, by the module libamp_mpi.so; those of tensors on GPUs by NCCL, which is opened when it is first
 * needed. Before amp_distributed_init, and without it, a process is a group of one, in which everything here works and
 * nothing is sent. Functions that say "all ranks" are called by all of them, in one order, on the thread that called
 * amp_distributed_init; a rank where something failed before still takes part in them, and all get an error.
 * docs/distributed.md has the order of sums, what memory it takes, and what happens when a rank dies. */
#ifndef AMP_DISTRIBUTED_H
#define AMP_DISTRIBUTED_H

#include "amp/grad.h"
#include "amp/training.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- The group --------------------------------------------------------------------------------------------------- */

/* Whether a launcher (mpirun, mpiexec, srun) has started this process as one of a group, as its environment says. Calls
 * nothing of MPI. */
AMP_API bool amp_distributed_is_launched(void);
/* Joins the group: MPI is initialized, unless the program has done that itself. Errors: no module libamp_mpi.so, or no
 * MPI; called before; those of MPI. A process that ends after it without amp_distributed_end says so on stderr and ends
 * all others. */
AMP_API amp_status amp_distributed_init(void);
/* Leaves it, all ranks. Errors: those of MPI; no amp_distributed_init. While an error stands it does nothing, and returns
 * that: others may wait for this rank, and end with its process. (Where all ranks have the error, amp_clear_error
 * first.) */
AMP_API amp_status amp_distributed_end(void);
/* Which process this is, from 0 on, of how many: 0 of 1 in no group. */
AMP_API int amp_distributed_rank(void);
AMP_API int amp_distributed_size(void);
/* Returns when all ranks have called it. */
AMP_API amp_status amp_distributed_barrier(void);
/* All ranks: the tensor gets the values of rank `root`'s. It has the same shape and dtype on all, and is contiguous, on
 * the CPU or on a GPU of each rank's own. */
AMP_API amp_status amp_distributed_broadcast(amp_tensor *tensor, int root);
/* All ranks: the tensor, as above and small (every rank gets all of them for a moment), becomes the sum of all: rank
 * 0's plus rank 1's, plus rank 2's, and so on, in its dtype. For means of losses and counts. */
AMP_API amp_status amp_distributed_all_reduce(amp_tensor *tensor);

typedef struct amp_distributed_sampler_args {
    size_t struct_size AMP_SIZE_OF_(amp_distributed_sampler_args);
    int64_t count;        /* of samples, above 0 */
    uint64_t seed;        /* with `epoch`, where the order begins; the same on all ranks */
    int64_t epoch;        /* from 0 on: each its own order */
    amp_opt_int batch;    /* how many samples go to one rank before the next has its turn; 1 */
    amp_opt_bool shuffle; /* true: in a random order; else in that of their numbers */
    /* What does not fill a round of all ranks is left out; else the first samples come again to fill it. */
    bool drop_last;
    unsigned char reserved[7];
} amp_distributed_sampler_args;

/* This rank's samples of an epoch, an i64 tensor as long on every rank: the whole order is cut in pieces of `batch`,
 * and piece k · size + rank is the rank's number k. With batch 1 that is torch.utils.data.DistributedSampler; with the
 * size of a rank's batch, any number of ranks goes through the same batches in the same order. No communication. NULL
 * with an error: no samples, or fewer than one round has with drop_last. */
AMP_API amp_tensor *amp_distributed_sampler_call(const amp_distributed_sampler_args *args);

/* ---- Gradients --------------------------------------------------------------------------------------------------- */

/* How the gradients of the ranks become one. */
typedef enum amp_gradient_reduction {
    AMP_GRADIENT_MEAN = 0, /* as of one batch of all samples, if losses are means over batches of one size */
    AMP_GRADIENT_SUM
} amp_gradient_reduction;

/* The parameters of a model that is in every rank. One thread at a time. */
typedef struct amp_data_parallel amp_data_parallel;

typedef struct amp_data_parallel_args {
    size_t struct_size AMP_SIZE_OF_(amp_data_parallel_args);
    amp_parameters *parameters; /* contiguous, not complex, all on the CPU or on one GPU, each rank's own */
    /* Of gradients on their way: AMP_F32 (default) or AMP_BF16; sums are f32 all the same. Those of f64 go as f64. */
    amp_dtype dtype;
    amp_gradient_reduction reduction; /* mean */
    amp_opt_int bucket_bytes;         /* gradients are sent together until they are as many; 25 MiB */
    amp_opt_bool overlap; /* true: buckets are on their way while the backward goes on; else all are sent after it */
} amp_data_parallel_args;

/* All ranks. Parameters and buffers get rank 0's values. The caller's, until amp_data_parallel_destroy; one more owner
 * of the parameters, the list may go. NULL with an error: the ranks' lists differ in number, names, shapes or dtypes
 * (the first difference is named), or their options; a parameter that is complex or not contiguous; tensors
 * in several places, or in others than other ranks'; what NCCL says, where they are on GPUs; no memory. */
AMP_API amp_data_parallel *amp_data_parallel_create_call(const amp_data_parallel_args *args);
/* NULL is allowed. */
AMP_API void amp_data_parallel_destroy(amp_data_parallel *ddp);

/* All ranks: amp_backward, and the gradients of all ranks reduced at the leaves, the same bits on every rank. A
 * gradient from an earlier amp_data_parallel_backward is what the sum begins with; one that plain backwards of this
 * rank have left there (which is what PyTorch calls no_sync) is part of the rank's contribution. A parameter that no
 * rank has a gradient of is left without one. Errors, which all ranks get, while gradients stay as they were: those of
 * amp_backward on any rank; .create_graph; a gradient to which both kinds of backward have added since they began; a
 * gradient that arrives twice in one backward (a weight shared by segments of amp_checkpoint: pass .overlap =
 * AMP_SET(false)). */
AMP_API amp_status amp_data_parallel_backward_call(amp_data_parallel *ddp, const amp_backward_args *args);

/* All ranks: parameters and buffers get rank 0's values again; buffers (running statistics) are each rank's own
 * otherwise. */
AMP_API amp_status amp_data_parallel_broadcast(amp_data_parallel *ddp);

/* Since the beginning. */
typedef struct amp_data_parallel_stats {
    size_t struct_size AMP_SIZE_OF_(amp_data_parallel_stats);
    int64_t backwards, buckets; /* how often, and how many buckets there are */
    int64_t bytes;              /* that this rank sent for gradients */
    int64_t bytes_overlapped;   /* … of them those that were through when the backward ended; 0 on GPUs: not known */
    double backward_seconds;    /* in backwards, what was sent and summed meanwhile included */
    double waiting_seconds;     /* from the ends of backwards until the gradients were there, or on GPUs' streams */
} amp_data_parallel_stats;
/* Fills *stats, whose struct_size is set. Errors: one is NULL. */
AMP_API amp_status amp_data_parallel_get_stats(const amp_data_parallel *ddp, amp_data_parallel_stats *stats);

/* ---- Sharded optimizers, checkpoints ----------------------------------------------------------------------------- */

/* All ranks, once for an optimizer: each parameter is updated by one rank alone, which has its states and its f32
 * master; the others get the result at the end of amp_optimizer_step, which all ranks must call from then on. (ZeRO's
 * first stage; torch's ZeroRedundancyOptimizer.) amp_optimizer_state has the rank's own part, amp_training_save refuses
 * it (amp_data_parallel_save writes the whole), and no more groups can be added. A step is one of all ranks or none:
 * where one cannot, or has gradients of other parameters, all get an error. Errors: a parameter of the optimizer that is
 * not in the ddp; sharded already; an optimizer of apex. */
AMP_API amp_status amp_data_parallel_shard(amp_data_parallel *ddp, amp_optimizer *optimizer);

/* All ranks: rank 0 writes what amp_training_save writes, the states of sharded optimizers whole (their other owners
 * send them). Every rank returns the same status. The file has rank 0's buffers and random numbers. */
AMP_API amp_status amp_data_parallel_save(amp_data_parallel *ddp, const amp_training *training, const char *path);
/* All ranks read the file, as amp_training_load does; of sharded optimizers each keeps its part. Any number of ranks
 * may go on, also one without a group, and a file of amp_training_save is as good. An error on one rank is one on all,
 * and nothing is changed on any. */
AMP_API amp_status amp_data_parallel_load(amp_data_parallel *ddp, const amp_training *training, const char *path);

#ifndef __cplusplus
/* amp_distributed_sampler(1000, .seed = 1, .epoch = 3, .batch = AMP_SET(32)) */
#define amp_distributed_sampler(...)                                                                                   \
    AMP_CALL_(amp_distributed_sampler_call(&(const amp_distributed_sampler_args){                                      \
        .struct_size = sizeof(amp_distributed_sampler_args), .count = __VA_ARGS__}))
/* amp_data_parallel_create(p, .dtype = AMP_BF16) */
#define amp_data_parallel_create(...)                                                                                  \
    AMP_CALL_(amp_data_parallel_create_call(                                                                           \
        &(const amp_data_parallel_args){.struct_size = sizeof(amp_data_parallel_args), .parameters = __VA_ARGS__}))
/* amp_data_parallel_backward(ddp, loss); options are amp_backward's */
#define amp_data_parallel_backward(ddp, ...)                                                                           \
    AMP_CALL_(amp_data_parallel_backward_call(                                                                         \
        ddp, &(const amp_backward_args){.struct_size = sizeof(amp_backward_args), .loss = __VA_ARGS__}))
#endif

#ifdef __cplusplus
}
#endif

#endif /* AMP_DISTRIBUTED_H */
