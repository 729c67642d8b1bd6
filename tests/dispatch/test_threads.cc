// Many user threads at once: each with its own regions, scopes and errors, over shared weights. Runs under
// ThreadSanitizer, too.
#include "amp_test.h"

#include <atomic>
#include <thread>

using namespace amp_test;

namespace {

enum { THREADS = 6 };

template <class Body>
void in_threads(Body body) {
    std::atomic<int> ready{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < THREADS; i++) {
        threads.emplace_back([&, i] {
            ready++;
            while (ready < THREADS) std::this_thread::yield(); // all at once
            body(i);
            EXPECT_TRUE(no_error());
            EXPECT_EQ(amp_autocast_nesting(), 0);
        });
    }
    for (std::thread &thread : threads) thread.join();
}

class Threads : public Test {
  protected:
    amp_tensor *x_ = random_tensor(AMP_F32, {4, 64}, 1), *w_ = random_tensor(AMP_F32, {32, 64}, 2);
};

} // namespace

TEST_F(Threads, OwnRegionsOverSharedWeights) {
    std::vector<double> expected[3];
    const amp_dtype lower[3] = {AMP_BF16, AMP_F16, AMP_DTYPE_NONE};
    expected[2] = numbers_of(op("linear", {x_, w_}));
    for (int k = 0; k < 2; k++) {
        Region region(AMP_DEVICE_CPU, lower[k]);
        expected[k] = numbers_of(op("linear", {x_, w_}));
    }
    amp_cast_cache_clear();
    in_threads([&](int i) {
        for (int round = 0; round < 30; round++) {
            Scope scope;
            const int k = (i + round) % 3;
            amp_autocast_args args = region_args(AMP_DEVICE_CPU, lower[k]);
            args.enabled = AMP_SET(k != 2);
            Region region(args);
            ASSERT_EQ(numbers_of(op("linear", {x_, w_})), expected[k]);
            EXPECT_EQ(amp_autocast_is_enabled(AMP_DEVICE_CPU), k != 2);
        }
    });
}

TEST_F(Threads, EveryThreadHasItsOwnError) {
    in_threads([&](int i) {
        Scope scope;
        for (int round = 0; round < 50; round++) {
            const std::string name = "no_such_op_" + std::to_string(i);
            EXPECT_EQ(op(name, {x_}), nullptr);
            EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {name}));
        }
    });
}

TEST_F(Threads, SharedTensorsMayBeViewedKeptAndReleasedAnywhere) {
    std::vector<amp_tensor *> kept(THREADS);
    in_threads([&](int i) {
        for (int round = 0; round < 50; round++) {
            Scope scope;
            amp_tensor *view = op("t", {op("narrow", {w_, 0, i, 4})});
            op("add", {view, view});
            amp_release(kept[size_t(i)]);
            kept[size_t(i)] = amp_keep(view);
        }
    });
    for (amp_tensor *view : kept) {
        EXPECT_EQ(amp_tensor_numel(view), 4 * 64);
        amp_release(view); // made by a thread that is gone
    }
}

TEST_F(Threads, TheLastViewMayGoInAnotherThread) {
    static std::atomic<int> deleted;
    deleted = 0;
    for (int round = 0; round < 20; round++) {
        static float numbers[4];
        const int64_t shape[1] = {4};
        amp_tensor *base = amp_keep(amp_from_memory(
            numbers, AMP_F32, 1, shape, nullptr, [](void *) { deleted++; }, nullptr));
        std::vector<amp_tensor *> views;
        for (int i = 0; i < THREADS; i++) views.push_back(amp_keep(op("narrow", {base, 0, 0, 2})));
        amp_release(base);
        in_threads([&](int i) { amp_release(views[size_t(i)]); });
        EXPECT_EQ(deleted, round + 1);
    }
}

TEST_F(Threads, ARestoredStateDoesNotLeakIntoOthers) {
    amp_autocast_state state;
    {
        Region region(AMP_DEVICE_CPU, AMP_F16);
        state = amp_autocast_capture();
    }
    in_threads([&](int i) {
        Scope scope;
        for (int round = 0; round < 20; round++) {
            if (i % 2 == 0) {
                ASSERT_EQ(amp_autocast_restore(&state), AMP_OK);
                EXPECT_EQ(amp_tensor_dtype(op("linear", {x_, w_})), AMP_F16);
                ASSERT_EQ(amp_autocast_restore_end(), AMP_OK);
            } else {
                EXPECT_EQ(amp_tensor_dtype(op("linear", {x_, w_})), AMP_F32);
            }
        }
    });
}

TEST_F(Threads, WritersAndReadersOfDifferentTensors) {
    in_threads([&](int i) {
        Scope scope;
        amp_tensor *own = random_tensor(AMP_F32, {32, 64}, uint64_t(i) + 10);
        Region region;
        for (int round = 0; round < 20; round++) {
            const std::vector<double> before = numbers_of(op("linear", {x_, own}));
            ASSERT_EQ(op("mul_", {own, -1.0}), own);
            const std::vector<double> after = numbers_of(op("linear", {x_, own}));
            for (size_t k = 0; k < before.size(); k++) ASSERT_EQ(after[k], -before[k]) << "no stale cast";
        }
    });
}

