/* Sine, cosine and tangent of any f32 within two ulps (the tangent: four), with nothing in local memory: CUDA's keep
 * the digits of a large angle there. Those of f64 are CUDA's. */
#ifndef AMP_CUDA_ANGLE_H
#define AMP_CUDA_ANGLE_H

#include "cuda/kernels/kernel.h"

/* The highest power's coefficient first. */
template <int COUNT>
AMP_DEVICE double polynomial(const double (&c)[COUNT], double x) {
    double p = c[0];
    AMP_UNROLLED for (int k = 1; k < COUNT; k++) p = fma(p, x, c[k]);
    return p;
}

/* |x| from 2^16 up: x = n·π/2 + r. Of 2/π, 96 bits matter, from the one on whose product with x is below 4: their product
 * with the 24 bits of x, modulo 2^96, has n modulo 4 in its two highest bits, and 62 bits of r behind them. */
AMP_DEVICE float large_angle(float x, int *n) {
    static constexpr uint32_t digits[8] = {0, /* 2/π */
                                           0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0,
                                           0xdb629599, 0x3c439041, 0xfe5163ab};
    const uint32_t bits = bits_of(x), exponent = bits >> 23 & 0xffu, factor = (bits & 0x7fffffu) | 0x800000u;
    if (exponent == 0xffu) return *n = 0, x - x;
    const uint32_t first = exponent - 120, word = first >> 5, shift = first & 31u;
    uint32_t w[3];
    AMP_UNROLLED for (uint32_t k = 0; k < 3; k++) {
        w[k] = (uint32_t)(((uint64_t)digits[word + k] << 32 | digits[word + k + 1]) << shift >> 32);
    }
    const uint64_t turns =
        ((uint64_t)(factor * w[0]) << 32) + (uint64_t)factor * w[1] + ((uint64_t)factor * w[2] >> 32);
    const uint64_t nearest = (turns + (UINT64_C(1) << 61)) >> 62;
    const float r = (float)((double)(int64_t)(turns - (nearest << 62)) * (1.5707963267948966 / 4611686018427387904.0));
    *n = x < 0 ? -(int)nearest : (int)nearest;
    return x < 0 ? -r : r;
}

/* x = n·π/2 + r, |r| ≤ π/4: gives r, and n or what it is modulo 4. */
AMP_DEVICE float reduced_angle(float x, int *n) {
    if (!(fabsf(x) < 65536.0f)) return large_angle(x, n);
    const float nearest = rintf(x * 0.636619747f);
    *n = (int)nearest;
    return fmaf(-nearest, -1.71512451e-15f, fmaf(-nearest, -4.37113883e-8f, fmaf(-nearest, 1.57079637f, x)));
}

/* Of |r| ≤ π/4, to 2^-27 and 2^-32: fitted for this, by least squares reweighted until the largest error was least. */
AMP_DEVICE float small_sine(float r) {
    const float z = r * r;
    return fmaf(r * z, fmaf(fmaf(-1.95087399e-4f, z, 8.3321128e-3f), z, -0.166666538f), r);
}
AMP_DEVICE float small_cosine(float r) {
    const float z = r * r;
    return fmaf(z, fmaf(fmaf(fmaf(2.44256807e-5f, z, -1.38872513e-3f), z, 4.16666456e-2f), z, -0.5f), 1.0f);
}

/* Of n quarter turns and r. */
AMP_DEVICE float turned_sine(int n, float r) {
    const float y = n & 1 ? small_cosine(r) : small_sine(r);
    return n & 2 ? -y : y;
}
AMP_DEVICE float sine(float x) {
    int n;
    const float r = reduced_angle(x, &n);
    return x == 0 ? x : turned_sine(n, r);
}
AMP_DEVICE float cosine(float x) {
    int n;
    const float r = reduced_angle(x, &n);
    return turned_sine(n + 1, r);
}
AMP_DEVICE float tangent(float x) {
    int n;
    const float r = reduced_angle(x, &n), s = small_sine(r), c = small_cosine(r);
    return x == 0 ? x : n & 1 ? -c / s : s / c;
}

/* The sine of x + quarters·π/2, |x| < 2^30, as the CPU has it for f32: Taylor to r^15 and r^16 (2^-46). */
AMP_DEVICE double near_sine(double x, int quarters) {
    static constexpr double sines[] = {-1.0 / 1307674368000, 1.0 / 6227020800, -1.0 / 39916800, 1.0 / 362880,
                                       -1.0 / 5040,          1.0 / 120,        -1.0 / 6};
    static constexpr double cosines[] = {1.0 / 20922789888000, -1.0 / 87178291200, 1.0 / 479001600, -1.0 / 3628800,
                                         1.0 / 40320,          -1.0 / 720,         1.0 / 24,        -0.5};
    const double n = rint(x * 0.63661977236758134);
    const double r = fma(-n, 6.123233995736766e-17, fma(-n, 1.5707963267948966, x)), z = r * r;
    const int turns = (int)n + quarters;
    const double y = turns & 1 ? fma(polynomial(cosines, z), z, 1.0) : fma(polynomial(sines, z) * z, r, r);
    return turns & 2 ? -y : y;
}

/* ---- Of f64 ------------------------------------------------------------------------------------------------------ */
AMP_DEVICE double sine(double x) {
    return sin(x);
}
AMP_DEVICE double cosine(double x) {
    return cos(x);
}
AMP_DEVICE double tangent(double x) {
    return tan(x);
}

#endif /* AMP_CUDA_ANGLE_H */
