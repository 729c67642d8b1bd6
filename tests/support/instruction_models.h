/* The arithmetic of single hardware instructions, in scalar C++: the oracle against which each ISA kernel is compared
 * bit by bit. Nothing here uses the instruction that it models. */
#ifndef AMP_TESTS_INSTRUCTION_MODELS_H
#define AMP_TESTS_INSTRUCTION_MODELS_H

#include <cmath>
#include <cstdint>
#include <cstring>

namespace instruction_models {

inline float from_bits(uint32_t bits) {
    float x;
    std::memcpy(&x, &bits, sizeof x);
    return x;
}
inline uint32_t to_bits(float x) {
    uint32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    return bits;
}
inline float from_bf16(uint16_t h) {
    return from_bits(static_cast<uint32_t>(h) << 16);
}

/* Denormals become zero of the same sign. */
inline float flush(float x) {
    return (to_bits(x) & 0x7f800000u) ? x : from_bits(to_bits(x) & 0x80000000u);
}

/* One fused multiply-add under DAZ and FTZ, to nearest even. x86 flushes a result that is tiny after rounding with
 * unbounded exponent: one that rounds up to 2^-126 is kept. fma() in f64 of two bf16 factors is a sum of an exact
 * product, so the f64 sum is within half an f64 ulp, and only a result beside 2^-126 could be judged wrongly. */
inline float fma_flushed(float a, float b, float c) {
    return flush(std::fmaf(flush(a), flush(b), flush(c)));
}

/* VDPBF16PS, one lane (Intel SDM volume 2): the odd product is added first, then the even one, each fused and rounded,
 * denormals flushed on the way in and out, whatever MXCSR says. */
inline float vdpbf16ps(float c, uint16_t a_even, uint16_t a_odd, uint16_t b_even, uint16_t b_odd) {
    const float odd = fma_flushed(from_bf16(a_odd), from_bf16(b_odd), c);
    return fma_flushed(from_bf16(a_even), from_bf16(b_even), odd);
}

/* TDPBF16PS, one element of C (Intel SDM volume 2): the even and the odd products of a tile row are summed apart,
 * from zero, fused, in ascending order; then their sum is added to C. DAZ, FTZ, to nearest even throughout. `pairs` is
 * up to 16; b_stride is the distance, in values, from one pair of B to the next. */
inline float tdpbf16ps(float c, const uint16_t *a, const uint16_t *b, int b_stride, int pairs) {
    float even = 0.0f, odd = 0.0f;
    for (int i = 0; i < pairs; i++) {
        even = fma_flushed(from_bf16(a[2 * i]), from_bf16(b[i * b_stride]), even);
        odd = fma_flushed(from_bf16(a[2 * i + 1]), from_bf16(b[i * b_stride + 1]), odd);
    }
    return flush(flush(c) + flush(even + odd));
}

/* VFMADD231PS, one lane, under the default MXCSR: fused, denormals kept. */
inline float vfmadd(float c, float a, float b) {
    return std::fmaf(a, b, c);
}

} // namespace instruction_models

#endif /* AMP_TESTS_INSTRUCTION_MODELS_H */
