// The same numbers in other places of memory.
#ifndef AMP_TESTS_LAYOUTS_H
#define AMP_TESTS_LAYOUTS_H

#include <vector>

#include "amp_test.h"

namespace amp_test {

// Channels innermost; of rank 3 and more.
inline amp_tensor *channels_last(amp_tensor *t) {
    const int rank = amp_tensor_rank(t);
    amp_dims there = {}, back = {};
    there.count = back.count = rank;
    there.set = back.set = AMP_PRESENT;
    back.values[1] = rank - 1;
    for (int i = 2; i < rank; i++) {
        there.values[i - 1] = i;
        back.values[i] = i - 1;
    }
    there.values[rank - 1] = 1;
    return op("permute", {op("contiguous", {op("permute", {t, there})}), back});
}

// Dense with the channels innermost. False where a tensor of this shape cannot tell.
inline bool is_channels_last(const amp_tensor *t) {
    const int rank = amp_tensor_rank(t);
    const int64_t *strides = amp_tensor_strides(t), *shape = amp_tensor_shape(t);
    int64_t step = shape[1];
    bool dense = shape[1] > 1 && strides[1] == 1;
    for (int d = rank - 1; d > 1; step *= shape[d--]) dense = dense && (shape[d] == 1 || strides[d] == step);
    return dense && (shape[0] == 1 || strides[0] == step);
}

// Every second element of something larger.
inline amp_tensor *spread(amp_tensor *t) {
    amp_tensor *twice = op("stack", {std::vector<amp_tensor *>{t, t}}, {{"dim", -1}});
    return op("select", {twice, -1, 1});
}

} // namespace amp_test

#endif // AMP_TESTS_LAYOUTS_H
