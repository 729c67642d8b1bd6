// Device memory: what is kept and given back, what runs out, and memory that is lent, over the driver of the tests' own.
#include <chrono>
#include <cmath>
#include <cstring>
#include <future>

#include "amp/dlpack.h"
#include "cuda_test.h"
#include "internals.h"

using namespace amp_test;

namespace {

class CudaMemory : public CudaTest {
  protected:
    // Of dense tensors of the host.
    static bool same_bytes(amp_tensor *x, amp_tensor *y) {
        const size_t bytes = size_t(amp_tensor_numel(y)) * amp_dtype_size(amp_tensor_dtype(y));
        return x && amp_tensor_numel(x) == amp_tensor_numel(y) && amp_tensor_dtype(x) == amp_tensor_dtype(y) &&
               std::memcmp(amp_data(x), amp_data(y), bytes) == 0;
    }
};

// ---- What is kept ---------------------------------------------------------------------------------------------------

TEST_F(CudaMemory, MemoryThatWasReleasedIsUsedAgainWithoutTheDriver) {
    Scope scope;
    amp_tensor *x = sent(counting({1000}));
    uint64_t asked = 0;
    for (int i = 0; i < 10; i++) {
        Scope inner;
        for (int64_t n : {1000, 997, 1000}) { // two at once are of one size
            amp_tensor *y = op("exp", {op("narrow", {x, 0, 0, n})});
            ASSERT_NE(y, nullptr) << amp_last_error();
        }
        if (i == 0) asked = fake->allocations;
    }
    EXPECT_EQ(fake->allocations, asked);
}

TEST_F(CudaMemory, WhatALaneKeepsIsGivenBackBeforeMemoryIsOut) {
    Scope scope;
    const size_t limit = fake->memory_limit;
    {
        Scope inner;
        for (int i = 0; i < 64; i++)
            ASSERT_NE(op("zeros", {AMP_DIMS(1 << 14)}, {{"device", AMP_DEVICE_CUDA}}), nullptr);
    }
    fake->memory_limit = amp_cuda_counters().live_bytes + (3 << 20);
    EXPECT_NE(op("zeros", {AMP_DIMS(5 << 17)}, {{"device", AMP_DEVICE_CUDA}}), nullptr) << amp_last_error();
    fake->memory_limit = limit;
}

// Of the driver's memory, of which a number has 512 bytes, and what is a little larger than a size up to a quarter more
// than was asked for.
TEST_F(CudaMemory, WhatALaneKeepsIsBoundedByWhatItsBlocksHold) {
    const size_t most = 64 << 20;
    const struct {
        int count;
        int64_t elements;
    } rows[] = {{150000, 1}, {40, (2 << 20) / 4 + 1}};
    for (const auto &row : rows) {
        SCOPED_TRACE(row.elements);
        ASSERT_EQ(amp_cuda_trim_memory(), AMP_OK);
        const size_t at_first = fake->block_bytes;
        {
            const Scope scope;
            for (int i = 0; i < row.count; i++)
                ASSERT_NE(op("empty", {AMP_DIMS(row.elements)}, {{"device", AMP_DEVICE_CUDA}}), nullptr);
            EXPECT_GT(fake->block_bytes, at_first + most);
        }
        EXPECT_LE(fake->block_bytes, at_first + most);
        EXPECT_GT(fake->block_bytes, at_first + most / 2) << "nothing is kept";
        ASSERT_EQ(amp_cuda_trim_memory(), AMP_OK);
        EXPECT_EQ(fake->block_bytes, at_first);
    }
}

TEST_F(CudaMemory, TrimmingWaitsOnceAndGivesBackEvenWhereItTellsOfAFault) {
    const Scope scope;
    amp_tensor *x = sent(op("to", {counting({4}), AMP_I32}));
    {
        const Scope inner;
        ASSERT_NE(op("remainder", {x, x}), nullptr) << amp_last_error();
    }
    const size_t kept = fake->block_bytes;
    const uint64_t waits = amp_cuda_counters().synchronizations;
    EXPECT_EQ(amp_cuda_trim_memory(), AMP_ERROR_INVALID);
    EXPECT_TRUE(contains(error(), "cuda_trim_memory: cuda: a divisor of remainder was zero"));
    EXPECT_EQ(amp_cuda_counters().synchronizations, waits + 1);
    EXPECT_LT(fake->block_bytes, kept);
    EXPECT_EQ(amp_cuda_trim_memory(), AMP_OK) << "told once";
}

// Where the driver has no pools it waits for the device whenever memory goes back to it; another thread's ops do not.
TEST_F(CudaMemory, OtherThreadsGoOnWhileOneWaitsForMemoryToGoBack) {
    const auto make = [](int64_t bytes) {
        return op("zeros", {AMP_DIMS(bytes / 4)}, {{"device", AMP_DEVICE_CUDA}}) != nullptr;
    };
    std::future<bool> other;
    bool waited = false, went_on = false;
    const auto watch = [&] {
        waited = true;
        other = std::async(std::launch::async, [&] {
            const Scope scope;
            return make(512);
        });
        went_on = other.wait_for(std::chrono::seconds(20)) == std::future_status::ready;
    };
    {
        const Scope scope;
        ASSERT_TRUE(make(512)) << amp_last_error();
    }
    fake->while_waiting = watch;
    EXPECT_EQ(amp_cuda_trim_memory(), AMP_OK);
    EXPECT_TRUE(went_on && other.get());
    {
        const Scope scope;
        ASSERT_TRUE(make(8 << 20)) << amp_last_error(); // more than a lane keeps
        waited = went_on = false;
        fake->while_waiting = watch;
    }
    EXPECT_EQ(waited, std::getenv("AMP_FAKE_NO_POOLS") != nullptr);
    EXPECT_TRUE(!waited || (went_on && other.get()));
    fake->while_waiting = nullptr;
}

TEST_F(CudaMemory, OutOfMemoryIsASentenceLeaksNothingAndTheNextSmallerCallWorks) {
    Scope scope;
    const size_t limit = fake->memory_limit;
    amp_tensor *x = sent(counting({1024, 256})); // 1 MiB
    ASSERT_EQ(amp_cuda_trim_memory(), AMP_OK);
    fake->memory_limit = 2 << 20;
    const size_t live = amp_cuda_counters().live_bytes;
    EXPECT_EQ(op("repeat", {x, AMP_DIMS(4, 1)}), nullptr);
    EXPECT_EQ(error(), "repeat: cuda has no memory for 4194304 bytes ([4096, 256] f32)");
    EXPECT_EQ(amp_cuda_counters().live_bytes, live);
    EXPECT_NE(op("narrow", {op("exp", {op("narrow", {x, 0, 0, 16})}), 0, 0, 4}), nullptr) << amp_last_error();
    fake->memory_limit = limit;
}

TEST_F(CudaMemory, WhatThePoolKeepsIsGivenBackBeforeMemoryIsOut) {
    Scope scope;
    const size_t limit = fake->memory_limit;
    ASSERT_EQ(amp_cuda_trim_memory(), AMP_OK);
    fake->memory_limit = amp_cuda_counters().live_bytes + (3 << 20);
    for (int i = 0; i < 8; i++) {
        Scope inner;
        EXPECT_NE(sent(counting({2, 256, 1024})), nullptr) << amp_last_error(); // 2 MiB each time
    }
    fake->memory_limit = limit;
}

// ---- What is lent, and views ----------------------------------------------------------------------------------------

TEST_F(CudaMemory, DlpackLendsDeviceMemoryBothWays) {
    Scope scope;
    amp_tensor *x = sent(counting({3, 4}));
    DLManagedTensorVersioned *out = amp_to_dlpack(op("transpose", {x, 0, 1}));
    ASSERT_NE(out, nullptr) << amp_last_error();
    EXPECT_EQ(out->dl_tensor.device.device_type, kDLCUDA);
    EXPECT_EQ(out->dl_tensor.device.device_id, 0);
    amp_tensor *back = amp_from_dlpack(out); // its deleter gives our own handle back
    ASSERT_NE(back, nullptr) << amp_last_error();
    EXPECT_EQ(amp_tensor_device(back), AMP_DEVICE_CUDA);
    EXPECT_EQ(values(op("mul", {back, 2})), values(op("mul", {op("transpose", {counting({3, 4}), 0, 1}), 2})));
}

TEST_F(CudaMemory, DlpackOfADeviceThatIsNotThereStaysWithItsOwner) {
    Scope scope;
    DLManagedTensorVersioned *out = amp_to_dlpack(sent(counting({2})));
    ASSERT_NE(out, nullptr);
    out->dl_tensor.device.device_id = 7;
    EXPECT_EQ(amp_from_dlpack(out), nullptr);
    EXPECT_EQ(error(), "from_dlpack: cuda: there is no CUDA device 7; this machine has 4, counted from 0");
    out->deleter(out);
}

TEST_F(CudaMemory, DlpackOfComplexNumbersThatAGpuCannotReadAtOnceIsRefused) {
    Scope scope;
    amp_tensor *x = sent(op("to", {counting({5}), AMP_F64}));
    for (const bool middle : {true, false}) {
        DLManagedTensorVersioned *out = amp_to_dlpack(op("narrow", {x, 0, middle ? 1 : 2, 2}));
        ASSERT_NE(out, nullptr);
        out->dl_tensor.dtype = {kDLComplex, 128, 1};
        out->dl_tensor.shape[0] = 1;
        amp_tensor *in = amp_from_dlpack(out);
        if (!middle) {
            ASSERT_NE(in, nullptr) << amp_last_error();
            EXPECT_DOUBLE_EQ(numbers_of(fetched(op("abs", {in}))).at(0), std::hypot(2, 3));
            continue;
        }
        EXPECT_EQ(in, nullptr);
        EXPECT_EQ(error(), "from_dlpack: the data of c128 is not aligned to 16 bytes: copy it first");
        out->deleter(out);
    }
}

TEST_F(CudaMemory, LentMemoryIsNoComplexNumbersFromTheMiddleOfOne) {
    Scope scope;
    DLManagedTensorVersioned *out =
        amp_to_dlpack(op("view", {op("narrow", {sent(counting({5})), 0, 1, 4}), AMP_DIMS(2, 2)}));
    ASSERT_NE(out, nullptr);
    out->dl_tensor.data = static_cast<char *>(out->dl_tensor.data) - 4; // another one than went out
    out->dl_tensor.byte_offset = 4;
    amp_tensor *x = amp_from_dlpack(out);
    ASSERT_NE(x, nullptr) << amp_last_error();
    EXPECT_EQ(op("view_as_complex", {x}), nullptr);
    EXPECT_EQ(error(),
              "view_as_complex: input [2, 2] f32 does not begin at a multiple of a complex number's 8 bytes, as it "
              "must on cuda: clone it first");
    EXPECT_NE(op("view_as_complex", {op("clone", {x})}), nullptr) << amp_last_error();
}

// What moves whole elements, of views whose first element is not at a multiple of 16 bytes. (The sanitizers see how
// they are read.)
TEST_F(CudaMemory, ViewsThatBeginAnywhereAreMoved) {
    for (int d = AMP_DTYPE_NONE + 1; d < AMP_DTYPE_COUNT; d++) {
        const auto dtype = static_cast<amp_dtype>(d);
        SCOPED_TRACE(amp_dtype_name(dtype));
        for (int64_t first : {0, 1, 3}) {
            Scope scope;
            const int64_t indices[3] = {4, 0, 3}, three[1] = {3};
            amp_tensor *host = op("to", {op("remainder", {counting({33, 40}), amp_float(100)}), dtype});
            amp_tensor *index = amp_from_data(indices, AMP_I64, 1, three), *there = sent(index);
            ASSERT_NE(host, nullptr) << amp_last_error();
            const auto cut = [first](amp_tensor *t) {
                return op("narrow", {op("narrow", {t, 1, first, 36}), 0, first, 29});
            };
            amp_tensor *x = cut(host), *y = cut(sent(host));
            const auto across = [](amp_tensor *i) { return op("expand", {op("unsqueeze", {i, 1}), AMP_DIMS(3, 36)}); };
            const auto expect = [](const char *what, amp_tensor *got, amp_tensor *want) {
                ASSERT_NE(got, nullptr) << what << ": " << amp_last_error();
                EXPECT_TRUE(same_bytes(fetched(got), op("contiguous", {want}))) << what;
            };
            expect("contiguous", op("contiguous", {y}), x);
            expect("turned", op("contiguous", {op("transpose", {y, 0, 1})}), op("transpose", {x, 0, 1}));
            expect("cat", op("cat", {std::vector<amp_tensor *>{y, y}, 1}),
                   op("cat", {std::vector<amp_tensor *>{x, x}, 1}));
            expect("index_select", op("index_select", {y, 0, there}), op("index_select", {x, 0, index}));
            expect("gather", op("gather", {y, 0, across(there)}), op("gather", {x, 0, across(index)}));
            expect("scatter", op("scatter", {y, 0, across(there), op("narrow", {y, 0, 1, 3})}),
                   op("scatter", {x, 0, across(index), op("narrow", {x, 0, 1, 3})}));
            expect("scatter of a number", op("scatter", {y, 0, across(there), amp_int(1)}),
                   op("scatter", {x, 0, across(index), amp_int(1)}));
        }
    }
}

} // namespace
