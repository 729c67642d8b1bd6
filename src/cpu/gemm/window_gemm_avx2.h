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

/* The value of row `row` at `offset`, times one vector of B or two: each row is at most two row distances behind row 0
 * or 3. In assembly, all of it together, for gcc makes a pointer of its own for each row, and broadcasts several rows
 * ahead, and has not enough registers for either. */
static inline __attribute__((always_inline)) void direct_row(__m256 *sums, const char *const bases[2],
                                                             int64_t row_bytes, const int row, const int offset,
                                                             const __m256 b[2], const int vectors) {
    const char *base = bases[row / 3];
/* The assembly needs the offset as a constant, which a build without optimisation and clang's front end do not see. */
#if defined(__clang__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__OPTIMIZE__)
    float x;
    memcpy(&x, base + row % 3 * row_bytes + offset, sizeof x);
    for (int v = 0; v < vectors; v++) multiply_add(&sums[v], _mm256_set1_ps(x), b[v]);
#else
    __m256 x;
#define ONE_VECTOR(address)                                                                                            \
    __asm__ volatile("vbroadcastss %c[at]" address ", %[x]\n\t"                                                        \
                     "vfmadd231ps %[b0], %[x], %[s0]"                                                                  \
                     : [x] "=&x"(x), [s0] "+x"(sums[0])                                                                \
                     : [base] "r"(base), [step] "r"(row_bytes), [at] "i"(offset), [b0] "x"(b[0])                       \
                     : "memory")
#define TWO_VECTORS(address)                                                                                           \
    __asm__ volatile("vbroadcastss %c[at]" address ", %[x]\n\t"                                                        \
                     "vfmadd231ps %[b0], %[x], %[s0]\n\t"                                                              \
                     "vfmadd231ps %[b1], %[x], %[s1]"                                                                  \
                     : [x] "=&x"(x), [s0] "+x"(sums[0]), [s1] "+x"(sums[1])                                            \
                     : [base] "r"(base), [step] "r"(row_bytes), [at] "i"(offset), [b0] "x"(b[0]), [b1] "x"(b[1])       \
                     : "memory")
#define ROW(times)                                                                                                     \
    if (row % 3 == 0)                                                                                                  \
        times("(%[base])");                                                                                            \
    else if (row % 3 == 1)                                                                                             \
        times("(%[base],%[step],1)");                                                                                  \
    else                                                                                                               \
        times("(%[base],%[step],2)")
    if (vectors == 1) {
        ROW(ONE_VECTOR);
    } else {
        ROW(TWO_VECTORS);
    }
#undef ROW
#undef TWO_VECTORS
#undef ONE_VECTOR
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
            const __m256 first = load_b(at, false, true),
                         both[2] = {first, vectors > 1 ? load_b(at + 32, false, true) : first};
#pragma GCC unroll 6
            for (int r = 0; r < rows; r++)
                direct_row(&acc[r * vectors + v], bases, row_bytes, r, s * 4, both, vectors > 1 ? 2 : 1);
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

/* Columns of a tile from `column` on; true: they are in C, which is at `plain`, else in `tile`, of that pitch. */
static inline __attribute__((always_inline)) bool direct_strip(const amp_gemm_direct *t, const char *a, int64_t first,
                                                               int column, float *plain, float *tile, int pitch,
                                                               const int rows, const int vectors) {
    __m256 acc[12];
    const int64_t at = first + column;
    const char *const b = t->b + at / AMP_GEMM_BLOCK * t->b_panel_bytes + at % AMP_GEMM_BLOCK * 4;
    direct_sums(t, a, b, acc, rows, vectors);
    const bool to_c = plain && t->columns - column >= vectors * 8, adds = to_c && t->bias;
    float *const to = to_c ? plain + column : tile + column;
    const int64_t stride = to_c ? t->c_row_stride : pitch;
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) {
        const __m256 bias = adds ? (__m256)simd_load(t->bias, t->bias_dtype, at + v * 8, 1, 8) : _mm256_setzero_ps();
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++) {
            const __m256 sum = acc[r * vectors + v];
            _mm256_storeu_ps(to + r * stride + v * 8, adds ? _mm256_add_ps(sum, bias) : sum);
        }
    }
    return to_c;
}

/* Whole pairs of vectors of a tile to C in bf16. Not among the sums, whose registers it would cost. Returns the columns. */
static __attribute__((noinline)) int direct_round(const amp_gemm_direct *t, const float *tile, int64_t first,
                                                  uint16_t *c, int rows) {
    const int64_t stride = t->c_row_stride, pitch = t->panels * AMP_GEMM_BLOCK;
    const int whole = t->columns / 16 * 16;
    for (int column = 0; column < whole; column += 16) {
        const bool adds = t->bias != NULL;
        const simd_f low = adds ? simd_load(t->bias, t->bias_dtype, first + column, 1, 8) : simd_set(0.0f);
        const simd_f high = adds ? simd_load(t->bias, t->bias_dtype, first + column + 8, 1, 8) : simd_set(0.0f);
        for (int r = 0; r < rows; r++) {
            const float *from = tile + r * pitch + column;
            const simd_f a = *(const simd_f *)from, b = *(const simd_f *)(from + 8);
            simd_store_pair(c, AMP_BF16, r * stride + column, adds ? a + low : a, adds ? b + high : b);
        }
    }
    return whole;
}

/* One tile, at `c` in the result. `first`: its first column, of those that `t` speaks of. */
static inline __attribute__((always_inline)) void direct_tile(const amp_gemm_direct *t, const char *a, int64_t first,
                                                              char *c, const int rows, const int vectors) {
    _Alignas(64) float tile[6 * 2 * AMP_GEMM_BLOCK];
    const int pitch = t->panels * AMP_GEMM_BLOCK;
    float *const plain = !t->epilogue && t->c_dtype == AMP_F32 ? (float *)(void *)c : NULL;
    int stored = 0;
    for (int column = 0; column < t->columns; column += vectors * 8) {
        bool to_c = false;
        if (vectors == 2 && t->columns - column <= 8)
            to_c = direct_strip(t, a, first, column, plain, tile, pitch, rows, 1);
        else
            to_c = direct_strip(t, a, first, column, plain, tile, pitch, rows, vectors);
        if (to_c) stored = t->columns - column < vectors * 8 ? t->columns : column + vectors * 8;
    }
    if (!plain && !t->epilogue) stored = direct_round(t, tile, first, (uint16_t *)(void *)c, rows);
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
