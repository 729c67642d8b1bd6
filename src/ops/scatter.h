/* The engine under every op that writes elements where indices say. */
#ifndef AMP_CPU_SCATTER_H
#define AMP_CPU_SCATTER_H

#include "cpu/index/index_walk.h"
#include "steps/kinds.h"

typedef struct amp_scatter_work amp_scatter_work;
struct amp_scatter_work {
    amp_scatter_kind kind;
    int dim;
    amp_tensor index;  /* i64, checked */
    amp_tensor values; /* one for each place of the index, in the table's dtype; or, by_number, … */
    amp_scalar number; /* … this */
    amp_scalar alpha;  /* of AMP_SCATTER_ADD: a factor of the values */
    bool by_number;
    int64_t least; /* of the indices: 0, but for offsets, which the view makes */
    /* NULL, or what shows the table in the geometry of index and values, which it may set: called once the table's
     * strides are known. */
    amp_status (*view)(const amp_call *call, amp_scatter_work *work, amp_tensor *table);
    const void *context; /* view's own */
};

/* Makes the result, input with the values in their places: a fresh tensor, or input itself where the call is in place
 * and nothing else that it reads shares that memory. */
amp_status amp_scatter_run(amp_call *call, const amp_tensor *input, amp_scatter_work *work);

#endif /* AMP_CPU_SCATTER_H */
