/* The order of a row's elements: a stable radix sort over keys that compare as unsigned integers. −0 and 0 are equal,
 * and so are all NaN, which are larger than every number. */
#ifndef AMP_CPU_ORDER_H
#define AMP_CPU_ORDER_H

#include "amp/types.h"

typedef struct amp_order {
    amp_dtype dtype; /* of the row: any but complex */
    int64_t n;
    bool descending;
    bool last_first; /* equal ones in the opposite of the row's order; set it before a run */
    size_t scratch;  /* bytes that one run needs, aligned to 64 */
} amp_order;

amp_order amp_order_of(amp_dtype dtype, int64_t n, bool descending);

/* The places of the first k elements (0 … n) in order, equal ones as they stand in the row. */
void amp_order_run(const amp_order *order, const void *row, int64_t k, void *scratch, int64_t *places);

#endif /* AMP_CPU_ORDER_H */
