/* What libamp and its CUDA module, libamp_cuda.so, know of each other: one table of functions. Neither side links the
 * other. The module knows devices, streams, memory, kernels by name and matrix products; tensors, ops and policies are
 * libamp's. All functions may be called from any thread. */
#ifndef AMP_CUDA_MODULE_H
#define AMP_CUDA_MODULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/args/kernel_args.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Counts up with every change of this file or of the kernels' arguments. */
enum { AMP_CUDA_ABI = 19 };

typedef enum amp_cuda_result {
    AMP_CUDA_OK = 0,
    AMP_CUDA_NO_MEMORY,
    AMP_CUDA_FAILED,  /* error() tells */
    AMP_CUDA_MISSING, /* error() names a library or kernel that is not there */
    AMP_CUDA_REFUSED, /* a library knows no way for this request; another one may do */
    AMP_CUDA_INVALID  /* error() tells what the caller did wrong, or what elements made a kernel fail */
} amp_cuda_result;

/* Memory of a device, and the stream that worked with it last. */
typedef struct amp_cuda_block amp_cuda_block;

/* Since the start of the process. */
typedef struct amp_cuda_statistics {
    uint64_t launches, products;
    uint64_t uploads, downloads;
    uint64_t synchronizations; /* times that the host waited for a device, for whatever reason */
    uint64_t stream_waits;     /* times that a stream was made to wait for another one */
    uint64_t allocations;
    size_t live_blocks, live_bytes;
} amp_cuda_statistics;

typedef struct amp_cuda_launch {
    const char *kernel;
    const void *arguments; /* the kernel's one argument, a struct of kernel_args.h */
    unsigned blocks, threads;
    unsigned shared; /* bytes of shared memory beside what the kernel declares */
} amp_cuda_launch;

/* Element types of matrix products. Their order is relied on: real ones first, and narrow before wide ones. */
typedef enum amp_cuda_type {
    AMP_CUDA_F16,
    AMP_CUDA_BF16,
    AMP_CUDA_F32,
    AMP_CUDA_F64,
    AMP_CUDA_C64,
    AMP_CUDA_C128
} amp_cuda_type;

/* One operand: `rows` × `columns` with `stride` elements between rows (or, transposed, between columns), `batch_stride`
 * between the matrices of a batch. */
typedef struct amp_cuda_matrix {
    const void *data;
    int64_t stride, batch_stride;
    bool transposed;
} amp_cuda_matrix;

/* c = alpha · a·b + beta · c + bias, or GELU by tanh of it, row-major; bias has n elements, and begins at a multiple of
 * 16 bytes: cuBLAS is not told of its alignment. c is never transposed. f64 and complex numbers have neither bias nor
 * GELU. (cuBLAS knows ReLU too, but makes 0 of NaN.) */
typedef struct amp_cuda_product {
    amp_cuda_type type, result; /* of a and b; of c and bias */
    int64_t m, n, k, batch;
    double alpha[2], beta[2]; /* real and imaginary part */
    amp_cuda_matrix a, b, c;
    const void *bias;
    bool gelu;
    bool tf32; /* f32 and c64 may be multiplied in it */
} amp_cuda_product;

/* y = x ∗ w, with bias and residual (a residual only beside a bias, none where it is transposed; the bias may be
 * zeros). All are dense, and all have channels first or all last: x and y (batch, groups · channels, axes…), w (groups
 * · out channels, in channels, taps…), transposed (groups · in channels, out channels, taps…). `out` is what the rest
 * of an axis leads to. */
typedef struct amp_cuda_convolution {
    amp_cuda_type type;
    bool transposed, channels_last, with_bias, with_residual;
    bool tf32;                                        /* f32 may be multiplied in it */
    int axes;                                         /* 2 or 3 */
    int64_t batch, groups, in_channels, out_channels; /* channels of one group */
    amp_cuda_axis axis[3];                            /* without steps */
    const void *x, *w, *bias, *residual;
    void *y; /* NULL: nothing is run; whether it could be */
} amp_cuda_convolution;

/* `count` Fourier transforms of length n, without a scale, of dense lines one after the other: complex to complex, real
 * to the frequencies 0 … n/2, and these to real. `in` is not kept. */
