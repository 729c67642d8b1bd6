/* Sums that carry their rounding error (Neumaier), and extremes: what reductions, softmax and normalisations are made
 * of. */
#ifndef AMP_CUDA_SUMS_H
#define AMP_CUDA_SUMS_H

#include "cuda/kernels/kernel.h"

template <class T>
struct sum {
    T value, error;

    AMP_DEVICE_MEMBER void add(T x) {
        const T total = value + x;
        const T big = fabs(value) >= fabs(x) ? value : x, small = fabs(value) >= fabs(x) ? x : value;
        const T lost = (big - total) + small;
        if (lost == lost) error += lost; /* not of infinities */
        value = total;
    }
    AMP_DEVICE_MEMBER void join(sum other) {
        add(other.value);
        error += other.error;
    }
    AMP_DEVICE_MEMBER T result() const {
        const T total = value + error;
        return total == total ? total : value;
    }
};
template <>
struct sum<int64_t> {
    int64_t value, error;

    AMP_DEVICE_MEMBER void add(int64_t x) {
        value = (int64_t)((uint64_t)value + (uint64_t)x);
    }
    AMP_DEVICE_MEMBER void join(sum other) {
        add(other.value);
    }
    AMP_DEVICE_MEMBER int64_t result() const {
        return value;
    }
};
template <>
struct sum<complex128> {
    sum<double> re, im;

    AMP_DEVICE_MEMBER void add(complex128 x) {
        re.add(x.re);
        im.add(x.im);
    }
    AMP_DEVICE_MEMBER void join(sum other) {
        re.join(other.re);
        im.join(other.im);
    }
    AMP_DEVICE_MEMBER complex128 result() const {
        return {re.result(), im.result()};
    }
};

/* ---- Extremes ---------------------------------------------------------------------------------------------------- */
template <class T>
AMP_DEVICE T lowest() {
    return (T)-INFINITY;
}
template <>
AMP_DEVICE int64_t lowest<int64_t>() {
    return INT64_MIN;
}
template <class T>
AMP_DEVICE T highest() {
    return (T)INFINITY;
}
template <>
AMP_DEVICE int64_t highest<int64_t>() {
    return INT64_MAX;
}
/* Whether x comes before y among the extremes: a NaN before everything. */
template <class T>
AMP_DEVICE bool beats(T x, T y, bool largest) {
    if (x != x) return y == y;
    return largest ? x > y : x < y;
}

template <class T>
struct larger {
    AMP_DEVICE_MEMBER void operator()(T *into, T other) const {
        if (beats(other, *into, true)) *into = other;
    }
};
template <class T>
struct added {
    AMP_DEVICE_MEMBER void operator()(sum<T> *into, sum<T> other) const {
        into->join(other);
    }
};

#endif /* AMP_CUDA_SUMS_H */
