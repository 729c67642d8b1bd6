/* Reductions over an outer dimension, and products of a row, in f64 lanes, on every ISA alike but for the order of the
 * products.
 *
 * The names in these lists make the functions amp_<name>_f32_<isa> and amp_<name>_bf16_<isa>, compiled from
 * columns_body.h once per ISA. */
#ifndef AMP_CPU_COLUMNS_H
#define AMP_CPU_COLUMNS_H

#include "cpu/vector/vector.h"

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

/* The product of n ≥ 0 elements: amp_reduce_function. */
#define AMP_PRODUCTS(X) X(PRODUCT, product)

#endif /* AMP_CPU_COLUMNS_H */
