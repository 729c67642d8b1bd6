/* Finishing a tile, C = act(alpha · tile + beta · R + bias), one vector at a time, for all x86 ISAs.
 *
 * The activations are those of the elementwise ops (vmath_body.h, where their errors stand), always in f32: a fused one
 * gives the bits that the op would give of the product in f32. */
#ifndef AMP_CPU_GEMM_FINISH_SIMD_H
#define AMP_CPU_GEMM_FINISH_SIMD_H

#include <math.h>

#include "cpu/gemm_simd.h"
#ifdef __AVX512F__
#include "cpu/simd_avx512.h"
#else
#include "cpu/simd_avx2.h"
#endif
#include "cpu/vmath_more_body.h"

SIMD_INLINE simd_f simd_activation(simd_f of, const amp_gemm_activation activation, const float *numbers) {
    const vf x = (vf)of;
    switch (activation) {
    case AMP_GEMM_RELU: return (simd_f)v_relu(x);
    case AMP_GEMM_GELU_ERF: return (simd_f)v_gelu(x);
    case AMP_GEMM_GELU_TANH: return (simd_f)v_gelu_tanh(x);
    case AMP_GEMM_SILU: return (simd_f)v_silu(x);
    case AMP_GEMM_TANH: return (simd_f)v_tanh(x);
    case AMP_GEMM_SIGMOID: return (simd_f)v_sigmoid(x);
    case AMP_GEMM_HARDSWISH: return (simd_f)v_hardswish(x);
    case AMP_GEMM_LEAKY_RELU: return (simd_f)v_with_leaky_relu(x, v_set1(numbers[0]), x);
    case AMP_GEMM_HARDTANH: return (simd_f)v_with_hardtanh(x, v_set1(numbers[0]), v_set1(numbers[1]));
    default: return of;
    }
}

/* One column of vectors. The activation is a constant of each call: the loop is compiled once for each; what it needs is
 * in locals, for stores through C may alias *f as far as the compiler knows. */
SIMD_INLINE void simd_finish_column(const amp_gemm_finish *f, const amp_gemm_place *place, const float *tile, int j,
                                    int count, const amp_gemm_activation activation, const amp_dtype c_dtype,
                                    const bool residual) {
    const int64_t column = place->column + j, row = place->row;
    const int64_t c_stride = f->c_row_stride, r_stride = f->residual_row_stride, r_step = f->residual_column_stride;
    const simd_f alpha = simd_set(f->alpha), beta = simd_set(f->beta);
    const bool has_bias = f->bias != NULL;
    const simd_f bias = has_bias ? simd_load(f->bias, f->bias_dtype, column, 1, count) : simd_set(0.0f);
    const float numbers[2] = {f->activation_numbers[0], f->activation_numbers[1]};
    const amp_dtype r_dtype = f->residual_dtype;
    const void *r = f->residual;
    void *c = f->c;
    const int rows = place->rows, pitch = place->pitch;
    tile += j;
    for (int i = 0; i < rows; i++, tile += pitch) {
        simd_f x = *(const simd_f_any *)tile * alpha;
        if (residual) x += beta * simd_load(r, r_dtype, (row + i) * r_stride + column * r_step, r_step, count);
        if (has_bias) x += bias;
        simd_store(c, c_dtype, (row + i) * c_stride + column, count, simd_activation(x, activation, numbers));
    }
}

SIMD_INLINE void simd_finish_as(const amp_gemm_finish *f, const amp_gemm_place *place, const float *tile,
                                const amp_gemm_activation activation, const amp_dtype c_dtype, const bool residual) {
    int j = 0;
    for (; j + SIMD_LANES <= place->columns; j += SIMD_LANES)
        simd_finish_column(f, place, tile, j, SIMD_LANES, activation, c_dtype, residual);
    if (j < place->columns) simd_finish_column(f, place, tile, j, place->columns - j, activation, c_dtype, residual);
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
#define SIMD_FINISH(activation)                                                                                        \
    case activation: simd_finish_as(f, place, tile, activation, f->c_dtype, f->residual != NULL); break;
        SIMD_FINISH(AMP_GEMM_GELU_ERF)
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
