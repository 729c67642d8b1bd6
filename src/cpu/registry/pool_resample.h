/* What pooling, interpolation and grid sampling are made of: dense kernels on several lines of an image at once (rows
 * of pixels, or, channels last, the channels of a pixel), and on elements that indices name. Of f32, and the maxima of
 * bf16 and f16 too, which no conversion changes.
 *
 * The names in the list make the functions amp_<name>_f32_<isa> (ref, avx2, avx512), compiled from pool_resample_body.h
 * and, for maxima, pool_resample_max_body.h, once per ISA. All ISAs give the same bits (NaN payloads excepted): every
 * element is computed by itself, in the order of k. */
#ifndef AMP_CPU_POOL_RESAMPLE_H
#define AMP_CPU_POOL_RESAMPLE_H

#include <stdint.h>

/* For every i < n, over k < count, count ≥ 1; out is none of in:
 *   combine_lines   out[i] = Σ weights[k]·in[k][i], the first a product, the others fused
 *   sum_lines       out[i] = Σ in[k][i] / weights[0] */
typedef void amp_lines_function(float *out, const float *const *in, const float *weights, int64_t count, int64_t n);
#define AMP_LINES(X)                                                                                                   \
    X(COMBINE_LINES, combine_lines)                                                                                    \
    X(SUM_LINES, sum_lines)

/* out[i] = the largest in[k][i]; a NaN gives NaN. */
typedef void amp_max_lines_function(void *out, const void *const *in, int64_t count, int64_t n);

/* out as max_lines, and which[i] the k that it comes from: the first of equal ones, the last NaN; the first where all
 * are −inf. count < 2^24. */
typedef void amp_argmax_lines_function(void *out, float *which, const void *const *in, int64_t count, int64_t n);

/* out[i] = Σ over k < count of weights[k·n + i]·in[index[k·n + i]]; an index below 0 reads 0. */
typedef void amp_gather_taps_function(float *out, const float *in, const int32_t *index, const float *weights,
                                      int64_t count, int64_t n);

#endif /* AMP_CPU_POOL_RESAMPLE_H */
