/* The numbers that matrices are made of: real ones, and complex ones that count like them. */
#ifndef AMP_CUDA_NUMBER_H
#define AMP_CUDA_NUMBER_H

#include "cuda/kernels/kernel.h"

template <class R>
struct complex_of {
    R re, im;

    complex_of() = default;
    AMP_DEVICE_MEMBER complex_of(R real, R imaginary = 0) : re(real), im(imaginary) {}
    template <class S>
    AMP_DEVICE_MEMBER explicit complex_of(complex_of<S> x) : re((R)x.re), im((R)x.im) {}

    AMP_DEVICE_MEMBER friend complex_of operator+(complex_of x, complex_of y) {
        return {x.re + y.re, x.im + y.im};
    }
    AMP_DEVICE_MEMBER friend complex_of operator-(complex_of x, complex_of y) {
        return {x.re - y.re, x.im - y.im};
    }
    AMP_DEVICE_MEMBER friend complex_of operator-(complex_of x) {
        return {-x.re, -x.im};
    }
    AMP_DEVICE_MEMBER friend complex_of operator*(complex_of x, complex_of y) {
        return {x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
    }
    AMP_DEVICE_MEMBER friend complex_of operator*(R x, complex_of y) {
        return {x * y.re, x * y.im};
    }
    /* Smith's way: no overflow on the way. */
    AMP_DEVICE_MEMBER friend complex_of operator/(complex_of x, complex_of y) {
        const bool wide = fabs(y.re) >= fabs(y.im);
        if (y.im == 0) return {x.re / y.re, x.im / y.re};
        const R ratio = wide ? y.im / y.re : y.re / y.im, scale = wide ? y.re + y.im * ratio : y.re * ratio + y.im;
        return wide ? complex_of((x.re + x.im * ratio) / scale, (x.im - x.re * ratio) / scale)
                    : complex_of((x.re * ratio + x.im) / scale, (x.im * ratio - x.re) / scale);
    }
    AMP_DEVICE_MEMBER friend complex_of operator/(complex_of x, R y) {
        return {x.re / y, x.im / y};
    }
    AMP_DEVICE_MEMBER complex_of &operator+=(complex_of x) {
        return *this = *this + x;
    }
    AMP_DEVICE_MEMBER complex_of &operator-=(complex_of x) {
        return *this = *this - x;
    }
    AMP_DEVICE_MEMBER complex_of &operator*=(complex_of x) {
        return *this = *this * x;
    }
    AMP_DEVICE_MEMBER complex_of &operator/=(complex_of x) {
        return *this = *this / x;
    }
    AMP_DEVICE_MEMBER friend bool operator==(complex_of x, complex_of y) {
        return x.re == y.re && x.im == y.im;
    }
    AMP_DEVICE_MEMBER friend bool operator!=(complex_of x, complex_of y) {
        return !(x == y);
    }
};

/* The real numbers of a type, and what sums of it are kept in. */
template <class T>
struct number {
    typedef T real;
    typedef double wide;
    enum { is_complex = false };
};
template <class R>
struct number<complex_of<R>> {
    typedef R real;
    typedef complex_of<double> wide;
    enum { is_complex = true };
};
template <class T>
using real_type = typename number<T>::real;
template <class T>
using wide_type = typename number<T>::wide;

AMP_DEVICE float conjugate(float x) {
    return x;
}
AMP_DEVICE double conjugate(double x) {
    return x;
}
template <class R>
AMP_DEVICE complex_of<R> conjugate(complex_of<R> x) {
    return {x.re, -x.im};
}
template <class T>
AMP_DEVICE T conjugate_if(bool wanted, T x) {
    return wanted ? conjugate(x) : x;
}

AMP_DEVICE double real_of(double x) {
    return x;
}
template <class R>
AMP_DEVICE double real_of(complex_of<R> x) {
    return (double)x.re;
}
AMP_DEVICE double imaginary_of(double) {
    return 0.0;
}
template <class R>
AMP_DEVICE double imaginary_of(complex_of<R> x) {
    return (double)x.im;
}
/* |x|² and |x| */
template <class T>
AMP_DEVICE double square_of(T x) {
    return real_of(x) * real_of(x) + imaginary_of(x) * imaginary_of(x);
}
AMP_DEVICE double modulus(double x) {
    return fabs(x);
}
template <class R>
AMP_DEVICE double modulus(complex_of<R> x) {
    return hypot((double)x.re, (double)x.im);
}
/* What LAPACK compares pivots by. */
template <class T>
AMP_DEVICE double taxicab(T x) {
    return fabs(real_of(x)) + fabs(imaginary_of(x));
}
AMP_DEVICE double scaled_by(double x, int exponent) {
    return scalbn(x, exponent);
}
template <class R>
AMP_DEVICE complex_of<double> scaled_by(complex_of<R> x, int exponent) {
    return {scalbn((double)x.re, exponent), scalbn((double)x.im, exponent)};
}
/* x = size · phase: a real number keeps its sign in the size. */
AMP_DEVICE double phase_of(double x, double *size) {
    *size = x;
    return 1.0;
}
AMP_DEVICE complex_of<double> phase_of(complex_of<double> x, double *size) {
    *size = modulus(x);
    return *size > 0.0 ? x / *size : complex_of<double>(1.0);
}

template <class T>
AMP_DEVICE T nan_of() {
    return (T)NAN;
}
template <>
AMP_DEVICE complex_of<float> nan_of() {
    return {NAN, NAN};
}
template <>
AMP_DEVICE complex_of<double> nan_of() {
    return {NAN, NAN};
}

#endif /* AMP_CUDA_NUMBER_H */
