/* The table of ways. Rows stand in the order of their speed where both pay; whether one pays follows from the shape and
 * the processor alone.
 *
 * bench_blas on one thread of a Zen 4 (AVX512_BF16, no AMX), CPU time, medians, all in turns; GFLOP/s of the product
 * that was asked for, from f32 operands as BLAS has them, looking through, splitting and packing included:
 *
 *         M     N     K   OpenBLAS   MKL    f32   bf16   bf16x2  bf16x3
 *        64    64    64      113.9  86.1   83.2   80.8
 *        96    96    96      115.2  92.5   96.9  126.1    39.2    23.8
 *       128   128   128       97.9  92.9  101.9  152.4
 *       512   512   512       97.6  94.6  101.4  188.9    60.4    32.1
 *      2048  2048  2048      103.1  99.4  104.9  203.6    64.9    33.4
 *        32  2048  2048       60.2  59.9   53.8   70.4    12.4     9.3
 *       128  2048  2048       88.0  85.8   84.1  132.2    31.1    20.3
 *       256  2048  2048       99.3  95.6   96.1  169.2    43.9    25.4
 *       256  1024  1024       95.3  93.0   97.2  185.3    53.8    27.6
 *      2048    48    48       92.6  89.5   86.9  107.6    30.1    16.9
 *        32    32  2048       82.1  82.4   81.4   71.4    20.8    14.2
 *      2048    32    32       83.6  83.3   90.3   73.8    24.3    14.3
 *
 * vdpbf16ps makes twice the products of an FMA there, so three and six of them lose. With AVX2 alone f32 is as fast as
 * OpenBLAS, or slower, but where C is narrow, B small and A dense along K; on a Zen 3, which changes its speed from row
 * to row:
 *
 *      2048  2048  2048       93.7  85.2   87.8
 *       128  2048  2048       87.5  80.2   73.4
 *       512   512   512       88.5  90.5   87.5
 *      1024    64    64       68.4  84.8   77.3
 *      1024    64   256       82.1  85.9   85.5
 *      4096    64   256       79.5  82.5   85.1
 *     10000    64   784       68.6  71.2   83.2
 *      4096    48  1000       64.5  69.6   78.1
 *      1000    50  1000       74.6  65.6   65.6
 *      1024   128  8192       78            71
 *      4096    64   784       71            42     A transposed
 *      4096   128   768       80.5  83.8   89.0
 *      2048   192  2048       85.9  89.4   88.5
 *
 * Reference BLAS, loops that a compiler made, has 5 there. A tile of AMX makes sixteen times the products: six take a
 * bit over a third of f32's time, by arithmetic; that was never timed. */
#include "blas/ways.h"

#include <string.h>

#include "amp/system.h"
#include "cpu/registry/gemm.h"

enum {
    LEAST_EXTENT = 32,              /* tiles and panels are padded to so much */
    LEAST_AREA = 64 * 64,           /* of B and C */
    LEAST_BF16_WORK = 96 * 96 * 96, /* below, a call costs more than its products gain … */
    LEAST_F32_WORK = 128 * 128 * 128,
    LARGE_B = 1024 * 1024, /* … and so does packing a B that comes from L3 or beyond, … */
    ROWS_OF_LARGE_B = 512, /* … for fewer rows, at f32's small gain */
    LEAST_STORED = 192,    /* of a triangle of C, or a symmetric operand, … */
    LEAST_TRIANGLE = 768,  /* … and of a triangular one: below */
    LEAST_TILES_EXTENT = 256,
    NARROW = 128, /* with AVX2 alone: columns of C, in whole panels, … */
    PANEL = 16,
    LEAST_OF_NARROW_M = 1024, /* … at least so many rows and so much of K, … */
    LEAST_OF_NARROW_K = 256,
    MOST_OF_NARROW_B = 1 << 18,   /* … and at most so many elements of B: f32 is as fast as any then, or faster */
    LEAST_N_OF_TRANSPOSED_A = 512 /* to pay for packing it: a guess from the row above, not measured with AVX-512 */
};

static bool has_extents(const amp_blas_product *p, int64_t least) {
    return p->m >= least && p->n >= least && p->k >= least;
}

static bool is_large(const amp_blas_product *p, int64_t least_work) {
    return has_extents(p, LEAST_EXTENT) && p->n * p->k >= LEAST_AREA && p->m * p->n >= LEAST_AREA &&
           (double)p->m * (double)p->n * (double)p->k >= (double)least_work;
}

static bool has_form(const amp_blas_product *p, amp_blas_form form) {
    return p->a.form == form || p->b.form == form;
}

