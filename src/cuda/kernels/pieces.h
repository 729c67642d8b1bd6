/* Many tensors in one launch: a block takes a piece of one of them at a time. */
#ifndef AMP_CUDA_PIECES_H
#define AMP_CUDA_PIECES_H

#include "cuda/kernels/kernel.h"

/* Whose piece it is. */
AMP_DEVICE int tensor_of(const int64_t *first_piece, int tensors, int64_t piece) {
    int low = 0, high = tensors; /* first_piece[low] ≤ piece < first_piece[high] */
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (first_piece[middle] <= piece) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

#endif /* AMP_CUDA_PIECES_H */
