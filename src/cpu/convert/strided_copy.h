/* The general copy: any element types, any strides. `to`, `contiguous`, `cat` and out= go through it. */
#ifndef AMP_CPU_STRIDED_COPY_H
#define AMP_CPU_STRIDED_COPY_H

#include "amp/error.h"

/* dst[index] = (dst_dtype)src[index] for every index within shape (rank numbers). Strides are in elements: negative
 * ones and, in src, zeros are fine; a dst stride of 0 over more than one index is AMP_ERROR_INVALID. The pointers are
 * the addresses of element [0, …, 0]. The arrays do not overlap, unless they are the same in address, dtype and strides
 * (then nothing is done). Conversion as amp_conversion_find says. Uses threads where it is big; the result does not
 * depend on them. */
amp_status amp_strided_copy(void *dst, amp_dtype dst_dtype, const int64_t *dst_strides, const void *src,
                            amp_dtype src_dtype, const int64_t *src_strides, int rank, const int64_t *shape);

/* The same of a source that may lie at any address, as in a file. */
amp_status amp_strided_copy_anywhere(void *dst, amp_dtype dst_dtype, const int64_t *dst_strides, const void *src,
                                     amp_dtype src_dtype, const int64_t *src_strides, int rank, const int64_t *shape);

#endif /* AMP_CPU_STRIDED_COPY_H */
