// The CUDA backend over a driver and libraries of the tests' own (tests/fake_cuda), where kernels run on the host.
// Without the toolkit there is no module, and all of it skips.
#ifndef AMP_TESTS_CUDA_TEST_H
#define AMP_TESTS_CUDA_TEST_H

#include <dlfcn.h>

#include <sstream>
#include <utility>

#include "amp_test.h"
#include "fake_cuda/fake_cuda.h"

namespace amp_test {

class CudaTest : public Test {
  protected:
    void SetUp() override {
        Test::SetUp();
#ifndef AMP_TESTS_FAKE_CUDA
        GTEST_SKIP() << "built without the CUDA toolkit";
#else
        const char *other = std::getenv("AMP_TESTS_DRIVER"); // fake_cuda/threads
        const std::string path = std::string(other ? other : AMP_TESTS_FAKE_CUDA) + "/libcuda.so.1";
        // glibc knows a loaded library by its SONAME: the module, which opens libcuda.so.1, gets this one.
        static void *const driver = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
        ASSERT_NE(driver, nullptr) << dlerror();
        static const bool libraries = open_libraries();
        ASSERT_TRUE(libraries);
        // Under a sanitizer, whose dlopen is the caller then, the run path of this program does not count.
        static void *const module = dlopen(AMP_TESTS_FAKE_CUDA "/../../libamp_cuda.so", RTLD_NOW | RTLD_LOCAL);
        ASSERT_NE(module, nullptr) << dlerror();
        const auto state = reinterpret_cast<fake_cuda_state *(*)()>(dlsym(driver, "fake_cuda"));
        ASSERT_NE(state, nullptr);
        fake = state();
        const char *reason = nullptr;
        ASSERT_TRUE(amp_device_is_usable(AMP_DEVICE_CUDA, &reason)) << reason;
        ASSERT_EQ(amp_cuda_set_device(0), AMP_OK);
        before = amp_cuda_counters();
#endif
    }

    void TearDown() override {
        Test::TearDown();
        if (fake) {
            EXPECT_EQ(amp_cuda_counters().live_blocks, before.live_blocks) << "device memory is left";
            EXPECT_EQ(std::exchange(fake->complaints, 0), 0u) << fake->complaint;
        }
    }

#ifdef AMP_TESTS_FAKE_CUDA
    // Those over the driver, in the place of the real ones; first those of a folder with wrong ones, if asked for.
    static bool open_libraries() {
        std::istringstream names(AMP_TESTS_FAKE_LIBRARIES);
        const std::string folder = AMP_TESTS_FAKE_CUDA "/";
        const char *wrong = std::getenv("AMP_TESTS_LIBRARIES");
        for (std::string name; std::getline(names, name, ':');) {
            if (wrong && dlopen((folder + wrong + "/" + name).c_str(), RTLD_NOW | RTLD_GLOBAL)) continue;
            if (!dlopen((folder + name).c_str(), RTLD_NOW | RTLD_GLOBAL)) {
                ADD_FAILURE() << dlerror();
                return false;
            }
        }
        return true;
    }
#endif
    static amp_tensor *sent(amp_tensor *t) {
        return op("to", {t, AMP_DEVICE_CUDA});
    }
    static amp_tensor *fetched(amp_tensor *t) {
        return op("to", {t, AMP_DEVICE_CPU});
    }
    // Of one dtype, and nowhere further apart than that.
    static void expect_agree(amp_tensor *got, amp_tensor *want, double tolerance) {
        ASSERT_NE(want, nullptr) << amp_last_error();
        ASSERT_NE(got, nullptr) << amp_last_error();
        EXPECT_EQ(amp_tensor_dtype(got), amp_tensor_dtype(want));
        amp_tensor *difference = op("sub", {fetched(got), want});
        ASSERT_NE(difference, nullptr) << amp_last_error();
        if (amp_tensor_numel(difference) == 0) return;
        const double most = numbers_of(op("to", {op("amax", {op("abs", {difference})}), AMP_F64}))[0];
        EXPECT_LE(most, tolerance);
    }
    static amp_tensor *product(amp_tensor *x, amp_tensor *y) {
        return op("matmul", {x, y});
    }
    static amp_tensor *turned(amp_tensor *x) {
        return op("transpose", {x, -2, -1});
    }
    // 0, 1, 2, … in f32.
    static amp_tensor *counting(std::initializer_list<int64_t> shape) {
        int64_t n = 1;
        for (int64_t extent : shape) n *= extent;
        std::vector<float> values(static_cast<size_t>(n));
        for (size_t i = 0; i < values.size(); i++) values[i] = static_cast<float>(i);
        return amp_from_data(values.data(), AMP_F32, static_cast<int>(shape.size()), shape.begin());
    }
    static std::vector<float> values(amp_tensor *t) {
        amp_tensor *host = t ? op("to", {fetched(t), AMP_F32}) : nullptr;
        host = host ? op("contiguous", {host}) : nullptr;
        if (!host) return {};
        const auto *data = static_cast<const float *>(amp_data(host));
        return std::vector<float>(data, data + amp_tensor_numel(host));
    }
    // Indices of four rows, of which one is wrong.
    static amp_tensor *outside_of_four() {
        const int64_t wrong[2] = {1, 7}, two[1] = {2};
        return amp_from_data(wrong, AMP_I64, 1, two);
    }
    static std::string error() {
        const std::string text = amp_last_error();
        amp_clear_error();
        return text;
    }
    static bool contains(const std::string &text, const std::string &part) {
        return text.find(part) != std::string::npos;
    }

    fake_cuda_state *fake = nullptr;
    amp_cuda_counts before = {};
};

} // namespace amp_test

#endif // AMP_TESTS_CUDA_TEST_H
