/* The layouts of batches of lines, images and volumes: plain (NCHW) or channels-last (NHWC in memory, NCHW in
 * shape). */
#ifndef AMP_CORE_LAYOUT_H
#define AMP_CORE_LAYOUT_H

#include "core/tensor_impl.h"

/* Channels vary fastest, then the width, …, with gaps or without: what PyTorch calls channels_last (rank 4) and
 * channels_last_3d (rank 5); of lines of samples (rank 3) too, which it has no name for, but keeps so as well. False
 * for other ranks. An image of one pixel can be both this and dense. */
bool amp_is_channels_last(const amp_tensor *t);

/* Channels-last, and not plain as well: results of such a tensor are channels-last. */
bool amp_prefers_channels_last(const amp_tensor *t);

/* The strides of such a tensor in dense memory; rank 3 and more. */
void amp_channels_last_strides(int rank, const int64_t *shape, int64_t *strides);

/* Gives a fresh dense tensor that has no other views the layout of `like`: channels-last where both have one rank and
 * `like` prefers it, else what it is. */
void amp_take_layout(amp_tensor *fresh, const amp_tensor *like);

/* The elements fill their memory, in whichever order of dimensions. */
bool amp_fills_memory(const amp_tensor *t);

/* The common shape of two: extents match, or one of them is 1, or is missing on the left. False: they do not fit. */
bool amp_broadcast_shapes(int rank_a, const int64_t *a, int rank_b, const int64_t *b, int *rank, int64_t *shape);

#endif /* AMP_CORE_LAYOUT_H */
