/* x as a sum of numbers in bf16. */
#ifndef AMP_BLAS_PARTS_H
#define AMP_BLAS_PARTS_H

#include "blas/ways.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The parts of `count` dense elements, each kind to a place of its own. */
typedef void amp_blas_parts_function(const float *x, int64_t count, uint16_t *const parts[AMP_BLAS_MAX_PARTS]);
amp_blas_parts_function amp_blas_parts_ref, amp_blas_parts_avx2;

#ifdef __cplusplus
}
#endif

#endif /* AMP_BLAS_PARTS_H */
