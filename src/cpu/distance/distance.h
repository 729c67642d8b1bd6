/* Dense f32 kernels of cdist and pdist: one point against many. The many lie transposed, coordinate by coordinate, so
 * that neighbouring lanes are neighbouring points and no lane is ever folded into another. */
#ifndef AMP_CPU_DISTANCE_H
#define AMP_CPU_DISTANCE_H

#include <stdint.h>

/* out[j] = Σₖ f(a[k] − b[k·step + j]) for j < n and k < depth, in f32: 64 terms at a time, then these sums. f is the
 * square, the modulus, 1 where the difference is not zero; `maximum` takes the largest modulus in place of the sum (0
 * of nothing, NaN if there is one). */
typedef void amp_distance_function(float *out, const float *a, const float *b, int64_t step, int64_t depth, int64_t n);
#define AMP_VECTOR_DISTANCE(X)                                                                                         \
    X(DISTANCE_SQUARES, distance_squares)                                                                              \
    X(DISTANCE_MODULI, distance_moduli)                                                                                \
    X(DISTANCE_COUNT, distance_count)                                                                                  \
    X(DISTANCE_MAXIMUM, distance_maximum)

#endif /* AMP_CPU_DISTANCE_H */
