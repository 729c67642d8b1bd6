/* The vector side of the GEMM family that is the same for all x86 ISAs: loads, stores and packing A, one vector at a
 * time, in GNU vectors but for a few conversions. Each ISA file includes it and so compiles it with its own flags;
 * every operation is written out and contraction is off, so the bits are the same for all. */
#ifndef AMP_CPU_GEMM_SIMD_H
#define AMP_CPU_GEMM_SIMD_H

#include <immintrin.h>
#include <string.h>

#include "cpu/gemm/gemm_isa.h"
#include "cpu/gemm/gemm_scalar.h"
#ifdef __AVX512F__
#include "cpu/gemm/gemm_transpose_avx512.h"
#include "cpu/simd/simd_avx512.h"
#else
#include "cpu/simd/simd_avx2.h"
#endif

#pragma GCC diagnostic ignored "-Wpsabi" /* vectors are passed between functions of one file only */

#ifdef __AVX512F__
#define SIMD_LANES 16
#else
#define SIMD_LANES 8
#endif

typedef float simd_f __attribute__((vector_size(SIMD_LANES * 4)));
typedef int32_t simd_i __attribute__((vector_size(SIMD_LANES * 4)));
typedef uint32_t simd_u __attribute__((vector_size(SIMD_LANES * 4)));
typedef uint16_t simd_h __attribute__((vector_size(SIMD_LANES * 2)));
typedef float simd_f_any __attribute__((vector_size(SIMD_LANES * 4), aligned(4), may_alias));
typedef uint16_t simd_h_any __attribute__((vector_size(SIMD_LANES * 2), aligned(2), may_alias));

#define SIMD_INLINE static inline __attribute__((always_inline))

SIMD_INLINE simd_f simd_set(float x) {
    return x - (simd_f){0};
}
SIMD_INLINE simd_f simd_select(simd_i mask, simd_f yes, simd_f no) {
    return (simd_f)((mask & (simd_i)yes) | (~mask & (simd_i)no));
}

/* Rounds to bf16, nearest even, what is no NaN; the result is in the upper halves, the lower halves are rubbish. */
SIMD_INLINE simd_u simd_even_bf16(simd_f x) {
    const simd_u u = (simd_u)x;
    return u + 0x7fffu + (u >> 16 & 1u);
}

/* The same of anything. NaN is made quiet. */
SIMD_INLINE simd_u simd_round_bf16(simd_f x) {
    const simd_u u = (simd_u)x, even = simd_even_bf16(x);
#ifdef __AVX512F__
    const __mmask16 nan = _mm512_cmp_ps_mask((__m512)x, (__m512)x, _CMP_UNORD_Q);
    return (simd_u)_mm512_mask_or_epi32((__m512i)even, nan, (__m512i)u, _mm512_set1_epi32(0x400000));
#else
    const simd_i nan = (simd_i)(u & 0x7fffffffu) > 0x7f800000;
    return ((simd_u)nan & (u | 0x400000u)) | (~(simd_u)nan & even);
#endif
}

/* The upper halves of all lanes, and values put there. */
SIMD_INLINE simd_h simd_upper_halves(simd_u x) {
#ifdef __AVX512F__
    return (simd_h)_mm512_cvtepi32_epi16(_mm512_srli_epi32((__m512i)x, 16));
#else
    const __m256i shifted = (__m256i)(x >> 16);
    return (simd_h)_mm_packus_epi32(_mm256_castsi256_si128(shifted), _mm256_extracti128_si256(shifted, 1));
#endif
}
SIMD_INLINE simd_u simd_to_upper_halves(simd_h x) {
#ifdef __AVX512F__
    return (simd_u)_mm512_slli_epi32(_mm512_cvtepu16_epi32((__m256i)x), 16);
#else
    return (simd_u)_mm256_slli_epi32(_mm256_cvtepu16_epi32((__m128i)x), 16);
#endif
}

SIMD_INLINE simd_f simd_load_bf16(const void *p) {
    return (simd_f)simd_to_upper_halves(*(const simd_h_any *)p);
}
SIMD_INLINE void simd_store_bf16(void *p, simd_f x) {
    *(simd_h_any *)p = simd_upper_halves(simd_round_bf16(x));
}

/* ---- loads and stores ------------------------------------------------------------------------------------------ */

