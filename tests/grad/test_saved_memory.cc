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

} // namespace
