/* Attention of one head: softmax(scale·q·kᵀ + mask)·v without the matrix of scores.
 *
 * Groups of up to 32 query rows against 256 keys; running maximum and sum per row (online softmax: Milakov and
 * Gimelshein, arXiv 1805.02867; in blocks: Dao et al., arXiv 2205.14135). Scores and sums are f32. The order of sums
 * follows from S, D and the ISA alone. A row whose keys are all masked (scores of −inf) gives zeros; a NaN score gives
 * a row of NaN. */
#ifndef AMP_CPU_ATTENTION_H
#define AMP_CPU_ATTENTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct amp_attention_head {
    const void *q, *k, *v; /* q is (rows, depth), k is (keys, depth), v is (keys, width): elements of a row are dense */
    void *out;             /* (rows, width) */
    int64_t q_step, k_step, v_step, out_step; /* from row to row, in elements */
    int64_t rows, keys, depth, width;
    float scale;
    bool causal;       /* row i sees keys 0 … first_row + i */
    int64_t first_row; /* place of row 0 among the query's rows */
    const float *mask; /* added to the scores, −inf hides a key; NULL: none */
    int64_t mask_row_step, mask_key_step;
} amp_attention_head;

/* `packed`: room for the head's packed keys and values, amp_attention_packed_bytes(…) of it, 64-byte aligned; `reuse`
 * says that it still holds this k and v from the call before. */
typedef void amp_attention_function(const amp_attention_head *head, void *packed, bool reuse);

enum { AMP_ATTENTION_ROWS = 4, AMP_ATTENTION_TILE_ROWS = 32, AMP_ATTENTION_KEYS = 256 };

/* What a query row knows about the keys seen so far: the largest score, and the sum of e^(score − max). */
typedef struct amp_attention_state {
    float max, sum;
} amp_attention_state;

/* For few rows against many keys, which are read where they lie, once: keys [first_key, first_key + keys) of the head.
 * Sets the state of each row, and its sums, Σ e^(score − max)·v, [rows][width] dense. `out` is not written. */
typedef void amp_attention_part_function(const amp_attention_head *head, int64_t first_key, int64_t keys,
                                         amp_attention_state *state, float *sums);

/* Enough for every row of the registry. */
size_t amp_attention_packed_bytes(int64_t keys, int64_t depth, int64_t width);

/* ---- Gradients ---------------------------------------------------------------------------------------------------- */
/* AMP_ATTENTION_STRIP: keys whose scores are kept at a time. */
enum { AMP_ATTENTION_BACKWARD_ROWS = 64, AMP_ATTENTION_STRIP = 3840 };

/* What the gradients of a block of rows are written to; `step`s are those of amp_attention_padded. */
typedef struct amp_attention_gradients {
    float *q; /* [rows][depth], set, yet to be multiplied by the scale … */
    float *k,
        *v; /* … as k is, [keys][depth] and [keys][width]: added to; up to 5 rows behind the last key are written too */
    int64_t depth_step, width_step;
} amp_attention_gradients;

/* For up to AMP_ATTENTION_BACKWARD_ROWS rows of a head, whose `out` is read: it is the gradient of the result.
 *
 *     dV = Pᵀ dO,  dP = dO Vᵀ,  dS = P (dP − Σ P dP),  dK = dSᵀ Q·scale,  dQ = dS K·scale
 *
 * with P the weights. A row whose keys are all masked has none, and gives zeros. `room`:
 * amp_attention_backward_bytes(…), 64-byte aligned; `reuse`: k and v are those of the call before. */
typedef void amp_attention_backward_function(const amp_attention_head *head, const amp_attention_gradients *gradients,
                                             void *room, bool reuse);
size_t amp_attention_backward_bytes(int64_t keys, int64_t depth, int64_t width);
/* Elements of a row of sums. */
static inline int64_t amp_attention_padded(int64_t columns) {
    return (columns + 15) / 16 * 16;
}

/* Requirements of the bf16 kernels: depth is even (AVX512_BF16), or a multiple of 32 (AMX). The problem is the head;
 * NULL holds. */
bool amp_attention_depth_is_even(const void *problem);
bool amp_attention_suits_tiles(const void *problem);

#endif /* AMP_CPU_ATTENTION_H */
