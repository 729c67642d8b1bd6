// Streams of the caller's, over the tests' driver.
#include <thread>

#include "cuda_test.h"

using namespace amp_test;

namespace {

class CudaStreams : public CudaTest {
  protected:
    void TearDown() override {
        if (fake) {
            EXPECT_EQ(amp_cuda_set_stream(nullptr), AMP_OK) << amp_last_error();
        }
        CudaTest::TearDown();
    }
    // As a program that uses CUDA beside libamp.
    static void *driver(const char *name) {
        static void *const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
        void *function = dlsym(library, name);
        EXPECT_NE(function, nullptr) << name;
        return function;
    }
    static void *make(int device = 0) {
        void *stream = nullptr;
        const auto set = reinterpret_cast<int (*)(uintptr_t)>(driver("cuCtxSetCurrent"));
        EXPECT_EQ(set(uintptr_t(device) + 1), 0);
        EXPECT_EQ(reinterpret_cast<int (*)(void **, unsigned)>(driver("cuStreamCreate"))(&stream, 1), 0);
        return stream;
    }
    static void destroy(void *stream) {
        EXPECT_EQ(reinterpret_cast<int (*)(void *)>(driver("cuStreamDestroy_v2"))(stream), 0);
    }
};

TEST_F(CudaStreams, WorkGoesToTheCallersStreamUntilItIsTakenBack) {
    const Scope scope;
    amp_tensor *x = sent(counting({4}));
    void *const stream = make();
    ASSERT_NE(op("exp", {x}), nullptr);
    void *const own = fake->last_stream;
    const amp_cuda_counts start = amp_cuda_counters();
    ASSERT_EQ(amp_cuda_set_stream(stream), AMP_OK) << amp_last_error();
    amp_tensor *y = op("add", {x, x});
    EXPECT_EQ(fake->last_stream, stream);
    EXPECT_EQ(amp_cuda_counters().stream_waits, start.stream_waits + 1)
        << "it waits for ours once, not for each tensor";
    EXPECT_EQ(values(op("mm", {op("unsqueeze", {y, 0}), op("unsqueeze", {y, 1})})), std::vector<float>{56});
    ASSERT_EQ(amp_cuda_set_stream(nullptr), AMP_OK);
    EXPECT_EQ(amp_cuda_counters().stream_waits, start.stream_waits + 2) << "and ours for it";
    ASSERT_NE(op("exp", {y}), nullptr);
    EXPECT_EQ(fake->last_stream, own);
    EXPECT_EQ(amp_cuda_counters().synchronizations, start.synchronizations + 1) << "values() alone";
    destroy(stream);
}

TEST_F(CudaStreams, TheLegacyDefaultStreamIsOneToo) {
    const Scope scope;
    void *const legacy = reinterpret_cast<void *>(uintptr_t(1)); // cudaStreamLegacy
    ASSERT_EQ(amp_cuda_set_stream(legacy), AMP_OK) << amp_last_error();
    EXPECT_EQ(values(op("neg", {sent(counting({2}))})), (std::vector<float>{0, -1}));
    EXPECT_EQ(fake->last_stream, legacy);
}

TEST_F(CudaStreams, TensorsOutliveTheStreamThatMadeThem) {
    const Scope scope;
    void *const stream = make();
    ASSERT_EQ(amp_cuda_set_stream(stream), AMP_OK);
    amp_tensor *x = sent(counting({3}));
    amp_tensor *y = op("add", {x, x});
    ASSERT_EQ(amp_cuda_set_stream(nullptr), AMP_OK);
    destroy(stream);
    std::thread([&] {
        const Scope inner;
        EXPECT_EQ(values(op("add", {y, x})), (std::vector<float>{0, 3, 6}));
    }).join();
    EXPECT_EQ(values(op("mul", {y, amp_float(2)})), (std::vector<float>{0, 4, 8}));
}

TEST_F(CudaStreams, AnotherThreadWaitsForTheStream) {
    const Scope scope;
    void *const stream = make();
    ASSERT_EQ(amp_cuda_set_stream(stream), AMP_OK);
    amp_tensor *x = sent(counting({3}));
    const amp_cuda_counts start = amp_cuda_counters();
    std::thread([&] {
        const Scope inner;
        EXPECT_EQ(values(op("add", {x, x})), (std::vector<float>{0, 2, 4}));
        EXPECT_NE(fake->last_stream, stream) << "it is one thread's";
    }).join();
    EXPECT_GT(amp_cuda_counters().stream_waits, start.stream_waits);
    ASSERT_EQ(amp_cuda_set_stream(nullptr), AMP_OK);
    destroy(stream);
}

TEST_F(CudaStreams, AStreamThatIsDestroyedUnderATensorIsASentence) {
    const Scope scope;
    void *const stream = make();
    ASSERT_EQ(amp_cuda_set_stream(stream), AMP_OK);
    amp_tensor *x = sent(counting({3}));
    destroy(stream);
    EXPECT_EQ(op("exp", {x}), nullptr);
    EXPECT_TRUE(contains(error(), "exp: cuda"));
    EXPECT_EQ(amp_cuda_set_stream(nullptr), AMP_ERROR_INVALID);
    EXPECT_EQ(error(), "cuda_set_stream: cuda: the stream of before was destroyed while it was lent (its work has been "
                       "waited for)");
    EXPECT_EQ(values(op("add", {x, x})), (std::vector<float>{0, 2, 4})) << "told once";
}

TEST_F(CudaStreams, TensorsThatAreReleasedAfterTheStreamLeakNothing) {
    void *const stream = make();
    const size_t live = amp_cuda_counters().live_blocks;
    ASSERT_EQ(amp_cuda_set_stream(stream), AMP_OK);
    {
        const Scope scope;
        ASSERT_NE(sent(counting({3})), nullptr);
        destroy(stream);
    }
    EXPECT_EQ(amp_cuda_counters().live_blocks, live);
    EXPECT_EQ(amp_cuda_set_stream(nullptr), AMP_ERROR_INVALID);
    amp_clear_error();
}

TEST_F(CudaStreams, WhatIsNoStreamOfTheDeviceIsRefused) {
    const Scope scope;
    int nothing = 0;
    EXPECT_EQ(amp_cuda_set_stream(&nothing), AMP_ERROR_INVALID);
    EXPECT_EQ(error(), "cuda_set_stream: cuda: there is no such stream");
    EXPECT_EQ(amp_cuda_set_stream(reinterpret_cast<void *>(2)), AMP_ERROR_INVALID);
    EXPECT_EQ(error(), "cuda_set_stream: cuda: cudaStreamPerThread is another stream in every thread");
    ASSERT_EQ(amp_cuda_set_device(1), AMP_OK);
    ASSERT_NE(sent(counting({1})), nullptr);
    ASSERT_EQ(amp_cuda_set_device(0), AMP_OK);
    void *const other = make(1);
    EXPECT_EQ(amp_cuda_set_stream(other), AMP_ERROR_INVALID);
    EXPECT_EQ(error(), "cuda_set_stream: cuda: the stream is not of device 0's primary context");
    EXPECT_NE(op("exp", {sent(counting({2}))}), nullptr) << amp_last_error();
    EXPECT_NE(fake->last_stream, other);
    destroy(other);
}

TEST_F(CudaStreams, AThreadThatEndsGivesItsStreamBack) {
    const Scope scope;
    void *const stream = make();
    amp_tensor *made = nullptr;
    std::thread([&] {
        const Scope inner;
        EXPECT_EQ(amp_cuda_set_stream(stream), AMP_OK) << amp_last_error();
        made = amp_keep(op("add", {sent(counting({3})), amp_float(1)}));
    }).join();
    destroy(stream);
    ASSERT_NE(made, nullptr);
    EXPECT_EQ(values(made), (std::vector<float>{1, 2, 3}));
    amp_release(made);
}

} // namespace
