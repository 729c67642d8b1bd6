/* Batches of matrices as devices take them. */
#ifndef AMP_STEPS_LINALG_H
#define AMP_STEPS_LINALG_H

#include "core/tensor_impl.h"
#include "cpu/linalg/lapack.h"

/* The dimensions before the matrix. */
typedef struct amp_batch {
    int rank;
    int64_t shape[AMP_MAX_RANK], count;
} amp_batch;

/* Column-major matrices, one for each index of a batch. */
typedef struct amp_stack {
    amp_tensor view;   /* as a tensor (batch…, rows, columns), for copies */
    amp_tensor target; /* where amp_stack_finish copies them, if has_target */
    bool has_target;
    int rows, columns, ld;
} amp_stack;

/* Matrix number `index` of the batch, in row-major order of its shape; NULL of a stack that was not made. */
void *amp_stack_at(const amp_stack *stack, int64_t index);

/* Scratch elements that a singular value decomposition takes on the device (device/singular.cu). */
int64_t amp_linalg_svd_room(int64_t m, int64_t n);

/* ---- Extents --------------------------------------------------------------------------------------------------- */

static inline int64_t amp_matrix_rows(const amp_tensor *t) {
    return t->shape[t->rank - 2];
}

static inline int64_t amp_matrix_columns(const amp_tensor *t) {
    return t->shape[t->rank - 1];
}

static inline int64_t amp_smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static inline int64_t amp_larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* In the place of a number of columns: vectors. */
enum { AMP_VECTOR = -1 };

/* ---- Running --------------------------------------------------------------------------------------------------- */

/* The CUDA kernels of src/cuda/kernels: matrix.cu, singular.cu and eigen.cu. */
#define AMP_LINALG_KERNELS(X)                                                                                          \
    X(cholesky)                                                                                                        \
    X(cholesky_solve)                                                                                                  \
    X(triangular)                                                                                                      \
    X(lu)                                                                                                              \
    X(lu_solve)                                                                                                        \
    X(solve)                                                                                                           \
    X(geqrf)                                                                                                           \
    X(qr)                                                                                                              \
    X(householder)                                                                                                     \
    X(ormqr)                                                                                                           \
    X(identities)                                                                                                      \
    X(svd)                                                                                                             \
    X(pinverse)                                                                                                        \
    X(lstsq)                                                                                                           \
    X(eigh)                                                                                                            \
    X(eig)

#define X(name) AMP_LINALG_##name,
typedef enum amp_linalg_kind { AMP_LINALG_none, AMP_LINALG_KERNELS(X) AMP_LINALG_KINDS } amp_linalg_kind;
#undef X

/* The same as one of these kernels: stacks and options as it says. */
typedef struct amp_linalg_kernel {
    amp_linalg_kind kind;
    const amp_stack *stacks[5];
    char options[4];
    double number;
    int64_t room;   /* scratch elements for a matrix */
    int64_t *ranks; /* or NULL */
    bool check;     /* that an info is not 0 is told of later */
} amp_linalg_kernel;

struct amp_lapack;
struct amp_lapack_work;

typedef struct amp_linalg_loop {
    /* Does matrix `index`; returns LAPACK's info. With work->count −1 it asks its routines for their workspace. */
    int (*run)(void *context, int64_t index, struct amp_lapack_work *work);
    void *context;
    const struct amp_lapack *lapack;
    const amp_batch *batch;
    int64_t macs;                      /* of one matrix */
    bool asks;                         /* the routine says how much workspace it wants */
    int64_t elements, reals, integers; /* workspace that it needs in any case */
    int32_t *infos;                    /* one for each matrix; NULL: a negative info is all that is kept */
    amp_linalg_kernel kernel;
} amp_linalg_loop;

#endif /* AMP_STEPS_LINALG_H */
