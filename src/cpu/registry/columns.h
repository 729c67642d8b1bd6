/* Reductions and softmax over an outer dimension, and products of a row. Reductions are in f64 lanes, on every ISA
 * alike but for the order of the products.
 *
 * The names in these lists make the functions amp_<name>_f32_<isa> and amp_<name>_bf16_<isa>, compiled from
 * columns_body.h once per ISA; those of softmax from softmax_columns_body.h. */
#ifndef AMP_CPU_COLUMNS_H
#define AMP_CPU_COLUMNS_H

#include <stdbool.h>

#include "cpu/registry/vector.h"

/* acc[i] = f(acc[i], element i of each row in turn), n elements of rows that are `stride` bytes apart. NaN wins among
 * extremes, and counts as an element other than zero. */
typedef void amp_columns_function(double *acc, const void *in, int64_t stride, int64_t rows, int64_t n);
#define AMP_COLUMNS(X)                                                                                                 \
    X(COLUMNS_SUM, columns_sum)                                                                                        \
    X(COLUMNS_SUM_ABS, columns_sum_abs)                                                                                \
    X(COLUMNS_SUM_SQUARES, columns_sum_squares)                                                                        \
    X(COLUMNS_COUNT, columns_count)                                                                                    \
    X(COLUMNS_PRODUCT, columns_product)                                                                                \
    X(COLUMNS_MAX, columns_max)                                                                                        \
    X(COLUMNS_MIN, columns_min)                                                                                        \
    X(COLUMNS_MAX_ABS, columns_max_abs)                                                                                \
    X(COLUMNS_MIN_ABS, columns_min_abs)

/* Columns of `rows` ≥ 1 elements side by side, n of them; rows are strides of bytes apart, and `out` may be `in` with
 * the same stride. out = e^(in − max)/Σ, or the logarithm of that, for each column. `terms` has room for rows ·
 * AMP_SOFTMAX_COLUMNS floats. As softmax of vector.h, in lanes: columns are the same bits wherever they lie. */
enum { AMP_SOFTMAX_COLUMNS = 64 };
typedef void amp_softmax_columns_function(void *out, int64_t out_stride, const void *in, int64_t in_stride,
                                          int64_t rows, int64_t n, float *terms);
#define AMP_SOFTMAX_COLUMNS_LIST(X)                                                                                    \
    X(SOFTMAX_COLUMNS, softmax_columns)                                                                                \
    X(LOG_SOFTMAX_COLUMNS, log_softmax_columns)

/* The largest element of each column and Σ e^(in − max), of these rows, or, if they are not the first, of them and of
 * those before. The maximum passes over NaN, which the sum becomes; of −∞ alone the sum is 0; each +∞ counts as one,
 * and all else beside it as nothing. */
typedef void amp_exponentials_function(float *max, double *sum, const void *in, int64_t stride, int64_t rows, int64_t n,
                                       bool first);

/* The product of n ≥ 0 elements: amp_reduce_function. */
#define AMP_PRODUCTS(X) X(PRODUCT, product)

#endif /* AMP_CPU_COLUMNS_H */
