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

/* The first k elements of each row of `in`, and their places. */
amp_status amp_cuda_first_of_rows(const amp_call *call, const amp_rows *in, int64_t k, bool descending, bool last_first,
                                  const amp_rows *values, const amp_rows *indices);

/* Quantiles of rows into dense `out`, [q, rows]; `rule` as in amp_cuda_quantiles. q is a tensor, or else the number. */
typedef struct amp_cuda_quantile_work {
    amp_tensor *q;
    double number;
    int64_t count;
    int rule;
    bool without_nan;
} amp_cuda_quantile_work;
amp_status amp_cuda_quantiles_of(const amp_call *call, const amp_rows *in, const amp_cuda_quantile_work *work,
                                 const amp_rows *out);

/* searchsorted. Rows of `sequence` serve the rows of `values`, or its one row all of them; `sorter` may be NULL. */
amp_status amp_cuda_search_rows(const amp_call *call, const amp_rows *sequence, amp_tensor *sorter,
                                const amp_rows *values, amp_dtype compute, bool right, const amp_rows *out);

/* Address of rows (cpu/move/rows.h) of the device, as amp_cuda_address. */
void *amp_cuda_rows_address(const char *op, const amp_rows *rows);

#endif /* AMP_CUDA_ORDER_H */
