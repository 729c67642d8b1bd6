// Runs into the caller's memory: the bits of a run that makes its outputs, in the tensors that were given, for which
// nothing is taken from the system.
#include <cstring>

#include "amp/autocast.h"
#include "amp/memory.h"
#include "sanitizers.h"
#include "traced.h"

using namespace amp_test;
using traced::Tensors;

namespace {

class RunOut : public Test {
  protected:
    void make(int inputs, int outputs, traced::Function function) {
        source_.function = std::move(function);
        graph_ = amp_graph_trace("run_out", traced::compute, &source_, inputs, outputs, nullptr);
    }
    void TearDown() override {
        amp_graph_release(graph_);
        Test::TearDown();
    }
    std::vector<std::vector<double>> run(const Tensors &inputs, int count) const {
        const Scope scope;
        Tensors y(static_cast<size_t>(count));
        EXPECT_EQ(amp_graph_run(graph_, inputs.data(), static_cast<int>(inputs.size()), y.data(), count), AMP_OK);
        std::vector<std::vector<double>> numbers;
        for (amp_tensor *t : y) numbers.push_back(numbers_of(t));
        return numbers;
    }
    amp_status run_out(const Tensors &inputs, const Tensors &outputs) const {
        return amp_graph_run_out(graph_, inputs.data(), static_cast<int>(inputs.size()), outputs.data(),
                                 static_cast<int>(outputs.size()));
    }
    void expect_same(const Tensors &inputs, const Tensors &outputs) const {
        const auto expected = run(inputs, static_cast<int>(outputs.size()));
        for (int round = 0; round < 3; round++) {
            const Scope scope;
            ASSERT_EQ(run_out(inputs, outputs), AMP_OK) << amp_last_error();
            for (size_t i = 0; i < outputs.size(); i++) {
                if (!outputs[i]) continue;
                EXPECT_EQ(numbers_of(outputs[i]), expected[i]) << i;
            }
        }
    }
    void expect_error(const Tensors &inputs, const Tensors &outputs, const char *sentence) const {
        const Scope scope;
        EXPECT_NE(run_out(inputs, outputs), AMP_OK);
        EXPECT_STREQ(amp_last_error(), sentence);
        amp_clear_error();
    }
    amp_graph *graph_ = nullptr;

  private:
    traced::Source source_;
};

// A fresh result, a view of it, a view of the input, a constant, a result of f32 in any region.
Tensors five(amp_tensor *x, amp_tensor *w) {
    amp_tensor *y = op("relu", {op("linear", {x, w})});
    return {y, op("transpose", {y, 0, 1}), op("transpose", {x, 0, 1}), w, op("softmax", {y, -1})};
}

TEST_F(RunOut, TheSameBits) {
    amp_tensor *w = random_tensor(AMP_F32, {8, 6}, 1), *x = random_tensor(AMP_F32, {3, 6}, 2);
    make(1, 5, [=](amp_tensor *const *in) { return five(in[0], w); });
    for (int round = 0; round < 2; round++)
        expect_same({x}, {random_tensor(AMP_F32, {3, 8}, 3), random_tensor(AMP_F32, {8, 3}, 4),
                          random_tensor(AMP_F32, {6, 3}, 5), random_tensor(AMP_F32, {8, 6}, 6),
                          random_tensor(AMP_F32, {3, 8}, 7)});
    expect_same({x}, {nullptr, random_tensor(AMP_F32, {8, 3}, 4)}); // one that is not wanted, fewer than there are
}

TEST_F(RunOut, TheSameBitsInARegion) {
    amp_tensor *w = random_tensor(AMP_F32, {8, 6}, 1), *x = random_tensor(AMP_F32, {3, 6}, 2);
    make(1, 5, [=](amp_tensor *const *in) { return five(in[0], w); });
    const Region region;
    expect_same({x}, {random_tensor(AMP_BF16, {3, 8}, 3), random_tensor(AMP_BF16, {8, 3}, 4)});
}

TEST_F(RunOut, AnyLayoutOfTheTarget) {
    amp_tensor *w = random_tensor(AMP_F32, {8, 6}, 1), *x = random_tensor(AMP_F32, {3, 6}, 2);
    make(1, 5, [=](amp_tensor *const *in) { return five(in[0], w); });
    amp_tensor *turned = op("transpose", {random_tensor(AMP_F32, {8, 3}, 3), 0, 1});
    amp_tensor *rows = op("narrow", {random_tensor(AMP_F32, {5, 8}, 4), 0, 1, 3});
    expect_same({x}, {turned});
    expect_same({x}, {rows});
}

TEST_F(RunOut, StepsWriteThere) {
    amp_tensor *x = random_tensor(AMP_F32, {64, 1024}, 2), *y = random_tensor(AMP_F32, {64, 1024}, 3);
    make(1, 1, [=](amp_tensor *const *in) { return Tensors{op("relu", {op("add", {in[0], in[0]})})}; });
    const void *at = amp_data(y);
    for (int round = 0; round < 4; round++) ASSERT_EQ(run_out({x}, {y}), AMP_OK);
    const amp_memory_stats before = amp_memory_statistics();
    const uint64_t version = amp_tensor_version(y);
    for (int round = 0; round < 20; round++) ASSERT_EQ(run_out({x}, {y}), AMP_OK);
    const amp_memory_stats after = amp_memory_statistics();
    EXPECT_EQ(amp_data(y), at);
    EXPECT_GT(amp_tensor_version(y), version);
    EXPECT_EQ(after.live_bytes, before.live_bytes);
    EXPECT_EQ(after.live_tensors, before.live_tensors);
    if (!amp_test::under_asan) {
        EXPECT_EQ(after.system_allocations, before.system_allocations);
    }
}

TEST_F(RunOut, NotIntoWhatRequiresGradients) {
    amp_tensor *x = tensor(AMP_F32, {2}, {1, 2}), *w = tensor(AMP_F32, {2}, {3, 4});
    ASSERT_EQ(amp_tensor_set_requires_grad(w, true), AMP_OK);
    make(1, 1, [=](amp_tensor *const *in) { return Tensors{op("mul", {in[0], w})}; });
    EXPECT_EQ(run_out({x}, {w}), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"the output '0'", "requires gradients"}));
    EXPECT_EQ(numbers_of(w), (std::vector<double>{3, 4}));
    EXPECT_EQ(run_out({x}, {tensor(AMP_F32, {2})}), AMP_OK) << "weights may require them";
}

