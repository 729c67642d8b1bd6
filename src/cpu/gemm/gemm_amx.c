/* bf16 GEMM on AMX tiles.
 *
 * Formula:     per block of 32 k: even = Σ a_k · b_k over its even k, odd over its odd k, each fused, in ascending
 *              order, from zero; c = rne(c + rne(even + odd)), in one tdpbf16ps; then act(alpha · c + beta · r + bias).
 * Accumulator: f32, in a tile over a pass of K blocks and in f32 scratch between passes.
 * Error bound: |c - exact| ≤ (16 + K/32) · 2⁻²⁴ · Σ|a_k b_k| to first order, plus K · 2⁻¹²⁶ for flushed denormals.
 * Denormals:   tdpbf16ps reads denormals as zero and flushes denormal sums; MXCSR is neither read nor written.
 * ISA:         AMX-TILE, AMX-BF16; AVX512F, AVX512BW around the tiles.
 * Source:      Intel SDM volume 2, TDPBF16PS.
 *
 * A row panel of more than 16 rows is two tiles of rows by two of columns; up to 16 rows are one tile by four, so that
 * B, which is then the stream, is used as it arrives. Rows that a panel lacks are zeros in packed A: tiles have the
 * same rows throughout a product, and are configured once per thread. The tail of K is zeros on both sides, never a
 * neighbour's NaN. */
#include <immintrin.h>

#include "cpu/gemm/gemm_isa.h"
#include "cpu/gemm/gemm_simd.h"
#include "machine/amx_tiles.h"

static int upper_rows(int panel_rows) {
    return (panel_rows + 1) / 2;
}

static void begin(int panel_rows) {
    if (panel_rows > 16) {
        const uint8_t upper = (uint8_t)upper_rows(panel_rows), lower = (uint8_t)(panel_rows - upper);
        amp_tiles_configure((const uint8_t[8]){upper, upper, lower, lower, upper, lower, 16, 16});
    } else {
        const uint8_t rows = (uint8_t)panel_rows;
        amp_tiles_configure((const uint8_t[8]){rows, rows, rows, rows, rows, 16, 16, 16});
    }
}

static void end(void) {
    _tile_release();
}

/* How B is loaded: into L1; past it; or after it has been fetched. */
typedef enum way { NEAR, STREAMED, FETCHED } way;

/* 1 KB of a panel of B, what a tile or two halves of two take, as far ahead as the vector kernels fetch. */
static inline __attribute__((always_inline)) void fetch_ahead(const void *b, const int panels) {
#pragma GCC unroll 16
    for (int line = 0; line < 1024; line += 64) __builtin_prefetch((const char *)b + line + AMP_GEMM_AHEAD / panels);
}

/* A tile of B, its rows 128 bytes apart; `how` is a constant of the function around it. */
#define LOAD_B(tile, from)                                                                                             \
    do {                                                                                                               \
        if (how == STREAMED)                                                                                           \
            _tile_stream_loadd(tile, from, 128);                                                                       \
        else                                                                                                           \
            _tile_loadd(tile, from, 128);                                                                              \
    } while (0)

