// Convolutions that the table of choices gives to oneDNN: their bits follow from the layer, not from what ran before or
// on how many threads; forks; the measurement behind the choice.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "amp_test.h"
#include "cpu/choices.h"
#include "cpu/isa.h"

using namespace amp_test;
namespace fs = std::filesystem;

namespace {

struct Layer {
    int64_t in, out, height, width, kernel, stride;
};

class ConvDnnl : public Test {
  protected:
    void SetUp() override {
        Test::SetUp();
        threads_ = amp_get_num_threads();
        folder_ = fs::path(testing::TempDir()) / ("amp_conv_dnnl_" + std::to_string(getpid()));
        setenv("XDG_CACHE_HOME", folder_.c_str(), 1);
        unsetenv("AMP_TUNE");
        amp_choices_forget_for_test();
        const fs::path path = amp_choices_path();
        fs::create_directories(path.parent_path());
        std::ofstream(path) << "gemm_dot 2 1\nconv_deep 1 2\n";
        amp_choices_forget_for_test();
    }
    void TearDown() override {
        unsetenv("XDG_CACHE_HOME");
        setenv("AMP_TUNE", "off", 1);
        amp_choices_forget_for_test();
        fs::remove_all(folder_);
        EXPECT_EQ(amp_set_num_threads(threads_), AMP_OK);
        Test::TearDown();
    }
    int threads_ = 1;
    fs::path folder_;
};

amp_tensor *values(const Shape &shape, uint32_t seed) {
    int64_t n = 1;
    for (int64_t extent : shape) n *= extent;
    std::vector<float> v(size_t(n), 0.0f);
    for (float &x : v) {
        seed = seed * 1664525u + 1013904223u;
        x = float(int32_t(seed)) * 0x1p-31f;
    }
    return op("to", {amp_from_data(v.data(), AMP_F32, int(shape.size()), shape.data())}, {{"dtype", AMP_BF16}});
}

std::vector<double> convolve(const Layer &l) {
    const Scope scope;
    amp_tensor *x = op("permute", {values({1, l.height, l.width, l.in}, 1), AMP_DIMS(0, 3, 1, 2)});
    amp_tensor *w = values({l.out, l.in, l.kernel, l.kernel}, 2), *b = values({l.out}, 3);
    return numbers_of(op("conv2d", {x, w, b}, {{"padding", AMP_DIMS(l.kernel / 2)}, {"stride", AMP_DIMS(l.stride)}}));
}

const Layer odd = {4000, 100, 5, 5, 3, 1};

TEST_F(ConvDnnl, BitsAreTheSameOnAnyThreads) {
    for (const Layer &l :
         {odd, Layer{2048, 513, 5, 5, 1, 2}, Layer{512, 513, 7, 7, 3, 1}, Layer{300, 300, 3, 9, 3, 2}}) {
        ASSERT_EQ(amp_set_num_threads(1), AMP_OK);
        const std::vector<double> expected = convolve(l);
        ASSERT_FALSE(expected.empty());
        for (int threads = 2; threads <= 4; threads++) {
            ASSERT_EQ(amp_set_num_threads(threads), AMP_OK);
            EXPECT_EQ(convolve(l), expected) << l.in << " to " << l.out << " on " << threads;
        }
    }
}

// What is expected comes from a process that has computed nothing else.
TEST_F(ConvDnnl, BitsAreTheSameAfterMoreShapesThanAreKept) {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "the thread sanitizer does not follow a fork";
#endif
    ASSERT_EQ(amp_set_num_threads(1), AMP_OK);
    std::vector<double> expected(2500);
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        const std::vector<double> y = convolve(odd);
        _exit(write(ends[1], y.data(), y.size() * sizeof y[0]) < 0);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0);
    ASSERT_EQ(read(ends[0], expected.data(), expected.size() * sizeof expected[0]),
              ssize_t(expected.size() * sizeof expected[0]));
    close(ends[0]);
    close(ends[1]);
    for (int64_t i = 0; i < 300; i++) ASSERT_FALSE(convolve({300, 300, 1 + i % 20, 1 + i / 20, 3, 1}).empty());
    EXPECT_EQ(convolve(odd), expected);
}

TEST_F(ConvDnnl, AForkWhileItMakesPrimitivesIsSafe) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    GTEST_SKIP() << "the sanitizers do not survive a fork beside other threads";
#endif
    ASSERT_EQ(amp_set_num_threads(1), AMP_OK);
    std::atomic<bool> done{false};
    std::thread maker([&] {
        for (int64_t i = 0; !done; i++) convolve({300, 300, 1 + i % 20, 20 + i / 20 % 5, 3, 1});
    });
    int failed = 0;
    for (int i = 0; i < 40; i++) {
        const pid_t child = fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
            alarm(10);
            _exit(convolve({300, 300, 3, 3, 3, 1}).empty());
        }
        int status = -1;
        ASSERT_EQ(waitpid(child, &status, 0), child);
        failed += !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    done = true;
    maker.join();
    EXPECT_EQ(failed, 0);
}

// It used to set it to 1 for a while, and back to what it was.
TEST_F(ConvDnnl, TheMeasurementLeavesTheNumberOfThreadsAlone) {
    ASSERT_EQ(amp_set_num_threads(3), AMP_OK);
    setenv("AMP_TUNE", "memory", 1);
    amp_choices_forget_for_test();
    std::atomic<bool> done{false}, changed{false};
    std::thread watcher([&] {
        while (!done) changed = changed || amp_get_num_threads() != 3;
    });
    const amp_choice_report report = amp_choice_explain(AMP_CHOICE_CONV_DEEP);
    done = true;
    watcher.join();
    EXPECT_FALSE(changed);
    EXPECT_EQ(report.yes_rate > 0.0, amp_isa_best() >= AMP_ISA_AVX512BF16);
}

} // namespace
