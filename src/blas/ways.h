/* The ways in which a product of BLAS may run, as a table, and which of them is worth it. */
#ifndef AMP_BLAS_WAYS_H
#define AMP_BLAS_WAYS_H

#include "blas/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { AMP_BLAS_MAX_PARTS = 3, AMP_BLAS_MAX_TERMS = 6 };

/* x = x1 + x2 + x3: each the bf16 nearest to what those before it leave. A product is the sum of products of parts. */
typedef struct amp_blas_way {
    const char *name;
    amp_blas_precision precision; /* whose error it has */
    int parts;                    /* of each operand; 0: the product of f32 */
    int terms;                    /* products of parts … */
    struct {
        uint8_t a, b;
    } term[AMP_BLAS_MAX_TERMS]; /* … in the order in which they are summed: small ones first */
    int least, least_sum;       /* exponents: of elements other than zero, and of one of A and one of B together */
    bool (*pays)(const amp_blas_product *p, bool over_loops); /* what was there: amp_blas_request */
} amp_blas_way;

/* The best way that the request allows; NULL, with the reason: none is worth it. */
const amp_blas_way *amp_blas_way_of(const amp_blas_product *p, const amp_blas_request *r, const char **why);

const amp_blas_way *amp_blas_way_named(const char *name);

#ifdef __cplusplus
}
#endif

#endif /* AMP_BLAS_WAYS_H */
