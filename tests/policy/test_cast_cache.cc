// SEMANTICS 4: which casts are kept, for how long, and that a stale one is never served. What a kernel got is counted
// on the double of CUDA, where every cast is made by the dispatcher; packed weights are those of the CPU.
#include "fake_device.h"

#include <thread>

extern "C" {
#include "cpu/registry/gemm.h"
}

using namespace amp_test;

namespace {

class CastCache : public fake_device::Test {
  protected:
    void SetUp() override {
        fake_device::Test::SetUp();
        amp_cast_cache_clear();
        before_ = amp_cast_cache_statistics();
        ASSERT_EQ(before_.entries, 0u);
        ASSERT_EQ(before_.bytes, 0u);
    }

    void TearDown() override {
        amp_cast_cache_set_budget(SIZE_MAX);
        fake_device::Test::TearDown();
        EXPECT_EQ(amp_cast_cache_statistics().entries, 0u);
    }

    static size_t entries() {
        return amp_cast_cache_statistics().entries;
    }
    static size_t bytes() {
        return amp_cast_cache_statistics().bytes;
    }
    uint64_t hits() const {
        return amp_cast_cache_statistics().hits - before_.hits;
    }
    uint64_t misses() const {
        return amp_cast_cache_statistics().misses - before_.misses;
    }
    uint64_t evictions() const {
        return amp_cast_cache_statistics().evictions - before_.evictions;
    }

    // mm on the double: `input` is no weight position, `mat2` is one.
    static void mm(amp_tensor *input, amp_tensor *mat2) {
        EXPECT_NE(op("mm", {input, mat2}), nullptr) << amp_last_error();
    }

    static amp_tensor *wanting_gradients(amp_tensor *t) {
        EXPECT_EQ(amp_tensor_set_requires_grad(t, true), AMP_OK);
        return t;
    }

    // A CUDA tensor that an op made.
    static amp_tensor *made_by_an_op() {
        return op("add", {on_cuda(AMP_F32), on_cuda(AMP_F32)});
    }

    amp_tensor *x_ = tensor(AMP_F32, {2, 3}, {1, 2, 3, 4, 5, 6});

  private:
    amp_cast_cache_stats before_ = {};
};

} // namespace

// ---- PyTorch's rule ------------------------------------------------------------------------------------------------
TEST_F(CastCache, AnF32LeafThatWantsGradientsIsCachedUntilTheOutermostRegionEnds) {
    amp_tensor *leaf = wanting_gradients(on_cuda(AMP_F32)), *other = made_by_an_op();
    {
        Region outer(AMP_DEVICE_CUDA);
        {
            Region inner(AMP_DEVICE_CUDA);
            mm(leaf, other);
            mm(leaf, other);
            EXPECT_EQ(entries(), 1u);
            EXPECT_EQ(hits(), 1u);
        }
        EXPECT_EQ(entries(), 1u) << "an inner region drops nothing";
    }
    EXPECT_EQ(entries(), 0u);
    EXPECT_EQ(bytes(), 0u);
}

TEST_F(CastCache, LeavingARestoredRegionAsTheOutermostDropsTransientCasts) {
    amp_tensor *leaf = wanting_gradients(on_cuda(AMP_F32)), *other = made_by_an_op();
    amp_autocast_state state;
    {
        Region region(AMP_DEVICE_CUDA);
        state = amp_autocast_capture();
    }
    ASSERT_EQ(amp_autocast_restore(&state), AMP_OK);
    mm(leaf, other);
    mm(leaf, other);
    EXPECT_EQ(entries(), 1u);
    EXPECT_EQ(hits(), 1u);
    ASSERT_EQ(amp_autocast_restore_end(), AMP_OK);
    EXPECT_EQ(entries(), 0u);
}

