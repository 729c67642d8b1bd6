// Threads: what becomes of them in the child of a fork, on fewer CPUs, inside other threads' teams and under limits.
#include <gtest/gtest.h>
#include <omp.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "amp_test.h"
#include "patience.h"
#include "sanitizers.h"

using namespace amp_test;

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
    if (amp_test::under_tsan) {
        GTEST_SKIP() << "the thread sanitizer does not follow a fork";
    }
    const int before = amp_get_num_threads();
    ASSERT_EQ(amp_set_num_threads(2), AMP_OK);
    const double here = work();
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        alarm(hang_seconds); // it used to wait for ever
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
    if (amp_test::under_tsan) {
        GTEST_SKIP() << "the thread sanitizer does not follow a fork";
    }
    if (amp_test::under_asan) {
        GTEST_SKIP() << "the address sanitizer's own allocator does not survive a fork beside other threads";
    }
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
            alarm(hang_seconds);
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

namespace {

void add_bits(uint64_t *hash, const amp_tensor *t) {
    ASSERT_NE(t, nullptr) << amp_last_error();
    for (double x : numbers_of(t)) {
        uint64_t bits;
        memcpy(&bits, &x, sizeof bits);
        *hash = (*hash ^ bits) * 1099511628211u;
    }
}

// Of results of ops that spread over threads: pointwise ones, reductions, rows, products, attention.
uint64_t bits_of_many_ops() {
    const Scope scope;
    uint64_t hash = 14695981039346656037u;
    for (amp_dtype dtype : {AMP_F32, AMP_BF16}) {
        amp_tensor *x = random_tensor(dtype, {300, 384}, 1), *q = random_tensor(dtype, {2, 2, 150, 32}, 2);
        add_bits(&hash, op("gelu", {op("add", {x, x})}));
        add_bits(&hash, op("sum", {x}));
        add_bits(&hash, op("sum", {x, AMP_DIMS(0)}));
        add_bits(&hash, op("softmax", {x, 1}));
        add_bits(&hash, op("layer_norm", {x, AMP_DIMS(384)}));
        add_bits(&hash, op("scaled_dot_product_attention", {q, q, q}));
        const Region region;
        add_bits(&hash, op("linear", {x, x}));
    }
    return hash;
}

} // namespace

TEST_F(Parallel, InsideATeamOfThreadsTheBitsAreTheSame) {
    const int before = amp_get_num_threads();
    ASSERT_EQ(amp_set_num_threads(4), AMP_OK);
    const uint64_t want = bits_of_many_ops();
    std::vector<uint64_t> got(3, want);
#pragma omp parallel num_threads(3)
    got[size_t(omp_get_thread_num())] = bits_of_many_ops();
    EXPECT_EQ(got, std::vector<uint64_t>(3, want));
    EXPECT_EQ(bits_of_many_ops(), want);
    ASSERT_EQ(amp_set_num_threads(before), AMP_OK);
}

// The process of a death test starts anew, and reads what the environment says.
TEST(ParallelDeathTest, OneCpuGivesOneThread) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(
        {
            cpu_set_t all;
            cpu_set_t one;
            unsetenv("OMP_NUM_THREADS");
            int cpu = 0;
            if (sched_getaffinity(0, sizeof all, &all)) _exit(39);
            while (!CPU_ISSET(cpu, &all)) cpu++;
            CPU_ZERO(&one);
            CPU_SET(cpu, &one);
            if (sched_setaffinity(0, sizeof one, &one)) _exit(38);
            _exit(40 + amp_get_num_threads());
        },
        testing::ExitedWithCode(41), "");
}

TEST(ParallelDeathTest, UnderAThreadLimitTheBitsAreTheSame) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    const bool is_child = getenv("AMP_TESTS_BITS") != nullptr;
    const int before = amp_get_num_threads();
    if (!is_child) {
        ASSERT_EQ(amp_set_num_threads(4), AMP_OK);
        setenv("AMP_TESTS_BITS", std::to_string(bits_of_many_ops()).c_str(), 1);
        setenv("OMP_THREAD_LIMIT", "1", 1);
    }
    EXPECT_EXIT(
        {
            (void)amp_set_num_threads(4);
            if (omp_get_thread_limit() != 1) _exit(39);
            _exit(std::to_string(bits_of_many_ops()) == getenv("AMP_TESTS_BITS") ? 41 : 42);
        },
        testing::ExitedWithCode(41), "");
    if (is_child) return;
    unsetenv("AMP_TESTS_BITS");
    unsetenv("OMP_THREAD_LIMIT");
    ASSERT_EQ(amp_set_num_threads(before), AMP_OK);
}
