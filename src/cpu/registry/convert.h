/* Conversion of contiguous arrays between 16-bit floats and f32. */
#ifndef AMP_CPU_CONVERT_H
#define AMP_CPU_CONVERT_H

#include <stdint.h>

#include "core/half.h"

/* dst[i] = (type)src[i], i < n, to nearest even; NaN keeps its sign and the upper bits of its payload, and becomes
 * quiet; subnormals are rounded, not flushed. The arrays do not overlap, and need no alignment. */
typedef void amp_convert_function(void *dst, const void *src, int64_t n);

/* Types for arrays that may begin anywhere, as tensors within a mapped file do. */
typedef float amp_f32_unaligned __attribute__((aligned(1), may_alias));
typedef uint16_t amp_u16_unaligned __attribute__((aligned(1), may_alias));

#endif /* AMP_CPU_CONVERT_H */