TEST_F(CastCache, WhatPyTorchDoesNotCacheIsNotCached) {
    amp_tensor *other = made_by_an_op();
    const auto cached = [&](const char *name, amp_tensor *t, const amp_autocast_args &args) {
        Region region(args);
        EXPECT_NE(op(name, {t, other}), nullptr) << amp_last_error();
        return entries() > 0;
    };
    const amp_autocast_args cuda = region_args(AMP_DEVICE_CUDA);
    EXPECT_TRUE(cached("mm", wanting_gradients(on_cuda(AMP_F32)), cuda)) << "the control";
    EXPECT_FALSE(cached("mm", on_cuda(AMP_F32), cuda)) << "wants no gradient";
    EXPECT_FALSE(cached("mm", wanting_gradients(on_cuda(AMP_BF16)), cuda)) << "the source is not f32";
    EXPECT_FALSE(cached("pow", wanting_gradients(on_cuda(AMP_F16)), cuda)) << "the target is not the lower type";
    amp_tensor *base = wanting_gradients(on_cuda(AMP_F32));
    amp_tensor *view = op("view", {base, AMP_DIMS(base->shape[0], -1)});
    EXPECT_TRUE(amp_tensor_requires_grad(view));
    EXPECT_FALSE(cached("mm", view, cuda)) << "a view";
    amp_tensor *inner = wanting_gradients(on_cuda(AMP_F32));
    inner->is_leaf = false;
    EXPECT_FALSE(cached("mm", inner, cuda)) << "not a leaf";
    amp_autocast_args off = cuda;
    off.cache_enabled = AMP_SET(false);
    EXPECT_FALSE(cached("mm", wanting_gradients(on_cuda(AMP_F32)), off)) << "cache_enabled is off";
}

// ---- Weights and parameters ----------------------------------------------------------------------------------------
TEST_F(CastCache, AWeightIsCachedFromItsFirstUseAndSurvivesRegions) {
    amp_tensor *w = on_cuda(AMP_F32), *x = made_by_an_op();
    for (int i = 0; i < 3; i++) {
        Region region(AMP_DEVICE_CUDA);
        mm(x, w);
        EXPECT_EQ(entries(), 1u);
    }
    EXPECT_EQ(entries(), 1u);
    EXPECT_EQ(misses(), 1u);
    EXPECT_EQ(hits(), 2u);
    EXPECT_EQ(bytes(), 2 * sizeof(uint16_t));
}

TEST_F(CastCache, AParameterIsCachedWhereverItIsUsed) {
    amp_tensor *p = on_cuda(AMP_F32), *w = made_by_an_op();
    ASSERT_EQ(amp_tensor_mark_parameter(p), AMP_OK);
    {
        Region region(AMP_DEVICE_CUDA);
        mm(p, w);
        mm(p, w);
    }
    EXPECT_EQ(hits(), 1u);
    EXPECT_EQ(entries(), 1u) << "it survives the region";
}

TEST_F(CastCache, WhatAnOpMadeIsNotCachedInAWeightPosition) {
    amp_tensor *w = made_by_an_op();
    Region region(AMP_DEVICE_CUDA);
    mm(on_cuda(AMP_F32), w);
    EXPECT_EQ(entries(), 0u);
    ASSERT_EQ(amp_tensor_mark_parameter(w), AMP_OK);
    mm(on_cuda(AMP_F32), w);
    EXPECT_EQ(entries(), 1u) << "unless it is marked as a parameter";
}

TEST_F(CastCache, EveryTargetDtypeHasItsOwnCast) {
    amp_tensor *w = on_cuda(AMP_F32), *x = made_by_an_op();
    for (amp_dtype lower : {AMP_F16, AMP_BF16}) {
        Region region(AMP_DEVICE_CUDA, lower);
        mm(x, w);
    }
    EXPECT_EQ(entries(), 2u);
    EXPECT_EQ(hits(), 0u);
}

