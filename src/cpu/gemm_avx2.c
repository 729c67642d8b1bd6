/* bf16 GEMM on AVX2 and FMA: B up-converted in registers.
 *
 * Formula:     c = rne(a_k · b_k + c), fused, in ascending k; then act(alpha · c + beta · r + bias). A bf16 value is the
 *              upper half of an f32: the even element of a pair is shifted up, the odd one is masked.
 * Accumulator: f32, one per element of C, in a register over a K block and in f32 scratch between K blocks.
 * Error bound: |c - exact| ≤ K · 2⁻²⁴ · Σ|a_k b_k| to first order.
 * Denormals:   kept, as MXCSR says by default.
 * ISA:         AVX2, FMA.
 * Source:      Intel SDM volume 2, VFMADD231PS. */
#include <immintrin.h>

#include "cpu/gemm_isa.h"
#include "cpu/gemm_simd.h"

static void pack_a(const amp_gemm_pack_a *p, void *dst) {
    simd_pack_a(p, dst, true);
}

static void finish(const amp_gemm_finish *f, const amp_gemm_place *place, const float *tile) {
    simd_finish(f, place, tile);
}

/* sum += a · b. In assembly, for with the intrinsic gcc 12 moves work about and runs out of registers. */
static inline __attribute__((always_inline)) void multiply_add(__m256 *sum, __m256 a, __m256 b) {
    __asm__ volatile("vfmadd231ps %2, %1, %0" : "+x"(*sum) : "x"(a), "x"(b));
}

static const uint32_t upper[8] __attribute__((aligned(32))) = {0xffff0000, 0xffff0000, 0xffff0000, 0xffff0000,
                                                               0xffff0000, 0xffff0000, 0xffff0000, 0xffff0000};

/* The even or the odd elements of eight pairs, as f32. The mask stays in memory, for the same reason. */
static inline __attribute__((always_inline)) __m256 up_convert(const __m256i *pairs, const bool odd) {
    __m256i x = _mm256_load_si256(pairs);
    if (!odd) return (__m256)_mm256_slli_epi32(x, 16);
    __asm__("vpand %1, %0, %0" : "+x"(x) : "m"(upper));
    return (__m256)x;
}

/* A pair of k: two vectors of B and one of A beside 12 sums. */
static inline __attribute__((always_inline)) void multiply_pair(__m256 acc[12], const char *a, const uint16_t *b,
                                                                int64_t b_panel, const int rows, const int vectors) {
#pragma GCC unroll 2
    for (int odd = 0; odd < 2; odd++) {
        const uint16_t *again = b; /* opaque: loading twice is free, keeping raw B would spill accumulators */
        __asm__("" : "+r"(again));
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v += 2) {
            const __m256i *at_b = (const __m256i *)(again + v / 4 * b_panel + v % 4 * 16);
            const __m256 b0 = up_convert(at_b, odd), b1 = up_convert(at_b + 1, odd);
#pragma GCC unroll 6
            for (int r = 0; r < rows; r++) {
                const __m256 x = _mm256_broadcast_ss((const float *)(a + r * 128 + odd * 4));
                multiply_add(&acc[r * vectors + v], x, b0);
                multiply_add(&acc[r * vectors + v + 1], x, b1);
            }
        }
    }
}

/* `vectors` of 8 columns from column `first` of one panel: rows · vectors accumulators, at most 12 of 16 registers. */
static inline __attribute__((always_inline)) void strip_of(const amp_gemm_tile *t, const uint16_t *b, float *c,
                                                           const int rows, const int vectors) {
    __m256 acc[12];
    const int64_t pitch = (int64_t)t->panels * AMP_GEMM_BLOCK, b_panel = (int64_t)t->b_panel_stride;
#pragma GCC unroll 12
    for (int i = 0; i < rows * vectors; i++)
        acc[i] = t->accumulate ? _mm256_load_ps(c + i / vectors * pitch + i % vectors * 8) : _mm256_setzero_ps();
    const char *a = (const char *)t->a;
    const int64_t a_step = (int64_t)t->panel_rows * 128;
    for (int64_t block = 0; block < t->pairs / 16; block++) {
        for (int pair = 0; pair < 16; pair++) multiply_pair(acc, a + pair * 8, b + pair * 64, b_panel, rows, vectors);
        a += a_step;
        b += AMP_GEMM_BLOCK_VALUES;
    }
    for (int pair = 0; pair < (int)(t->pairs % 16); pair++)
        multiply_pair(acc, a + pair * 8, b + pair * 64, b_panel, rows, vectors);
#pragma GCC unroll 12
    for (int i = 0; i < rows * vectors; i++) _mm256_store_ps(c + i / vectors * pitch + i % vectors * 8, acc[i]);
}

static inline __attribute__((always_inline)) void tile_of(const amp_gemm_tile *t, const int rows, const int vectors) {
    for (int column = 0; column < t->columns; column += vectors * 8) {
        const uint16_t *b = t->b + column / AMP_GEMM_BLOCK * (int64_t)t->b_panel_stride + column % AMP_GEMM_BLOCK * 2;
        strip_of(t, b, t->c + column, rows, vectors);
    }
}

static void tile(const amp_gemm_tile *t) {
    switch (t->rows) {
    case 1:
        if (t->panels == 2)
            tile_of(t, 1, 8);
        else
            tile_of(t, 1, 4);
        break;
    case 2: tile_of(t, 2, 4); break;
    case 3: tile_of(t, 3, 4); break;
    case 4: tile_of(t, 4, 2); break;
    case 5: tile_of(t, 5, 2); break;
    case 6: tile_of(t, 6, 2); break;
    default: __builtin_unreachable();
    }
}

static const amp_gemm_isa isa = {
    .a_f32 = true,
    .max_rows = 6,
    .max_panels = {1, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
    .group_panels = 1,
    .pass_blocks = 16,
    .pack_a = pack_a,
    .tile = tile,
    .finish = finish,
};

amp_status amp_gemm_bf16_avx2(const amp_gemm *g) {
    return amp_gemm_run(g, &isa);
}
