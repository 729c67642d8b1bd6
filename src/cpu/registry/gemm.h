/* bf16 and f32 matrix products over packed weights, below the device table: pointers, sizes and strides only.
 *
 *     C[M,N] = act(alpha · scale[N] · A[M,K] · B[K,N] + beta · R[M,N] + bias[N])
 *
 * In the bf16 product A and B are rounded to bf16, in the f32 product they are f32.
 *
 * B is packed once; one packed form of each product serves every M and every ISA. Products are summed in f32 over all
 * of K, C is rounded once at the end, and the order of the sums follows from the kernel alone: one row of C has the
 * same bits whatever M is, however many threads run (AMX rows differ from the vector kernels' rows; and where B has
 * infinities, zeros around an image may or may not meet them). */
#ifndef AMP_CPU_GEMM_H
#define AMP_CPU_GEMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "steps/activation.h"

#include "amp/error.h"
#include "amp/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A's rows as windows of images whose channels lie together: row (n, d, h, w), of [images][out], holds for each tap of
 * the window in turn the channels of the pixel at out · stride - pad + tap · dilation. What lies outside of the image
 * is zero, and is not read. */
typedef struct amp_gemm_window {
    int64_t out[3], in[3], taps[3], stride[3], pad[3], dilation[3]; /* depth, height, width */
    int64_t channels;
    int64_t run_taps;              /* along the width: taps[2], or 1 */
    int64_t run_padding;           /* zeros in K after the values of so many taps: 0, or 1 to make them even */
    int64_t image_stride, step[3]; /* from image to image, pixel to pixel */
} amp_gemm_window;

static inline int64_t amp_gemm_window_run(const amp_gemm_window *w) {
    return w->run_taps * w->channels + w->run_padding;
}
/* What K has to be. */
static inline int64_t amp_gemm_window_k(const amp_gemm_window *w) {
    return w->taps[0] * w->taps[1] * (w->taps[2] / w->run_taps) * amp_gemm_window_run(w);
}

/* Strides are in elements of the operand's type. */
typedef struct amp_gemm {
    int64_t m, n, k; /* from 0 up; k = 0 gives act(beta · R + bias) */
    int64_t batch;   /* number of matrices; 0 is an empty product: nothing is written */

    const void *a;     /* [batch, M, K] */
    amp_dtype a_dtype; /* f32 (the bf16 product rounds it, RNE, on the way in) or bf16 */
    int64_t a_row_stride, a_column_stride, a_batch_stride;
    const amp_gemm_window
        *window; /* NULL, or what A's rows are; then `a` is the first pixel, and only the batch stride of
                                      A is looked at */

    const void *b;          /* packed for the product: by amp_gemm_pack or amp_gemm_f32_pack */
    int64_t b_batch_stride; /* in bytes: what is packed of one B, or 0 where all share one */

    void *c;           /* [batch, M, N], unit column stride; may not overlap A or B */
    amp_dtype c_dtype; /* f32 or bf16 */
    int64_t c_row_stride, c_batch_stride;
    int64_t c_line_stride; /* with a window: from the first row of an output line to that of the next */

    float alpha, beta;    /* beta is not looked at without a residual; beta = 0 with one still lets its NaN through */
    const void *residual; /* NULL, or R; may be C itself, with C's type and strides */
    amp_dtype residual_dtype; /* f32 or bf16 */
    int64_t residual_row_stride, residual_column_stride, residual_batch_stride;
    int64_t residual_line_stride; /* with a window, as C's */
    const float *scale;           /* NULL (1), or [batch, N], unit stride */
    int64_t scale_batch_stride;
    const void *bias;     /* NULL, or [batch, N], unit stride */
    amp_dtype bias_dtype; /* f32 or bf16 */
    int64_t bias_batch_stride;
    amp_gemm_activation activation;
    float activation_numbers[2];
} amp_gemm;

/* Whether there is more to do with the products than to add the bias, and relu of what was stored. */
static inline bool amp_gemm_is_fused(const amp_gemm *g) {
    return g->alpha != 1.0f || g->scale || g->residual || g->activation > AMP_GEMM_RELU;
}

/* Bytes of a packed [K,N] operand: blocks [⌈N/32⌉][⌈K/32⌉][16][32][2] bf16, zero padded. 0 if that overflows, or if
 * n or k is 0. */
size_t amp_gemm_packed_bytes(int64_t n, int64_t k);

/* Packs B: element (n, k) is src[n · stride_n + k · stride_k]. A linear layer's weight [N,K] has stride_n = K, stride_k
 * = 1; a right-hand matrix [K,N] has stride_n = 1, stride_k = N. `dst` is 64-byte aligned, `src` anywhere. `src_dtype`
 * is f32 (rounded RNE, denormals kept), bf16, or f16 (exact to f32, then rounded). */
amp_status amp_gemm_pack(void *dst, const void *src, amp_dtype src_dtype, int64_t n, int64_t k, int64_t stride_n,
                         int64_t stride_k);

/* What a row of family GEMM in kernels.def is: the whole product by one ISA. */
typedef amp_status amp_gemm_function(const amp_gemm *g);

/* What a row of family GEMM_PACK is: one block of B, `columns` × `ks` elements of it, the rest of 32×32 zeroed, to
 * [16][32][2] bf16. `dst` is 64-byte aligned. */
typedef void amp_gemm_pack_function(uint16_t *dst, const void *src, amp_dtype src_dtype, int columns, int ks,
                                    int64_t stride_n, int64_t stride_k);

/* Predicates of rows; they take an amp_gemm, or NULL: is there any shape? */
bool amp_gemm_suits_tiles(const void *problem); /* enough rows and products for AMX */
bool amp_gemm_dot_pays(const void *problem);    /* vdpbf16ps is not slower here than up-conversion and FMA */

/* Runs the bf16 product with the best kernel for it. `kernel_name`, if not NULL, receives the static name of the kernel
 * that ran ("gemm_bf16_amx"). */
amp_status amp_gemm_bf16(const amp_gemm *g, const char **kernel_name);

/* The f32 product: blocks [⌈N/32⌉][⌈K/32⌉][32][32] f32, zero padded; as above. */
size_t amp_gemm_f32_packed_bytes(int64_t n, int64_t k);
amp_status amp_gemm_f32_pack(float *dst, const void *src, int64_t n, int64_t k, int64_t stride_n, int64_t stride_k);
amp_status amp_gemm_f32(const amp_gemm *g, const char **kernel_name);

#ifdef __cplusplus
}
#endif

#endif /* AMP_CPU_GEMM_H */
