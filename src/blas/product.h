/* One product of whole operands, run in a way. */
#ifndef AMP_BLAS_PRODUCT_H
#define AMP_BLAS_PRODUCT_H

#include "blas/cache.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Operands are whole, and so is C. `packed` is B, or NULL: it is packed here, a slab at a time. Always succeeds: what
 * there is no memory for is computed by a plain loop. */
void amp_blas_compute(const amp_blas_product *p, const amp_blas_way *way, const amp_blas_packed *packed);

/* Whether B is packed in one piece. */
bool amp_blas_is_one_slab(const amp_blas_product *p, const amp_blas_way *way);

/* A product with a triangle, whose operands have been made whole (`from` says what they were): cut so that little of
 * what is zero, or not wanted of C, is computed. */
void amp_blas_compute_triangle(const amp_blas_product *p, const amp_blas_way *way, const amp_blas_product *from);

#ifdef __cplusplus
}
#endif

#endif /* AMP_BLAS_PRODUCT_H */
