/* Writing by index on the device, for the op layer that it shares with the CPU. */
#ifndef AMP_CUDA_SCATTER_H
#define AMP_CUDA_SCATTER_H

#include "amp/ops.h"
#include "cpu/index/scatter.h"

/* Puts values into `table` at the places of `index` (i64), which all have one rank, from 1 up. An index below `least`
 * or not below the extent of dimension `dim` is told of later. */
typedef struct amp_cuda_writing {
    const amp_tensor *table, *index, *values; /* values NULL: `number` of the table's dtype */
    const void *number;
    amp_scatter_kind kind;
    int dim;
    int64_t least;
    amp_scalar alpha;
} amp_cuda_writing;
amp_status amp_cuda_write_by_index(const amp_call *call, const amp_cuda_writing *w);

/* out[place] = Σ indices[d][place] · stride of dimension d, where indices[d] is not NULL; they broadcast to `out`, and
 * may count from the end. INT64_MIN where one is out of range, which is told of later. */
amp_status amp_cuda_make_offsets(const amp_call *call, const amp_tensor *table, amp_tensor *const *indices, int dims,
                                 amp_tensor *out);

/* index_put whose only index is a mask over the dimensions from `first` on. */
amp_status amp_cuda_index_put_mask(amp_call *call, const amp_index_put_args *a, amp_tensor *mask, int first);

#endif /* AMP_CUDA_SCATTER_H */
