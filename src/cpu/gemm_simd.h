/* The vector side of the GEMM family that needs no intrinsics: packing A and finishing tiles, sixteen lanes at a time
 * in GNU vectors. Each ISA file includes it and so compiles it with its own flags; every operation is written out and
 * contraction is off, so the bits are the same for all.
 *
 * Activations, relative error against exact arithmetic on random inputs: e^x 3 · 2⁻²⁴, tanh 4 · 2⁻²⁴; erfc(z) is
 * t · P(t) · e^(-z²) with t = 1/(1 + 0.45 z) and P a degree-9 Chebyshev fit to 8.1e-9 on 0 ≤ z ≤ 10.1; rounding z²
 * adds z² · 2⁻²⁴. The coefficients were fitted for this file. */
#ifndef AMP_CPU_GEMM_SIMD_H
#define AMP_CPU_GEMM_SIMD_H

#include <string.h>

#include "cpu/gemm_isa.h"
#include "cpu/gemm_scalar.h"

#pragma GCC diagnostic ignored "-Wpsabi" /* vectors are passed between functions of one file only */

typedef float v16f __attribute__((vector_size(64)));
typedef int32_t v16i __attribute__((vector_size(64)));
typedef uint32_t v16u __attribute__((vector_size(64)));
typedef uint16_t v16h __attribute__((vector_size(32)));
typedef float v16f_any __attribute__((vector_size(64), aligned(4), may_alias));
typedef uint16_t v16h_any __attribute__((vector_size(32), aligned(2), may_alias));

#define SIMD_INLINE static inline __attribute__((always_inline))

SIMD_INLINE v16f simd_set(float x) {
    return (v16f){x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x};
}
SIMD_INLINE v16f simd_select(v16i mask, v16f yes, v16f no) {
    return (v16f)((mask & (v16i)yes) | (~mask & (v16i)no));
}

SIMD_INLINE v16u simd_round_bf16(v16f x) { /* the result is in the upper halves; the lower halves are rubbish */
    const v16u u = (v16u)x;
    const v16i nan = (v16i)(u & 0x7fffffffu) > 0x7f800000;
    const v16u even = u + 0x7fffu + (u >> 16 & 1u);
    return ((v16u)nan & (u | 0x400000u)) | (~(v16u)nan & even);
}
SIMD_INLINE v16f simd_load_bf16(const void *p) {
    const v16h h = *(const v16h_any *)p;
    return (v16f)(__builtin_convertvector(h, v16u) << 16);
}
SIMD_INLINE void simd_store_bf16(void *p, v16f x) {
    *(v16h_any *)p = __builtin_convertvector(simd_round_bf16(x) >> 16, v16h);
}

/* ---- activations ---------------------------------------------------------------------------------------------- */

SIMD_INLINE v16f simd_exp(v16f x) {
    /* e^x = 2^n · e^r, |r| ≤ ln2/2. Past the clamps: infinity above, and below a denormal that counts as 0. */
    x = simd_select(x > 89.0f, simd_set(89.0f), x);
    x = simd_select(x < -104.0f, simd_set(-104.0f), x);
    const v16f shifted = x * 1.44269504f + 12582912.0f; /* 1.5 · 2^23: rounds to an integer in the low bits */
    const v16f n = shifted - 12582912.0f;
    const v16f r = (x - n * 0.693145752f) - n * 1.42860677e-6f;
    v16f p = simd_set(0.00139411466f);
    p = p * r + 0.008375156955f;
    p = p * r + 0.04166635244f;
    p = p * r + 0.1666641515f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    /* 2^n in two factors, so that n = 128 and n < -126 do not leave the exponent field. */
    const v16i whole = (v16i)shifted - 0x4b400000, half = whole >> 1;
    return p * (v16f)((half + 127) << 23) * (v16f)((whole - half + 127) << 23);
}

SIMD_INLINE v16f simd_tanh(v16f x) {
    const v16i sign = (v16i)x & (int32_t)0x80000000;
    const v16f a = (v16f)((v16i)x & 0x7fffffff), u = x * x;
    v16f p = simd_set(-0.006045165097f);
    p = p * u + 0.02096132911f;
    p = p * u - 0.05384326318f;
    p = p * u + 0.1333271885f;
    p = p * u - 0.3333332843f;
    const v16f small = x + x * u * p;
    const v16f large = (v16f)((v16i)(1.0f - 2.0f / (simd_exp(a + a) + 1.0f)) | sign);
    return simd_select(a < 0.63f, small, large);
}

SIMD_INLINE v16f simd_erfc_scaled(v16f z) { /* erfc(z), z ≥ 0, without its factor e^(-z²) */
    const v16f t = 1.0f / (1.0f + 0.45f * z);
    v16f p = simd_set(-0.03126567184f);
    p = p * t + 0.1370647503f;
    p = p * t - 0.178440148f;
    p = p * t - 0.01413775799f;
    p = p * t + 0.1015979129f;
    p = p * t + 0.05729324708f;
    p = p * t + 0.1953946944f;
    p = p * t + 0.2243139969f;
    p = p * t + 0.2543133348f;
    p = p * t + 0.2538656335f;
    return p * t;
}

SIMD_INLINE v16f simd_gelu_erf(v16f x) {
    const v16f z = (v16f)((v16i)x & 0x7fffffff) * 0.707106781f;
    const v16f tail = 0.5f * simd_erfc_scaled(z) * simd_exp(-z * z); /* Φ(-|x|) */
    return x * simd_select(x < 0.0f, tail, 1.0f - tail);
}