// What a copy would come from is not there.
TEST_F(RunOut, NothingIsCopied) {
    amp_tensor *x = random_tensor(AMP_F32, {64, 1024}, 2), *y = random_tensor(AMP_F32, {64, 1024}, 3);
    make(1, 1, [=](amp_tensor *const *in) { return Tensors{op("relu", {in[0]})}; });
    for (int round = 0; round < 3; round++) ASSERT_EQ(run_out({x}, {y}), AMP_OK);
    amp_memory_trim();
    ASSERT_EQ(run_out({x}, {y}), AMP_OK);
    EXPECT_LT(amp_memory_statistics().cached_bytes, size_t{64} * 1024 * sizeof(float));
}

// A weight of the function's may be a target: it is read until the end, and the next run sees the new one.
TEST_F(RunOut, IntoAWeight) {
    amp_tensor *w = random_tensor(AMP_F32, {3, 3}, 1), *x = random_tensor(AMP_F32, {3, 3}, 2);
    make(1, 1, [=](amp_tensor *const *in) { return Tensors{op("matmul", {in[0], w})}; });
    for (int round = 0; round < 4; round++) {
        const auto expected = run({x}, 1);
        ASSERT_EQ(run_out({x}, {w}), AMP_OK) << amp_last_error();
        EXPECT_EQ(numbers_of(w), expected[0]);
    }
}

TEST_F(RunOut, WhatDoesNotFitIsNamed) {
    amp_tensor *w = random_tensor(AMP_F32, {8, 6}, 1), *x = random_tensor(AMP_F32, {3, 6}, 2);
    make(1, 2, [=](amp_tensor *const *in) {
        const Tensors all = five(in[0], w);
        return Tensors{all[0], all[1]};
    });
    amp_tensor *y = random_tensor(AMP_F32, {3, 8}, 3);
    for (int round = 0; round < 3; round++) {
        expect_error({x}, {random_tensor(AMP_F32, {3, 9}, 3)},
                     "run_out: the output '0' is [3, 8] f32; the tensor given for it is [3, 9] f32");
        expect_error({x}, {random_tensor(AMP_BF16, {3, 8}, 3)},
                     "run_out: the output '0' is [3, 8] f32; the tensor given for it is [3, 8] bf16");
        expect_error({x}, {y, op("view", {y, AMP_DIMS(8, 3)})},
                     "run_out: the outputs '0' and '1' share memory; each needs its own");
        expect_error({x}, {op("narrow", {op("view", {x, AMP_DIMS(18)}), 0, 0, 1})},
                     "run_out: the output '0' shares memory with the input '0'; it needs its own");
        expect_error({x}, {y, y, y}, "run_out: 3 outputs were asked for; the graph has 2");
        expect_same({x}, {y});
    }
}

} // namespace
