// Memory that ends after a number of requests: for tests that nothing crashes and nothing is left wherever it does.
#ifndef AMP_TESTS_ENDING_MEMORY_H
#define AMP_TESTS_ENDING_MEMORY_H

#include <climits>
#include <cstddef>
#include <cstdlib>

#include "amp_test.h"

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

// While it lives libamp's memory comes from an Ending; nothing of it may be left in the end.
class EndingMemory {
  public:
    EndingMemory() {
        amp_memory_trim();
        EXPECT_EQ(amp_set_allocator(&allocator_), AMP_OK);
    }
    ~EndingMemory() {
        amp_cast_cache_clear();
        amp_memory_trim();
        EXPECT_EQ(amp_set_allocator(nullptr), AMP_OK);
        EXPECT_EQ(ending_.out, 0) << "left behind";
    }
    EndingMemory(const EndingMemory &) = delete;
    EndingMemory &operator=(const EndingMemory &) = delete;

    // Calls, each time in a scope, with memory for 0, 1, 2, … requests, until one went without a failure. After each other one that has an error it must be that
    // there is no memory; `failed` then sees that nothing has changed.
    template <class Call, class Failed>
    void until_it_works(Call call, Failed failed) {
        for (long enough = 0; enough < 100000; enough++) {
            const Scope scope;
            amp_memory_trim();
            ending_.failed = 0;
            ending_.left = enough;
            call();
            ending_.left = LONG_MAX;
            if (ending_.failed == 0) {
                EXPECT_EQ(amp_last_status(), AMP_OK) << amp_last_error();
                return;
            }
            if (amp_last_status() == AMP_OK) continue; // it did without
            EXPECT_TRUE(failed_with(AMP_ERROR_MEMORY, {"memory"})) << enough;
            failed();
        }
        ADD_FAILURE() << "it never works";
    }
    template <class Call>
    void until_it_works(Call call) {
        until_it_works(call, [] {});
    }

  private:
    Ending ending_;
    const amp_allocator allocator_ = {Ending::allocate, Ending::release, &ending_};
};

} // namespace amp_test

#endif // AMP_TESTS_ENDING_MEMORY_H
