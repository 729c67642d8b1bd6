/* Memory of many small parts that go together: a net's nodes, a plan's steps. */
#ifndef AMP_GRAPH_POOL_H
#define AMP_GRAPH_POOL_H

#include <stddef.h>

struct amp_pool_chunk;

/* Begins as zeros. Not for several threads at once. */
typedef struct amp_pool {
    struct amp_pool_chunk *last; /* where parts are taken from */
} amp_pool;

/* Aligned for any type, until the pool ends; NULL: no memory, without an error. */
void *amp_pool_take(amp_pool *pool, size_t bytes);
void *amp_pool_take_zeroed(amp_pool *pool, size_t bytes);

/* All parts at once. */
void amp_pool_end(amp_pool *pool);

#endif /* AMP_GRAPH_POOL_H */
