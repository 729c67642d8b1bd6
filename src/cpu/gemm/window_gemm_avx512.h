/* Tiles of the AVX-512 kernels that read A where it lies, rows any distance apart. Only for files that are compiled
 * for AVX-512; `bf16` needs AVX512_BF16.
 *
 * Formula:     c = rne(a_k · b_k + c) by FMA (f32), or pairs of k by vdpbf16ps (bf16), from zero; then c + bias.
 *              gemm_f32_avx512.c and gemm_avx512bf16.c have the bound and the source of each.
 * Accumulator: f32, in registers throughout: up to 14 rows × 2 vectors.
 * ISA:         AVX512F, AVX512BW; bf16: AVX512_BF16. */
#ifndef AMP_CPU_GEMM_DIRECT_AVX512_H
#define AMP_CPU_GEMM_DIRECT_AVX512_H

#include <immintrin.h>
#include <string.h>

#include "cpu/gemm/gemm_isa.h"
#include "cpu/gemm/gemm_simd.h"

enum {
    DIRECT_AHEAD = 2048 /* bytes of a panel of B */,
    DIRECT_BASES = 5
}; /* rows 0, 3, 6, 9, 12: each row is at most two row distances behind one of them */

/* The four bytes of row `row` at `offset`, in every lane. In assembly, for gcc makes a pointer of its own for each row,
 * and has not enough registers for them. */
static inline __attribute__((always_inline)) __m512 direct_broadcast(const char *const *bases, int64_t row_bytes,
                                                                     const int row, const int offset) {
    const char *base = bases[row / 3];
/* The assembly needs the offset as a constant, which a build without optimisation and clang's front end do not see. */
#if defined(__clang__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__OPTIMIZE__)
    float x; /* a pair of bf16 lies at any even address */
    memcpy(&x, base + row % 3 * row_bytes + offset, sizeof x);
    return _mm512_set1_ps(x);
#else
    __m512 x;
    if (row % 3 == 0)
        __asm__("vbroadcastss %c2(%1), %0" : "=v"(x) : "r"(base), "i"(offset) : "memory");
    else if (row % 3 == 1)
        __asm__("vbroadcastss %c2(%1,%3,1), %0" : "=v"(x) : "r"(base), "i"(offset), "r"(row_bytes) : "memory");
    else
        __asm__("vbroadcastss %c2(%1,%3,2), %0" : "=v"(x) : "r"(base), "i"(offset), "r"(row_bytes) : "memory");
    return x;
#endif
}

/* Narrow: in the lower eight lanes only, which takes half the time where 512 bits are two passes, as on Zen 4. The
 * others become zero. */
static inline __attribute__((always_inline)) void direct_multiply(__m512 *sum, __m512 a, __m512 b, const bool narrow,
                                                                  const bool bf16) {
#ifdef __AVX512BF16__
    if (bf16 && narrow) {
        __asm__("vdpbf16ps %t2, %t1, %t0" : "+v"(*sum) : "v"(a), "v"(b));
        return;
    }
    if (bf16) {
        __asm__("vdpbf16ps %2, %1, %0" : "+v"(*sum) : "v"(a), "v"(b));
        return;
    }
#endif
    (void)bf16;
    if (narrow)
        __asm__("vfmadd231ps %t2, %t1, %t0" : "+v"(*sum) : "v"(a), "v"(b));
    else
        __asm__("vfmadd231ps %2, %1, %0" : "+v"(*sum) : "v"(a), "v"(b));
}

/* Keeps the lower half of each lane. Not by a mask: gcc would hold it in a register that the sums need. */
static inline __attribute__((always_inline)) void direct_drop_upper(__m512 *x) {
    __asm__("vpslld $16, %0, %0\n\tvpsrld $16, %0, %0" : "+v"(*x));
}

/* `count` steps: rows · panels · vectors accumulators, at most 28; beside them two vectors of B and one of A. Of a
 * narrow tile the last vector has eight columns or fewer. */
