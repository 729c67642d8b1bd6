/* Transposition of a small matrix of elements of any size, within the first-level cache. */
#ifndef AMP_CPU_TRANSPOSE_H
#define AMP_CPU_TRANSPOSE_H

#include <stddef.h>
#include <stdint.h>

/* dst[column][row] = src[row][column]; `size` is an element's, 1, 2, 4, 8 or 16; the strides are the bytes from a row
 * to the next. Elements within a row are dense. No alignment is needed. */
void amp_transpose(char *dst, int64_t dst_stride, const char *src, int64_t src_stride, int64_t rows, int64_t columns,
                   size_t size);

#endif /* AMP_CPU_TRANSPOSE_H */
