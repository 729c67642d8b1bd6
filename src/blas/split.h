/* Operands as the GEMM kernels take them: parts of A beside each other along K, those of B packed below each other. */
#ifndef AMP_BLAS_SPLIT_H
#define AMP_BLAS_SPLIT_H

#include "amp/error.h"
#include "blas/ways.h"

#ifdef __cplusplus
extern "C" {
#endif

/* K of the product that stands for one of `k`: each term's stretch is a multiple of the packed blocks. */
int64_t amp_blas_joined_k(const amp_blas_way *way, int64_t k);

/* A's terms, of a way with several: dst is [rows][joined k] bf16. */
void amp_blas_split_a(uint16_t *dst, const amp_blas_way *way, const amp_blas_operand *a, int64_t rows, int64_t k);

/* B packed for the way's kernel; 64-byte aligned. */
size_t amp_blas_packed_bytes(const amp_blas_way *way, int64_t n, int64_t k);
amp_status amp_blas_pack_b(void *dst, const amp_blas_way *way, const amp_blas_operand *b, int64_t n, int64_t k);

#ifdef __cplusplus
}
#endif

#endif /* AMP_BLAS_SPLIT_H */