TEST_F(Threads, OverridesExplainAndStatisticsAtTheSameTime) {
    amp_explain_reset();
    in_threads([&](int i) {
        Scope scope;
        for (int round = 0; round < 20; round++) {
            switch (i % 3) {
            case 0: {
                Region region;
                op("linear", {x_, w_});
                op("gelu", {x_});
                break;
            }
            case 1:
                EXPECT_EQ(
                    amp_autocast_override("gelu", AMP_DEVICE_CPU, round % 2 ? AMP_OVERRIDE_DENY : AMP_OVERRIDE_NONE),
                    AMP_OK);
                amp_explain_begin();
                op("add", {x_, x_});
                amp_explain_free(amp_explain_report(AMP_EXPLAIN_JSON));
                amp_explain_end();
                break;
            default:
                (void)amp_memory_statistics();
                (void)amp_cast_cache_statistics();
                amp_cast_cache_set_budget(round % 2 ? 1000 : SIZE_MAX);
                amp_memory_trim();
                amp_cast_cache_clear();
            }
        }
    });
    EXPECT_EQ(amp_autocast_override("gelu", AMP_DEVICE_CPU, AMP_OVERRIDE_NONE), AMP_OK);
    amp_cast_cache_set_budget(SIZE_MAX);
    amp_explain_reset();
}

// Of [a scope's, a retained] the two owners let go at once, again and again. Memory is what a leak would cost.
TEST_F(Threads, TwoReleasesAtOnceLeakNothing) {
    enum { ROUNDS = 20000 };
    const size_t before = amp_memory_statistics().live_tensors;
    std::atomic<amp_tensor *> handed{nullptr};
    std::atomic<int> turn{0};
    std::thread other([&] {
        for (int round = 1; round <= ROUNDS; round++) {
            for (int spins = 0; turn < round; spins++) {
                if (spins > 1000) std::this_thread::yield();
            }
            amp_release(handed);
            turn = -round;
        }
    });
    for (int round = 1; round <= ROUNDS; round++) {
        Scope scope;
        amp_tensor *t = amp_retain(tensor(AMP_F32, {1}));
        handed = t;
        turn = round;
        for (volatile int wait = round % 128; wait > 0;) wait = wait - 1; // until the other has seen it
        amp_release(t);
        while (turn != -round) std::this_thread::yield();
    }
    other.join();
    EXPECT_EQ(amp_memory_statistics().live_tensors, before);
}

TEST_F(Threads, AScopesListIsItsThreadsAlone) {
    const size_t before = amp_memory_statistics().live_tensors;
    {
        Scope scope;
        amp_tensor *t = amp_retain(tensor(AMP_F32, {1}, {7}));
        std::thread([&] {
            amp_release(t);
            amp_release(t); // the scope's own reference: gone when the scope ends, not before
        }).join();
        EXPECT_EQ(amp_item(t), 7);
        EXPECT_EQ(amp_memory_statistics().live_tensors, before + 1);
    }
    EXPECT_EQ(amp_memory_statistics().live_tensors, before);
}

TEST_F(Threads, HeadersThatGoFromThreadToThreadDoNotPileUp) {
    enum { ROUNDS = 200, EACH = 100 };
    const size_t before = amp_memory_statistics().live_bytes;
    std::vector<amp_tensor *> handed;
    std::atomic<int> turn{0};
    std::thread other([&] {
        for (int round = 1; round <= ROUNDS; round++) {
            while (turn < round) std::this_thread::yield();
            for (amp_tensor *t : handed) amp_release(t);
            turn = -round;
        }
    });
    for (int round = 1; round <= ROUNDS; round++) {
        handed.clear();
        for (int i = 0; i < EACH; i++) handed.push_back(amp_keep(tensor(AMP_F32, {1})));
        turn = round;
        while (turn != -round) std::this_thread::yield();
    }
    EXPECT_LE(amp_memory_statistics().live_bytes - before, size_t(512) * 5 * EACH); // of 20000 headers
    other.join();
}

TEST_F(Threads, AThreadThatEndsInAScopeLeaksNothing) {
    const size_t before = amp_memory_statistics().live_tensors;
    std::thread([&] {
        amp_scope_enter();
        tensor(AMP_F32, {100});
        amp_scope_enter();
        op("add", {x_, x_});
    }).join();
    EXPECT_EQ(amp_memory_statistics().live_tensors, before);
}

TEST_F(Threads, CountersSurviveTheirThreads) {
    const amp_memory_stats before = amp_memory_statistics();
    std::vector<amp_tensor *> made(THREADS);
    for (int round = 0; round < 5; round++) {
        in_threads([&](int i) { made[size_t(i)] = tensor(AMP_F32, {100}); });
        EXPECT_EQ(amp_memory_statistics().live_tensors, before.live_tensors + THREADS);
        in_threads([&](int i) { amp_release(made[size_t(THREADS - 1 - i)]); });
        EXPECT_EQ(amp_memory_statistics().live_tensors, before.live_tensors);
    }
}
