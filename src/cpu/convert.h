/* Conversion of contiguous arrays between 16-bit floats and f32. */
#ifndef AMP_CPU_CONVERT_H
#define AMP_CPU_CONVERT_H

#include <stdint.h>

/* dst[i] = (type)src[i], i < n, to nearest even; NaN keeps its sign and the upper bits of its payload, and becomes
 * quiet; subnormals are rounded, not flushed. The arrays do not overlap, and need no alignment beyond their type's. */
typedef void amp_convert_function(void *dst, const void *src, int64_t n);

/* The arithmetic of one element, inline, in plain C: what the reference is made of, and what strided copies use. */
static inline uint32_t amp_bits_f32(float value) {
    uint32_t bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float amp_f32_bits(uint32_t bits) {
    float value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

static inline float amp_f32_from_bf16(uint16_t value) {
    return amp_f32_bits((uint32_t)value << 16);
}

static inline uint16_t amp_bf16_from_f32(float value) {
    const uint32_t u = amp_bits_f32(value);
    if ((u & 0x7fffffff) > 0x7f800000) return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

/* Half precision: 1 sign, 5 exponent (bias 15), 10 fraction bits. Subnormals are multiples of 2^-24. */
static inline float amp_f32_from_f16(uint16_t value) {
    const uint32_t sign = (uint32_t)(value & 0x8000) << 16, rest = value & 0x7fff;
    if (rest > 0x7c00) return amp_f32_bits(sign | 0x7fc00000 | rest << 13);
    if (rest == 0x7c00) return amp_f32_bits(sign | 0x7f800000);
    if (rest >= 0x0400) return amp_f32_bits(sign | ((rest << 13) + ((127 - 15) << 23)));
    return amp_f32_bits(sign | amp_bits_f32((float)(int)rest * 0x1p-24f));
}

static inline uint16_t amp_f16_from_f32(float value) {
    const uint32_t u = amp_bits_f32(value), sign = u >> 16 & 0x8000, a = u & 0x7fffffff;
    if (a > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (a >> 13 & 0x3ff));
    if (a >= 0x47800000) return (uint16_t)(sign | 0x7c00); /* 65536 and above */
    if (a >= 0x38800000) { /* 2^-14: normal; rounding may carry into the exponent, up to infinity */
        return (uint16_t)(sign | ((a - ((127 - 15) << 23) + 0xfff + (a >> 13 & 1)) >> 13));
    }
    if (a <= 0x33000000) return (uint16_t)sign; /* 2^-25, half of the smallest subnormal, is a tie to zero */
    const uint32_t shift = 126 - (a >> 23), fraction = (a & 0x7fffff) | 0x800000;
    const uint32_t half = 1u << (shift - 1), odd = fraction >> shift & 1;
    return (uint16_t)(sign | (fraction + half - 1 + odd) >> shift);
}

#endif /* AMP_CPU_CONVERT_H */
