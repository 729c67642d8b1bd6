/* How far apart the elements of a matrix are: whether its parts in bf16 are exact. */
#ifndef AMP_BLAS_RANGE_H
#define AMP_BLAS_RANGE_H

#include "blas/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { AMP_BLAS_NOT_FINITE = 128, AMP_BLAS_ALL_ZERO = 1000 };

/* Exponents of elements other than zero: 2^lowest ≤ |x| < 2^(highest + 1). Where all are zero, lowest is
 * AMP_BLAS_ALL_ZERO; of an infinity or a NaN highest is AMP_BLAS_NOT_FINITE, and of numbers that are not normal lowest
 * is
 * -127. */
typedef struct amp_blas_range {
    int lowest, highest;
} amp_blas_range;

amp_blas_range amp_blas_range_of(const amp_blas_operand *x, int64_t rows, int64_t columns);

/* Of `count` dense elements: the bits of the smallest without its sign, less one (zero becomes the largest), and those
 * of the largest; both are accumulated. */
typedef struct amp_blas_bits {
    uint32_t least, most;
} amp_blas_bits;
void amp_blas_bits_ref(const float *x, int64_t count, amp_blas_bits *bits);
void amp_blas_bits_avx2(const float *x, int64_t count, amp_blas_bits *bits);

#ifdef __cplusplus
}
#endif

#endif /* AMP_BLAS_RANGE_H */
