/* ln(1 + z) of complex numbers, which keeps the digits of a small z. */
#ifndef AMP_CPU_COMPLEX_LOG1P_H
#define AMP_CPU_COMPLEX_LOG1P_H

#include <complex.h>
#include <math.h>

/* Near 0: ln|1 + z| = log1p(x·(2 + x) + y²)/2. */
static inline double _Complex amp_complex_log1p(double _Complex z) {
    const double x = creal(z), y = cimag(z);
    if (!(fabs(x) < 0.5 && fabs(y) < 0.5)) return clog(__builtin_complex(1.0 + x, y));
    return __builtin_complex(0.5 * log1p(x * (2.0 + x) + y * y), atan2(y, 1.0 + x));
}

#endif /* AMP_CPU_COMPLEX_LOG1P_H */
