/* Tiles of the AVX-512 kernels that go from the registers of their sums to C = sum + bias. Only for files that are
 * compiled for AVX-512. */
#ifndef AMP_CPU_GEMM_STORE_AVX512_H
#define AMP_CPU_GEMM_STORE_AVX512_H

#include <immintrin.h>

#include "cpu/gemm/gemm_isa.h"
#include "cpu/gemm/gemm_simd.h"

/* The first `lanes` of 16 · vectors columns of a row. Where the machine has vcvtne2ps2bf16, that rounds to bf16, and
 * flushes denormals. */
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

/* A whole tile in the product's own type: from the registers. */
static inline __attribute__((always_inline)) void store_whole(const amp_gemm_tile *t, int64_t row, const __m512 acc[28],
                                                              const int rows, const int panels, const int vectors,
                                                              const bool bf16) {
    const amp_gemm_finish *const f = t->finish;
    const int64_t size = bf16 ? 2 : 4, stride = f->c_row_stride * size;
#pragma GCC unroll 8
    for (int p = 0; p < panels; p++) {
        const int64_t column = t->column + p * AMP_GEMM_BLOCK;
        char *c = (char *)f->c + row * stride + column * size;
        __m512 bias[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++)
            if (f->bias) bias[v] = (__m512)simd_load(f->bias, f->bias_dtype, column + v * 16, 1, 16);
#pragma GCC unroll 14
        for (int r = 0; r < rows; r++, c += stride) {
            const __m512 *const sums = &acc[(r * panels + p) * vectors];
            const __m512 low = _mm512_add_ps(sums[0], bias[0]);
            store_row(c, low, vectors == 2 ? _mm512_add_ps(sums[1], bias[1]) : low, vectors, true, 0, bf16);
        }
    }
}

/* Whole lines of C, past the caches. */
static void stream_rows(const amp_gemm_tile *t, const float *from, float *c, const __m512 bias[2]) {
    const int64_t pitch = t->panels * AMP_GEMM_BLOCK, stride = t->finish->c_row_stride;
    for (int r = 0; r < t->rows; r++, from += pitch, c += stride) {
        _mm512_stream_ps(c, _mm512_add_ps(_mm512_load_ps(from), bias[0]));
        _mm512_stream_ps(c + 16, _mm512_add_ps(_mm512_load_ps(from + 16), bias[1]));
    }
}

/* Any other from `c`, of one function: unrolled for each shape of a tile, this would be most of the kernel's code. */
static __attribute__((noinline)) void store_part(const amp_gemm_tile *t, int64_t row) {
    const amp_gemm_finish *const f = t->finish;
    const bool bf16 = f->c_dtype == AMP_BF16;
    const int64_t size = bf16 ? 2 : 4, stride = f->c_row_stride * size, pitch = t->panels * AMP_GEMM_BLOCK;
    for (int j = 0; j < t->columns; j += 32) {
        const int lanes = t->columns - j < 32 ? t->columns - j : 32, high = lanes > 16 ? lanes - 16 : 0;
        const uint32_t mask = (uint32_t)((UINT64_C(1) << lanes) - 1);
        const int64_t column = t->column + j;
        __m512 bias[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
        if (f->bias) bias[0] = (__m512)simd_load(f->bias, f->bias_dtype, column, 1, lanes < 16 ? lanes : 16);
        if (f->bias && high) bias[1] = (__m512)simd_load(f->bias, f->bias_dtype, column + 16, 1, high);
        const float *from = t->c + j;
        char *c = (char *)f->c + row * stride + column * size;
        if (f->streams && lanes == 32) {
            stream_rows(t, from, (float *)(void *)c, bias);
            continue;
        }
        for (int r = 0; r < t->rows; r++, from += pitch, c += stride) {
            const __m512 low = _mm512_add_ps(_mm512_load_ps(from), bias[0]);
            if (high)
                store_row(c, low, _mm512_add_ps(_mm512_load_ps(from + 16), bias[1]), 2, false, mask, bf16);
            else
                store_row(c, low, low, 1, false, mask, bf16);
        }
    }
}

/* The sanitizers would take an hour for what is unrolled. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__OPTIMIZE__)
enum { AMP_GEMM_STORES_WHOLE = false };
#else
enum { AMP_GEMM_STORES_WHOLE = true };
#endif

/* Whether this tile goes from the registers to C; else it goes to its `c` first. */
static inline __attribute__((always_inline)) bool stores_whole(const amp_gemm_tile *t, const int panels,
                                                               const int vectors, const bool bf16) {
    return AMP_GEMM_STORES_WHOLE && t->finish && t->columns == panels * 16 * vectors &&
           t->finish->c_dtype == (bf16 ? AMP_BF16 : AMP_F32);
}

#endif /* AMP_CPU_GEMM_STORE_AVX512_H */
