/* Finishing a tile, C = act(alpha · scale · tile + beta · R + bias), one vector at a time, for all x86 ISAs.
 *
 * All is in f32; the activations are those of activation_body.h. */
#ifndef AMP_CPU_GEMM_FINISH_SIMD_H
#define AMP_CPU_GEMM_FINISH_SIMD_H

#include "cpu/gemm_simd.h"
#ifdef __AVX512F__
#include "cpu/simd_avx512.h"
#else
#include "cpu/simd_avx2.h"
#endif

#include "cpu/activation_body.h"

/* One column of vectors. The activation is a constant of each call: the loop is compiled once for each; what it needs is
 * in locals, for stores through C may alias *f as far as the compiler knows. */
SIMD_INLINE void simd_finish_column(const amp_gemm_finish *f, const amp_gemm_place *place, const float *tile, int j,
                                    int count, const amp_gemm_activation activation, const amp_dtype c_dtype,
                                    const bool residual) {
    const int64_t column = place->column + j, row = place->row;
    const int64_t c_stride = f->c_row_stride, r_stride = f->residual_row_stride, r_step = f->residual_column_stride;
    const simd_f scale = f->scale ? simd_load(f->scale, AMP_F32, column, 1, count) : simd_set(1.0f);
    const simd_f alpha = f->alpha * scale, beta = simd_set(f->beta);
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
        const simd_f y = (simd_f)v_activated((vf)x, activation, numbers);
        simd_store(c, c_dtype, (row + i) * c_stride + column, count, y);
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
