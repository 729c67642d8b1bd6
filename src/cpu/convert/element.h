/* Elements of any dtype as arrays of the few types that arithmetic is done in.
 *
 * Kernels compute in f32 (for f32, f16, bf16), f64, i64 (for all integers and bool), c128 (for c64 too), or give bool.
 * What they read and write goes through here in blocks that stay in the first-level cache: widened on the way in,
 * rounded once on the way out. */
#ifndef AMP_CPU_ELEMENT_H
#define AMP_CPU_ELEMENT_H

#include "core/compute_dtype.h"

/* Bytes of one block of one operand. */
enum { AMP_BLOCK_BYTES = 4096 };

/* n elements of `dtype`, `stride` bytes apart, to a dense array of `compute` (f32, f64, i64, c128 or bool; any dtype
 * may be converted to any of them: a complex number gives its real part, a float is truncated towards zero, and
 * whatever is not zero is true). */
void amp_block_load(amp_dtype compute, void *dst, amp_dtype dtype, const char *src, int64_t stride, int64_t n);
/* The way back; floating point rounds to nearest even, integers wrap. */
void amp_block_store(amp_dtype compute, const void *src, amp_dtype dtype, char *dst, int64_t stride, int64_t n);

/* Prepares the conversion kernels (their selection and self-test), so that blocks can be converted inside parallel
 * regions. */
void amp_block_prepare(void);

/* One element as a double (a complex number's real part) or an integer; for scalars read from 0-dim tensors. */
double amp_element_double(amp_dtype dtype, const void *element);

#endif /* AMP_CPU_ELEMENT_H */