/* The first `count` of a vector's elements from p, the others 0; and to p. Nothing beyond them is touched. */
SIMD_INLINE simd_f simd_load_part(const void *p, amp_dtype dtype, int count) {
#ifdef __AVX512F__
    const __mmask16 mask = (__mmask16)((1u << count) - 1u);
    if (dtype == AMP_F32) return (simd_f)_mm512_maskz_loadu_ps(mask, p);
    return (simd_f)simd_to_upper_halves((simd_h)_mm256_maskz_loadu_epi16(mask, p));
#else
    float edge[SIMD_LANES] = {0};
    for (int j = 0; j < count; j++) edge[j] = scalar_load(p, dtype, j);
    return *(const simd_f_any *)edge;
#endif
}
SIMD_INLINE void simd_store_part(void *p, amp_dtype dtype, int count, simd_f x) {
#ifdef __AVX512F__
    const __mmask16 mask = (__mmask16)((1u << count) - 1u);
    if (dtype == AMP_F32)
        _mm512_mask_storeu_ps(p, mask, (__m512)x);
    else
        _mm256_mask_storeu_epi16(p, mask, (__m256i)simd_upper_halves(simd_round_bf16(x)));
#else
    for (int j = 0; j < count; j++) scalar_store(p, dtype, j, x[j]);
#endif
}

SIMD_INLINE simd_f simd_load(const void *p, amp_dtype dtype, int64_t i, int64_t stride, int count) {
    if (stride == 1) {
        const void *at = (const char *)p + i * (dtype == AMP_F32 ? 4 : 2);
        if (count < SIMD_LANES) return simd_load_part(at, dtype, count);
        if (dtype == AMP_F32) return *(const simd_f_any *)at;
        return simd_load_bf16(at);
    }
    float edge[SIMD_LANES] = {0};
    for (int j = 0; j < count; j++) edge[j] = scalar_load(p, dtype, i + j * stride);
    return *(const simd_f_any *)edge;
}

SIMD_INLINE void simd_store(void *p, amp_dtype dtype, int64_t i, int count, simd_f x) {
    void *at = (char *)p + i * (dtype == AMP_F32 ? 4 : 2);
    if (count < SIMD_LANES)
        simd_store_part(at, dtype, count, x);
    else if (dtype == AMP_F32)
        *(simd_f_any *)at = x;
    else
        simd_store_bf16(at, x);
}

/* Two vectors that lie together: with AVX-512 a whole line of bf16. */
SIMD_INLINE void simd_store_pair(void *c, amp_dtype dtype, int64_t i, simd_f low, simd_f high) {
#ifdef __AVX512BF16__
    /* vcvtne2ps2bf16 takes subnormals for zeros: they are left to integers, where there are any */
    const __mmask16 tiny =
        _mm512_fpclass_ps_mask((__m512)low, SUBNORMAL) | _mm512_fpclass_ps_mask((__m512)high, SUBNORMAL);
    if (dtype == AMP_BF16 && __builtin_expect(tiny == 0, 1)) {
        _mm512_storeu_si512((uint16_t *)c + i, (__m512i)_mm512_cvtne2ps_pbh((__m512)high, (__m512)low));
        return;
    }
#elif !defined(__AVX512F__)
    if (dtype == AMP_BF16 && __builtin_expect(!_mm256_movemask_ps(_mm256_cmp_ps(low, high, _CMP_UNORD_Q)), 1)) {
        const __m256i first = (__m256i)(simd_even_bf16(low) >> 16), second = (__m256i)(simd_even_bf16(high) >> 16);
        const __m256i by_halves = _mm256_packus_epi32(first, second);
        _mm256_storeu_si256((__m256i *)((uint16_t *)c + i), _mm256_permute4x64_epi64(by_halves, 0xd8));
        return;
    }
#endif
    simd_store(c, dtype, i, SIMD_LANES, low);
    simd_store(c, dtype, i + SIMD_LANES, SIMD_LANES, high);
}

/* For amp_gemm_isa.end: what was streamed is seen by whoever is told that it is there. */
SIMD_INLINE void simd_end_streams(void) {
    _mm_sfence();
}

/* ---- packing A ------------------------------------------------------------------------------------------------ */

/* What packed A holds: bf16; f32 rounded to bf16; f32 as it was. */
typedef enum simd_a_form { SIMD_A_BF16, SIMD_A_ROUNDED, SIMD_A_EXACT } simd_a_form;

SIMD_INLINE void simd_put_a(void *dst, int64_t i, const simd_a_form form, simd_f x) {
    if (form == SIMD_A_EXACT)
        *(simd_f *)((float *)dst + i) = x;
    else if (form == SIMD_A_ROUNDED)
        *(simd_f *)((float *)dst + i) = (simd_f)(simd_round_bf16(x) & 0xffff0000u);
    else
        *(simd_h *)((uint16_t *)dst + i) = simd_upper_halves(simd_round_bf16(x));
}