typedef enum amp_cuda_transform_form { AMP_CUDA_C2C, AMP_CUDA_R2C, AMP_CUDA_C2R } amp_cuda_transform_form;
typedef struct amp_cuda_transform {
    amp_cuda_transform_form form;
    bool f64, inverse; /* inverse: of complex to complex, with exp(+2πi…) */
    int64_t n, count;
    void *in, *out;
} amp_cuda_transform;

/* A step of cuSOLVER's, or cuBLAS's, with one column-major matrix, in LAPACK's terms. The infos stay on the device. */
typedef enum amp_cuda_routine {
    AMP_CUDA_POTRF,  /* a: n × n */
    AMP_CUDA_POTRS,  /* … its factor; b: n × k */
    AMP_CUDA_GETRF,  /* a: m × n */
    AMP_CUDA_GETRS,  /* … its factor, n × n; b: n × k */
    AMP_CUDA_GEQRF,  /* a: m × n; b: the reflectors' scales */
    AMP_CUDA_ORGQR,  /* a: m × n, of k reflectors; b: their scales */
    AMP_CUDA_GESVDJ, /* a: m × n; b: its singular values; u and v, of which the vectors are columns */
    AMP_CUDA_SYEVD,  /* a: n × n, its vectors then; b: its eigenvalues */
    AMP_CUDA_ORMQR,  /* a: k reflectors; u: their scales; b: m × n, from the left, or from the right (`right`) */
    AMP_CUDA_GEEV,   /* a: n × n; b: its eigenvalues, complex; v: its vectors, packed as LAPACK's where a is real */
    AMP_CUDA_TRSM    /* a: n × n; b: n × k */
} amp_cuda_routine;
typedef struct amp_cuda_factor {
    amp_cuda_routine routine;
    amp_cuda_type type; /* f32, f64, c64 or c128 */
    bool upper, transposed, vectors, economic;
    bool conjugated, unit, right; /* conjugated: the transpose, too */
    int64_t m, n, k;
    void *a, *b, *u, *v;
    int64_t lda, ldb, ldu, ldv;
    int64_t *pivots;
    int32_t *info;
} amp_cuda_factor;

typedef struct amp_cuda_event amp_cuda_event; /* the one of amp/cuda.h */

/* One device in each of several processes (ranks), by NCCL; and what rank 0 tells the others so that they find it. */
typedef struct amp_cuda_group amp_cuda_group;
struct amp_cuda_group_id {
    char bytes[128];
};

/* What a device is: the compute capability's two numbers, and bytes. */
typedef struct amp_cuda_facts {
    char name[128];
    int major, minor, multiprocessors;
    size_t memory;
} amp_cuda_facts;