// ---- Never stale ---------------------------------------------------------------------------------------------------
TEST_F(CastCache, EveryWriteMakesTheCastStale) {
    amp_tensor *w = tensor(AMP_F32, {2, 3}, {1, 2, 3, 4, 5, 6});
    amp_tensor *two = tensor(AMP_F32, {2, 3}, {2});
    const auto expect_fresh = [&](const char *after) {
        SCOPED_TRACE(after);
        std::vector<double> expected = numbers_of(op("linear", {op("to", {x_, AMP_BF16}), op("to", {w, AMP_BF16})}));
        const uint64_t hits_before = hits(), misses_before = misses();
        Region region;
        for (int i = 0; i < 2; i++) EXPECT_EQ(numbers_of(op("linear", {x_, w})), expected);
        EXPECT_EQ(misses() - misses_before, 1u) << "the cast of the old values is not served";
        EXPECT_EQ(hits() - hits_before, 1u);
        EXPECT_EQ(entries(), 1u) << "and does not take room";
    };
    expect_fresh("the first use");
    static_cast<float *>(amp_data_mut(w))[1] = 7;
    expect_fresh("amp_data_mut");
    ASSERT_EQ(op("add_", {w, two}), w);
    expect_fresh("an in-place op");
    ASSERT_EQ(op("mul_out", {two, two}, {{"out", w}}), w);
    expect_fresh("an out= form");
    const_cast<float *>(static_cast<const float *>(amp_data(w)))[2] = -3;
    ASSERT_EQ(amp_tensor_mark_dirty(w), AMP_OK);
    expect_fresh("amp_tensor_mark_dirty");
    ASSERT_NE(op("fill_", {op("select", {w, 0, 1}), 9.0}), nullptr);
    expect_fresh("a write through a view");
    ASSERT_NE(op("mul_", {op("t", {w}), 0.5}), nullptr);
    expect_fresh("a write through the transpose");
    ASSERT_NE(op("batch_norm", {random_tensor(AMP_F32, {4, 6}, 1), op("view", {w, AMP_DIMS(6)}), tensor(AMP_F32, {6})},
                 {{"training", true}}),
              nullptr)
        << amp_last_error();
    expect_fresh("batch_norm's statistics");
    ASSERT_NE(op("embedding", {tensor(AMP_I64, {2}, {0, 1}), w}, {{"max_norm", 0.5}}), nullptr) << amp_last_error();
    expect_fresh("embedding's max_norm");
}

TEST_F(CastCache, AWriteThatFailsHalfwayCountsToo) {
    amp_tensor *numbers = tensor(AMP_I32, {2}, {6, 8}), *view = op("view", {numbers, AMP_DIMS(2)});
    const uint64_t before = numbers->storage->version;
    EXPECT_EQ(op("floor_divide_", {view, tensor(AMP_I32, {2}, {2, 0})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"floor_divide_", "zero"}));
    EXPECT_NE(numbers->storage->version, before);
}

TEST_F(CastCache, AWriteInsideTheRegionCountsToo) {
    amp_tensor *w = tensor(AMP_F32, {2, 3});
    Region region;
    EXPECT_EQ(numbers_of(op("linear", {x_, w}))[0], 6);
    ASSERT_EQ(op("fill_", {w, 2.0}), w);
    EXPECT_EQ(numbers_of(op("linear", {x_, w}))[0], 12);
}

// A function that gets a cast as its argument may write into it; the next call must not see that.
TEST_F(CastCache, ACastThatWasWrittenItselfIsMadeAnew) {
    amp_tensor *weight = tensor(AMP_F32, {2}), *made = nullptr;
    const auto build = [](const amp_cast_key *wanted, void *kept) {
        amp_tensor *t = amp_tensor_new("test", wanted->dtype, wanted->rank, wanted->shape);
        amp_tensor **last = static_cast<amp_tensor **>(kept);
        if (*last) amp_release(*last);
        *last = t;
        return t ? amp_retain(t) : nullptr;
    };
    const auto is_cached = [&] {
        bool cached = false;
        amp_cast_key key;
        amp_cast_key_of(&key, weight, AMP_BF16);
        amp_cast_release(amp_cast_obtain(&key, AMP_CAST_PERSISTENT, build, &made, &cached));
        return cached;
    };
    EXPECT_FALSE(is_cached());
    EXPECT_TRUE(is_cached());
    ASSERT_EQ(op("fill_", {made, 2.0}), made);
    EXPECT_FALSE(is_cached());
    EXPECT_TRUE(is_cached());
    amp_release(made);
}

