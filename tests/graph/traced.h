// A function of the test's, traced, and how often it was called.
#ifndef AMP_TESTS_GRAPH_TRACED_H
#define AMP_TESTS_GRAPH_TRACED_H

#include <algorithm>
#include <functional>
#include <vector>

#include "amp_test.h"

namespace traced {

using Tensors = std::vector<amp_tensor *>;
using Function = std::function<Tensors(amp_tensor *const *)>;

struct Source {
    Function function;
    int runs = 0;
};

inline amp_status compute(void *context, amp_tensor *const *inputs, amp_tensor **outputs) {
    auto *source = static_cast<Source *>(context);
    source->runs++;
    const Tensors results = source->function(inputs);
    std::copy(results.begin(), results.end(), outputs);
    return amp_last_status();
}

} // namespace traced

#endif // AMP_TESTS_GRAPH_TRACED_H
