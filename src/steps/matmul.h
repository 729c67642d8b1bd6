/* A batched matrix product as devices take it. */
#ifndef AMP_STEPS_MATMUL_H
#define AMP_STEPS_MATMUL_H

#include "steps/epilogue.h"

/* One operand or result: element (batch…, i, j) is at i * row + j * column + batch offsets, in elements. */
typedef struct amp_matrix {
    amp_tensor *tensor; /* may be a pending cast; NULL: absent */
    int64_t row, column, batch[AMP_MAX_RANK];
} amp_matrix;

/* B in the layout of the kernel that its product runs in: from the cast cache, or packed into memory of its own. */
typedef struct amp_packed_b {
    const void *data;      /* NULL: this dtype's product reads B where it lies */
    int64_t batch_stride;  /* bytes */
    struct amp_cast *cast; /* held while `data` is its memory */
    void *scratch;         /* or this is */
} amp_packed_b;

/* C = epilogue(alpha * A B + beta * R + bias), over a batch: A is (batch…, M, K), B is (batch…, K, N), R and C
 * (batch…, M, N), bias (N). Extents that are broadcast have stride 0. All operands have one dtype. */
typedef struct amp_matmul {
    int64_t m, n, k;
    int batch_rank;
    int64_t batch_shape[AMP_MAX_RANK];
    amp_matrix a, b, residual, c; /* c: column stride 1 */
    amp_tensor *bias;
    double alpha, beta, alpha_imaginary, beta_imaginary; /* imaginary parts: of complex products only */
    amp_epilogue epilogue;
    bool b_is_weight;           /* B stands in a weight position: its packed form may be cached */
    const amp_packed_b *packed; /* B by amp_cpu_matmul_pack; NULL: amp_cpu_matmul sees to it */
} amp_matmul;

/* Zero but for what belongs to a batch: without one (batch_rank 0), nothing reads that, and clearing it would take
 * longer than all else that a small product needs. */
static inline void amp_matmul_clear(amp_matmul *p) {
    amp_matrix *const all[] = {&p->a, &p->b, &p->residual, &p->c};
    for (int i = 0; i < 4; i++) {
        all[i]->tensor = NULL;
        all[i]->row = all[i]->column = 0;
    }
    p->m = p->n = p->k = 0;
    p->batch_rank = 0;
    p->bias = NULL;
    p->alpha = p->beta = p->alpha_imaginary = p->beta_imaginary = 0;
    p->epilogue = (amp_epilogue){.activation = AMP_GEMM_NONE};
    p->b_is_weight = false;
    p->packed = NULL;
}

#endif /* AMP_STEPS_MATMUL_H */
