/* Tiles of the AVX2 kernel of f32 that read A where it lies, rows any distance apart. Only for files that are compiled
 * for AVX2.
 *
 * Formula:     c = rne(a_k · b_k + c) by FMA, from zero, in ascending k; then c + bias.
 * Accumulator: f32, in registers throughout: up to 6 rows × 2 vectors, or 3 × 4.
 * ISA:         AVX2, FMA. */
#ifndef AMP_CPU_GEMM_DIRECT_AVX2_H
#define AMP_CPU_GEMM_DIRECT_AVX2_H

#include <immintrin.h>
#include <string.h>

#include "cpu/gemm/gemm_fma_avx2.h"

/* The value of row `row` at `offset` in every lane: each row is at most two row distances behind row 0 or 3. In
 * assembly, for gcc makes a pointer of its own for each row, and has not enough registers for them. */
static inline __attribute__((always_inline)) __m256 direct_broadcast(const char *const bases[2], int64_t row_bytes,
                                                                     const int row, const int offset) {
    const char *base = bases[row / 3];
/* The assembly needs the offset as a constant, which a build without optimisation and clang's front end do not see. */
#if defined(__clang__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__OPTIMIZE__)
    float x;
    memcpy(&x, base + row % 3 * row_bytes + offset, sizeof x);
    return _mm256_set1_ps(x);
#else
    __m256 x;
    if (row % 3 == 0)
        __asm__("vbroadcastss %c2(%1), %0" : "=x"(x) : "r"(base), "i"(offset) : "memory");
    else if (row % 3 == 1)
        __asm__("vbroadcastss %c2(%1,%3,1), %0" : "=x"(x) : "r"(base), "i"(offset), "r"(row_bytes) : "memory");
    else
        __asm__("vbroadcastss %c2(%1,%3,2), %0" : "=x"(x) : "r"(base), "i"(offset), "r"(row_bytes) : "memory");
    return x;
#endif
}

static inline __attribute__((always_inline)) void direct_steps(__m256 acc[12], const char *const bases[2],
                                                               int64_t row_bytes, const char *b, const int count,
                                                               const int rows, const int vectors) {
#pragma GCC unroll 4
    for (int s = 0; s < count; s++) {
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v += 2) {
            const char *const at = b + s * 128 + v * 32;
            const __m256 b0 = load_b(at, false, true), b1 = vectors > 1 ? load_b(at + 32, false, true) : b0;
#pragma GCC unroll 6
            for (int r = 0; r < rows; r++) {
                const __m256 x = direct_broadcast(bases, row_bytes, r, s * 4);
                multiply_add(&acc[r * vectors + v], x, b0);
                if (vectors > 1) multiply_add(&acc[r * vectors + v + 1], x, b1);
            }
        }
    }
}

/* The sums of `vectors` of 8 columns, whose first value in B is at `b`. */
static inline __attribute__((always_inline)) void direct_sums(const amp_gemm_direct *t, const char *a, const char *b,
                                                              __m256 acc[12], const int rows, const int vectors) {
    const int64_t row_bytes = t->row_bytes;
#pragma GCC unroll 12
    for (int i = 0; i < rows * vectors; i++) acc[i] = _mm256_setzero_ps();
    for (int64_t i = 0; i < t->run_count; i++) {
        const char *bases[2], *of_run = b + t->runs[i].b;
        int64_t left = t->steps;
        bases[0] = a + t->runs[i].a;
        bases[1] = bases[0] + 3 * row_bytes;
        for (; left >= 4; left -= 4, of_run += 512) {
            direct_steps(acc, bases, row_bytes, of_run, 4, rows, vectors);
            bases[0] += 16;
            bases[1] += 16;
        }
#pragma GCC unroll 1
        for (; left > 0; left--, of_run += 128) {
            direct_steps(acc, bases, row_bytes, of_run, 1, rows, vectors);
            bases[0] += 4;
            bases[1] += 4;
        }
    }
}

/* To C, from the registers. */
static inline __attribute__((always_inline)) void direct_store(const amp_gemm_direct *t, const __m256 acc[12],
                                                               int64_t first, char *c, const int rows,
                                                               const int vectors, const amp_dtype dtype) {
    simd_f bias[4];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++)
        bias[v] = t->bias ? simd_load(t->bias, t->bias_dtype, first + v * 8, 1, 8) : simd_set(0.0f);
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++) {
        simd_f sums[4];
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            const simd_f sum = (simd_f)acc[r * vectors + v];
            sums[v] = t->bias ? sum + bias[v] : sum;
        }
