/* bf16 GEMM, reference: plain scalar C.
 *
 * Formula:     c = Σ_k a_k · b_k in ascending k, one f32 addition each; then act(alpha · c + beta · r + bias).
 * Accumulator: f32. A product of two bf16 values has 16 significant bits and is exact in f32 unless it leaves f32's
 *              range, so this is the order and, but for over- and underflowing products, the bits of the FMA kernels.
 * Error bound: |c - exact| ≤ K · 2⁻²⁴ · Σ|a_k b_k| to first order; then half an ulp of C's type.
 * Denormals:   kept, as MXCSR says by default.
 * ISA:         none.
 * Source:      Higham, Accuracy and Stability of Numerical Algorithms, section 3.1 (error of a dot product). */
#include "cpu/gemm_isa.h"
#include "cpu/gemm_scalar.h"

static void pack_a(const amp_gemm_pack_a *p, void *dst) {
    float *out = (float *)dst + p->block * p->panel_rows * AMP_GEMM_BLOCK;
    for (int64_t block = p->block; block < p->block + p->blocks; block++) {
        for (int r = 0; r < p->panel_rows; r++) {
            for (int64_t k = block * AMP_GEMM_BLOCK; k < (block + 1) * AMP_GEMM_BLOCK; k++, out++) {
                const bool inside = r < p->rows && k < p->k;
                *out = inside ? scalar_load_rounded(p->src, p->dtype, r * p->row_stride + k * p->column_stride) : 0.0f;
            }
        }
    }
}

static void tile(const amp_gemm_tile *t) {
    const int64_t pitch = (int64_t)t->panels * AMP_GEMM_BLOCK;
    for (int r = 0; r < t->rows; r++) {
        for (int64_t n = 0; n < pitch; n++) {
            const float *a = (const float *)t->a + r * AMP_GEMM_BLOCK;
            const uint16_t *b = t->b + n / AMP_GEMM_BLOCK * (int64_t)t->b_panel_stride + n % AMP_GEMM_BLOCK * 2;
            float sum = t->accumulate ? t->c[r * pitch + n] : 0.0f;
            for (int64_t k = 0; k < 2 * t->pairs; k++) {
                const int64_t block = k / AMP_GEMM_BLOCK, at = k % AMP_GEMM_BLOCK;
                sum += a[block * t->panel_rows * AMP_GEMM_BLOCK + at] *
                       amp_f32_from_bf16(b[block * AMP_GEMM_BLOCK_VALUES + at / 2 * 64 + at % 2]);
            }
            t->c[r * pitch + n] = sum;
        }
    }
}

static void finish(const amp_gemm_finish *f, const amp_gemm_place *place, const float *tile) {
    for (int r = 0; r < place->rows; r++) {
        for (int j = 0; j < place->columns; j++) {
            const int64_t row = place->row + r, column = place->column + j;
            float x = f->alpha * tile[r * place->pitch + j];
            if (f->residual)
                x += f->beta * scalar_load(f->residual, f->residual_dtype,
                                           row * f->residual_row_stride + column * f->residual_column_stride);
            if (f->bias) x += scalar_load(f->bias, f->bias_dtype, column);
            scalar_store(f->c, f->c_dtype, row * f->c_row_stride + column, scalar_activation(x, f->activation));
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

static const amp_gemm_isa isa = {
    .a_f32 = true,
    .max_rows = 8,
    .max_panels = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
    .group_panels = 1,
    .pass_blocks = INT64_MAX,
    .pack_a = pack_a,
    .tile = tile,
    .finish = finish,
};

amp_status amp_gemm_bf16_ref(const amp_gemm *g) {
    return amp_gemm_run(g, &isa);
}
