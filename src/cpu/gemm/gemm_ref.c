/* bf16 and f32 GEMM, reference: plain scalar C.
 *
 * Formula:     c = Σ_k a_k · b_k in ascending k, one f32 addition each; then act(alpha · c + beta · r + bias).
 * Accumulator: f32. A product of two bf16 values has 16 significant bits and is exact in f32 unless it leaves f32's
 *              range, so this is the order and, but for over- and underflowing products, the bits of the FMA kernels;
 *              products of f32 are rounded, which FMA spares.
 * Error bound: |c - exact| ≤ (K + 1) · 2⁻²⁴ · Σ|a_k b_k| to first order; then half an ulp of C's type.
 * Denormals:   kept, as MXCSR says by default.
 * ISA:         none.
 * Source:      Higham, Accuracy and Stability of Numerical Algorithms, section 3.1 (error of a dot product). */
#include <string.h>

#include "cpu/gemm/gemm_isa.h"
#include "cpu/gemm/gemm_scalar.h"
#include "cpu/simd/simd_ref.h"

#include "cpu/simd/activation_body.h"

static void pack(const amp_gemm_pack_a *p, float *dst, bool rounded) {
    float *out = dst + p->block * p->panel_rows * AMP_GEMM_BLOCK;
    for (int64_t block = p->block; block < p->block + p->blocks; block++) {
        for (int r = 0; r < p->panel_rows; r++) {
            for (int64_t k = block * AMP_GEMM_BLOCK; k < (block + 1) * AMP_GEMM_BLOCK; k++, out++) {
                const int64_t at = p->window ? scalar_window_offset(p->window, p->row + r, k)
                                             : r * p->row_stride + k * p->column_stride;
                if (r >= p->rows || k >= p->k || (p->window && at == SCALAR_OUTSIDE))
                    *out = 0.0f;
                else
                    *out = rounded ? scalar_load_rounded(p->src, p->dtype, at) : scalar_load(p->src, p->dtype, at);
            }
        }
    }
}

static void pack_rounded(const amp_gemm_pack_a *p, void *dst) {
    pack(p, dst, true);
}

static void pack_exact(const amp_gemm_pack_a *p, void *dst) {
    pack(p, dst, false);
}

/* Sums that grow side by side, in registers of any x86-64: each process has the kernels that it is about to use compared
 * with this one first. */
enum { PARTS = 4, COLUMNS = 4 * PARTS };
typedef float part __attribute__((vector_size(4 * sizeof(float))));

/* Rows [k, k + ks) of B in columns [n, n + COLUMNS), k counted from the start of the pass; they lie in one block. */
static void load_b(const amp_gemm_tile *t, int64_t k, int64_t ks, int64_t n, bool b_f32, part (*to)[PARTS]) {
    const char *panel = (const char *)t->b + n / AMP_GEMM_BLOCK * t->b_panel_bytes;
    const int64_t block = k / AMP_GEMM_BLOCK * AMP_GEMM_BLOCK_VALUES, column = n % AMP_GEMM_BLOCK;
    for (int64_t i = 0; i < ks; i++) {
        const float *wide = (const float *)panel + block + i * AMP_GEMM_BLOCK + column;
        const uint16_t *narrow = (const uint16_t *)panel + block + i / 2 * 64 + column * 2 + i % 2;
        float row[COLUMNS];
        for (int j = 0; j < COLUMNS; j++) row[j] = b_f32 ? wide[j] : amp_f32_from_bf16(narrow[2 * j]);
        memcpy(to[i], row, sizeof row);
    }
}

/* Each sum in order of k. */
static void multiply_row(const float *a, part (*b)[PARTS], int64_t ks, bool accumulate, float *c) {
    part sums[PARTS] = {{0.0f}};
    if (accumulate) memcpy(sums, c, sizeof sums);
    for (int64_t k = 0; k < ks; k++) {
#pragma GCC unroll 4
        for (int i = 0; i < PARTS; i++) sums[i] += a[k] * b[k][i];
    }
    memcpy(c, sums, sizeof sums);
}

static void multiply(const amp_gemm_tile *t, bool b_f32) {
    const int64_t pitch = (int64_t)t->panels * AMP_GEMM_BLOCK, a_block = (int64_t)t->panel_rows * AMP_GEMM_BLOCK;
    part b[AMP_GEMM_BLOCK][PARTS];
    for (int64_t n = 0; n < pitch; n += COLUMNS) {
        int64_t k = 0;
        do { /* once at least: sums of nothing are 0 */
            const int64_t ks = 2 * t->pairs - k < AMP_GEMM_BLOCK ? 2 * t->pairs - k : AMP_GEMM_BLOCK;
            const float *a = (const float *)t->a + k / AMP_GEMM_BLOCK * a_block;
            load_b(t, k, ks, n, b_f32, b);
            for (int r = 0; r < t->rows; r++)
                multiply_row(a + r * AMP_GEMM_BLOCK, b, ks, t->accumulate || k > 0, t->c + r * pitch + n);
            k += AMP_GEMM_BLOCK;
        } while (k < 2 * t->pairs);
    }
}

static void tile_bf16(const amp_gemm_tile *t) {
    multiply(t, false);
}

static void tile_f32(const amp_gemm_tile *t) {
    multiply(t, true);
}

static void finish(const amp_gemm_finish *f, const amp_gemm_place *place, const float *tile) {
    for (int r = 0; r < place->rows; r++) {
        for (int j = 0; j < place->columns; j++) {
            const int64_t row = place->row + r, column = place->column + j;
            const float scale = f->scale ? f->scale[column] : 1.0f;
            float x = f->alpha * scale * tile[r * place->pitch + j];
            if (f->residual)
                x += f->beta * scalar_load(f->residual, f->residual_dtype,
                                           row * f->residual_row_stride + column * f->residual_column_stride);
            if (f->bias) x += scalar_load(f->bias, f->bias_dtype, column);
            x = v_activated(x, f->activation, f->activation_numbers);
            scalar_store(f->c, f->c_dtype, row * f->c_row_stride + column, x);
        }
    }
}

void amp_gemm_pack_bf16_ref(uint16_t *dst, const void *src, amp_dtype dtype, int columns, int ks, int64_t stride_n,
                            int64_t stride_k) {
    for (int k = 0; k < AMP_GEMM_BLOCK; k++) {
        for (int n = 0; n < AMP_GEMM_BLOCK; n++) {
            const bool inside = n < columns && k < ks;
            dst[k / 2 * 64 + n * 2 + k % 2] =
                inside ? scalar_load_bf16(src, dtype, n * stride_n + k * stride_k) : (uint16_t)0;
        }
    }
}

#define REF_ISA                                                                                                        \
    .a_f32 = true, .max_rows = 8, .chunk_rows = 64, .group_panels = 1, .pass_blocks = INT64_MAX, .finish = finish
static const amp_gemm_isa bf16 = {
    REF_ISA,
    .max_panels = {1, 1, 1, 1, 1, 1, 1, 1, 1},
    .pack_a = pack_rounded,
    .tile = tile_bf16,
};
static const amp_gemm_isa f32 = {
    REF_ISA, .b_f32 = true, .max_panels = {1, 1, 1, 1, 1, 1, 1, 1, 1}, .pack_a = pack_exact, .tile = tile_f32,
};

amp_status amp_gemm_bf16_ref(const amp_gemm *g) {
    return amp_gemm_run(g, &bf16);
}

amp_status amp_gemm_f32_ref(const amp_gemm *g) {
    return amp_gemm_run(g, &f32);
}
