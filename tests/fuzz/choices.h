// What the fuzzers of ops have in common: choices from the input's bytes, the calls to draw from, and a change of sizes.
#ifndef AMP_TESTS_FUZZ_CHOICES_H
#define AMP_TESTS_FUZZ_CHOICES_H

#include <cstdlib>
#include <initializer_list>

#include "op_calls.h"

namespace fuzz {

constexpr size_t most_elements = 1 << 15; // of one tensor

// Choices from the input's bytes; 0 when they are used up.
struct Choices {
    const uint8_t *at, *end;

    unsigned byte() {
        return at < end ? *at++ : 0;
    }
    // 0 … n - 1
    size_t below(size_t n) {
        const unsigned low = byte();
        return (low + (n > 256 ? byte() << 8 : 0)) % n;
    }
    bool one_in(unsigned n) {
        return byte() % n == n - 1;
    }
    template <class T>
    T pick(std::initializer_list<T> values) {
        return values.begin()[below(values.size())];
    }
};

struct Random {
    uint64_t state;
    double unit() { // [0, 1)
        state = state * 6364136223846793005u + 1442695040888963407u;
        return double(state >> 11) / double(1LL << 53);
    }
};

inline const std::vector<op_calls::Call> &calls() {
    static const std::vector<op_calls::Call> all = [] {
        const char *folder = std::getenv("AMP_FUZZ_CASES");
        return op_calls::all(folder ? folder : AMP_TESTS_GOLDEN);
    }();
    return all;
}

inline bool fits(const std::vector<int64_t> &shape) {
    size_t n = 1;
    for (const int64_t extent : shape) {
        if (extent < 0 || (extent > 0 && n > most_elements / size_t(extent))) return false;
        n *= size_t(extent);
    }
    return n <= most_elements;
}

// One extent gets another value wherever it occurs, in tensors and in lists of sizes.
inline void rename_extent(op_calls::Call *call, Choices *choose) {
    std::vector<int64_t> present;
    for (const op_calls::Tensor &t : call->tensors) present.insert(present.end(), t.shape.begin(), t.shape.end());
    if (present.empty()) return;
    const int64_t from = present[choose->below(present.size())];
    const int64_t to = choose->pick<int64_t>({1, 0, 2, 3, 5, 7, 16, 17, 33, 64, 100, 257, 1000, 4099});
    std::vector<std::vector<int64_t>> shapes;
    for (const op_calls::Tensor &t : call->tensors) {
        shapes.push_back(t.shape);
        for (int64_t &extent : shapes.back()) extent = extent == from ? to : extent;
        if (!fits(shapes.back())) return;
    }
    for (size_t i = 0; i < shapes.size(); i++) op_calls::reshape(&call->tensors[i], shapes[i]);
    for (op_calls::Argument &a : call->arguments) {
        if (a.value.kind != AMP_VALUE_DIMS) continue;
        for (int i = 0; i < a.value.as.dims.count; i++) {
            if (a.value.as.dims.values[i] == from) a.value.as.dims.values[i] = to;
        }
    }
}

// So that what asks for too much fails, as it must.
inline void limit_memory() {
    amp_allocator small = {};
    small.allocate = [](void *, size_t bytes, size_t alignment) -> void * {
        return bytes > (1u << 24) ? nullptr : std::aligned_alloc(alignment, (bytes + alignment - 1) & ~(alignment - 1));
    };
    small.release = [](void *, void *block, size_t) { std::free(block); };
    amp_set_allocator(&small);
}

} // namespace fuzz

#endif // AMP_TESTS_FUZZ_CHOICES_H
