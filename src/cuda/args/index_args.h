/* The argument structs of kernels that sort and search, and read and write by index: as kernel_args.h, which they go
 * with. */
#ifndef AMP_CUDA_INDEX_ARGS_H
#define AMP_CUDA_INDEX_ARGS_H

#include <stdalign.h>

#include "cuda/args/kernel_args.h"

/* Dense rows, put in order by keys: whole numbers that compare as the elements do. Beside each key goes its element's
 * place in the row. */
typedef struct amp_cuda_sort {
    const void *in;
    amp_dtype dtype;
    bool descending;
    bool last_first; /* of equal elements the last one comes first */
    int64_t rows, length;
    int64_t keep;         /* of each tile: only so many, the first ones, go on */
    const uint64_t *keys; /* runs of `width`, each in order …; for tiles: instead of the elements, if not NULL */
    const int64_t *places;
    uint64_t *sorted_keys; /* … and what becomes of them: runs of twice the width */
    int64_t *sorted_places;
    int64_t width;
} amp_cuda_sort;
enum { AMP_CUDA_TILE = 1024 }; /* elements that one block sorts */

/* One pass of a radix sort of long rows: elements go, in order, to where those of the same eight bits of the key are,
 * tile by tile. In the first pass they are read from `in`, later from keys and places. */
typedef struct amp_cuda_radix {
    const void *in;
    amp_dtype dtype;
    bool descending, last_first; /* as in amp_cuda_sort */
    int shift, flip;             /* the digit: key >> shift, its bits `flip` turned over */
    int64_t rows, length, tiles; /* tiles of a row */
    bool wide;                   /* keys are uint64_t, else uint32_t */
    const void *keys;            /* NULL in the first pass */
    const uint32_t *places;
    void *sorted_keys; /* NULL: nobody asks for them */
    uint32_t *sorted_places;
    int64_t *final_places; /* of the last pass, instead */
    uint32_t *counts;      /* [rows, digits, tiles]: in each tile; then, in all those of the row that come before it */
    uint32_t *totals;      /* [rows, digits] */
} amp_cuda_radix;
enum { AMP_CUDA_DIGITS = 256, AMP_CUDA_RADIX_TILE = 2048, AMP_CUDA_FEW_TILES = 64 };

/* The first `wanted` elements of rows in order, and their places. */
typedef struct amp_cuda_take {
    const void *in;
    const int64_t *places;
    void *values;
    int64_t *indices;
    int size; /* of an element, in bytes */
    int64_t rows, length, wanted;
    int64_t in_order; /* places of each row */
} amp_cuda_take;

/* Quantiles of rows in order, those of the first q first. */
typedef struct amp_cuda_quantiles {
    const void *in, *q;
    const int64_t *places;
    void *out;
    amp_dtype dtype, q_dtype;
    double number; /* where q is NULL */
    int64_t rows, length, count;
    int rule; /* linear, lower, higher, midpoint, nearest */
    bool without_nan;
    amp_cuda_report report;
} amp_cuda_quantiles;

/* Where values belong in dense sorted rows of `length`: value i in row i / each. */
typedef struct amp_cuda_search {
    const void *sequence, *values, *sorter; /* sorter NULL: the rows are in order as they are */
    void *out;
    amp_dtype sequence_dtype, values_dtype, sorter_dtype, out_dtype;
    int64_t length, count, each;
    bool right;
    amp_cuda_report report;
} amp_cuda_search;

/* Values written, added or multiplied into the elements of a table that indices name: along lines of `length` places,
 * one line for each element of the free dimensions. */
typedef struct amp_cuda_scatter {
    void *table;
    const void *values; /* NULL: `number`, the same everywhere */
    const int64_t *index;
    const uint64_t *keys; /* NULL, or each line's indices in order, as a sort of them gives them, … */
    const int64_t *order; /* … and their places */
    int joining;          /* amp_scatter_kind */
    int size;             /* of an element, in bytes */
    amp_dtype dtype, values_dtype;
    alignas(16) unsigned char number[16];
    double alpha, alpha_imaginary;
    int64_t alpha_whole;
    int64_t least, extent;                                 /* indices are from least to below extent */
    int64_t lines, length, scale, values_step, index_step; /* along a line */
    int rank;                                              /* the free dimensions */
    int64_t shape[AMP_MAX_RANK], table_strides[AMP_MAX_RANK], values_strides[AMP_MAX_RANK], index_strides[AMP_MAX_RANK];
    int64_t order_strides[AMP_MAX_RANK];
    amp_cuda_report report;
} amp_cuda_scatter;

/* out[i] = Σ index of dimension d · its stride, of i64 indices that may count from the end; INT64_MIN where one is out
 * of range. */
typedef struct amp_cuda_offsets {
    int64_t *out;
    int64_t count;
    int rank, dims;
    int64_t shape[AMP_MAX_RANK];
    const int64_t *index[AMP_MAX_RANK];
    int64_t strides[AMP_MAX_RANK][AMP_MAX_RANK]; /* of each index */
    int64_t extents[AMP_MAX_RANK], table_strides[AMP_MAX_RANK];
    amp_cuda_report report;
} amp_cuda_offsets;

/* Rows of a table put together in bags: Σ scale · row, their mean, or their maxima. Bag b has the indices from
 * offsets[b] on, or, without offsets, `each` of them. */
typedef struct amp_cuda_bags {
    const void *table, *index, *offsets, *scales;
    void *out; /* dense */
    amp_dtype dtype, index_dtype, offsets_dtype, scales_dtype;
    int64_t bags, width, rows, row_stride, column_stride, indices, each, padding;
    int64_t last; /* offsets that there are */
    int mode;     /* sum, mean, max */
    amp_cuda_report report;
} amp_cuda_bags;

/* Rows that indices name, scaled down to p-norm `limit` where they are longer. `seen` has a byte, 0, for each row. */
typedef struct amp_cuda_limit {
    void *table;
    const void *index;
    uint8_t *seen;
    amp_dtype dtype, index_dtype;
    int64_t indices, rows, width, row_stride, column_stride;
    double p, limit;
    amp_cuda_report report;
} amp_cuda_limit;

/* x / (k + alpha · mean of x² over a window of channels)^beta; dense [samples, channels, inner]. */
typedef struct amp_cuda_response {
    const void *in;
    void *out;
    amp_dtype in_dtype, out_dtype;
    int64_t count, channels, inner, size;
    double alpha, beta, k;
} amp_cuda_response;

/* −log of the probability of label sequences; log_probs are [frames, batch, classes], all is dense. */
typedef struct amp_cuda_alignments {
    const void *log_probs, *labels, *frame_counts, *label_counts;
    double *losses, *alpha; /* alpha: twice `states` for each sample */
    amp_dtype dtype, labels_dtype, frame_counts_dtype, label_counts_dtype;
    int64_t frames, batch, classes, label_count, padded, states, blank;
    bool zero_infinity, mean;
    amp_cuda_report report;
} amp_cuda_alignments;

/* Maxima of windows whose places follow, for each plane, from a number in [0, 1) per dimension. Dense planes D·H·W. */
typedef struct amp_cuda_fractions {
    const void *in, *samples;
    void *out;
    int64_t *places; /* NULL: not asked for */
    amp_dtype dtype;
    int dims;
    int64_t count;
    int64_t in_extent[3], out_extent[3], kernel[3];
} amp_cuda_fractions;

#endif /* AMP_CUDA_INDEX_ARGS_H */