/* 32 values that lie together. */
SIMD_INLINE void simd_pack_a_row(const void *src, amp_dtype dtype, int64_t i, void *dst, int64_t at,
                                 const simd_a_form form) {
#ifdef __AVX512BF16__
    /* flushes denormals, as the products that follow would */
    if (dtype == AMP_F32 && form == SIMD_A_BF16) {
        const float *p = (const float *)src + i;
        const __m512i h = (__m512i)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(p + 16), _mm512_loadu_ps(p));
        _mm512_store_si512((uint16_t *)dst + at, h);
        return;
    }
#endif
    for (int j = 0; j < AMP_GEMM_BLOCK; j += SIMD_LANES)
        simd_put_a(dst, at + j, form, simd_load(src, dtype, i + j, 1, SIMD_LANES));
}

#ifdef __AVX512BF16__
/* The first values of a block, by mask; f32 is rounded by vcvtne2ps2bf16, which flushes denormals as the products
 * would. */
SIMD_INLINE __m512i simd_load_a_block(const char *src, int64_t k, amp_dtype dtype, __mmask32 mask) {
    if (dtype == AMP_BF16) return _mm512_maskz_loadu_epi16(mask, src + k * 2);
    const __m512 low = _mm512_maskz_loadu_ps((__mmask16)mask, src + k * 4);
    return (__m512i)_mm512_cvtne2ps_pbh(_mm512_maskz_loadu_ps((__mmask16)(mask >> 16), src + k * 4 + 64), low);
}

SIMD_INLINE void simd_pack_bf16_rows(const amp_gemm_pack_a *p, void *dst, amp_dtype dtype) {
    const int64_t size = dtype == AMP_F32 ? 4 : 2, step = (int64_t)p->panel_rows * 64;
    const int64_t end = p->block + p->blocks, whole = p->k / AMP_GEMM_BLOCK < end ? p->k / AMP_GEMM_BLOCK : end;
    const __mmask32 tail = (__mmask32)((UINT64_C(1) << (p->k % AMP_GEMM_BLOCK)) - 1);
    for (int r = 0; r < p->panel_rows; r++) {
        const char *src = (const char *)p->src + r * p->row_stride * size;
        char *to = (char *)dst + p->block * step + r * 64;
        int64_t block = p->block;
        for (; r < p->rows && block < whole; block++, to += step)
            _mm512_store_si512(to, simd_load_a_block(src, block * AMP_GEMM_BLOCK, dtype, 0xffffffffu));
        for (; block < end; block++, to += step) /* a tail, or a row that does not exist */
            _mm512_store_si512(to, r < p->rows ? simd_load_a_block(src, block * AMP_GEMM_BLOCK, dtype, tail)
                                               : _mm512_setzero_si512());
    }
}
#endif

SIMD_INLINE void simd_pack_a_rows(const amp_gemm_pack_a *p, void *dst, amp_dtype dtype, const simd_a_form form) {
#ifdef __AVX512BF16__
    if (form == SIMD_A_BF16) {
        simd_pack_bf16_rows(p, dst, dtype);
        return;
    }
#endif
    const size_t size = dtype == AMP_F32 ? sizeof(float) : sizeof(uint16_t);
    const int64_t end = p->block + p->blocks, whole = p->k / AMP_GEMM_BLOCK < end ? p->k / AMP_GEMM_BLOCK : end;
    const int64_t step = (int64_t)p->panel_rows * AMP_GEMM_BLOCK;
    for (int r = 0; r < p->panel_rows; r++) {
        const char *src = (const char *)p->src + r * p->row_stride * (int64_t)size;
        int64_t block = p->block;
        for (; r < p->rows && block < whole; block++)
            simd_pack_a_row(src, dtype, block * AMP_GEMM_BLOCK, dst, block * step + r * AMP_GEMM_BLOCK, form);
        for (; block < end; block++) { /* a tail, or a row that does not exist */
            const int64_t k0 = block * AMP_GEMM_BLOCK, left = r < p->rows ? p->k - k0 : 0;
            for (int j = 0; j < AMP_GEMM_BLOCK; j += SIMD_LANES) {
                const int count = left <= j ? 0 : left - j < SIMD_LANES ? (int)(left - j) : SIMD_LANES;
                const simd_f x = count ? simd_load(src, dtype, k0 + j, 1, count) : simd_set(0.0f);
                simd_put_a(dst, block * step + r * AMP_GEMM_BLOCK + j, form, x);
            }
        }
    }
}

