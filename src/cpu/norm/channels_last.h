/* Channels that lie innermost. */
#ifndef AMP_CPU_NORM_CHANNELS_LAST_H
#define AMP_CPU_NORM_CHANNELS_LAST_H

#include "core/layout.h"
#include "core/tensor_impl.h"

/* Dense memory with the channels innermost: strides as of [batch, …, channels]. */
static inline bool amp_lies_channels_last(const amp_tensor *t) {
    int64_t strides[AMP_MAX_RANK];
    if (t->rank < 3 || t->strides[1] != 1) return false;
    amp_channels_last_strides(t->rank, t->shape, strides);
    for (int d = 0; d < t->rank; d++) {
        if (t->shape[d] != 1 && t->strides[d] != strides[d]) return false;
    }
    return true;
}

/* Threads that take a whole part each at a time, where that loads them evenly; 1: all of them share each part. */
static inline int amp_threads_of_parts(int threads, int64_t parts) {
    return parts % threads == 0 || parts >= 4 * (int64_t)threads ? threads : 1;
}

#endif /* AMP_CPU_NORM_CHANNELS_LAST_H */
