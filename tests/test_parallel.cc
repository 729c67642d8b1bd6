// Threads: what becomes of them in the child of a fork.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "amp_test.h"

using namespace amp_test;

#if defined(__SANITIZE_THREAD__)
#define UNDER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNDER_TSAN 1
#elif __has_feature(address_sanitizer)
#define UNDER_ASAN 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#define UNDER_ASAN 1
#endif

namespace {

using Parallel = amp_test::Test;

// Enough for every thread, through kernels of our own (add, linear in bf16) and through oneDNN (mm).
double work() {
    const Scope scope;
    const Region region;
    amp_tensor *x = tensor(AMP_F32, {512, 512}), *y = op("linear", {op("add", {x, x}), x});
    amp_autocast_args off = region_args();
    off.enabled = AMP_SET(false);
    const Region outside(off);
    return amp_item(op("sum", {op("mm", {x, x})})) + amp_item(op("sum", {y}, {{"dtype", AMP_F32}}));
}

} // namespace

TEST_F(Parallel, TheChildOfAForkComputesToo) {
#ifdef UNDER_TSAN
    GTEST_SKIP() << "the thread sanitizer does not follow a fork";
#endif
    const int before = amp_get_num_threads();
    ASSERT_EQ(amp_set_num_threads(2), AMP_OK);
    const double here = work();
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        alarm(20); // it used to wait for ever
        _exit(work() == here && amp_get_num_threads() == 1 ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
    EXPECT_EQ(WEXITSTATUS(status), 0);
    EXPECT_EQ(amp_get_num_threads(), 2) << "the parent keeps its threads";
    ASSERT_EQ(amp_set_num_threads(before), AMP_OK);
}

TEST_F(Parallel, AForkWhileOtherThreadsComputeIsSafe) {
#ifdef UNDER_TSAN
    GTEST_SKIP() << "the thread sanitizer does not follow a fork";
#elif defined(UNDER_ASAN)
    GTEST_SKIP() << "the address sanitizer's own allocator does not survive a fork beside other threads";
#endif
    std::atomic<bool> done{false};
    std::vector<std::thread> threads;
    for (int t = 0; t < 2; t++) {
        threads.emplace_back([&] {
            while (!done) {
                Scope scope;
                const Region region;
                const int64_t shape[] = {8, 8};
                amp_tensor *w = op("mul", {tensor(AMP_F32, {8, 8}), 2.0}); // a weight that comes and goes
                amp_tensor_mark_parameter(w);
                op("linear", {tensor(AMP_F32, {8, 8}), w});
                amp_release(amp_keep(amp_from_data(std::vector<float>(64).data(), AMP_F32, 2, shape)));
            }
        });
    }
    int failed = 0;
    for (int i = 0; i < 50; i++) {
        const pid_t child = fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
            alarm(20);
            Scope scope;
            const Region region;
            _exit(op("linear", {tensor(AMP_F32, {8, 8}), tensor(AMP_F32, {8, 8})}) ? 0 : 1);
        }
        int status = -1;
        ASSERT_EQ(waitpid(child, &status, 0), child);
        failed += !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    done = true;
    for (std::thread &t : threads) t.join();
    EXPECT_EQ(failed, 0);
}
