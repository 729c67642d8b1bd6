/* Sorting and searching on the device, for the op layer that it shares with the CPU. */
#ifndef AMP_CUDA_ORDER_H
#define AMP_CUDA_ORDER_H

#include "cpu/move/rows.h"
#include "cuda/args/index_args.h"

/* Dense rows on the device. */
typedef struct amp_cuda_lines {
    const void *data;
    amp_dtype dtype;
    int64_t rows, length;
} amp_cuda_lines;

/* Each row's places in order, and the keys that they were put in order by (index_args.h): [rows, length], the call's.
 * Of long rows of elements that have less than 64 bits, no keys. */
typedef struct amp_cuda_ordered {
    const uint64_t *keys;
    const int64_t *places;
} amp_cuda_ordered;

amp_status amp_cuda_put_in_order(const amp_call *call, const amp_cuda_lines *lines, bool descending, bool last_first,
                                 amp_cuda_ordered *ordered);

/* Address of rows (cpu/move/rows.h) of the device, as amp_cuda_address. */
void *amp_cuda_rows_address(const char *op, const amp_rows *rows);

#endif /* AMP_CUDA_ORDER_H */
