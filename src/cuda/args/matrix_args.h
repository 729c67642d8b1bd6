/* The arguments of the kernels of linear algebra, which take a block for each matrix of a batch. */
#ifndef AMP_CUDA_MATRIX_ARGS_H
#define AMP_CUDA_MATRIX_ARGS_H

#include "cuda/args/kernel_args.h"

/* The faults of a stream, with what only these kernels tell of behind those of all the others: report.faults points to
 * it. */
typedef struct amp_cuda_matrix_faults {
    amp_cuda_faults others;
    const char *matrix; /* one was singular, not positive-definite, or held NaN */
} amp_cuda_matrix_faults;

/* Column-major matrices: element (i, j) is at i + j·ld. data NULL: not wanted. */
typedef struct amp_cuda_stack {
    void *data;
    int rows, columns;
    int64_t ld, strides[AMP_MAX_RANK]; /* of the batch's dimensions */
} amp_cuda_stack;

enum { AMP_CUDA_STACKS = 5, AMP_CUDA_MATRIX_OPTIONS = 4 };
typedef struct amp_cuda_matrices {
    amp_cuda_stack stacks[AMP_CUDA_STACKS]; /* each kernel says which */
    int rank;
    int64_t shape[AMP_MAX_RANK], count; /* the batch's */
    char options[AMP_CUDA_MATRIX_OPTIONS];
    double number;
    int32_t *infos; /* LAPACK's, for each matrix; or NULL */
    int64_t *ranks; /* or NULL */
    void *scratch;  /* `room` elements for each block */
    int64_t room;
    bool check; /* an info that is not 0 is a fault */
    amp_cuda_report report;
} amp_cuda_matrices;

#endif /* AMP_CUDA_MATRIX_ARGS_H */