static inline __attribute__((always_inline)) void direct_steps(__m512 acc[28], const char *const *bases,
                                                               int64_t row_bytes, const char *b, int64_t b_panel,
                                                               const int count, const int rows, const int panels,
                                                               const int vectors, const bool narrow, const bool bf16,
                                                               const bool half_step) {
#pragma GCC unroll 4
    for (int s = 0; s < count; s++) {
#pragma GCC unroll 8
        for (int p = 0; p < panels; p++) {
            const __m512 b0 = _mm512_load_ps(b + p * b_panel + s * 128);
            const __m512 b1 = vectors == 2 ? _mm512_load_ps(b + p * b_panel + s * 128 + 64) : b0;
#pragma GCC unroll 14
            for (int r = 0; r < rows; r++) {
                __m512 x = direct_broadcast(bases, row_bytes, r, s * 4);
                if (half_step) direct_drop_upper(&x);
                __m512 *const at = &acc[(r * panels + p) * vectors];
                direct_multiply(&at[0], x, b0, narrow && vectors == 1, bf16);
                if (vectors == 2) direct_multiply(&at[1], x, b1, narrow, bf16);
            }
        }
    }
}

/* The first `lanes` of 16 · vectors columns of a row, in the type that the product is in; bf16 by vcvtne2ps2bf16: the
 * sums' denormals were flushed already. */
static inline __attribute__((always_inline)) void direct_store_row(void *c, int64_t at, __m512 low, __m512 high,
                                                                   const int vectors, const bool whole, int lanes,
                                                                   const bool bf16) {
    const uint32_t mask = (uint32_t)((UINT64_C(1) << lanes) - 1);
#ifdef __AVX512BF16__
    if (bf16) {
        uint16_t *const to = (uint16_t *)c + at;
        const __m512i halves = (__m512i)_mm512_cvtne2ps_pbh(high, low);
        if (!whole)
            _mm512_mask_storeu_epi16(to, (__mmask32)mask, halves);
        else if (vectors == 2)
            _mm512_storeu_si512(to, halves);
        else
            _mm256_storeu_si256((__m256i *)to, _mm512_castsi512_si256(halves));
        return;
    }
#endif
    (void)bf16;
    float *const to = (float *)c + at;
    if (whole) {
        _mm512_storeu_ps(to, low);
        if (vectors == 2) _mm512_storeu_ps(to + 16, high);
    } else {
        _mm512_mask_storeu_ps(to, (__mmask16)mask, low);
        if (vectors == 2) _mm512_mask_storeu_ps(to + 16, (__mmask16)(mask >> 16), high);
    }
}

static inline __attribute__((always_inline)) void direct_store(const amp_gemm_direct *t, int64_t column, char *c,
                                                               const __m512 acc[28], const int rows, const int panels,
                                                               const int vectors, const bool whole, const bool bf16) {
#pragma GCC unroll 8
    for (int p = 0; p < panels; p++) {
        const int left = t->columns - p * 32, lanes = whole || left > 16 * vectors ? 16 * vectors : left;
        __m512 bias[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) {
            if (!t->bias) continue;
            const int rest = lanes - v * 16, count = whole || rest > 16 ? 16 : rest;
            if (count <= 0) continue;
            bias[v] = (__m512)simd_load(t->bias, t->bias_dtype, column + p * 32 + v * 16, 1, count);
        }
#pragma GCC unroll 14
        for (int r = 0; r < rows; r++) {
            const __m512 *const sums = &acc[(r * panels + p) * vectors];
            const __m512 low = _mm512_add_ps(sums[0], bias[0]);
            const __m512 high = vectors == 2 ? _mm512_add_ps(sums[1], bias[1]) : low;
            direct_store_row(c, r * t->c_row_stride + p * 32, low, high, vectors, whole, lanes, bf16);
        }
    }
}