// The source's geometry, and each word of what is made of it: none may be taken for another.
TEST_F(CastCache, EveryWordOfAKeyCounts) {
    amp_tensor *weight = tensor(AMP_F32, {2, 3});
    const auto build = [](const amp_cast_key *wanted, void *) {
        return amp_tensor_new("test", wanted->dtype, wanted->rank, wanted->shape);
    };
    amp_cast_key key;
    amp_cast_key_of(&key, weight, AMP_BF16);
    const auto is_cached = [&](const amp_cast_key &k) {
        bool cached = false;
        amp_cast_release(amp_cast_obtain(&k, AMP_CAST_PERSISTENT, build, nullptr, &cached));
        return cached;
    };
    std::vector<amp_cast_key> others(6, key);
    others[0].dtype = AMP_F16;
    others[1].layout.kind = AMP_LAYOUT_CONV;
    others[2].layout.variant = 1;
    others[3].offset = 1;
    others[4].strides[0] = 0;
    others[5].rank = 1;
    EXPECT_FALSE(is_cached(key));
    for (const amp_cast_key &other : others) EXPECT_FALSE(is_cached(other)) << &other - others.data();
    for (const amp_cast_key &other : others) EXPECT_TRUE(is_cached(other)) << &other - others.data();
    EXPECT_TRUE(is_cached(key));
}

TEST_F(CastCache, LookingDoesNotMakeStale) {
    amp_tensor *w = tensor(AMP_F32, {2, 3});
    const uint64_t version = amp_tensor_version(w);
    Region region;
    op("linear", {x_, w});
    (void)amp_data(w);
    op("add", {w, w});
    op("linear", {x_, w});
    EXPECT_EQ(amp_tensor_version(w), version);
    EXPECT_EQ(hits(), 1u);
}

