/* A tensor as matrices of columns: [outer, rows, inner], of which the columns are reduced or normalised. Neighbouring
 * columns go through the kernels side by side, in blocks. */
#ifndef AMP_CPU_COLUMN_WALK_H
#define AMP_CPU_COLUMN_WALK_H

#include "core/tensor_impl.h"

/* Fewer columns than this that lie together are quicker as rows. It is asked of the shape, not of the strides, so that
 * a layout changes no bit. */
enum { AMP_LEAST_COLUMNS = 8 };

/* Dimensions, outermost first, merged where their strides (in bytes) allow it. */
typedef struct amp_merged_dims {
    int rank;
    int64_t shape[AMP_MAX_RANK], strides[AMP_MAX_RANK];
} amp_merged_dims;

typedef struct amp_columns {
    char *data;
    amp_dtype dtype;
    int64_t outer, rows, inner;
    int64_t size, row_stride; /* of an element; from a row to the next, in bytes */
    amp_merged_dims outer_dims, inner_dims;
    bool dense; /* the elements of a row are */
} amp_columns;

/* Dimensions [first, end) of the tensor are the rows. False if these cannot be walked with one stride. */
bool amp_columns_of(amp_columns *columns, const amp_tensor *tensor, int first, int end);

/* Part of a matrix: rows [row, row + rows), columns [column, column + n). */
typedef struct amp_column_block {
    int64_t outer, row, rows, column, n, part; /* part: number of the block from above */
} amp_column_block;

/* Its elements, row by row, as a dense array of `compute`, converted as amp_block_load does; and the way back. */
void amp_columns_load(const amp_columns *columns, amp_dtype compute, void *to, const amp_column_block *block);
void amp_columns_store(const amp_columns *columns, amp_dtype compute, const void *from, const amp_column_block *block);

/* Where that column of matrix `outer` begins; the columns are dense. */
char *amp_columns_at(const amp_columns *columns, int64_t outer, int64_t row, int64_t column);

/* The matrices in blocks of `width` columns and of `height` rows. */
typedef struct amp_column_blocks {
    int64_t width, height, across, down, count;
} amp_column_blocks;

amp_column_blocks amp_columns_blocks(const amp_columns *columns, int64_t width, int64_t height);

/* Blocks that lie one above the other are neighbours. */
amp_column_block amp_columns_block(const amp_columns *columns, const amp_column_blocks *blocks, int64_t index);

/* For every block, spread over threads that have `scratch` bytes each; `cost`: simple operations for an element. */
typedef void amp_column_function(void *context, const amp_column_block *block, void *scratch);
amp_status amp_columns_run(const char *op, const amp_columns *columns, const amp_column_blocks *blocks, int64_t cost,
                           size_t scratch, amp_column_function *function, void *context);

/* Of every column, in order [outer, inner]: the largest element and Σ e^(x − max), as amp_exponentials_function says.
 * What a column's sum is depends on its length and the ISA alone. `max` and `sum` have room for each of
 * amp_exponentials_parts(columns) parts of every column; the first outer · inner are the results. */
int64_t amp_exponentials_parts(const amp_columns *columns);
amp_status amp_column_exponentials(const char *op, const amp_columns *columns, float *max, double *sum,
                                   const char **kernel);

#endif /* AMP_CPU_COLUMN_WALK_H */
