/* Division by a number that the host knows, without the device's slow instructions for it. */
#ifndef AMP_CUDA_DIVISOR_H
#define AMP_CUDA_DIVISOR_H

#include <stdint.h>

/* n / extent is (⌊n · multiplier / 2³²⌋ + n) >> shift for 0 ≤ n < 2³¹: Granlund and Montgomery, "Division by invariant
 * integers using multiplication", 1994. Kernels divide larger numbers by `extent` itself. */
typedef struct amp_cuda_divisor {
    int64_t extent;
    uint32_t multiplier, shift;
} amp_cuda_divisor;

static inline amp_cuda_divisor amp_cuda_divide_by(int64_t extent) {
    amp_cuda_divisor d = {extent, 0, 31}; /* of more than 2³¹: 0 */
    if (extent > INT32_MAX || extent < 1) return d;
    d.shift = 0;
    while ((INT64_C(1) << d.shift) < extent) d.shift++;
    d.multiplier =
        (uint32_t)((((uint64_t)1 << 32) * (((uint64_t)1 << d.shift) - (uint64_t)extent)) / (uint64_t)extent + 1);
    return d;
}

/* The dimension of greatest extent. */
static inline int amp_cuda_longest(int rank, const amp_cuda_divisor *shape) {
    int longest = 0;
    for (int d = 1; d < rank; d++) longest = shape[d].extent > shape[longest].extent ? d : longest;
    return longest;
}

#endif /* AMP_CUDA_DIVISOR_H */
