/* Matrix products of the dtypes that no kernel of ours serves. */
#ifndef AMP_CPU_MATMUL_LOOPS_H
#define AMP_CPU_MATMUL_LOOPS_H

#include "amp/error.h"

/* C = alpha * A B + beta * R + bias; strides in elements, C has column stride 1. */
typedef struct amp_loops_matmul {
    int64_t m, n, k;
    const void *a, *b, *residual, *bias; /* residual and bias may be NULL */
    void *c;
    int64_t a_row, a_column, b_row, b_column, c_row, residual_row, residual_column, bias_stride;
    double alpha, beta, alpha_imaginary, beta_imaginary;
} amp_loops_matmul;

/* f32 sums in f64, f64 and complex numbers in their own type (c64 in c128 where little is summed), integers modulo
 * 2^bits. AMP_ERROR_DTYPE for other types, with `op` in the sentence. `kernel` tells what ran: "openblas" or
 * "loops". */
amp_status amp_matmul_loops(const char *op, amp_dtype dtype, const amp_loops_matmul *problem, const char **kernel);

#endif /* AMP_CPU_MATMUL_LOOPS_H */
