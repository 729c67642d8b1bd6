/* What the attention kernels share. */
#ifndef AMP_CUDA_HEADS_H
#define AMP_CUDA_HEADS_H

#include "cuda/kernels/kernel.h"

/* Where a head begins; `group` query heads share one. */
AMP_DEVICE int64_t head_offset(const amp_cuda_attention &a, const amp_cuda_heads &h, int64_t head, int64_t group) {
    int64_t at = 0;
    AMP_ROLLED
    for (int d = a.batch_rank - 1; d >= 0; d--) {
        const int64_t index = head % a.batch[d];
        at += (d == a.batch_rank - 1 ? index / group : index) * h.batch[d];
        head /= a.batch[d];
    }
    return at;
}

/* Where what a block found for a query row in its share of the keys goes. */
AMP_DEVICE int64_t place_of_share(const amp_cuda_attention &a, int64_t share, int64_t head, int64_t row) {
    return (share * a.heads + head) * a.rows + row;
}

#endif /* AMP_CUDA_HEADS_H */