typedef struct amp_cuda_module {
    uint32_t abi; /* AMP_CUDA_ABI that it was built with */
    /* Of the last call of this thread that did not give AMP_CUDA_OK: a clause without a full stop. */
    const char *(*error)(void);

    int (*device_count)(void);
    /* The device that this thread's next calls are about; device 0 until then. */
    amp_cuda_result (*select)(int device);
    int (*selected)(void);
    /* Of the code that the selected device runs: 10 · major + minor compute capability. */
    int (*capability)(void);
    /* `op` does what follows: a static name, for the message when a kernel of it fails later. */
    void (*begin)(const char *op);
    /* What this thread enqueues on the selected device goes to a stream of the caller's, a CUstream; NULL: to its own
     * again. Each comes after what was enqueued on the other. */
    amp_cuda_result (*lend)(void *stream);

    amp_cuda_result (*allocate)(size_t bytes, amp_cuda_block **block, void **address);
    /* Someone else's memory of a device; `deleter` runs when it is released. The thread's stream waits for the legacy
     * default stream first, on which its owner may have written. */
    amp_cuda_result (*adopt)(void *address, int device, void (*deleter)(void *), void *context, amp_cuda_block **block);
    /* Takes an adopted block back: the deleter does not run. */
    void (*forget)(amp_cuda_block *block);
    /* In stream order: what was enqueued before still finds the memory. */
    void (*release)(amp_cuda_block *block);
    int (*device_of)(const amp_cuda_block *block);
    /* Puts what this thread enqueues next after all work that was enqueued on the block before, by whatever thread. */
    amp_cuda_result (*use)(amp_cuda_block *block);

    /* The host memory may be changed as soon as upload returns. download waits for the copy. */
    amp_cuda_result (*upload)(void *to, const void *host, size_t bytes);
    amp_cuda_result (*download)(void *host, const void *from, size_t bytes);
    /* On the selected device. */
    amp_cuda_result (*copy)(void *to, const void *from, size_t bytes);
    /* From one device to another, in the order of the thread's streams of both. */
    amp_cuda_result (*copy_between)(void *to, int to_device, const void *from, int from_device, size_t bytes);

    amp_cuda_result (*launch)(const amp_cuda_launch *launch);
    /* AMP_CUDA_REFUSED: there may be a way without bias and GELU. */
    amp_cuda_result (*multiply)(const amp_cuda_product *product);
    /* AMP_CUDA_MISSING, AMP_CUDA_REFUSED: products will do. */
    amp_cuda_result (*convolve)(const amp_cuda_convolution *convolution);
    amp_cuda_result (*transform)(const amp_cuda_transform *transform);
    amp_cuda_result (*factorise)(const amp_cuda_factor *factor);
    /* Why there is no such routine: a clause, or NULL where there is one. */
    const char *(*routine_missing)(amp_cuda_routine routine);

    /* Points in the order of a stream's work, of the selected device. Recorded on the thread's stream of that device;
     * the thread's stream of any device can wait for one. */
    amp_cuda_result (*event_make)(bool timed, amp_cuda_event **made);
    void (*event_free)(amp_cuda_event *event);
    amp_cuda_result (*event_record)(amp_cuda_event *event);
    amp_cuda_result (*event_wait)(const amp_cuda_event *event);
    amp_cuda_result (*event_query)(const amp_cuda_event *event, bool *done);
    amp_cuda_result (*event_finish)(const amp_cuda_event *event); /* the host waits */
    amp_cuda_result (*elapsed)(const amp_cuda_event *start, const amp_cuda_event *end, float *milliseconds);

    /* Why there are no groups: a clause, or NULL where there are. */
    const char *(*group_missing)(void);
    amp_cuda_result (*group_name)(struct amp_cuda_group_id *made);
    /* With the selected device; returns when all ranks have called it. */
    amp_cuda_result (*group_join)(const struct amp_cuda_group_id *of, int rank, int size, amp_cuda_group **made);
    /* Aborting needs no other rank, and ends what is under way. */
    void (*group_leave)(amp_cuda_group *group, bool aborts);
    /* Whether all is well so far, as the host knows it. */
    amp_cuda_result (*group_check)(const amp_cuda_group *group);
    /* Device memory, on the thread's stream; all ranks call these in one order. Chunk c of `from` goes to rank c, whose
     * chunk of this rank's lies at `to`, by rank; `from`, of every rank, lies at `to` by rank, and may lie there at its
     * place already; the bytes of rank `root` are everybody's. */
    amp_cuda_result (*group_exchange)(const amp_cuda_group *group, const void *from, void *to, size_t chunk_bytes);
    amp_cuda_result (*group_gather)(const amp_cuda_group *group, const void *from, void *to, size_t chunk_bytes);
    amp_cuda_result (*group_broadcast)(const amp_cuda_group *group, void *bytes, size_t count, int root);

    amp_cuda_result (*describe_device)(int index, amp_cuda_facts *facts);
    /* Of the selected device, in bytes. */
    amp_cuda_result (*memory_info)(size_t *free_bytes, size_t *total_bytes);
    /* The driver (0) and the libraries that the module opens: its name, and its version or why there is none; false
     * after the last. */
    bool (*describe_library)(int index, const char **name, char *text, size_t size);

    /* Where kernels that this thread enqueues report their faults. AMP_CUDA_INVALID of what waits for the thread's
     * stream (synchronize, download, trim) tells of one, once. */
    amp_cuda_result (*faults)(amp_cuda_faults **faults);
    /* Waits for the thread's stream. */
    amp_cuda_result (*synchronize)(void);
    void (*statistics)(amp_cuda_statistics *statistics);
    /* Gives memory that the pools keep back to the driver. */
    amp_cuda_result (*trim)(void);
} amp_cuda_module;

/* The one symbol of the module. NULL, with a clause in `why`, where it cannot work: no driver, no device. */
typedef const amp_cuda_module *amp_cuda_module_entry(char *why, size_t why_size);
#define AMP_CUDA_MODULE_FILE "libamp_cuda.so"
#define AMP_CUDA_MODULE_ENTRY "amp_cuda_module_entry_point"

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* AMP_CUDA_MODULE_H */
