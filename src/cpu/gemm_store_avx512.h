/* Tiles of the AVX-512 kernels that go from the registers of their sums to C = sum + bias. Only for files that are compiled for
 * AVX-512. */
#ifndef AMP_CPU_GEMM_STORE_AVX512_H
#define AMP_CPU_GEMM_STORE_AVX512_H

#include <immintrin.h>

#include "cpu/gemm_isa.h"
#include "cpu/gemm_simd.h"

/* The first `lanes` of 16 · vectors columns of a row. Where the machine has vcvtne2ps2bf16, that rounds to bf16, and flushes
 * denormals. */
static inline __attribute__((always_inline)) void store_row(char *c, __m512 low, __m512 high, const int vectors,
                                                            const bool whole, uint32_t mask, const bool bf16) {
    if (!bf16) {
        _mm512_mask_storeu_ps(c, whole ? 0xffff : (__mmask16)mask, low);
        if (vectors == 2) _mm512_mask_storeu_ps(c + 64, whole ? 0xffff : (__mmask16)(mask >> 16), high);
        return;
    }
#ifdef __AVX512BF16__
    const __m512i halves = (__m512i)_mm512_cvtne2ps_pbh(high, low);
    if (!whole)
        _mm512_mask_storeu_epi16(c, mask, halves);
    else if (vectors == 2)
        _mm512_storeu_si512(c, halves);
    else
        _mm256_storeu_si256((__m256i *)c, _mm512_castsi512_si256(halves));
#else
    _mm256_mask_storeu_epi16(c, whole ? 0xffff : (__mmask16)mask,
                             (__m256i)simd_upper_halves(simd_round_bf16((simd_f)low)));
    if (vectors == 2)
        _mm256_mask_storeu_epi16(c + 32, whole ? 0xffff : (__mmask16)(mask >> 16),
                                 (__m256i)simd_upper_halves(simd_round_bf16((simd_f)high)));
#endif
}

static inline __attribute__((always_inline)) void store_tile(const amp_gemm_tile *t, int64_t row, const __m512 acc[28],
                                                             const int rows, const int panels, const int vectors,
                                                             const bool whole, const bool bf16) {
    const amp_gemm_finish *const f = t->finish;
    const int64_t size = bf16 ? 2 : 4, stride = f->c_row_stride * size;
#pragma GCC unroll 8
    for (int p = 0; p < panels; p++) {
        const int64_t column = t->column + p * AMP_GEMM_BLOCK;
        const int left = t->columns - p * AMP_GEMM_BLOCK, lanes = whole || left > 32 ? 32 : left;
        const uint32_t mask = (uint32_t)((UINT64_C(1) << lanes) - 1);
        char *c = (char *)f->c + row * stride + column * size;
        __m512 bias[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) {
            const int count = lanes - v * 16;
            if (f->bias && count > 0)
                bias[v] =
                    (__m512)simd_load(f->bias, f->bias_dtype, column + v * 16, 1, whole || count > 16 ? 16 : count);
        }
#pragma GCC unroll 14
        for (int r = 0; r < rows; r++, c += stride) {
            const __m512 *const sums = &acc[(r * panels + p) * vectors];
            const __m512 low = _mm512_add_ps(sums[0], bias[0]);
            store_row(c, low, vectors == 2 ? _mm512_add_ps(sums[1], bias[1]) : low, vectors, whole, mask, bf16);
        }
    }
}

/* `row`: of C, the tile's first. */
static inline __attribute__((always_inline)) void store_any(const amp_gemm_tile *t, int64_t row, const __m512 acc[28],
                                                            const int rows, const int panels, const int vectors,
                                                            const bool b_f32) {
    const bool whole = t->columns == panels * 16 * vectors;
    if (b_f32 || t->finish->c_dtype == AMP_F32) {
        if (whole)
            store_tile(t, row, acc, rows, panels, vectors, true, false);
        else
            store_tile(t, row, acc, rows, panels, vectors, false, false);
    } else if (whole) {
        store_tile(t, row, acc, rows, panels, vectors, true, true);
    } else {
        store_tile(t, row, acc, rows, panels, vectors, false, true);
    }
}

#endif /* AMP_CPU_GEMM_STORE_AVX512_H */
