/* Packed operands that come again: kept by address and shape, and used only where a checksum over all elements is that
 * of the elements that were packed. */
#ifndef AMP_BLAS_CACHE_H
#define AMP_BLAS_CACHE_H

#include "blas/range.h"
#include "blas/ways.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct amp_blas_packed {
    void *data;
    amp_blas_range range; /* of the operand; asked for by ways with parts */
} amp_blas_packed;

/* Finds B packed, or packs it if this is worth it: at the second call with this address and shape. False: the caller
 * packs for itself. What it gives is to be given back, by amp_blas_cache_release. */
bool amp_blas_cache_obtain(const amp_blas_way *way, const amp_blas_operand *b, int64_t n, int64_t k, size_t limit,
                           amp_blas_packed *packed);
void amp_blas_cache_release(const amp_blas_packed *packed);

/* For tests: how often a packed operand was used again, since the start of the process. */
uint64_t amp_blas_cache_hits(void);

#ifdef __cplusplus
}
#endif

#endif /* AMP_BLAS_CACHE_H */
