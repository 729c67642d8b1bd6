/* The table of ways. Two rows' order is that of their speed where both pay; whether one pays follows from the shape and the
 * processor alone.
 *
 * Measured on one thread of a Zen 4 (AVX512_BF16, no AMX), CPU time, all in turns, GFLOP/s; everything from f32 operands that
 * lie in memory as BLAS gives them, packing and looking through them included:
 *
 *     M = N = K             64    128    256    512   2048
 *     OpenBLAS 0.3.21
 *     MKL 2026.1
 *     f32
 *     bf16
 *     bf16x2
 *     bf16x3
 *
 * vdpbf16ps makes twice the products of an FMA there (and half of them on the Xeons that have it without AMX, or do not
 * need it): three and six products lose. A tile of AMX makes sixteen times as many: six are a bit over a third of f32's time, by
 * arithmetic; that has never been timed. */
#include "blas/ways.h"

#include <string.h>

#include "amp/system.h"
#include "cpu/registry/gemm.h"

enum {
    LEAST_EXTENT = 32, /* of f32: below, packing B, and what a tile pads, is felt … */
    LEAST_BF16_EXTENT =
        48, /* … and of bf16 this, as its operands are looked through too: M + N is 4 % of the time at 2048 */
    LEAST_TILES_EXTENT = 256
};

/* Packing B is paid back by M, looking through A and B by both. */
static bool has_extents(const amp_blas_product *p, int64_t least) {
    return p->m >= least && p->n >= least && p->k >= least;
}

static bool has_tiles(void) {
    return amp_isa_usable(AMP_ISA_AMX);
}

static bool pays_in_tiles(const amp_blas_product *p) {
    return has_tiles() && has_extents(p, LEAST_TILES_EXTENT);
}

static bool pays_in_bf16(const amp_blas_product *p) {
    if (has_tiles()) return has_extents(p, 2 * LEAST_BF16_EXTENT);
    return amp_isa_usable(AMP_ISA_AVX512BF16) && amp_gemm_dot_pays(NULL) && has_extents(p, LEAST_BF16_EXTENT);
}

/* Zeros in the place of a triangle would meet infinities, which f32 operands may hold. */
static bool pays_in_f32(const amp_blas_product *p) {
    const bool has_triangle = p->a.form == AMP_BLAS_TRIANGULAR || p->b.form == AMP_BLAS_TRIANGULAR;
    return !has_triangle && amp_isa_usable(AMP_ISA_AVX512) && has_extents(p, LEAST_EXTENT);
}

/* Exponents: no part of an element, and no product of two, is below the normal numbers, 2^-126, which the instructions
 * take for zero. The last bit of a part is 2^-23 of its element in the worst case, that of bf16(x) 2^-7; sums are multiples
 * of the product of two last bits. */
static const amp_blas_way ways[] = {
    {"bf16", AMP_BLAS_BF16, 1, 1, {{0, 0}}, -126, -126 + 7 + 7, pays_in_bf16},
    {"bf16x2", AMP_BLAS_BF16X2, 2, 3, {{1, 0}, {0, 1}, {0, 0}}, -126 + 23, -126 + 23 + 23, pays_in_tiles},
    {"bf16x3",
     AMP_BLAS_BF16X3,
     3,
     6,
     {{2, 0}, {0, 2}, {1, 1}, {1, 0}, {0, 1}, {0, 0}},
     -126 + 23,
     -126 + 23 + 23,
     pays_in_tiles},
    {"f32", AMP_BLAS_BF16X3, 0, 1, {{0, 0}}, 0, 0, pays_in_f32},
};

enum { WAY_COUNT = sizeof ways / sizeof *ways };

const amp_blas_way *amp_blas_way_of(const amp_blas_product *p, const amp_blas_request *r, const char **why) {
    *why = "small, or this machine has no faster way";
    if (r->precision == AMP_BLAS_F32) *why = "f32 is asked for";
    for (int i = 0; i < WAY_COUNT; i++) {
        const amp_blas_way *way = &ways[i];
        if (r->everything ? way->precision == r->precision : way->precision <= r->precision && way->pays(p)) return way;
    }
    return NULL;
}

const amp_blas_way *amp_blas_way_named(const char *name) {
    for (int i = 0; i < WAY_COUNT; i++)
        if (strcmp(ways[i].name, name) == 0) return &ways[i];
    return NULL;
}