SIMD_INLINE v16f simd_activation(v16f x, amp_gemm_activation activation) {
    switch (activation) {
    case AMP_GEMM_RELU: return simd_select(x < 0.0f, simd_set(0.0f), x);
    case AMP_GEMM_GELU_ERF: return simd_gelu_erf(x);
    case AMP_GEMM_GELU_TANH: return x / (1.0f + simd_exp(-1.59576912f * (x + 0.044715f * x * x * x)));
    case AMP_GEMM_SILU: return x / (1.0f + simd_exp(-x));
    case AMP_GEMM_TANH: return simd_tanh(x);
    default: return x;
    }
}

/* ---- finishing a tile ----------------------------------------------------------------------------------------- */

SIMD_INLINE v16f simd_load(const void *p, amp_dtype dtype, int64_t i, int64_t stride, int count) {
    if (stride == 1 && count == 16) {
        if (dtype == AMP_F32) return *(const v16f_any *)((const float *)p + i);
        return simd_load_bf16((const uint16_t *)p + i);
    }
    float edge[16] = {0};
    for (int j = 0; j < count; j++) edge[j] = scalar_load(p, dtype, i + j * stride);
    return *(const v16f_any *)edge;
}

SIMD_INLINE void simd_store(void *p, amp_dtype dtype, int64_t i, int count, v16f x) {
    if (dtype == AMP_F32) {
        if (count == 16)
            *(v16f_any *)((float *)p + i) = x;
        else
            memcpy((float *)p + i, &x, (size_t)count * sizeof(float));
    } else if (count == 16) {
        simd_store_bf16((uint16_t *)p + i, x);
    } else {
        uint16_t edge[16];
        simd_store_bf16(edge, x);
        memcpy((uint16_t *)p + i, edge, (size_t)count * sizeof(uint16_t));
    }
}

SIMD_INLINE void simd_finish(const amp_gemm_finish *f, const amp_gemm_place *place, const float *tile) {
    for (int j = 0; j < place->columns; j += 16) {
        const int64_t column = place->column + j;
        const int count = place->columns - j < 16 ? place->columns - j : 16;
        const v16f bias = f->bias ? simd_load(f->bias, f->bias_dtype, column, 1, count) : simd_set(0.0f);
        for (int r = 0; r < place->rows; r++) {
            const int64_t row = place->row + r;
            v16f x = *(const v16f_any *)(tile + r * place->pitch + j) * f->alpha;
            if (f->residual)
                x += f->beta * simd_load(f->residual, f->residual_dtype,
                                         row * f->residual_row_stride + column * f->residual_column_stride,
                                         f->residual_column_stride, count);
            if (f->bias) x += bias;
            simd_store(f->c, f->c_dtype, row * f->c_row_stride + column, count, simd_activation(x, f->activation));
        }
    }
}

/* ---- packing A ------------------------------------------------------------------------------------------------ */

SIMD_INLINE v16u simd_load_a(const void *p, amp_dtype dtype, int64_t i) { /* bf16 in the upper halves */
    if (dtype == AMP_F32) return simd_round_bf16(*(const v16f_any *)((const float *)p + i));
    return (v16u)simd_load_bf16((const uint16_t *)p + i);
}

/* 16 values of A to `dst`, as f32 or as bf16. */
SIMD_INLINE void simd_put_a(void *dst, int64_t i, bool as_f32, v16u x) {
    if (as_f32)
        *(v16f *)((float *)dst + i) = (v16f)(x & 0xffff0000u);
    else
        *(v16h *)((uint16_t *)dst + i) = __builtin_convertvector(x >> 16, v16h);
}

SIMD_INLINE void simd_pack_a_row(const void *src, amp_dtype dtype, int64_t stride, int64_t k0, int count, void *dst,
                                 int64_t at, bool as_f32) {
    if (stride == 1 && count == AMP_GEMM_BLOCK) {
        simd_put_a(dst, at, as_f32, simd_load_a(src, dtype, k0));
        simd_put_a(dst, at + 16, as_f32, simd_load_a(src, dtype, k0 + 16));
        return;
    }
    uint16_t edge[AMP_GEMM_BLOCK] = {0};
    for (int k = 0; k < count; k++) edge[k] = scalar_load_bf16(src, dtype, (k0 + k) * stride);
    simd_put_a(dst, at, as_f32, (v16u)simd_load_bf16(edge));
    simd_put_a(dst, at + 16, as_f32, (v16u)simd_load_bf16(edge + 16));
}

SIMD_INLINE void simd_pack_a(const amp_gemm_pack_a *p, void *dst, bool as_f32) {
    const size_t size = p->dtype == AMP_F32 ? sizeof(float) : sizeof(uint16_t);
    for (int r = 0; r < p->panel_rows; r++) {
        const char *src = (const char *)p->src + (r < p->rows ? r * p->row_stride * (int64_t)size : 0);
        for (int64_t block = p->block; block < p->block + p->blocks; block++) {
            const int64_t k0 = block * AMP_GEMM_BLOCK, left = p->k - k0;
            const int count = r >= p->rows ? 0 : left < AMP_GEMM_BLOCK ? (int)left : AMP_GEMM_BLOCK;
            const int64_t at = (block * p->panel_rows + r) * AMP_GEMM_BLOCK;
            if (p->dtype == AMP_F32)
                simd_pack_a_row(src, AMP_F32, p->column_stride, k0, count, dst, at, as_f32);
            else
                simd_pack_a_row(src, AMP_BF16, p->column_stride, k0, count, dst, at, as_f32);
        }
    }
}

#endif /* AMP_CPU_GEMM_SIMD_H */
