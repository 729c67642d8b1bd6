/* Batched matrix products on the CPU: from tensors to the GEMM of their dtype. */
#ifndef AMP_CPU_MATMUL_H
#define AMP_CPU_MATMUL_H

#include "dispatch/call.h"

/* One operand or result: element (batch…, i, j) is at i * row + j * column + batch offsets, in elements. */
typedef struct amp_matrix {
    amp_tensor *tensor; /* may be a pending cast; NULL: absent */
    int64_t row, column, batch[AMP_MAX_RANK];
} amp_matrix;

/* C = alpha * A B + beta * R + bias, over a batch: A is (batch…, M, K), B is (batch…, K, N), R and C (batch…, M, N),
 * bias (N). Extents that are broadcast have stride 0. All operands have one dtype. */
typedef struct amp_matmul {
    int64_t m, n, k;
    int batch_rank;
    int64_t batch_shape[AMP_MAX_RANK];
    amp_matrix a, b, residual, c; /* c: column stride 1 */
    amp_tensor *bias;
    double alpha, beta;
    bool b_is_weight; /* B stands in a weight position: its packed form may be cached */
} amp_matmul;

/* Called for A and B before their strides are taken: gives a pending cast its memory, unless the kernel of its dtype
 * converts on the way. Residual and bias always have memory (amp_call_materialize). */
amp_status amp_cpu_matmul_operand(amp_call *call, amp_tensor *tensor, bool is_b);

/* Runs it, and may change it; `c.tensor` has the operands' dtype. Sets the call's note. */
amp_status amp_cpu_matmul(amp_call *call, amp_matmul *p);

/* Runs `implementation` with every f16 argument converted to f32, and rounds its results to f16. */
amp_status amp_cpu_run_widened(amp_call *call, amp_op_function implementation);

#endif /* AMP_CPU_MATMUL_H */