// ---- Views ---------------------------------------------------------------------------------------------------------
TEST_F(CastCache, ViewsAreKeyedByTheirGeometry) {
    amp_tensor *w = tensor(AMP_F32, {4, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
    amp_tensor *top = op("narrow", {w, 0, 0, 2}), *bottom = op("narrow", {w, 0, 2, 2});
    amp_tensor *top_again = op("narrow", {w, 0, 0, 2});
    Region region;
    const std::vector<double> of_top = numbers_of(op("linear", {x_, top}));
    EXPECT_NE(numbers_of(op("linear", {x_, bottom})), of_top);
    op("linear", {x_, w});
    EXPECT_EQ(entries(), 3u);
    EXPECT_EQ(hits(), 0u);
    EXPECT_EQ(numbers_of(op("linear", {x_, top_again})), of_top);
    EXPECT_EQ(hits(), 1u) << "another view of the same elements";
}

TEST_F(CastCache, AWeightAndItsTransposeShareTheirPackedForm) {
    amp_tensor *w = tensor(AMP_F32, {2, 3}, {1, 2, 3, 4, 5, 6});
    Region region;
    const std::vector<double> by_linear = numbers_of(op("linear", {x_, w}));
    EXPECT_EQ(numbers_of(op("mm", {x_, op("t", {w})})), by_linear);
    EXPECT_EQ(numbers_of(op("matmul", {x_, op("transpose", {w, 0, 1})})), by_linear);
    EXPECT_EQ(entries(), 1u);
    EXPECT_EQ(hits(), 2u);
}

// ---- Packed weights ------------------------------------------------------------------------------------------------
TEST_F(CastCache, APackedWeightIsOneObject) {
    amp_tensor *w = random_tensor(AMP_F32, {70, 40}, 3), *x = random_tensor(AMP_F32, {5, 40}, 4);
    Region region;
    op("linear", {x, w});
    EXPECT_EQ(entries(), 1u);
    EXPECT_EQ(bytes(), amp_gemm_packed_bytes(70, 40)) << "packed, and no bf16 copy beside it";
}

TEST_F(CastCache, ThePackedWeightOfAConvolutionIsOneObject) {
    amp_tensor *w = random_tensor(AMP_F32, {32, 16, 3, 3}, 3), *x = random_tensor(AMP_F32, {1, 16, 8, 8}, 4);
    Region region;
    const std::vector<double> first = numbers_of(op("conv2d", {x, w}));
    EXPECT_EQ(entries(), 1u) << "packed, and no bf16 copy beside it";
    EXPECT_EQ(numbers_of(op("conv2d", {x, w})), first);
    EXPECT_EQ(entries(), 1u);
    EXPECT_EQ(misses(), 1u);
    EXPECT_EQ(hits(), 1u);
}

TEST_F(CastCache, ABf16WeightIsPackedOnceOutsideOfRegionsToo) {
    amp_tensor *w = random_tensor(AMP_BF16, {70, 40}, 3), *x = random_tensor(AMP_BF16, {5, 40}, 4);
    const std::vector<double> first = numbers_of(op("linear", {x, w}));
    EXPECT_EQ(numbers_of(op("linear", {x, w})), first);
    EXPECT_EQ(misses(), 1u);
    EXPECT_EQ(hits(), 1u);
    EXPECT_EQ(bytes(), amp_gemm_packed_bytes(70, 40));
}

// ---- Lifetime, budget, counters ------------------------------------------------------------------------------------
TEST_F(CastCache, AFreedSourceFreesItsCasts) {
    amp_tensor *x = made_by_an_op();
    {
        Scope scope;
        amp_tensor *w = on_cuda(AMP_F32);
        Region region(AMP_DEVICE_CUDA);
        mm(x, w);
        EXPECT_EQ(entries(), 1u);
    }
    EXPECT_EQ(entries(), 0u);
    EXPECT_EQ(bytes(), 0u);
    EXPECT_EQ(evictions(), 0u) << "that is no eviction";
}

TEST_F(CastCache, AViewKeepsTheCastsOfItsStorage) {
    amp_tensor *view = nullptr;
    {
        Scope scope;
        amp_tensor *w = tensor(AMP_F32, {2, 3});
        Region region;
        op("linear", {x_, w});
        view = amp_keep(op("t", {w}));
    }
    EXPECT_EQ(entries(), 1u);
    amp_release(view);
    EXPECT_EQ(entries(), 0u);
}

TEST_F(CastCache, TheBudgetEvictsTheLeastRecentlyUsed) {
    amp_tensor *x = made_by_an_op(), *a = on_cuda(AMP_F32), *b = on_cuda(AMP_F32), *c = on_cuda(AMP_F32);
    amp_cast_cache_set_budget(2 * 2 * sizeof(uint16_t)); // room for two
    EXPECT_EQ(amp_cast_cache_statistics().budget, 8u);
    Region region(AMP_DEVICE_CUDA);
    mm(x, a);
    mm(x, b);
    mm(x, a); // now b is the oldest
    EXPECT_EQ(hits(), 1u);
    EXPECT_EQ(evictions(), 0u);
    mm(x, c);
    EXPECT_EQ(evictions(), 1u);
    EXPECT_EQ(entries(), 2u);
    EXPECT_LE(bytes(), 8u);
    mm(x, a);
    mm(x, c);
    EXPECT_EQ(hits(), 3u) << "a and c are still there";
    mm(x, b);
    EXPECT_EQ(hits(), 3u) << "b is not";
    EXPECT_EQ(evictions(), 2u);
    amp_cast_cache_set_budget(4);
    EXPECT_EQ(entries(), 1u) << "a smaller budget holds at once";
    EXPECT_EQ(evictions(), 3u);
    mm(x, b);
    EXPECT_EQ(hits(), 4u) << "the newest stays";
}

TEST_F(CastCache, ACastBeyondTheBudgetIsUsedButNotKept) {
    amp_tensor *x = made_by_an_op(), *w = on_cuda(AMP_F32);
    amp_cast_cache_set_budget(0);
    Region region(AMP_DEVICE_CUDA);
    mm(x, w);
    mm(x, w);
    EXPECT_EQ(entries(), 0u);
    EXPECT_EQ(misses(), 2u);
    EXPECT_EQ(evictions(), 0u);
}

TEST_F(CastCache, CacheOffNeitherFillsNorUses) {
    amp_tensor *x = made_by_an_op(), *w = on_cuda(AMP_F32);
    {
        Region region(AMP_DEVICE_CUDA);
        mm(x, w);
    }
    amp_autocast_args off = region_args(AMP_DEVICE_CUDA);
    off.cache_enabled = AMP_SET(false);
    Region region(off);
    const int copies = fake_device::copies;
    mm(x, w);
    EXPECT_EQ(hits() + misses(), 1u) << "not even asked";
    EXPECT_EQ(fake_device::copies - copies, 2) << "the cast that is there is not used";
    EXPECT_EQ(entries(), 1u);
}

TEST_F(CastCache, CacheOffHoldsForPackedWeightsToo) {
    amp_tensor *w = tensor(AMP_F32, {2, 3});
    amp_autocast_args off = region_args();
    off.cache_enabled = AMP_SET(false);
    Region region(off);
    op("linear", {x_, w});
    op("linear", {x_, w});
    EXPECT_EQ(hits() + misses(), 0u);
    EXPECT_EQ(entries(), 0u);
}

TEST_F(CastCache, ClearDropsEverythingAndNothingBreaks) {
    amp_tensor *w = tensor(AMP_F32, {2, 3});
    Region region;
    const std::vector<double> before = numbers_of(op("linear", {x_, w}));
    amp_cast_cache_clear();
    EXPECT_EQ(entries(), 0u);
    EXPECT_EQ(bytes(), 0u);
    EXPECT_EQ(numbers_of(op("linear", {x_, w})), before);
    EXPECT_EQ(entries(), 1u);
}

// ---- Threads -------------------------------------------------------------------------------------------------------
TEST_F(CastCache, RacingThreadsAgreeOnOneCast) {
    amp_tensor *w = random_tensor(AMP_F32, {64, 64}, 5), *x = random_tensor(AMP_F32, {3, 64}, 6);
    std::vector<double> expected;
    {
        Region region;
        expected = numbers_of(op("linear", {x, w}));
    }
    for (int round = 0; round < 20; round++) {
        amp_cast_cache_clear();
        std::vector<std::thread> threads;
        for (int i = 0; i < 4; i++) {
            threads.emplace_back([&] {
                Scope scope;
                Region region;
                for (int k = 0; k < 5; k++) EXPECT_EQ(numbers_of(op("linear", {x, w})), expected);
                EXPECT_TRUE(no_error());
            });
        }
        for (std::thread &thread : threads) thread.join();
        EXPECT_EQ(entries(), 1u);
        EXPECT_EQ(bytes(), amp_gemm_packed_bytes(64, 64));
    }
}

TEST_F(CastCache, EvictionWhileOthersUseTheCastIsSafe) {
    amp_tensor *x = random_tensor(AMP_F32, {2, 32}, 8);
    std::vector<amp_tensor *> weights;
    std::vector<std::vector<double>> expected;
    for (uint64_t i = 0; i < 4; i++) weights.push_back(random_tensor(AMP_F32, {32, 32}, 10 + i));
    {
        Region region;
        for (amp_tensor *w : weights) expected.push_back(numbers_of(op("linear", {x, w})));
    }
    amp_cast_cache_set_budget(amp_gemm_packed_bytes(32, 32)); // one at a time
    std::vector<std::thread> threads;
    for (size_t i = 0; i < 4; i++) {
        threads.emplace_back([&, i] {
            Scope scope;
            Region region;
            for (size_t k = 0; k < 50; k++) {
                EXPECT_EQ(numbers_of(op("linear", {x, weights[(i + k) % 4]})), expected[(i + k) % 4]);
            }
        });
    }
    for (std::thread &thread : threads) thread.join();
    EXPECT_LE(entries(), 1u);
}
