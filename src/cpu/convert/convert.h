/* Conversion of contiguous arrays between 16-bit floats and f32. */
#ifndef AMP_CPU_CONVERT_H
#define AMP_CPU_CONVERT_H

#include <stdint.h>

/* dst[i] = (type)src[i], i < n, to nearest even; NaN keeps its sign and the upper bits of its payload, and becomes
 * quiet; subnormals are rounded, not flushed. The arrays do not overlap, and need no alignment. */
typedef void amp_convert_function(void *dst, const void *src, int64_t n);

/* Types for arrays that may begin anywhere, as tensors within a mapped file do. */
typedef float amp_f32_unaligned __attribute__((aligned(1), may_alias));
typedef uint16_t amp_u16_unaligned __attribute__((aligned(1), may_alias));

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

/* Quiet NaN also where nothing is rounded: every instruction set then gives the same bits, whichever unit converts. */
static inline float amp_f32_from_bf16(uint16_t value) {
    const uint32_t quiet = (value & 0x7fff) > 0x7f80 ? 0x400000 : 0;
    return amp_f32_bits((uint32_t)value << 16 | quiet);
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

/* An f32 that rounds to any narrower type as `value` itself would: to odd, that is towards zero with the last bit set
 * where anything was lost (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008). */
static inline float amp_f32_odd_from_f64(double value) {
    const float nearest = (float)value;
    if (nearest == value || value != value) return nearest;
    const uint32_t bits = amp_bits_f32(nearest), above = __builtin_fabs((double)nearest) > __builtin_fabs(value);
    return amp_f32_bits((bits - above) | 1);
}

static inline float amp_f32_odd_from_i64(int64_t value) {
    const uint64_t magnitude = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    if (magnitude < 1u << 24) return (float)value;
    const int shift = 40 - __builtin_clzll(magnitude);
    const uint64_t lost = magnitude & ((UINT64_C(1) << shift) - 1);
    const float rounded = (float)(magnitude >> shift | (lost != 0)) * (float)(UINT64_C(1) << shift);
    return value < 0 ? -rounded : rounded;
}

#endif /* AMP_CPU_CONVERT_H */
