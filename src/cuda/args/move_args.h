/* The arguments of kernels that copy elements as they are from strides to strides. */
#ifndef AMP_CUDA_MOVE_ARGS_H
#define AMP_CUDA_MOVE_ARGS_H

#include "amp/types.h"
#include "cuda/args/divisor.h"

/* move_<size>: `count` units of so many bytes. turn_<size>: the last two dimensions by tiles, since neighbours in `in`
 * are along the second last one, and in `out` along the last; `count` tiles, of which there are `tiles` along each. */
typedef struct amp_cuda_move {
    const void *in;
    void *out;
    int rank;
    int64_t count, in_strides[AMP_MAX_RANK], out_strides[AMP_MAX_RANK];
    amp_cuda_divisor shape[AMP_MAX_RANK], tiles[2];
} amp_cuda_move;
enum { AMP_CUDA_TURN = 32 }; /* rows and columns of a tile */

#endif /* AMP_CUDA_MOVE_ARGS_H */
