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

enum { COLUMNS = 8 }; /* whose sums grow side by side */

/* Elements (k, n) … (k, n + COLUMNS - 1) of B, k counted from the start of the pass. */
static void load_b(const amp_gemm_tile *t, int64_t k, int64_t n, bool b_f32, float *to) {
    const char *panel = (const char *)t->b + n / AMP_GEMM_BLOCK * t->b_panel_bytes;
    const int64_t block = k / AMP_GEMM_BLOCK * AMP_GEMM_BLOCK_VALUES, row = k % AMP_GEMM_BLOCK;
    const int64_t column = n % AMP_GEMM_BLOCK;
    const float *wide = (const float *)panel + block + row * AMP_GEMM_BLOCK + column;
    const uint16_t *narrow = (const uint16_t *)panel + block + row / 2 * 64 + column * 2 + row % 2;
    if (b_f32) memcpy(to, wide, COLUMNS * sizeof *to);
    for (int j = 0; j < COLUMNS && !b_f32; j++) to[j] = amp_f32_from_bf16(narrow[2 * j]);
}

static void multiply(const amp_gemm_tile *t, bool b_f32) {
    const int64_t pitch = (int64_t)t->panels * AMP_GEMM_BLOCK, a_block = (int64_t)t->panel_rows * AMP_GEMM_BLOCK;
    for (int r = 0; r < t->rows; r++) {
        const float *a = (const float *)t->a + r * AMP_GEMM_BLOCK;
        for (int64_t n = 0; n < pitch; n += COLUMNS) {
            float sums[COLUMNS] = {0.0f}, b[COLUMNS];
            if (t->accumulate) memcpy(sums, t->c + r * pitch + n, sizeof sums);
            for (int64_t k = 0; k < 2 * t->pairs; k++) {
                const float its = a[k / AMP_GEMM_BLOCK * a_block + k % AMP_GEMM_BLOCK];
                load_b(t, k, n, b_f32, b);
                for (int j = 0; j < COLUMNS; j++) sums[j] += its * b[j];
            }
            memcpy(t->c + r * pitch + n, sums, sizeof sums);
        }
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
