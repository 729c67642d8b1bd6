/* Placeholder until the copy kernels land: refuses. */
#include "cpu/copy.h"

#include "core/fail.h"

amp_status amp_cpu_copy(void *dst, amp_dtype dst_dtype, const int64_t *dst_strides, const void *src,
                        amp_dtype src_dtype, const int64_t *src_strides, int rank, const int64_t *shape) {
    (void)dst, (void)dst_dtype, (void)dst_strides, (void)src, (void)src_dtype, (void)src_strides, (void)rank,
        (void)shape;
    return amp_fail(AMP_ERROR_NOT_IMPLEMENTED, "copy: not implemented yet");
}
