/* Conversion of contiguous arrays between any two element types, as PyTorch converts. */
#ifndef AMP_CPU_CONVERT_ANY_H
#define AMP_CPU_CONVERT_ANY_H

#include "amp/error.h"
#include "cpu/convert/convert.h"

typedef void amp_widen_function(void *wide, const void *src, int64_t n);
typedef void amp_narrow_function(void *dst, const void *wide, int64_t n);

/* How one pair of types is converted: as bytes, by one kernel, or in two steps through i64, f64 or c128, which hold
 * every source exactly. */
typedef struct amp_conversion {
    size_t dst_size, src_size;
    amp_convert_function *direct;
    amp_widen_function *widen;
    amp_narrow_function *narrow;
} amp_conversion;

/* Values are rounded once, to nearest even, straight from the source type. Float to integer truncates towards zero; NaN
 * and what does not fit give the type's least value for i64 and i32, and the low bits of that for the narrower ones.
 * Integers wrap. Complex to real drops the imaginary part. Anything but zero is true. AMP_ERROR_DTYPE for what is no
 * dtype; the error of amp_kernel_select, after which the conversion works all the same, without a kernel. */
amp_status amp_conversion_find(amp_dtype dst, amp_dtype src, amp_conversion *conversion);
/* The arrays do not overlap, and need no alignment. */
void amp_conversion_run(const amp_conversion *conversion, void *dst, const void *src, int64_t n);
/* The same for elements that lie strides of bytes apart, which may be negative, and in src zero. */
void amp_conversion_run_strided(const amp_conversion *conversion, void *dst, int64_t dst_stride, const void *src,
                                int64_t src_stride, int64_t n);

#endif /* AMP_CPU_CONVERT_ANY_H */
