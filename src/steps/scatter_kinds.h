/* What becomes of a table's element and the value that is put there; for the CUDA kernels too. */
#ifndef AMP_CPU_SCATTER_KINDS_H
#define AMP_CPU_SCATTER_KINDS_H

typedef enum amp_scatter_kind {
    AMP_SCATTER_WRITE,
    AMP_SCATTER_ADD,
    AMP_SCATTER_MULTIPLY,
    AMP_SCATTER_LARGEST, /* of real numbers; NaN wins */
    AMP_SCATTER_SMALLEST
} amp_scatter_kind;

#endif /* AMP_CPU_SCATTER_KINDS_H */
