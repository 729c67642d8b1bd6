/* Copies between any dtypes and strides. */
#ifndef AMP_CPU_COPY_H
#define AMP_CPU_COPY_H

#include "amp/error.h"

amp_status amp_cpu_copy(void *dst, amp_dtype dst_dtype, const int64_t *dst_strides, const void *src,
                        amp_dtype src_dtype, const int64_t *src_strides, int rank, const int64_t *shape);

#endif /* AMP_CPU_COPY_H */