/* Rows that do not lie along k: gathered one k after the other, which is along memory for a transposed matrix. */
SIMD_INLINE void simd_pack_a_strided(const amp_gemm_pack_a *p, void *dst, const simd_a_form form) {
    for (int64_t block = p->block; block < p->block + p->blocks; block++) {
        float edge[32][AMP_GEMM_BLOCK] = {0};
        const int64_t k0 = block * AMP_GEMM_BLOCK, left = p->k - k0;
        const int count = left < AMP_GEMM_BLOCK ? (int)left : AMP_GEMM_BLOCK;
        for (int k = 0; k < count; k++)
            for (int r = 0; r < p->rows; r++)
                edge[r][k] = scalar_load(p->src, p->dtype, r * p->row_stride + (k0 + k) * p->column_stride);
        for (int r = 0; r < p->panel_rows; r++)
            simd_pack_a_row(edge[r], AMP_F32, 0, dst, (block * p->panel_rows + r) * AMP_GEMM_BLOCK, form);
    }
}

#ifdef __AVX512F__
/* A transposed matrix: rows lie together, k after k. Sixteen rows of a block are sixteen vectors, turned over in
 * registers: of f32 one for each k, of bf16 one for each pair. */
SIMD_INLINE __m512i simd_load_across(const amp_gemm_pack_a *p, int64_t k, int64_t row, __mmask16 rows) {
    const int64_t at = row + k * p->column_stride;
    if (k >= p->k) return _mm512_setzero_si512();
    if (p->dtype == AMP_F32) return _mm512_maskz_loadu_epi32(rows, (const float *)p->src + at);
    return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(rows, (const uint16_t *)p->src + at));
}

SIMD_INLINE void simd_pack_a_across(const amp_gemm_pack_a *p, void *dst, const simd_a_form form) {
    const int per_block = form == SIMD_A_EXACT ? 2 : 1; /* vectors of a row */
    for (int64_t i = p->block * per_block; i < (p->block + p->blocks) * per_block; i++) {
        const int64_t block = i / per_block, k = i * (AMP_GEMM_BLOCK / per_block);
        for (int row = 0; row < p->panel_rows; row += 16) {
            const int left = p->rows - row, last = p->panel_rows - row < 16 ? p->panel_rows - row : 16;
            const __mmask16 rows = (__mmask16)(left >= 16 ? 0xffff : left > 0 ? (1 << left) - 1 : 0);
            __m512i r[16];
#pragma GCC unroll 16
            for (int j = 0; j < 16; j++) {
                r[j] = simd_load_across(p, form == SIMD_A_EXACT ? k + j : k + 2 * j, row, rows);
                if (form != SIMD_A_EXACT)
                    r[j] = _mm512_or_si512(r[j], _mm512_slli_epi32(simd_load_across(p, k + 2 * j + 1, row, rows), 16));
            }
            transpose_16(r);
            char *to = (char *)dst + ((block * p->panel_rows + row) * per_block + i % per_block) * 64;
#pragma GCC unroll 16
            for (int j = 0; j < 16; j++)
                if (j < last) _mm512_store_si512(to + j * per_block * 64, r[j]);
        }
    }
}

/* What is moved as it is. */
SIMD_INLINE bool simd_packs_across(const amp_gemm_pack_a *p, const simd_a_form form) {
    if (p->row_stride != 1 || form == SIMD_A_ROUNDED) return false;
    return p->dtype == (form == SIMD_A_EXACT ? AMP_F32 : AMP_BF16);
}
#endif

#include "cpu/gemm/gemm_pack_window.h"

SIMD_INLINE void simd_pack_a(const amp_gemm_pack_a *p, void *dst, const simd_a_form form) {
    if (p->window && p->dtype == AMP_F32)
        simd_pack_windows(p, dst, AMP_F32, form);
    else if (p->window)
        simd_pack_windows(p, dst, AMP_BF16, form);
#ifdef __AVX512F__
    else if (p->column_stride != 1 && p->k > 1 && simd_packs_across(p, form))
        simd_pack_a_across(p, dst, form);
#endif
    else if (p->column_stride != 1 && p->k > 1)
        simd_pack_a_strided(p, dst, form);
    else if (p->dtype == AMP_F32)
        simd_pack_a_rows(p, dst, AMP_F32, form);
    else
        simd_pack_a_rows(p, dst, AMP_BF16, form);
}

#endif /* AMP_CPU_GEMM_SIMD_H */