/* Rows of up to 32 columns of a tile that is in L1: scale, bias, residual, relu, in the type that the product is in. */
static inline __attribute__((always_inline)) void direct_finish_rows(const amp_gemm_finish *f,
                                                                     const amp_gemm_place *place, const float *tile,
                                                                     int column, const bool residual, const bool bf16) {
    const int left = place->columns - column, lanes = left < 32 ? left : 32;
    const uint32_t mask = (uint32_t)((UINT64_C(1) << lanes) - 1);
    const __mmask16 first = (__mmask16)mask, second = (__mmask16)(mask >> 16);
    const float floor = f->activation == AMP_GEMM_RELU ? 0.0f : -__builtin_inff();
    const __m512 least = _mm512_set1_ps(floor), one = _mm512_set1_ps(f->alpha);
    __m512 scale[2] = {one, one}, bias[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
    if (f->scale) {
        scale[0] = _mm512_mul_ps(one, _mm512_maskz_loadu_ps(first, f->scale + column));
        scale[1] = _mm512_mul_ps(one, _mm512_maskz_loadu_ps(second, f->scale + column + 16));
    }
    for (int v = 0; f->bias && v * 16 < lanes; v++) {
        const int rest = lanes - v * 16;
        bias[v] = (__m512)simd_load(f->bias, f->bias_dtype, column + v * 16, 1, rest < 16 ? rest : 16);
    }
    for (int i = 0; i < place->rows; i++) {
        const float *from = tile + i * place->pitch + column;
        __m512 low = _mm512_fmadd_ps(_mm512_load_ps(from), scale[0], bias[0]);
        __m512 high = _mm512_fmadd_ps(_mm512_load_ps(from + 16), scale[1], bias[1]);
        if (residual && bf16) {
            const uint16_t *r = (const uint16_t *)f->residual + i * f->residual_row_stride + column;
            const __m512i halves = _mm512_maskz_loadu_epi16((__mmask32)mask, r);
            const __m256i upper = _mm512_extracti64x4_epi64(halves, 1);
            low = _mm512_add_ps(low, (__m512)simd_to_upper_halves((simd_h)_mm512_castsi512_si256(halves)));
            high = _mm512_add_ps(high, (__m512)simd_to_upper_halves((simd_h)upper));
        } else if (residual) {
            const float *r = (const float *)f->residual + i * f->residual_row_stride + column;
            low = _mm512_add_ps(low, _mm512_maskz_loadu_ps(first, r));
            high = _mm512_add_ps(high, _mm512_maskz_loadu_ps(second, r + 16));
        }
        low = _mm512_max_ps(least, low); /* the second, if it is NaN */
        high = _mm512_max_ps(least, high);
        direct_store_row(f->c, i * f->c_row_stride + column, low, high, 2, lanes == 32, lanes, bf16);
    }
}

/* Not inlined: tiles of all shapes share it. */
static __attribute__((noinline)) void direct_finish_linear(const amp_gemm_finish *f, const amp_gemm_place *place,
                                                           const float *tile, bool bf16) {
    for (int column = 0; column < place->columns; column += 32) {
#ifdef __AVX512BF16__
        if (bf16 && f->residual) direct_finish_rows(f, place, tile, column, true, true);
        if (bf16 && !f->residual) direct_finish_rows(f, place, tile, column, false, true);
        if (bf16) continue;
#endif
        if (f->residual)
            direct_finish_rows(f, place, tile, column, true, false);
        else
            direct_finish_rows(f, place, tile, column, false, false);
    }
    (void)bf16;
}

/* Whether that does it: the residual is of the result's type, which is the product's. */
static inline bool direct_is_linear(const amp_gemm_finish *f, bool bf16) {
    const amp_dtype dtype = bf16 ? AMP_BF16 : AMP_F32;
    return f->activation <= AMP_GEMM_RELU && f->c_dtype == dtype &&
           (!f->residual || (f->residual_dtype == dtype && f->residual_column_stride == 1 && f->beta == 1.0f));
}

/* A tile that is in L1, at `c` in the result: a result of the other type, or an epilogue. Not inlined, so that what it
 * needs is in no register while the sums are made. */
static __attribute__((noinline)) void direct_finish_tile(const amp_gemm_direct *t, int64_t column, char *c,
                                                         const float *tile, int rows, int panels, bool bf16) {
    const amp_gemm_finish finish = amp_gemm_direct_finish(t, column, c);
    const amp_gemm_place place = {.rows = rows, .columns = t->columns, .pitch = panels * AMP_GEMM_BLOCK};
    if (direct_is_linear(&finish, bf16))
        direct_finish_linear(&finish, &place, tile, bf16);
    else
        amp_gemm_finish_avx512(&finish, &place, tile);
}

static inline __attribute__((always_inline)) void direct_finish(const amp_gemm_direct *t, int64_t column, char *c,
                                                                const __m512 acc[28], const int rows, const int panels,
                                                                const int vectors, const bool bf16) {
    if (!t->epilogue && t->c_dtype == (bf16 ? AMP_BF16 : AMP_F32)) {
        if (t->columns == panels * 16 * vectors)
            direct_store(t, column, c, acc, rows, panels, vectors, true, bf16);
        else
            direct_store(t, column, c, acc, rows, panels, vectors, false, bf16);
        return;
    }
    _Alignas(64) float tile[AMP_GEMM_MAX_TILE];
#pragma GCC unroll 28
    for (int i = 0; i < rows * panels * vectors; i++) _mm512_store_ps(tile + 32 / vectors * i, acc[i]);
    direct_finish_tile(t, column, c, tile, rows, panels, bf16);
}

/* The residual's lines are there when the sums are. */
static __attribute__((noinline)) void direct_fetch_residual(const amp_gemm_direct *t, int64_t row, int64_t column,
                                                            int rows, int panels) {
    const amp_gemm_finish *f = t->epilogue;
    const int64_t size = f->residual_dtype == AMP_F32 ? 4 : 2, line = AMP_GEMM_BLOCK * size;
    if (!f->residual || f->residual_column_stride != 1) return;
    const char *from = (const char *)f->residual + (row * f->residual_row_stride + column) * size;
    for (int r = 0; r < rows; r++, from += f->residual_row_stride * size)
        for (int64_t i = 0; i < panels * line; i += 64) __asm__ volatile("prefetcht0 %0" : : "m"(from[i]));
}

/* C's lines are there when the sums are. */
static inline __attribute__((always_inline)) void direct_fetch_c(const amp_gemm_direct *t, const char *c,
                                                                 const int rows, const int panels) {
    const int64_t size = t->c_dtype == AMP_F32 ? 4 : 2, line = AMP_GEMM_BLOCK * size;
    if (!t->far) return;
#pragma GCC unroll 1
    for (int r = 0; r < rows; r++, c += t->c_row_stride * size)
#pragma GCC unroll 1
        for (int64_t i = 0; i < panels * line; i += 64) __asm__ volatile("prefetchw %0" : : "m"(c[i]));
}

/* One tile; returns what is to be fetched next of A. `next_c`: where the tile after it goes. */
static inline __attribute__((always_inline)) const char *
direct_tile(const amp_gemm_direct *t, const char *a, int64_t group, char *c, const char *next_c, const char *next,
            const int rows, const int panels, const int vectors, const bool narrow, const bool bf16) {
    const int64_t row_bytes = t->row_bytes, b_panel = t->b_panel_bytes;
    __m512 acc[28];
    direct_fetch_c(t, next_c, rows, panels);
#pragma GCC unroll 28
    for (int i = 0; i < rows * panels * vectors; i++) acc[i] = _mm512_setzero_ps();
    for (int64_t i = 0; i < t->run_count; i++) {
        const char *bases[DIRECT_BASES], *b = t->b + group * panels * b_panel + t->runs[i].b;
        bases[0] = a + t->runs[i].a;
        __asm__("" : "+r"(bases[0])); /* else gcc keeps what does not depend on the run in vector registers */
#pragma GCC unroll 5
        for (int j = 1; j < DIRECT_BASES; j++) bases[j] = bases[0] + 3 * j * row_bytes;
        const bool half = t->half_step;
        int64_t left = t->steps - half;
        for (; left >= 4; left -= 4) {
            _mm_prefetch(next, _MM_HINT_T0);
            _mm_prefetch(next + 64, _MM_HINT_T0);
            next += 128;
            if (t->fetch_b) {
#pragma GCC unroll 8
                for (int j = 0; j < panels * 8; j++)
                    _mm_prefetch(b + j / 8 * b_panel + j % 8 * 64 + DIRECT_AHEAD, _MM_HINT_T0);
            }
            direct_steps(acc, bases, row_bytes, b, b_panel, 4, rows, panels, vectors, narrow, bf16, false);
#pragma GCC unroll 5
            for (int j = 0; j < DIRECT_BASES; j++) bases[j] += 16;
            b += 512;
        }
#pragma GCC unroll 1
        for (; left > 0; left--) {
            direct_steps(acc, bases, row_bytes, b, b_panel, 1, rows, panels, vectors, narrow, bf16, false);
#pragma GCC unroll 5
            for (int j = 0; j < DIRECT_BASES; j++) bases[j] += 4;
            b += 128;
        }
        if (bf16 && half) direct_steps(acc, bases, row_bytes, b, b_panel, 1, rows, panels, vectors, narrow, bf16, true);
    }
    direct_finish(t, group * panels * AMP_GEMM_BLOCK, c, acc, rows, panels, vectors, bf16);
    return next;
}

static inline __attribute__((always_inline)) void direct_of(const amp_gemm_direct *t, const int rows, const int panels,
                                                            const int vectors, const bool narrow, const bool bf16) {
    const int64_t size = t->c_dtype == AMP_F32 ? 4 : 2, group_bytes = panels * AMP_GEMM_BLOCK * size;
    const int64_t a_step = rows * t->row_bytes, c_step = rows * t->c_row_stride * size;
    const char *next = t->next;
    for (int64_t i = 0; i < t->repeat; i++) {
        char *const c = (char *)t->c + i * c_step;
        const char *const below = i + 1 < t->repeat ? c + c_step : c;
        for (int64_t g = 0; g < t->groups; g++) {
            if (t->epilogue) direct_fetch_residual(t, i * rows, g * panels * AMP_GEMM_BLOCK, rows, panels);
            next = direct_tile(t, t->a + i * a_step, g, c + g * group_bytes,
                               g + 1 < t->groups ? c + (g + 1) * group_bytes : below, next, rows, panels, vectors,
                               narrow, bf16);
        }
    }
}

/* Of one panel. CPU time with all around it on a Zen 4, ms: 96 -> 24 channels, 3 x 3, at 120 x 184 f32 14.9 -> 13.1,
 * bf16 9.5 -> 8.4; 32 -> 4 at 64 x 64 f32 0.51 -> 0.45, bf16 0.31 -> 0.23. */
static inline __attribute__((always_inline)) void direct_narrow(const amp_gemm_direct *t, const bool bf16) {
    switch (AMP_GEMM_TILE_KEY(t->rows, 1, t->columns > 16 ? 2 : 1)) {
/* clang-format off */
#define TILE(rows, vectors)                                                                                            \
    case AMP_GEMM_TILE_KEY(rows, 1, vectors): direct_of(t, rows, 1, vectors, true, bf16); break;
#define TILES(vectors)                                                                                                 \
    TILE(1, vectors) TILE(2, vectors) TILE(3, vectors) TILE(4, vectors) TILE(5, vectors) TILE(6, vectors)              \
    TILE(7, vectors) TILE(8, vectors) TILE(9, vectors) TILE(10, vectors) TILE(11, vectors) TILE(12, vectors)           \
    TILE(13, vectors) TILE(14, vectors)
        /* clang-format on */
        TILES(1)
        TILES(2)
#undef TILES
#undef TILE
    default: __builtin_unreachable();
    }
}

/* Functions of their own: among them, gcc 12 kept fewer sums of the tiles of two panels in registers (1 x 1, 1024 ->
 * 2048 at 7 x 7, f32: 2.6 ms for 2.1). */
static __attribute__((noinline, unused)) void direct_narrow_f32(const amp_gemm_direct *t) {
    direct_narrow(t, false);
}
static __attribute__((noinline, unused)) void direct_narrow_bf16(const amp_gemm_direct *t) {
    direct_narrow(t, true);
}

static inline __attribute__((always_inline)) void direct_any(const amp_gemm_direct *t, const bool bf16) {
    if (t->panels == 1 && (t->columns - 1) % 16 < 8) {
        (bf16 ? direct_narrow_bf16 : direct_narrow_f32)(t);
        return;
    }
    switch (AMP_GEMM_TILE_KEY(t->rows, t->panels, t->columns > 16 ? 2 : 1)) {
#define TILE(rows, panels, vectors)                                                                                    \
    case AMP_GEMM_TILE_KEY(rows, panels, vectors): direct_of(t, rows, panels, vectors, false, bf16); break;
        AMP_GEMM_TILES_28(TILE)
#undef TILE
    default: __builtin_unreachable();
    }
}

#endif /* AMP_CPU_GEMM_DIRECT_AVX512_H */
