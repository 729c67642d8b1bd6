/* The few types that arithmetic is done in. */
#ifndef AMP_CORE_COMPUTE_DTYPE_H
#define AMP_CORE_COMPUTE_DTYPE_H

#include <complex.h>

#include "amp/types.h"

/* By the formula, as PyTorch multiplies: C's own product recovers infinities, in a call for every element. */
static inline double _Complex amp_complex_product(double _Complex x, double _Complex y) {
    const double a = __real__ x, b = __imag__ x, c = __real__ y, d = __imag__ y;
    return __builtin_complex(a * c - b * d, a * d + b * c);
}

/* f32, f64, i64 or c128: what elements of `dtype` are computed in. */
amp_dtype amp_compute_dtype(amp_dtype dtype);

#endif /* AMP_CORE_COMPUTE_DTYPE_H */
