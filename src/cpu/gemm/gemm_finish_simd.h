/* Finishing a tile, C = act(alpha · scale · tile + beta · R + bias), one vector at a time, for all x86 ISAs.
 *
 * All is in f32; the activations are those of activation_body.h, but for GELU into bf16 with AVX-512, whose error is
 * below its rounding. */
#ifndef AMP_CPU_GEMM_FINISH_SIMD_H
#define AMP_CPU_GEMM_FINISH_SIMD_H

#include "cpu/gemm/gemm_simd.h"

#include "cpu/simd/activation_body.h"

#ifdef __AVX512F__ /* where looking up one of 32 numbers is one instruction */
#include "cpu/gemm/normal_tail_table.h"

static __attribute__((noinline)) vf simd_gelu_far(vf x) {
    return v_gelu(x);
}

/* GELU whose result is rounded to bf16: within 2^-11 of it, in two thirds of the time that v_gelu took when it looked up
 * 32 numbers too; it looks up 16 since, and has not been timed beside this again. The negative half of its table
 * reaches further than that of v_gelu, which one vector of ten leaves in a transformer. */
static inline vf simd_gelu_to_bf16(vf x) {
    const vf magic = v_set1(12582912.0f), a = v_abs(x); /* 1.5·2^23: adding it rounds to an integer */
    const vf shifted = v_fma(a, v_set1(4.0f), magic), r = v_fma(shifted - magic, v_set1(-0.25f), a);
    const vi quarter = v_bits(shifted);
    vf tail = v_lookup_32(normal_tail_table + 32 * 4, quarter);
    AMP_UNROLL
    for (int j = 3; j >= 0; j--) tail = v_fma(tail, r, v_lookup_32(normal_tail_table + 32 * j, quarter));
    const vf near = x * v_select(v_lt(x, v_set1(0.0f)), tail, v_set1(1.0f) - tail); /* and NaN */
    const vm is_far = v_lt(v_set1(7.87f), a);
    if (__builtin_expect(!v_any(is_far), 1)) return near;
    return v_select(is_far, simd_gelu_far(x), near);
}
#else
static inline vf simd_gelu_to_bf16(vf x) {
    return v_gelu(x);
}
#endif

SIMD_INLINE simd_f simd_activation(simd_f x, const amp_gemm_activation activation, const float *numbers,
                                   const amp_dtype c_dtype) {
    if (activation == AMP_GEMM_GELU_ERF && c_dtype == AMP_BF16) return (simd_f)simd_gelu_to_bf16((vf)x);
    return (simd_f)v_activated((vf)x, activation, numbers);
}

/* One column of vectors, or of pairs of them. The activation is a constant of each call: the loop is compiled once for
 * each; what it needs is in locals, for stores through C may alias *f as far as the compiler knows. */
SIMD_INLINE void simd_finish_column(const amp_gemm_finish *f, const amp_gemm_place *place, const float *tile, int j,
                                    const int vectors, int count, const amp_gemm_activation activation,
                                    const amp_dtype c_dtype, const bool residual) {
    const int64_t column = place->column + j, row = place->row;
    const int64_t c_stride = f->c_row_stride, r_stride = f->residual_row_stride, r_step = f->residual_column_stride;
    const simd_f beta = simd_set(f->beta);
    const bool has_bias = f->bias != NULL;
    simd_f alpha[2], bias[2], x[2];
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++) {
        const int64_t at = column + v * SIMD_LANES;
        alpha[v] = f->alpha * (f->scale ? simd_load(f->scale, AMP_F32, at, 1, count) : simd_set(1.0f));
        bias[v] = has_bias ? simd_load(f->bias, f->bias_dtype, at, 1, count) : simd_set(0.0f);
    }
    const float numbers[2] = {f->activation_numbers[0], f->activation_numbers[1]};
    const amp_dtype r_dtype = f->residual_dtype;
    const void *r = f->residual;
    void *c = f->c;
    const int rows = place->rows, pitch = place->pitch;
    tile += j;
    for (int i = 0; i < rows; i++, tile += pitch) {
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) {
            const int64_t at = (row + i) * r_stride + (column + v * SIMD_LANES) * r_step;
            x[v] = *(const simd_f_any *)(tile + v * SIMD_LANES) * alpha[v];
            if (residual) x[v] += beta * simd_load(r, r_dtype, at, r_step, count);
            if (has_bias) x[v] += bias[v];
            x[v] = simd_activation(x[v], activation, numbers, c_dtype);
        }
        if (vectors == 2)
            simd_store_pair(c, c_dtype, (row + i) * c_stride + column, x[0], x[1]);
        else
            simd_store(c, c_dtype, (row + i) * c_stride + column, count, x[0]);
    }
}

SIMD_INLINE void simd_finish_as(const amp_gemm_finish *f, const amp_gemm_place *place, const float *tile,
                                const amp_gemm_activation activation, const amp_dtype c_dtype, const bool residual) {
    int j = 0;
    for (; j + 2 * SIMD_LANES <= place->columns; j += 2 * SIMD_LANES)
        simd_finish_column(f, place, tile, j, 2, SIMD_LANES, activation, c_dtype, residual);
    for (; j < place->columns; j += SIMD_LANES) {
        const int left = place->columns - j;
        simd_finish_column(f, place, tile, j, 1, left < SIMD_LANES ? left : SIMD_LANES, activation, c_dtype, residual);
    }
}

/* Where there is little to compute, the kinds of operands are constants too. */
SIMD_INLINE void simd_finish_light(const amp_gemm_finish *f, const amp_gemm_place *place, const float *tile,
                                   const amp_gemm_activation activation) {
    if (f->c_dtype == AMP_F32 && f->residual)
        simd_finish_as(f, place, tile, activation, AMP_F32, true);
    else if (f->c_dtype == AMP_F32)
        simd_finish_as(f, place, tile, activation, AMP_F32, false);
    else if (f->residual)
        simd_finish_as(f, place, tile, activation, AMP_BF16, true);
    else
        simd_finish_as(f, place, tile, activation, AMP_BF16, false);
}

SIMD_INLINE void simd_finish(const amp_gemm_finish *f, const amp_gemm_place *place, const float *tile) {
    switch (f->activation) {
    case AMP_GEMM_NONE: simd_finish_light(f, place, tile, AMP_GEMM_NONE); break;
    case AMP_GEMM_RELU: simd_finish_light(f, place, tile, AMP_GEMM_RELU); break;
    case AMP_GEMM_GELU_ERF: simd_finish_light(f, place, tile, AMP_GEMM_GELU_ERF); break;
#define SIMD_FINISH(activation)                                                                                        \
    case activation: simd_finish_as(f, place, tile, activation, f->c_dtype, f->residual != NULL); break;
        SIMD_FINISH(AMP_GEMM_GELU_TANH)
        SIMD_FINISH(AMP_GEMM_SILU)
        SIMD_FINISH(AMP_GEMM_TANH)
        SIMD_FINISH(AMP_GEMM_SIGMOID)
        SIMD_FINISH(AMP_GEMM_HARDSWISH)
        SIMD_FINISH(AMP_GEMM_LEAKY_RELU)
        SIMD_FINISH(AMP_GEMM_HARDTANH)
#undef SIMD_FINISH
    default: break;
    }
}

#endif /* AMP_CPU_GEMM_FINISH_SIMD_H */
