// Streams of the caller's, over the tests' driver.
#include <jansson.h>

#include <cmath>
#include <cstring>
#include <thread>

#include "amp/dlpack.h"
#include "amp/explain.h"
#include "cuda_test.h"
#include "internals.h"

using namespace amp_test;

namespace {

class CudaStreams : public CudaTest {
  protected:
    void TearDown() override {
        if (fake) {
            EXPECT_EQ(amp_cuda_set_stream(nullptr), AMP_OK) << amp_last_error();
            EXPECT_EQ(amp_cuda_trim_memory(), AMP_OK); // some was touched behind libamp's back
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
    static void set_context(int device) {
        EXPECT_EQ(reinterpret_cast<int (*)(uintptr_t)>(driver("cuCtxSetCurrent"))(uintptr_t(device) + 1), 0);
    }
    static int device_of_context() {
        uintptr_t context = 0;
        EXPECT_EQ(reinterpret_cast<int (*)(uintptr_t *)>(driver("cuCtxGetCurrent"))(&context), 0);
        return int(context) - 1;
    }
    // Each library once, on whatever stream is set.
    void expect_libraries_on(void *stream) {
        std::vector<double> fours(64 * 64);
        for (size_t i = 0; i < 64; i++) fours[65 * i] = 4;
        amp_tensor *a = sent(tensor(AMP_F32, {64, 64}, fours));
        amp_tensor *image = op("reshape", {a, AMP_DIMS(1, 1, 64, 64)});
        for (const auto &call : {std::pair<const char *, std::vector<Value>>{"mm", {a, a}},
                                 {"conv2d", {image, image}},
                                 {"fft_rfft", {a}},
                                 {"linalg_cholesky", {a}}}) {
            fake->library_stream = nullptr;
            EXPECT_NE(op(call.first, call.second), nullptr) << amp_last_error();
            EXPECT_EQ(fake->library_stream, stream) << call.first;
        }
    }
};

// The tests' driver itself: two streams, and what is between them.
TEST_F(CudaStreams, WorkWithoutAnOrderIsSeen) {
    const Scope scope;
    amp_tensor *x = sent(counting({4}));
    ASSERT_EQ(amp_cuda_synchronize(), AMP_OK);
    const auto copy = reinterpret_cast<int (*)(uintptr_t, uintptr_t, size_t, void *)>(driver("cuMemcpyDtoDAsync_v2"));
    const auto data = uintptr_t(amp_tensor_pointer(x));
    void *const one = make(), *const other = make();
    void *event = nullptr;
    EXPECT_EQ(copy(data, data + 8, 8, one), 0);
    ASSERT_EQ(reinterpret_cast<int (*)(void **, unsigned)>(driver("cuEventCreate"))(&event, 0), 0);
    EXPECT_EQ(reinterpret_cast<int (*)(void *, void *)>(driver("cuEventRecord"))(event, one), 0);
    EXPECT_EQ(reinterpret_cast<int (*)(void *, void *, unsigned)>(driver("cuStreamWaitEvent"))(other, event, 0), 0);
    EXPECT_EQ(copy(data + 8, data, 8, other), 0);
    EXPECT_EQ(fake->complaints, 0u);
    EXPECT_NE(copy(data, data + 8, 8, one), 0);
    EXPECT_EQ(std::exchange(fake->complaints, 0), 1u);
    EXPECT_TRUE(contains(fake->complaint, "while another stream may be using it")) << fake->complaint;
    EXPECT_EQ(reinterpret_cast<int (*)()>(driver("cuCtxSynchronize"))(), 0);
    EXPECT_EQ(copy(data, data + 8, 8, other), 0) << "the host has waited";
    EXPECT_NE(copy(data, data + 508, 8, other), 0) << "it ends behind the block";
    EXPECT_EQ(std::exchange(fake->complaints, 0), 1u);
    EXPECT_EQ(reinterpret_cast<int (*)()>(driver("cuCtxSynchronize"))(), 0);
    EXPECT_EQ(reinterpret_cast<int (*)(void *)>(driver("cuEventDestroy_v2"))(event), 0);
    destroy(one);
    destroy(other);
}

TEST_F(CudaStreams, LaunchesThatNoGpuTakesAreSeen) {
    const Scope scope;
    amp_tensor *x = sent(counting({4}));
    ASSERT_NE(op("exp", {x}), nullptr);
    set_context(0);
    void *module = nullptr, *function = nullptr, *stream = make();
    ASSERT_EQ(reinterpret_cast<int (*)(void **, const void *)>(driver("cuModuleLoadData"))(&module, nullptr), 0);
    ASSERT_EQ(reinterpret_cast<int (*)(void **, void *, const char *)>(driver("cuModuleGetFunction"))(&function, module,
                                                                                                      "exp_f32"),
              0);
    using Launch =
        int (*)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
    std::vector<uint64_t> arguments(512);
    void *parameters[] = {arguments.data()};
    const auto launch = [&](unsigned blocks, unsigned threads) {
        return reinterpret_cast<Launch>(driver("cuLaunchKernel"))(function, blocks, 1, 1, threads, 1, 1, 0, stream,
                                                                  parameters, nullptr);
    };
    EXPECT_EQ(launch(1, 256), 0);
    for (const auto &wrong : {std::pair<unsigned, unsigned>{1, 257}, {0, 32}, {0x80000000u, 32}, {1, 0}}) {
        EXPECT_NE(launch(wrong.first, wrong.second), 0);
        EXPECT_EQ(std::exchange(fake->complaints, 0), 1u);
    }
    uintptr_t data;
    {
        const Scope inner;
        data = uintptr_t(amp_tensor_pointer(sent(counting({4}))));
    }
    ASSERT_EQ(amp_cuda_trim_memory(), AMP_OK);
    arguments[0] = data;
    EXPECT_NE(launch(1, 32), 0) << "memory that was released";
    EXPECT_EQ(std::exchange(fake->complaints, 0), 1u);
    destroy(stream);
}

TEST_F(CudaStreams, LibrariesWorkOnTheThreadsStream) {
    const Scope scope;
    void *const stream = make();
    ASSERT_EQ(amp_cuda_set_stream(stream), AMP_OK) << amp_last_error();
    expect_libraries_on(stream);
    std::thread([&] {
        const Scope inner;
        ASSERT_NE(op("exp", {sent(counting({2}))}), nullptr);
        EXPECT_NE(fake->last_stream, stream);
        expect_libraries_on(fake->last_stream);
    }).join();
    expect_libraries_on(stream);
    ASSERT_EQ(amp_cuda_set_stream(nullptr), AMP_OK);
    ASSERT_NE(op("exp", {sent(counting({2}))}), nullptr);
    EXPECT_NE(fake->last_stream, stream);
    expect_libraries_on(fake->last_stream);
    destroy(stream);
}

TEST_F(CudaStreams, LentMemoryIsReadAfterWhatTheDefaultStreamWroteThere) {
    const Scope scope;
    amp_tensor *x = sent(counting({4}));
    DLManagedTensorVersioned *out = amp_to_dlpack(op("narrow", {x, 0, 1, 3}));
    ASSERT_NE(out, nullptr);
    out->dl_tensor.data = static_cast<char *>(out->dl_tensor.data) - 4; // another one than went out
    out->dl_tensor.byte_offset = 4;
    ASSERT_EQ(amp_cuda_synchronize(), AMP_OK);
    set_context(0);
    const float numbers[3] = {5, 6, 7};
    void *const legacy = reinterpret_cast<void *>(uintptr_t(1));
    const auto copy =
        reinterpret_cast<int (*)(uintptr_t, const void *, size_t, void *)>(driver("cuMemcpyHtoDAsync_v2"));
    ASSERT_EQ(copy(uintptr_t(amp_tensor_pointer(x)) + 4, numbers, sizeof numbers, legacy), 0);
    amp_tensor *y = amp_from_dlpack(out);
    ASSERT_NE(y, nullptr) << amp_last_error();
    EXPECT_EQ(values(op("neg", {y})), (std::vector<float>{-5, -6, -7}));
}

TEST_F(CudaStreams, ErrorsOfGivingAStreamBackAreWhatTheyAre) {
    const Scope scope;
    void *const stream = make();
    ASSERT_EQ(amp_cuda_set_stream(stream), AMP_OK);
    amp_tensor *x = op("neg", {sent(counting({3}))});
    fake->fail_event = 2; // CUDA_ERROR_OUT_OF_MEMORY
    EXPECT_EQ(amp_cuda_set_stream(nullptr), AMP_ERROR_MEMORY);
    EXPECT_EQ(error(), "cuda_set_stream: cuda: the stream of before cannot be waited for: out of memory");
    EXPECT_EQ(amp_cuda_set_stream(nullptr), AMP_OK) << "it is back: the host has waited for it";
    EXPECT_EQ(values(op("neg", {x})), (std::vector<float>{0, 1, 2}));
    destroy(stream);
}

TEST_F(CudaStreams, ZADeviceThatIsLostWhileAStreamIsGivenBackIsCalledLost) {
    const Scope scope;
    ASSERT_EQ(amp_cuda_set_device(3), AMP_OK);
    amp_tensor *x = sent(counting({3}));
    void *const stream = make(3);
    ASSERT_EQ(amp_cuda_set_stream(stream), AMP_OK) << amp_last_error();
    fake->lose_launch = true;
    EXPECT_NE(op("exp", {x}), nullptr) << amp_last_error();
    EXPECT_EQ(amp_cuda_set_stream(nullptr), AMP_ERROR_DEVICE);
    const std::string text = error();
    EXPECT_TRUE(contains(text, "device 3 is lost")) << text;
    EXPECT_FALSE(contains(text, "destroyed")) << text;
    ASSERT_EQ(amp_cuda_set_device(0), AMP_OK);
}

TEST_F(CudaStreams, AStreamThatIsBeingCapturedIsRefused) {
    const Scope scope;
    void *const stream = make();
    const char *const sentence = "the stream is being captured for a graph, of which libamp's work can be no part";
    amp_tensor *x = sent(counting({3}));
    fake->captured = stream;
    EXPECT_EQ(amp_cuda_set_stream(stream), AMP_ERROR_INVALID);
    EXPECT_EQ(error(), std::string("cuda_set_stream: cuda: ") + sentence);
    fake->captured = nullptr;
    ASSERT_EQ(amp_cuda_set_stream(stream), AMP_OK);
    fake->captured = stream;
    EXPECT_EQ(op("exp", {x}), nullptr);
    EXPECT_TRUE(contains(error(), sentence));
    EXPECT_EQ(amp_cuda_set_stream(nullptr), AMP_ERROR_INVALID);
    EXPECT_TRUE(contains(error(), sentence));
    std::thread([&] {
        const Scope inner;
        EXPECT_EQ(op("exp", {x}), nullptr) << "its stream would have to wait for the captured one";
        EXPECT_TRUE(contains(error(), "the stream of the thread that used it last is being captured"));
    }).join();
    fake->captured = nullptr;
    EXPECT_EQ(values(op("neg", {x})), (std::vector<float>{0, -1, -2}));
    ASSERT_EQ(amp_cuda_set_stream(nullptr), AMP_OK);
    destroy(stream);
}

TEST_F(CudaStreams, WhatIsReleasedWhileTheStreamIsCapturedIsFreedLater) {
    void *const stream = make();
    size_t at_first = 0, then = 0, total = 0;
    ASSERT_EQ(amp_cuda_trim_memory(), AMP_OK);
    ASSERT_EQ(amp_cuda_mem_get_info(&at_first, &total), AMP_OK);
    ASSERT_EQ(amp_cuda_set_stream(stream), AMP_OK);
    {
        const Scope scope;
        ASSERT_NE(op("exp", {sent(counting({1024}))}), nullptr);
        fake->captured = stream;
    }
    EXPECT_EQ(fake->complaints, 0u) << fake->complaint;
    fake->captured = nullptr;
    ASSERT_EQ(amp_cuda_set_stream(nullptr), AMP_OK);
    ASSERT_EQ(amp_cuda_trim_memory(), AMP_OK);
    ASSERT_EQ(amp_cuda_mem_get_info(&then, &total), AMP_OK);
    EXPECT_EQ(then, at_first);
    destroy(stream);
}

// Another thread captures a stream in the mode in which the driver looks at all threads: what libamp does meanwhile, it
// has said that it knows of, and the thread's own mode is what it was.
TEST_F(CudaStreams, CapturesOfOtherThreadsAreLeftAlone) {
    const Scope scope;
    amp_tensor *x = sent(counting({8}));
    const auto exchange = reinterpret_cast<int (*)(int *)>(driver("cuThreadExchangeStreamCaptureMode"));
    fake->captured_globally = true;
    for (int64_t n : {3, 5, 7, 300000}) {
        amp_tensor *y = op("exp", {sent(counting({n}))});
        ASSERT_NE(y, nullptr) << amp_last_error();
        EXPECT_NE(op("mul", {fetched(y), 2.0}), nullptr) << amp_last_error();
    }
    amp_cuda_event *event = amp_cuda_event_create(true);
    ASSERT_NE(event, nullptr);
    EXPECT_EQ(amp_cuda_event_record(event), AMP_OK);
    EXPECT_TRUE(amp_cuda_event_query(event)) << amp_last_error();
    amp_cuda_event_free(event);
    EXPECT_EQ(amp_cuda_trim_memory(), AMP_OK) << amp_last_error();
    EXPECT_NE(op("exp", {x}), nullptr) << amp_last_error();
    fake->captured_globally = false;
    int mode = 1; // of one thread's captures
    ASSERT_EQ(exchange(&mode), 0);
    EXPECT_EQ(mode, 0) << "of all threads'";
    ASSERT_EQ(exchange(&mode), 0);
}

TEST_F(CudaStreams, TheCallersContextStaysCurrent) {
    const Scope scope;
    set_context(1);
    amp_tensor *x = sent(counting({3}));
    EXPECT_EQ(device_of_context(), 1);
    EXPECT_EQ(values(op("mm", {op("unsqueeze", {x, 0}), op("unsqueeze", {x, 1})})), std::vector<float>{5});
    EXPECT_EQ(device_of_context(), 1);
    ASSERT_EQ(amp_cuda_synchronize(), AMP_OK);
    EXPECT_EQ(device_of_context(), 1);
    {
        const Scope inner;
        ASSERT_NE(sent(x), nullptr);
        ASSERT_NE(op("neg", {x}), nullptr);
    }
    EXPECT_EQ(device_of_context(), 1) << "after what was released";
    set_context(-1);
    ASSERT_NE(op("neg", {x}), nullptr);
    EXPECT_EQ(device_of_context(), 0) << "without one, as cudaSetDevice";
}

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
        EXPECT_EQ(fake->last_recorded, stream) << "what it waits for";
        EXPECT_EQ(fake->last_waiting, fake->last_stream);
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

// ---- Events --------------------------------------------------------------------------------------------------------
class CudaEvents : public CudaStreams {
  protected:
    amp_cuda_event *event(bool timing = false) {
        events_.push_back(amp_cuda_event_create(timing));
        EXPECT_NE(events_.back(), nullptr) << amp_last_error();
        return events_.back();
    }
    void TearDown() override {
        for (amp_cuda_event *e : events_) amp_cuda_event_free(e);
        CudaStreams::TearDown();
    }

  private:
    std::vector<amp_cuda_event *> events_;
};

TEST_F(CudaEvents, HappenWhenWhatWasEnqueuedBeforeIsDone) {
    const Scope scope;
    amp_cuda_event *e = event();
    EXPECT_TRUE(amp_cuda_event_query(e)) << "never recorded";
    fake->slow = true;
    amp_tensor *x = sent(counting({4}));
    ASSERT_NE(op("exp", {x}), nullptr);
    const amp_cuda_counts start = amp_cuda_counters();
    ASSERT_EQ(amp_cuda_event_record(e), AMP_OK) << amp_last_error();
    EXPECT_FALSE(amp_cuda_event_query(e));
    EXPECT_STREQ(amp_last_error(), "") << "not yet is no error";
    EXPECT_EQ(amp_cuda_counters().synchronizations, start.synchronizations) << "asking is not waiting";
    EXPECT_EQ(amp_cuda_event_synchronize(e), AMP_OK) << amp_last_error();
    EXPECT_EQ(amp_cuda_counters().synchronizations, start.synchronizations + 1);
    EXPECT_TRUE(amp_cuda_event_query(e));
    fake->slow = false;
}

TEST_F(CudaEvents, AStreamWaitsForOneWithoutTheHost) {
    const Scope scope;
    amp_cuda_event *e = event();
    EXPECT_EQ(amp_cuda_event_wait(e), AMP_OK) << "of what was never recorded, for nothing";
    ASSERT_EQ(amp_cuda_event_record(e), AMP_OK);
    const amp_cuda_counts start = amp_cuda_counters();
    std::thread([&] { EXPECT_EQ(amp_cuda_event_wait(e), AMP_OK) << amp_last_error(); }).join();
    ASSERT_EQ(amp_cuda_set_device(1), AMP_OK);
    EXPECT_EQ(amp_cuda_event_wait(e), AMP_OK) << "another device's stream: " << amp_last_error();
    EXPECT_EQ(amp_cuda_event_record(e), AMP_OK) << "on its own device all the same: " << amp_last_error();
    ASSERT_EQ(amp_cuda_set_device(0), AMP_OK);
    EXPECT_EQ(amp_cuda_counters().stream_waits, start.stream_waits + 2);
    EXPECT_EQ(amp_cuda_counters().synchronizations, start.synchronizations);
}

TEST_F(CudaEvents, TellTheTimeBetweenThem) {
    const Scope scope;
    amp_cuda_event *start = event(true), *end = event(true);
    amp_tensor *x = sent(counting({4}));
    ASSERT_EQ(amp_cuda_event_record(start), AMP_OK);
    for (int i = 0; i < 3; i++) ASSERT_NE(op("exp", {x}), nullptr);
    ASSERT_EQ(amp_cuda_event_record(end), AMP_OK);
    EXPECT_EQ(amp_cuda_event_elapsed_time(start, end), 3) << "a millisecond a launch, by the fake's clock";
    fake->slow = true;
    ASSERT_EQ(amp_cuda_event_record(end), AMP_OK);
    EXPECT_TRUE(std::isnan(amp_cuda_event_elapsed_time(start, end)));
    EXPECT_TRUE(contains(error(), "has not happened yet"));
    fake->slow = false;
}

TEST_F(CudaEvents, WhatHasNoTimeBetweenThemIsAnError) {
    amp_cuda_event *start = event(true), *untimed = event(), *end = event(true);
    EXPECT_TRUE(std::isnan(amp_cuda_event_elapsed_time(start, end)));
    EXPECT_TRUE(contains(error(), "cuda_event_elapsed_time: cuda: an event was never recorded"));
    EXPECT_TRUE(std::isnan(amp_cuda_event_elapsed_time(start, untimed)));
    EXPECT_TRUE(contains(error(), "without timing"));
    ASSERT_EQ(amp_cuda_set_device(1), AMP_OK);
    amp_cuda_event *elsewhere = event(true);
    ASSERT_EQ(amp_cuda_set_device(0), AMP_OK);
    ASSERT_EQ(amp_cuda_event_record(start), AMP_OK);
    ASSERT_EQ(amp_cuda_event_record(elsewhere), AMP_OK);
    EXPECT_TRUE(std::isnan(amp_cuda_event_elapsed_time(start, elsewhere)));
    EXPECT_TRUE(contains(error(), "devices 0 and 1"));
}

// Of the row of an op, which is recorded once.
json_t *explained(const json_t *report, const std::string &name) {
    json_t *row, *found = nullptr;
    size_t i;
    json_array_foreach(json_object_get(report, "ops"), i, row) {
        if (json_string_value(json_object_get(row, "op")) == name) found = row;
    }
    return found;
}

TEST_F(CudaEvents, ExplainTellsTheTimesOfTheDevice) {
    const Scope scope;
    ASSERT_EQ(amp_cuda_set_device(1), AMP_OK);
    amp_tensor *x = sent(counting({4}));
    ASSERT_EQ(amp_cuda_set_device(0), AMP_OK);
    fake->slow = true; // until they are waited for
    const amp_cuda_counts start = amp_cuda_counters();
    amp_explain_begin();
    for (int i = 0; i < 3; i++) ASSERT_NE(op("exp", {x}), nullptr);
    EXPECT_EQ(op("add", {x, tensor(AMP_F32, {4})}), nullptr) << "it runs nowhere";
    amp_explain_end();
    amp_clear_error();
    EXPECT_EQ(amp_cuda_counters().synchronizations, start.synchronizations) << "recording waits for nothing";
    char *text = amp_explain_report(AMP_EXPLAIN_JSON), *table = amp_explain_report(AMP_EXPLAIN_TABLE);
    fake->slow = false;
    amp_explain_reset();
    json_t *report = json_loads(text, 0, nullptr);
    const json_t *exp = explained(report, "exp"), *add = explained(report, "add");
    const auto number = [](const json_t *row, const char *key) {
        return json_integer_value(json_object_get(row, key));
    };
    EXPECT_EQ(number(exp, "calls"), 3);
    EXPECT_EQ(number(exp, "nanoseconds"), 3000000) << "a millisecond a launch, by the fake's clock";
    EXPECT_EQ(number(exp, "median_nanoseconds"), 1000000);
    EXPECT_GT(number(exp, "host_nanoseconds"), 0);
    EXPECT_EQ(number(add, "calls"), 1);
    EXPECT_EQ(number(add, "failures"), 1);
    EXPECT_NE(std::strstr(table, "  exp (cuda)  "), nullptr) << table;
    EXPECT_NE(std::strstr(table, "times on the device"), nullptr) << table;
    json_decref(report);
    amp_explain_free(table);
    amp_explain_free(text);
}

TEST_F(CudaEvents, NullIsAnError) {
    amp_cuda_event_free(nullptr);
    EXPECT_EQ(amp_cuda_event_record(nullptr), AMP_ERROR_INVALID);
    EXPECT_TRUE(contains(error(), "cuda_event_record: an argument is NULL"));
    EXPECT_EQ(amp_cuda_event_wait(nullptr), AMP_ERROR_INVALID);
    amp_clear_error();
    EXPECT_FALSE(amp_cuda_event_query(nullptr));
    EXPECT_TRUE(contains(error(), "NULL"));
    EXPECT_EQ(amp_cuda_event_synchronize(nullptr), AMP_ERROR_INVALID);
    amp_clear_error();
    EXPECT_TRUE(std::isnan(amp_cuda_event_elapsed_time(nullptr, nullptr)));
    amp_clear_error();
}

// ---- Properties ----------------------------------------------------------------------------------------------------
TEST_F(CudaStreams, DevicesTellWhatTheyAre) {
    amp_cuda_device_properties p;
    ASSERT_EQ(amp_cuda_get_device_properties(2, &p), AMP_OK) << amp_last_error();
    EXPECT_STREQ(p.name, "Fake GPU 2");
    EXPECT_EQ(p.total_memory, fake->memory_limit);
    EXPECT_EQ(p.multiprocessors, 132);
    EXPECT_EQ(amp_cuda_get_device(), 0) << "as it was";
    EXPECT_EQ(amp_cuda_get_device_properties(17, &p), AMP_ERROR_INVALID);
    EXPECT_TRUE(contains(error(), "there is no CUDA device 17; this machine has 4"));
    EXPECT_STREQ(p.name, "");
    EXPECT_EQ(amp_cuda_get_device_properties(0, nullptr), AMP_ERROR_INVALID);
    amp_clear_error();
}

TEST_F(CudaStreams, MemoryThatATensorHasIsNotFree) {
    const Scope scope;
    size_t at_first = 0, then = 0, total = 0;
    ASSERT_EQ(amp_cuda_trim_memory(), AMP_OK);
    ASSERT_EQ(amp_cuda_mem_get_info(&at_first, &total), AMP_OK) << amp_last_error();
    EXPECT_EQ(total, fake->memory_limit);
    ASSERT_NE(sent(counting({1024})), nullptr);
    ASSERT_EQ(amp_cuda_mem_get_info(&then, &total), AMP_OK);
    EXPECT_LE(then + 4096, at_first);
    EXPECT_EQ(amp_cuda_mem_get_info(&then, nullptr), AMP_ERROR_INVALID);
    EXPECT_EQ(then, 0u);
    amp_clear_error();
}

} // namespace