/* OpenBLAS's and bf16's ms, of squares: ssyrk 128 0.03 and 0.04, 192 0.09 and 0.08, 1024 12.4 and 6.6; ssymm 192 0.14
 * and 0.12, 1024
 * 23.1 and 13.2; strmm 512 1.44 and 1.61, 768 4.78 and 4.68, 2048 90 and 69. */
static int64_t least_extent(const amp_blas_product *p) {
    if (has_form(p, AMP_BLAS_TRIANGULAR)) return LEAST_TRIANGLE;
    return has_form(p, AMP_BLAS_SYMMETRIC) || p->part != AMP_BLAS_ALL ? LEAST_STORED : LEAST_EXTENT;
}

static bool pays_in_tiles(const amp_blas_product *p, bool over_loops) {
    (void)over_loops;
    return amp_isa_usable(AMP_ISA_AMX) && has_extents(p, LEAST_TILES_EXTENT) && has_extents(p, least_extent(p));
}

static bool pays_in_bf16(const amp_blas_product *p, bool over_loops) {
    (void)over_loops;
    const bool dots = amp_isa_usable(AMP_ISA_AVX512BF16) && amp_gemm_dot_pays(NULL);
    return (dots || amp_isa_usable(AMP_ISA_AMX)) && is_large(p, LEAST_BF16_WORK) && has_extents(p, least_extent(p));
}

static bool is_narrow(const amp_blas_product *p) {
    return p->n >= LEAST_EXTENT && p->n <= NARROW && p->n % PANEL == 0 && p->m >= LEAST_OF_NARROW_M &&
           p->k >= LEAST_OF_NARROW_K && p->n * p->k <= MOST_OF_NARROW_B;
}

/* Over kernels only of whole matrices: a triangle costs more than what is gained (ssyrk 97.8 and 93.3 ms at 2048). Over
 * loops, too, of no triangular operand: zeros in its place would meet infinities, which operands of f32 may hold. */
static bool pays_in_f32(const amp_blas_product *p, bool over_loops) {
    const bool whole = least_extent(p) == LEAST_EXTENT && (p->a.column == 1 || p->n >= LEAST_N_OF_TRANSPOSED_A);
    const bool packs_cheaply = p->n * p->k <= LARGE_B || p->m >= ROWS_OF_LARGE_B;
    if (!amp_isa_usable(AMP_ISA_AVX2)) return false;
    if (over_loops) return !has_form(p, AMP_BLAS_TRIANGULAR) && is_large(p, LEAST_BF16_WORK);
    return whole && (is_narrow(p) || (amp_isa_usable(AMP_ISA_AVX512) && packs_cheaply && is_large(p, LEAST_F32_WORK)));
}

/* Exponents: no part of an element, and no product of two, is below the normal numbers, 2^-126, which the instructions
 * take for zero. The last bit of a part is 2^-23 of its element in the worst case, that of bf16(x) 2^-7; sums are
 * multiples of the product of two last bits: -103 = -126 + 23, -80 = -126 + 2 * 23, -112 = -126 + 2 * 7. */
static const amp_blas_way ways[] = {
    {"bf16", AMP_BLAS_BF16, 1, 1, {{0, 0}}, -126, -112, pays_in_bf16},
    {"bf16x2", AMP_BLAS_BF16X2, 2, 3, {{1, 0}, {0, 1}, {0, 0}}, -103, -80, pays_in_tiles},
    {"bf16x3", AMP_BLAS_BF16X3, 3, 6, {{2, 0}, {0, 2}, {1, 1}, {1, 0}, {0, 1}, {0, 0}}, -103, -80, pays_in_tiles},
    {"f32", AMP_BLAS_BF16X3, 0, 1, {{0, 0}}, 0, 0, pays_in_f32},
};

enum { WAY_COUNT = sizeof ways / sizeof *ways };

const amp_blas_way *amp_blas_way_of(const amp_blas_product *p, const amp_blas_request *r, const char **why) {
    *why = "small, or this machine has no faster way";
    if (r->precision == AMP_BLAS_F32) *why = "f32 is asked for";
    for (int i = 0; i < WAY_COUNT; i++) {
        const amp_blas_way *way = &ways[i];
        if (r->everything ? way->precision == r->precision
                          : way->precision <= r->precision && way->pays(p, r->over_loops))
            return way;
    }
    return NULL;
}

const amp_blas_way *amp_blas_way_named(const char *name) {
    for (int i = 0; i < WAY_COUNT; i++)
        if (strcmp(ways[i].name, name) == 0) return &ways[i];
    return NULL;
}