/* Accumulators 0 1 over 2 3, A in 4 and 5, B in 6 and 7. A lies packed, or somewhere at the distances of a_offsets. */
static inline __attribute__((always_inline)) void tile_2x2(const amp_gemm_tile *t, const bool packed, const way how) {
    enum { PITCH = AMP_GEMM_BLOCK * sizeof(float) };
    const int upper = upper_rows(t->panel_rows);
    float *const lower_c = t->c + upper * AMP_GEMM_BLOCK;
    if (t->accumulate) {
        _tile_loadd(0, t->c, PITCH);
        _tile_loadd(1, t->c + 16, PITCH);
        _tile_loadd(2, lower_c, PITCH);
        _tile_loadd(3, lower_c + 16, PITCH);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    const uint16_t *b = t->b;
    const int64_t row_bytes = packed ? 64 : t->a_row_bytes;
    for (int64_t block = 0; block < (t->pairs + 15) / 16; block++) {
        const char *a = (const char *)t->a + (packed ? block * t->panel_rows * row_bytes : t->a_offsets[block]);
        LOAD_B(6, b);
        _tile_loadd(4, a, row_bytes);
        _tile_dpbf16ps(0, 4, 6);
        LOAD_B(7, b + 32);
        _tile_dpbf16ps(1, 4, 7);
        _tile_loadd(5, a + upper * row_bytes, row_bytes);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
        b += AMP_GEMM_BLOCK_VALUES;
    }
    _tile_stored(0, t->c, PITCH);
    _tile_stored(1, t->c + 16, PITCH);
    _tile_stored(2, lower_c, PITCH);
    _tile_stored(3, lower_c + 16, PITCH);
}

/* Accumulators 0 … 3 side by side, A in 4, B in 5 … 7. */
static inline __attribute__((always_inline)) void tile_1x4(const amp_gemm_tile *t, const way how) {
    enum { PITCH = 2 * AMP_GEMM_BLOCK * sizeof(float) };
    if (t->accumulate) {
        _tile_loadd(0, t->c, PITCH);
        _tile_loadd(1, t->c + 16, PITCH);
        _tile_loadd(2, t->c + 32, PITCH);
        _tile_loadd(3, t->c + 48, PITCH);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    const uint16_t *a = t->a, *b = t->b, *more_b = (const uint16_t *)t->b + t->b_panel_bytes / 2;
    for (int64_t block = 0; block < (t->pairs + 15) / 16; block++) {
        _tile_loadd(4, a, 64);
        LOAD_B(5, b);
        if (how == FETCHED) fetch_ahead(b, 2);
        _tile_dpbf16ps(0, 4, 5);
        LOAD_B(6, b + 32);
        if (how == FETCHED) fetch_ahead(b + 512, 2);
        _tile_dpbf16ps(1, 4, 6);
        LOAD_B(7, more_b);
        if (how == FETCHED) fetch_ahead(more_b, 2);
        _tile_dpbf16ps(2, 4, 7);
        LOAD_B(5, more_b + 32);
        if (how == FETCHED) fetch_ahead(more_b + 512, 2);
        _tile_dpbf16ps(3, 4, 5);
        a += t->panel_rows * AMP_GEMM_BLOCK;
        b += AMP_GEMM_BLOCK_VALUES;
        more_b += AMP_GEMM_BLOCK_VALUES;
    }
    _tile_stored(0, t->c, PITCH);
    _tile_stored(1, t->c + 16, PITCH);
    _tile_stored(2, t->c + 32, PITCH);
    _tile_stored(3, t->c + 48, PITCH);
}

/* The last panel of an odd number: accumulators 0 and 1. */
static inline __attribute__((always_inline)) void tile_1x2(const amp_gemm_tile *t, const way how) {
    enum { PITCH = AMP_GEMM_BLOCK * sizeof(float) };
    if (t->accumulate) {
        _tile_loadd(0, t->c, PITCH);
        _tile_loadd(1, t->c + 16, PITCH);
    } else {
        _tile_zero(0);
        _tile_zero(1);
    }
    const uint16_t *a = t->a, *b = t->b;
    for (int64_t block = 0; block < (t->pairs + 15) / 16; block++) {
        _tile_loadd(4, a, 64);
        LOAD_B(5, b);
        if (how == FETCHED) fetch_ahead(b, 1);
        _tile_dpbf16ps(0, 4, 5);
        LOAD_B(6, b + 32);
        if (how == FETCHED) fetch_ahead(b + 512, 1);
        _tile_dpbf16ps(1, 4, 6);
        a += t->panel_rows * AMP_GEMM_BLOCK;
        b += AMP_GEMM_BLOCK_VALUES;
    }
    _tile_stored(0, t->c, PITCH);
    _tile_stored(1, t->c + 16, PITCH);
}

static void pack_a(const amp_gemm_pack_a *p, void *dst) {
    simd_pack_a(p, dst, SIMD_A_BF16);
}

/* By the loads of packing, so that f32 has the same bits. */
static void copy_pixels(char *to, int64_t to_step, const char *from, int64_t from_step, amp_dtype dtype,
                        int64_t channels, int64_t pixels) {
    for (int64_t i = 0; i < pixels; i++, to += to_step, from += from_step)
        for (int64_t c = 0; c < channels; c += AMP_GEMM_BLOCK)
            _mm512_store_si512(to + c * 2, simd_load_a_block(from, c, dtype, 0xffffffffu));
}

static inline __attribute__((always_inline)) void tall_tile(const amp_gemm_tile *t, const way how) {
    if (t->a_offsets)
        tile_2x2(t, false, how);
    else
        tile_2x2(t, true, how);
}

static inline __attribute__((always_inline)) void low_tile(const amp_gemm_tile *t, const way how) {
    if (t->panels == 2)
        tile_1x4(t, how);
    else
        tile_1x2(t, how);
}

static void tile(const amp_gemm_tile *t) {
    const bool tall = t->panel_rows > 16;
    amp_tiles_see_stores(t->a);
    if (tall && t->stream_b)
        tall_tile(t, STREAMED);
    else if (tall)
        tall_tile(t, NEAR);
    else if (t->far_b)
        low_tile(t, FETCHED);
    else if (t->stream_b)
        low_tile(t, STREAMED);
    else
        low_tile(t, NEAR);
}

static const amp_gemm_isa isa = {
    .a_f32 = false,
    /* Vector loads wait for what tiles have just stored: the products of another tile, 16 cycles each, come between. */
    .finishes_late = true,
    /* 1024 flop a cycle, FMA 64: what is counted in products of FMA (STREAM_COST and others in gemm.c) is 16 times as
     * many of these. */
    .rate_shift = 4,
    /* 10 µs of a core, as AMP_GRAIN_MACS: of few rows the weights are the limit, 28 GB/s of LLC are 140 K of them in
     * that time; of many the products, at half of 3,540 GFLOP/s 8.8 M. By arithmetic, not measured. */
    .row_grain = 128 * 1024,
    .most_grain = 8 * 1024 * 1024,
    .max_rows = 32,
    .max_panels = {1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2},
    /* At this rate the LLC decides (28 GB/s for a core). A chunk of R rows meets a group of N columns while slices of
     * both are in L2, so that of a large product 1/R + 1/N bytes come from the LLC for each flop: 0.0059 for 512 × 256,
     * 0.0117 for 256 × 128. Partial sums are then 512 KB of L2's 2 MB, a slice of A 512 KB, one of B 256 KB.
     * Where all K of the chunk stays in L2 it is 1/R: less from 192 rows on, 0.0052. Then up to 1 MB is A's, and a
     * group has no more panels than leave it there until the next. By arithmetic and a simulation of the caches, not
     * measured. */
    .chunk_rows = 512,
    .near_rows = 192,
    .near_chunk_bytes = 1024 * 1024,
    .near_l2_bytes = 1664 * 1024,
    .group_panels = 8,
    /* 512 of k: A of a tile is 32 KB of L1's 48, and each slice of B passes L1 by, for it meets the next row panel only
     * after the group's others: 3,070 … 3,210 GFLOP/s for the tiles alone, with ordinary loads of B 2,500 … 2,600
     * (480 and less were chosen for those). Fewer passes than with 480 also at K = 512, 1024, 2048 … */
    .near_bytes = 48 * 1024,
    .pass_blocks = 16,
    /* L2 (2 MB) has 16 ways of 128 KB. The slices of 16 row panels 64 KB or more apart, 32 KB each, would meet in one
     * half of its sets or a quarter, beside eight slices of B: such panels are a slice further apart. (B's panels stay
     * where they are: one packed form serves all.) By arithmetic, not measured; A in the order of passes, the same to
     * L2, gained up to a factor of 2. */
    .alias_bytes = 64 * 1024,
    .pack_a = pack_a,
    .copy_pixels = copy_pixels,
    .tile = tile,
    .finish = amp_gemm_finish_avx512bf16,
    .begin = begin,
    .end = end,
};

amp_status amp_gemm_bf16_amx(const amp_gemm *g) {
    return amp_gemm_run(g, &isa);
}
