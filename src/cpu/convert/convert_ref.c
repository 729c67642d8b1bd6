/* Conversions between f32, bf16 and f16, the reference: one element at a time.
 *
 * Formula:     dst = src where that is exact (to f32), else rounded to nearest even, by integers (core/dtype's
 *              functions).
 * Accumulator: none.
 * Error bound: half an ulp of the result. NaN stays NaN, made quiet; its upper bits are kept.
 * Denormals:   kept on both sides, whatever MXCSR says.
 * ISA:         none.
 * Source:      IEEE 754-2019, section 4.3.1; bf16 is the upper half of an f32. */
#include "cpu/registry/kernels.h"

void amp_convert_f32_bf16_ref(void *dst, const void *src, int64_t n) {
    const amp_f32_unaligned *x = src;
    amp_u16_unaligned *y = dst;
    for (int64_t i = 0; i < n; i++) y[i] = amp_bf16_from_f32(x[i]);
}

void amp_convert_bf16_f32_ref(void *dst, const void *src, int64_t n) {
    const amp_u16_unaligned *x = src;
    amp_f32_unaligned *y = dst;
    for (int64_t i = 0; i < n; i++) y[i] = amp_f32_from_bf16(x[i]);
}

void amp_convert_f32_f16_ref(void *dst, const void *src, int64_t n) {
    const amp_f32_unaligned *x = src;
    amp_u16_unaligned *y = dst;
    for (int64_t i = 0; i < n; i++) y[i] = amp_f16_from_f32(x[i]);
}

void amp_convert_f16_f32_ref(void *dst, const void *src, int64_t n) {
    const amp_u16_unaligned *x = src;
    amp_f32_unaligned *y = dst;
    for (int64_t i = 0; i < n; i++) y[i] = amp_f32_from_f16(x[i]);
}

/* Through f32, which holds both exactly: the result is rounded once. */
void amp_convert_bf16_f16_ref(void *dst, const void *src, int64_t n) {
    const amp_u16_unaligned *x = src;
    amp_u16_unaligned *y = dst;
    for (int64_t i = 0; i < n; i++) y[i] = amp_f16_from_f32(amp_f32_from_bf16(x[i]));
}

void amp_convert_f16_bf16_ref(void *dst, const void *src, int64_t n) {
    const amp_u16_unaligned *x = src;
    amp_u16_unaligned *y = dst;
    for (int64_t i = 0; i < n; i++) y[i] = amp_bf16_from_f32(amp_f32_from_f16(x[i]));
}
