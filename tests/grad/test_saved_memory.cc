// What a tape keeps alive, in bytes of libamp's own counters, and when it lets go: recomputation, casts of weights.
#include "amp_test.h"

using namespace amp_test;

namespace {

enum { LAYERS = 6, WIDTH = 64, ROWS = 256 };

struct Layer {
    amp_tensor *up, *down;
};

amp_status run_layer(void *context, amp_tensor *const *inputs, amp_tensor **outputs) {
    const auto *l = static_cast<Layer *>(context);
    outputs[0] = op("linear", {op("gelu", {op("linear", {inputs[0], l->up})}), l->down});
    return amp_last_status();
}

class SavedMemory : public Test {
  protected:
    static amp_tensor *weight(const Shape &shape, uint64_t seed) {
        amp_tensor *w = random_tensor(AMP_F32, shape, seed);
        EXPECT_EQ(amp_tensor_set_requires_grad(w, true), AMP_OK) << amp_last_error();
        return w;
    }
    static size_t cast_bytes() {
        return amp_cast_cache_statistics().bytes;
    }
    static amp_status back(amp_tensor *loss, bool retain = false, std::vector<amp_tensor *> inputs = {}) {
        amp_backward_args args = {};
        args.struct_size = sizeof args;
        args.loss = loss;
        args.retain_graph = retain;
        args.inputs = {inputs.data(), int64_t(inputs.size()), nullptr};
        return amp_backward_call(&args);
    }
    void SetUp() override {
        Test::SetUp();
        for (int i = 0; i < LAYERS; i++)
            layers_[i] = {weight({4 * WIDTH, WIDTH}, 2 * i), weight({WIDTH, 4 * WIDTH}, 2 * i + 1)};
        x_ = weight({ROWS, WIDTH}, 99);
    }
    // The loss; x is of no scope but the caller's. One variable is each layer's input and its result.
    amp_tensor *run(bool recomputed) {
        amp_tensor *x = x_;
        for (Layer &l : layers_) {
            amp_tensor *before = x;
            amp_scope_enter();
            EXPECT_EQ(recomputed ? amp_checkpoint(run_layer, &l, &x, 1, &x, 1) : run_layer(&l, &before, &x), AMP_OK)
                << amp_last_error();
            amp_keep(x);
            amp_scope_exit();
            if (before != x_) amp_release(before);
        }
        amp_tensor *loss = op("sum", {x});
        amp_release(x);
        return loss;
    }
    // Bytes that a forward leaves alive, but for casts in the cache; then the gradients.
    size_t saved_by(bool recomputed, bool lower, std::vector<double> *gradients) {
        amp_scope_enter();
        const size_t before = amp_memory_statistics().live_bytes - cast_bytes();
        amp_tensor *loss = nullptr;
        if (lower) {
            Region region;
            loss = run(recomputed);
        } else {
            loss = run(recomputed);
        }
        const size_t saved = amp_memory_statistics().live_bytes - cast_bytes() - before;
        EXPECT_EQ(back(loss), AMP_OK) << amp_last_error();
        std::vector<amp_tensor *> leaves = {x_};
        for (Layer &l : layers_) leaves.insert(leaves.end(), {l.up, l.down});
        for (amp_tensor *leaf : leaves) {
            for (double g : numbers_of(amp_tensor_grad(leaf))) gradients->push_back(g);
            EXPECT_EQ(amp_tensor_zero_grad(leaf), AMP_OK);
        }
        amp_scope_exit();
        return saved;
    }
    Layer layers_[LAYERS];
    amp_tensor *x_;
};

TEST_F(SavedMemory, RecomputationHalvesItAtLeastAndGivesTheSameBits) {
    for (bool lower : {false, true}) {
        std::vector<double> plain, again;
        const size_t saved = saved_by(false, lower, &plain), kept = saved_by(true, lower, &again);
        EXPECT_GT(saved, size_t(LAYERS * ROWS * 8 * WIDTH * 2)) << "what stands between the products";
        EXPECT_LE(2 * kept, saved) << lower;
        EXPECT_EQ(plain, again) << lower;
    }
}

TEST_F(SavedMemory, CastsOfWeightsGoAsTheirGradientsCome) {
    amp_cast_cache_clear();
    const auto loss = [&] {
        Region region;
        return op("sum", {op("linear", {op("linear", {x_, layers_[0].up}), layers_[0].down})});
    };
    EXPECT_EQ(back(loss()), AMP_OK) << amp_last_error();
    EXPECT_EQ(cast_bytes(), 0u) << "they are out of date after the step";
    amp_tensor *first = loss(), *second = loss();
    const size_t both = cast_bytes();
    EXPECT_GE(both, size_t(2 * 4 * WIDTH * WIDTH * 2));
    EXPECT_EQ(back(first), AMP_OK);
    EXPECT_GE(cast_bytes(), both) << "the second reads them";
    EXPECT_EQ(back(second, true), AMP_OK);
    EXPECT_GE(cast_bytes(), both) << "it may be gone over again";
    EXPECT_EQ(back(second), AMP_OK);
    EXPECT_EQ(cast_bytes(), 0u);
}

TEST_F(SavedMemory, CastsOfWeightsStayThatNoBackwardIsFor) {
    amp_cast_cache_clear();
    amp_tensor *few = weight({8, WIDTH}, 98);
    const auto loss = [&] {
        Region region;
        return op("sum", {op("linear", {few, layers_[0].up})});
    };
    loss();
    EXPECT_GT(cast_bytes(), 0u);
    amp_scope_enter();
    loss(); // recorded, and let go
    amp_scope_exit();
    const size_t forward = cast_bytes();
    EXPECT_GT(forward, 0u);
    EXPECT_EQ(back(loss(), false, {few}), AMP_OK) << "the weight's gradient was not asked for";
    EXPECT_GE(cast_bytes(), forward);
    EXPECT_EQ(amp_tensor_set_requires_grad(layers_[0].up, false), AMP_OK);
    EXPECT_EQ(back(loss()), AMP_OK) << "nor is there one";
    EXPECT_GE(cast_bytes(), forward);
}

TEST_F(SavedMemory, PackedFormsBesideManyRowsGoWithTheirCallUnlessTheRecordReadsThemTwice) {
    for (bool lower : {false, true}) {
        amp_cast_cache_clear();
        amp_tensor *losses[3];
        for (int i = 0; i < 3; i++) {
            if (lower) {
                Region region;
                losses[i] = op("sum", {op("linear", {x_, layers_[0].up})});
            } else {
                losses[i] = op("sum", {op("linear", {x_, layers_[0].up})});
            }
            EXPECT_EQ(cast_bytes() > 0, i > 0) << i;
        }
        EXPECT_EQ(numbers_of(losses[0]), numbers_of(losses[1]));
        EXPECT_EQ(numbers_of(losses[0]), numbers_of(losses[2]));
        for (amp_tensor *loss : losses) EXPECT_EQ(back(loss), AMP_OK) << amp_last_error();
        EXPECT_EQ(cast_bytes(), 0u);
    }
}

// What three products read is cast and saved once; alone in their regions they save it three times, and give the same bits.
class SharedCast : public SavedMemory {
  protected:
    static constexpr size_t ONE = size_t(ROWS) * WIDTH * 2;
    amp_tensor *product(amp_tensor *x, int i) {
        return op("linear", {x, layers_[i].up});
    }
    // Bytes that were alive behind it beyond those of results; then the gradients of x_ and of three weights.
    size_t run_three(bool together, std::vector<double> *gradients) {
        Scope scope;
        amp_tensor *x = op("mul", {x_, x_}), *y[3];
        const size_t before = amp_memory_statistics().live_bytes - cast_bytes();
        if (together) {
            Region region;
            for (int i = 0; i < 3; i++) y[i] = product(x, i);
        }
        for (int i = 0; i < 3 && !together; i++) {
            Region region;
            y[i] = product(x, i);
        }
        const size_t saved = amp_memory_statistics().live_bytes - cast_bytes() - before;
        EXPECT_EQ(back(op("sum", {op("mul", {op("mul", {y[0], y[1]}), y[2]})})), AMP_OK) << amp_last_error();
        for (amp_tensor *leaf : {x_, layers_[0].up, layers_[1].up, layers_[2].up}) {
            for (double g : numbers_of(amp_tensor_grad(leaf))) gradients->push_back(g);
            EXPECT_EQ(amp_tensor_zero_grad(leaf), AMP_OK);
        }
        return saved;
    }
};

TEST_F(SharedCast, IsSavedOnceAndGivesTheSameBits) {
    const int threads = amp_get_num_threads();
    std::vector<double> apart;
    const size_t three = run_three(false, &apart);
    for (int count : {1, 2, 3}) {
        EXPECT_EQ(amp_set_num_threads(count), AMP_OK);
        std::vector<double> together;
        const size_t one = run_three(true, &together);
        EXPECT_GE(three, one + 2 * ONE);
        EXPECT_EQ(apart, together) << count;
    }
    EXPECT_EQ(amp_set_num_threads(threads), AMP_OK);
    EXPECT_EQ(cast_bytes(), 0u) << "its region ended, and the weights were gone over";
}

TEST_F(SharedCast, IsNotServedOnceItsSourceWasWritten) {
    amp_tensor *x = op("mul", {x_, x_}), *before = nullptr, *after = nullptr, *by_hand = nullptr;
    {
        Region region;
        before = product(x, 0);
        EXPECT_EQ(call("add_", {x, x_}, {}, nullptr), AMP_OK) << amp_last_error();
        after = product(x, 0);
        static_cast<float *>(amp_data_mut(x))[0] = 1000;
        by_hand = product(x, 0);
    }
    const std::vector<double> third = numbers_of(by_hand);
    Region region;
    amp_tensor *anew = op("add", {op("mul", {x_, x_}), x_});
    EXPECT_NE(numbers_of(before), numbers_of(after));
    EXPECT_EQ(numbers_of(product(anew, 0)), numbers_of(after));
    static_cast<float *>(amp_data_mut(anew))[0] = 1000;
    EXPECT_EQ(numbers_of(product(anew, 0)), third);
    EXPECT_NE(numbers_of(after), third);
}

TEST_F(SharedCast, IsKeptOfNoLentMemoryAndInNoRegionWithoutACache) {
    std::vector<float> lent(size_t(ROWS) * WIDTH, 1.0f);
    const int64_t shape[2] = {ROWS, WIDTH};
    amp_tensor *x = amp_from_memory(lent.data(), AMP_F32, 2, shape, nullptr, nullptr, nullptr);
    ASSERT_NE(x, nullptr) << amp_last_error();
    Region region;
    const std::vector<double> ones = numbers_of(product(x, 0));
    lent.assign(lent.size(), 2.0f); // which nobody was told of
    std::vector<double> twos = numbers_of(product(x, 0));
    for (double &number : twos) number /= 2;
    EXPECT_EQ(ones, twos);
    amp_autocast_args args = region_args();
    args.cache_enabled.set = AMP_PRESENT;
    args.cache_enabled.value = false;
    Region without(args);
    const size_t kept = cast_bytes();
    product(op("mul", {x_, x_}), 0);
    EXPECT_EQ(cast_bytes(), kept);
}

} // namespace
