// Memory that ends after a number of requests: for tests that nothing crashes and nothing is left wherever it does.
#ifndef AMP_TESTS_ENDING_MEMORY_H
#define AMP_TESTS_ENDING_MEMORY_H

#include <climits>
#include <cstddef>
#include <cstdlib>

namespace amp_test {

struct Ending {
    long left = LONG_MAX, failed = 0, out = 0;

    static void *allocate(void *context, size_t bytes, size_t alignment) {
        auto *ending = static_cast<Ending *>(context);
        void *block = nullptr;
        if (ending->left-- <= 0 || posix_memalign(&block, alignment, bytes) != 0) {
            ending->failed++;
            return nullptr;
        }
        ending->out++;
        return block;
    }
    static void release(void *context, void *block, size_t) {
        static_cast<Ending *>(context)->out--;
        free(block);
    }
};

} // namespace amp_test

#endif // AMP_TESTS_ENDING_MEMORY_H
