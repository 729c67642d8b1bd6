/* ln(e^x + e^y) without overflow, of real and of complex numbers. */
#ifndef AMP_CPU_LOG_ADD_EXP_H
#define AMP_CPU_LOG_ADD_EXP_H

#include "cpu/elementwise/complex_log1p.h"

static inline double amp_log_add_exp(double x, double y) {
    if (x == y) return x + M_LN2; /* equal infinities too */
    const double high = fmax(x, y);
    return isnan(x) || isnan(y) ? NAN : high + log1p(exp(fmin(x, y) - high));
}

/* ln(e^x + e^y) from the operand with the greater real part. Where both have the same infinite one, the angle is that
 * of the sum of two infinite vectors, or of no matter. */
static inline double _Complex amp_log_add_exp_complex(double _Complex x, double _Complex y) {
    if (isnan(creal(x)) || isnan(cimag(x)) || isnan(creal(y)) || isnan(cimag(y))) return __builtin_complex(NAN, NAN);
    const double _Complex high = creal(x) < creal(y) ? y : x, low = creal(x) < creal(y) ? x : y;
    if (isinf(creal(x)) && creal(x) == creal(y)) {
        if (creal(x) < 0.0) return low;
        const double a = cimag(x), b = cimag(y);
        return clog(__builtin_complex(INFINITY * cos(a) + INFINITY * cos(b),
                                      (a == 0.0 ? a : INFINITY * sin(a)) + (b == 0.0 ? b : INFINITY * sin(b))));
    }
    const double _Complex difference = low - high;
    return creal(difference) == -INFINITY ? high : high + amp_complex_log1p(cexp(difference));
}

#endif /* AMP_CPU_LOG_ADD_EXP_H */
