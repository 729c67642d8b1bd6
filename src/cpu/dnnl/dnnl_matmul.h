/* f32 matrix products through oneDNN, below the device table: pointers, sizes and strides only.
 *
 *     C[M,N] = alpha · A[M,K] · B[K,N] + beta · R[M,N] + bias[N]
 *
 * oneDNN chooses the order of the sums; it follows from the shape and strides alone, not from the number of threads. */
#ifndef AMP_CPU_DNNL_MATMUL_H
#define AMP_CPU_DNNL_MATMUL_H

#include <stdbool.h>

#include "amp/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Strides are in elements and may be anything for A, B and R (0, negative); a pair without a unit stride is copied. */
typedef struct amp_dnnl_matmul {
    int64_t m, n, k; /* from 0 up; k = 0 gives beta · R + bias */
    int64_t batch;   /* 0 is an empty product: nothing is written */
    const float *a;
    int64_t a_row_stride, a_column_stride, a_batch_stride; /* rows are m, columns k */
    const float *b;
    int64_t b_row_stride, b_column_stride, b_batch_stride; /* rows are k, columns n; a linear layer's weight [N,K] has
                                                              row stride 1 and column stride K */
    const float
        *packed_b; /* NULL, or the same by amp_gemm_f32_pack, shared by the batch: read instead where oneDNN can */
    float *c;      /* unit column stride; overlaps neither A nor B */
    int64_t c_row_stride, c_batch_stride;
    float alpha, beta;
    const float *residual; /* NULL, or R, not looked at before; may be C itself, with C's strides */
    int64_t residual_row_stride, residual_column_stride, residual_batch_stride;
    const float *bias; /* NULL, or [N], unit stride */
} amp_dnnl_matmul;

/* Runs the product. `kernel_name`, if not NULL, receives the static name of what ran
 * ("dnnl:brg_matmul:avx512_core"). */
amp_status amp_dnnl_matmul_f32(const amp_dnnl_matmul *p, const char **kernel_name);

/* Whether several threads would compute it, or it is too small for that. */
bool amp_dnnl_matmul_is_shared(const amp_dnnl_matmul *p);

#ifdef __cplusplus
}
#endif

#endif /* AMP_CPU_DNNL_MATMUL_H */