#pragma GCC unroll 2
        for (int v = 0; v + 1 < vectors; v += 2)
            simd_store_pair(c, dtype, r * t->c_row_stride + v * 8, sums[v], sums[v + 1]);
        if (vectors == 1) simd_store(c, dtype, r * t->c_row_stride, 8, sums[0]);
    }
}

/* Columns of a tile from `column` on; true: they are in C, which is at `c`, else in `tile`, of that pitch. */
static inline __attribute__((always_inline)) bool direct_strip(const amp_gemm_direct *t, const char *a, int64_t first,
                                                               int column, char *c, float *tile, int pitch,
                                                               const int rows, const int vectors) {
    __m256 acc[12];
    const int64_t at = first + column;
    const char *const b = t->b + at / AMP_GEMM_BLOCK * t->b_panel_bytes + at % AMP_GEMM_BLOCK * 4;
    direct_sums(t, a, b, acc, rows, vectors);
    if (!t->epilogue && t->columns - column >= vectors * 8) {
        if (t->c_dtype == AMP_F32)
            direct_store(t, acc, at, c + column * 4, rows, vectors, AMP_F32);
        else
            direct_store(t, acc, at, c + column * 2, rows, vectors, AMP_BF16);
        return true;
    }
#pragma GCC unroll 12
    for (int i = 0; i < rows * vectors; i++)
        _mm256_storeu_ps(tile + column + i / vectors * pitch + i % vectors * 8, acc[i]);
    return false;
}

/* One tile, at `c` in the result. `first`: its first column, of those that `t` speaks of. */
static inline __attribute__((always_inline)) void direct_tile(const amp_gemm_direct *t, const char *a, int64_t first,
                                                              char *c, const int rows, const int vectors) {
    _Alignas(64) float tile[6 * 2 * AMP_GEMM_BLOCK];
    const int pitch = t->panels * AMP_GEMM_BLOCK;
    int stored = 0;
    for (int column = 0; column < t->columns; column += vectors * 8) {
        bool to_c = false;
        if (vectors == 2 && t->columns - column <= 8)
            to_c = direct_strip(t, a, first, column, c, tile, pitch, rows, 1);
        else
            to_c = direct_strip(t, a, first, column, c, tile, pitch, rows, vectors);
        if (to_c) stored = t->columns - column < vectors * 8 ? t->columns : column + vectors * 8;
    }
    if (stored >= t->columns) return;
    const int64_t size = t->c_dtype == AMP_F32 ? 4 : 2;
    const amp_gemm_finish finish = amp_gemm_direct_finish(t, first + stored, c + stored * size);
    const amp_gemm_place place = {.rows = rows, .columns = t->columns - stored, .pitch = pitch};
    amp_gemm_finish_avx2(&finish, &place, tile + stored);
}

static inline __attribute__((always_inline)) void direct_of(const amp_gemm_direct *t, const int rows,
                                                            const int vectors) {
    const int64_t size = t->c_dtype == AMP_F32 ? 4 : 2, wide = t->panels * AMP_GEMM_BLOCK;
    for (int64_t i = 0; i < t->repeat; i++) {
        const char *const a = t->a + i * rows * t->row_bytes;
        char *const c = (char *)t->c + i * rows * t->c_row_stride * size;
        for (int64_t g = 0; g < t->groups; g++) direct_tile(t, a, g * wide, c + g * wide * size, rows, vectors);
    }
}

static inline __attribute__((always_inline)) void direct_any(const amp_gemm_direct *t) {
    switch (t->rows) {
    case 1: direct_of(t, 1, 4); break;
    case 2: direct_of(t, 2, 4); break;
    case 3: direct_of(t, 3, 4); break;
    case 4: direct_of(t, 4, 2); break;
    case 5: direct_of(t, 5, 2); break;
    case 6: direct_of(t, 6, 2); break;
    default: __builtin_unreachable();
    }
}

#endif /* AMP_CPU_GEMM_DIRECT_AVX2_H */
