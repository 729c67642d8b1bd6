/* What gather and scatter and their kin share: tensors of indices, checked, and the walk over the places they name. */
#ifndef AMP_CPU_INDEX_WALK_H
#define AMP_CPU_INDEX_WALK_H

#include "call/call.h"

/* Every index (i64) is within 0 … size − 1, or from −size on where `negative` ones count from the end. `described`: the
 * tensor whose dimension `dim` has that size, for the message. Of a device other than the CPU nobody waits to see it:
 * the kernel that uses the index tells. */
amp_status amp_index_check(const amp_call *call, const char *argument, const amp_tensor *index, int64_t size,
                           const amp_tensor *described, int dim, bool negative);

/* The index at `from`. */
static inline int64_t amp_index_at(const char *from, int64_t wrap) {
    const int64_t index = *(const int64_t *)(const void *)from;
    return index + (index >> 63 & wrap);
}

/* n places: table element i is at table + i·table_step + index·scale, with the index at index + i·index_step; its value
 * is at values + i·values_step. */
typedef struct amp_index_run {
    char *table, *values;
    const char *index;
    int64_t table_step, values_step, index_step, scale, n; /* steps in bytes */
    int64_t wrap;                                          /* added to negative indices */
} amp_index_run;

typedef void amp_index_loop(const void *context, const amp_index_run *run);

/* The same, looking at every index before it is used: false at the first that is not below `size`. */
typedef bool amp_index_checking_loop(const amp_index_run *run, int64_t size);

/* A line of `length` places goes along the indexed dimension; there is one for each element of the other, free
 * dimensions. */
typedef struct amp_index_walk {
    amp_index_loop *loop;
    const void *context;
    char *table, *values;
    const int64_t *index;
    int64_t scale, length, values_step, index_step; /* bytes */
    int64_t wrap;                                   /* added to negative indices, where these are allowed */
    int64_t size;                                   /* extent of the indexed dimension, with `check` … */
    bool check;                                     /* … to see that indices are in range on the way */
    amp_index_checking_loop *vector; /* NULL, or for runs whose indices and values are dense, in one slice */
    int64_t element;                 /* bytes of a value, with `vector` */
    bool *bad;                       /* set while walking */
    int rank;                        /* free dimensions */
    int64_t shape[AMP_MAX_RANK], table_steps[AMP_MAX_RANK], values_steps[AMP_MAX_RANK], index_steps[AMP_MAX_RANK];
} amp_index_walk;

/* A walk over all places of `index`: their values in `values` (NULL: `constant`, the same everywhere), their elements
 * in `table`, dimension `dim` of which the index names. All have one rank, from 1 up. */
amp_index_walk amp_index_walk_of(const amp_tensor *table, const amp_tensor *values, void *constant,
                                 const amp_tensor *index, int dim);

/* Any order, any thread: for what only reads the table. False: an index was out of range, and the walk stopped there;
 * only where `check` is set. */
bool amp_index_walk_free(const amp_index_walk *walk);

/* The places of a line one after the other, on one thread: for what writes the table, where indices may repeat. */
bool amp_index_walk_ordered(const amp_index_walk *walk);

#endif /* AMP_CPU_INDEX_WALK_H */
