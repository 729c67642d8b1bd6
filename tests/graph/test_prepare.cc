// What comes before the first run: afterwards it packs nothing, makes no plan and gives the same bits.
#include <functional>

#include "ending_memory.h"
#include "traced.h"

using namespace amp_test;

namespace {

using namespace traced;

class Prepare : public Test {
  protected:
    void SetUp() override {
        Test::SetUp();
        for (amp_tensor *t : {w_, kernel_, depthwise_, gates_, again_, bias_})
            EXPECT_EQ(amp_tensor_mark_parameter(t), AMP_OK);
        amp_cast_cache_clear();
    }
    void TearDown() override {
        amp_graph_release(graph_);
        amp_cast_cache_clear();
        Test::TearDown();
    }
    void make(Function function, int inputs = 1) {
        source_ = {std::move(function), 0};
        amp_graph_release(graph_);
        graph_ = amp_graph_trace("prepared", compute, &source_, inputs, 1, nullptr);
    }
    std::vector<double> run(const Tensors &inputs) {
        amp_tensor *y = nullptr;
        EXPECT_EQ(amp_graph_run(graph_, inputs.data(), int(inputs.size()), &y, 1), AMP_OK) << amp_last_error();
        return y ? numbers_of(y) : std::vector<double>();
    }
    amp_status prepare(const Tensors &inputs) {
        return amp_graph_prepare(graph_, inputs.data(), int(inputs.size()));
    }
    // Products, convolutions (depthwise ones, transposed ones) and a recurrent layer, with what stands between them.
    Tensors network(amp_tensor *const *x) const {
        amp_tensor *h = op("relu", {op("conv2d", {x[0], kernel_})});
        h = op("conv2d", {h, depthwise_, nullptr, AMP_DIMS(1, 1), AMP_DIMS(1, 1), AMP_DIMS(1, 1), 16});
        h = op("conv_transpose2d", {h, kernel_});
        h = op("linear", {op("flatten", {h, 2, 3}), w_});
        const Tensors state = {op("zeros", {AMP_DIMS(1, 8, 16)}), op("zeros", {AMP_DIMS(1, 8, 16)})};
        const Tensors weights = {gates_, again_, bias_, bias_};
        h = op("lstm", {h, state, weights, true, 1, 0.0, false, false, false});
        return {op("softmax", {h, -1})};
    }
    // Prepared, the first run finds all in the cache, and it is the same as without; so does each later one.
    void expect_ready(amp_tensor *x, const std::vector<double> &want) {
        ASSERT_EQ(prepare({x}), AMP_OK) << amp_last_error();
        const int calls = source_.runs;
        const amp_cast_cache_stats before = amp_cast_cache_statistics();
        EXPECT_GT(before.entries, 0u);
        for (int round = 0; round < 3; round++) EXPECT_EQ(run({x}), want) << round;
        const amp_cast_cache_stats after = amp_cast_cache_statistics();
        EXPECT_EQ(after.misses, before.misses) << "packed in a run";
        EXPECT_EQ(after.entries, before.entries);
        EXPECT_EQ(after.bytes, before.bytes);
        EXPECT_GT(after.hits, before.hits);
        EXPECT_EQ(source_.runs, calls) << "captured in a run";
    }
    // What the same function gives without.
    std::vector<double> unprepared(amp_tensor *x) {
        Function function = source_.function;
        make(function);
        const std::vector<double> y = run({x});
        amp_cast_cache_clear();
        make(function);
        return y;
    }
    amp_tensor *w_ = random_tensor(AMP_F32, {24, 100}, 1), *kernel_ = random_tensor(AMP_F32, {16, 8, 3, 3}, 2),
               *depthwise_ = random_tensor(AMP_F32, {16, 1, 3, 3}, 3), *gates_ = random_tensor(AMP_F32, {64, 24}, 4),
               *again_ = random_tensor(AMP_F32, {64, 16}, 5), *bias_ = random_tensor(AMP_F32, {64}, 6),
               *x_ = random_tensor(AMP_F32, {2, 8, 10, 10}, 7), *few_ = random_tensor(AMP_F32, {3, 100}, 8);
    amp_graph *graph_ = nullptr;
    Source source_;
};

TEST_F(Prepare, TheFirstRunPacksNothing) {
    make([this](amp_tensor *const *x) { return network(x); });
    const std::vector<double> want = unprepared(x_);
    expect_ready(x_, want);
}

TEST_F(Prepare, InARegion) {
    make([this](amp_tensor *const *x) { return network(x); });
    const Region region;
    const std::vector<double> want = unprepared(x_);
    expect_ready(x_, want);
}

// Of each kind of region, and of other shapes, apart; what was prepared before stays so.
TEST_F(Prepare, AfterOthers) {
    make([this](amp_tensor *const *x) { return network(x); });
    const std::vector<double> in_f32 = unprepared(x_);
    amp_tensor *more = random_tensor(AMP_F32, {5, 8, 10, 10}, 9);
    const std::vector<double> of_more = unprepared(more);
    std::vector<double> in_bf16;
    {
        const Region region;
        in_bf16 = unprepared(x_);
    }
    EXPECT_NE(in_bf16, in_f32);
    expect_ready(x_, in_f32);
    {
        const Region region;
        expect_ready(x_, in_bf16);
    }
    expect_ready(more, of_more);
    const amp_cast_cache_stats before = amp_cast_cache_statistics();
    EXPECT_EQ(run({x_}), in_f32);
    EXPECT_EQ(prepare({x_}), AMP_OK);
    EXPECT_EQ(amp_cast_cache_statistics().misses, before.misses);
    amp_cast_cache_clear();
    expect_ready(x_, in_f32); // once more
}

// Another input of the same shape is prepared too.
TEST_F(Prepare, WithOtherElements) {
    make([this](amp_tensor *const *x) { return network(x); });
    const std::vector<double> want = unprepared(x_);
    ASSERT_EQ(prepare({op("zeros_like", {x_})}), AMP_OK);
    const amp_cast_cache_stats before = amp_cast_cache_statistics();
    EXPECT_EQ(run({x_}), want);
    EXPECT_EQ(amp_cast_cache_statistics().misses, before.misses);
}

// Constants are computed while a graph is prepared, from products too.
TEST_F(Prepare, ConstantsAreWhatTheyAre) {
    make([this](amp_tensor *const *x) {
        amp_tensor *made = op("matmul", {w_, op("t", {w_})});
        return Tensors{op("linear", {op("linear", {x[0], w_}), made})};
    });
    const std::vector<double> want = unprepared(few_);
    expect_ready(few_, want);
}

// Elements that the function looks at are part of the question.
TEST_F(Prepare, ElementsThatDecide) {
    make(
        [this](amp_tensor *const *x) {
            return Tensors{amp_item(x[1]) > 0 ? op("linear", {x[0], w_}) : op("neg", {x[0]})};
        },
        2);
    amp_tensor *yes = tensor(AMP_F32, {}, {1}), *no = tensor(AMP_F32, {}, {0});
    ASSERT_EQ(prepare({few_, yes}), AMP_OK);
    const amp_cast_cache_stats before = amp_cast_cache_statistics();
    EXPECT_EQ(before.entries, 1u);
    EXPECT_EQ(run({few_, yes}), numbers_of(op("linear", {few_, w_})));
    EXPECT_EQ(source_.runs, 1);
    EXPECT_EQ(run({few_, no}), numbers_of(op("neg", {few_})));
    EXPECT_EQ(source_.runs, 2);
}

// Values made of products, which are zeros then, may be such as an op refuses.
TEST_F(Prepare, ZerosThatAreRefused) {
    make([this](amp_tensor *const *x) {
        amp_tensor *h = op("amax", {op("abs", {op("linear", {x[0], w_})}), AMP_DIMS(1)});
        amp_tensor *below = op("ceil", {op("mul.scalar", {op("reciprocal", {h}), 1e-3})}); // 1, of zeros infinite
        return Tensors{op("index_select", {w_, 0, op("to", {below, AMP_I64})})};
    });
    const std::vector<double> want = unprepared(few_);
    EXPECT_EQ(want.size(), 300u);
    expect_ready(few_, want);
}

TEST_F(Prepare, RefusedElementsAreTold) {
    make([this](amp_tensor *const *x) {
        return Tensors{op("linear", {op("index_select", {few_, 0, op("add.scalar", {x[0], 1})}), w_})};
    });
    amp_tensor *wrong = tensor(AMP_I64, {2}, {1, 2}), *right = tensor(AMP_I64, {2}, {1, 0});
    EXPECT_EQ(prepare({wrong}), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"index_select", "3"}));
    amp_clear_error();
    EXPECT_EQ(prepare({right}), AMP_OK);
    EXPECT_EQ(run({right}),
              numbers_of(op("linear", {op("index_select", {few_, 0, tensor(AMP_I64, {2}, {2, 1})}), w_})));
}

// What cannot be captured runs once.
TEST_F(Prepare, OpByOp) {
    make([this](amp_tensor *const *x) {
        amp_tensor *h = op("linear", {x[0], w_});
        op("relu_", {h});
        return Tensors{h};
    });
    ASSERT_EQ(prepare({few_}), AMP_OK);
    EXPECT_GE(source_.runs, 1);
    const amp_cast_cache_stats before = amp_cast_cache_statistics();
    EXPECT_EQ(run({few_}), numbers_of(op("relu", {op("linear", {few_, w_})})));
    EXPECT_EQ(amp_cast_cache_statistics().misses, before.misses);
    EXPECT_EQ(prepare({few_}), AMP_OK);
}

struct SeenArgs {
    size_t struct_size;
    amp_tensor *input;
};

std::vector<std::vector<double>> seen;

amp_status see(amp_call *call, const void *args) {
    amp_tensor *x = static_cast<const SeenArgs *>(args)->input;
    seen.push_back(numbers_of(x));
    return amp_call_return(call, 0, op("neg", {x}));
}

TEST_F(Prepare, OpsOfTheProgramSeeWhatIsComputed) {
    amp_op_definition d = {};
    d.struct_size = sizeof d;
    d.schema = "prepare_seen(Tensor input) -> Tensor";
    d.args_size = sizeof(SeenArgs);
    d.cpu.run = see;
    static const amp_op *const defined = amp_define_op_call(&d);
    ASSERT_NE(defined, nullptr) << amp_last_error();
    seen.clear();
    make([this](amp_tensor *const *x) { return Tensors{op("prepare_seen", {op("linear", {x[0], w_})})}; });
    const std::vector<double> of_op = numbers_of(op("linear", {few_, w_}));
    ASSERT_EQ(prepare({few_}), AMP_OK) << amp_last_error();
    EXPECT_EQ(run({few_}), numbers_of(op("neg", {op("linear", {few_, w_})})));
    EXPECT_GE(seen.size(), 2u);
    for (const std::vector<double> &each : seen) EXPECT_EQ(each, of_op);
}

// Whoever watches calls sees a run.
TEST_F(Prepare, Explained) {
    make([this](amp_tensor *const *x) { return network(x); });
    const std::vector<double> want = unprepared(x_);
    amp_explain_reset();
    amp_explain_begin();
    EXPECT_EQ(prepare({x_}), AMP_OK);
    amp_explain_end();
    amp_explain_reset();
    EXPECT_EQ(run({x_}), want);
    expect_ready(x_, want);
}

TEST_F(Prepare, WrongInputs) {
    EXPECT_EQ(amp_graph_prepare(nullptr, &x_, 1), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"graph_prepare", "NULL"}));
    EXPECT_EQ(amp_graph_prepare(nullptr, &x_, 1), AMP_ERROR_INVALID) << "an error stands";
    amp_clear_error();
    make([this](amp_tensor *const *x) { return network(x); });
    EXPECT_EQ(amp_graph_prepare(graph_, nullptr, 0), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"prepared", "0 inputs", "has 1"}));
    amp_clear_error();
    EXPECT_EQ(prepare({nullptr}), AMP_ERROR_INVALID);
    amp_clear_error();
    EXPECT_EQ(prepare({few_}), AMP_ERROR_INVALID) << "rank 2";
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"conv2d"}));
    amp_clear_error();
    EXPECT_EQ(prepare({x_}), AMP_OK);
}

TEST_F(Prepare, MemoryMayEndAnywhere) {
    make([this](amp_tensor *const *x) { return Tensors{op("softmax", {op("linear", {op("exp", {x[0]}), w_}), -1})}; });
    const std::vector<double> want = unprepared(few_);
    const Function function = source_.function;
    {
        EndingMemory memory;
        memory.until_it_works([&] {
            make(function);
            amp_cast_cache_clear();
            if (prepare({few_}) == AMP_OK) {
                amp_tensor *y = nullptr;
                if (amp_graph_run(graph_, &few_, 1, &y, 1) == AMP_OK) {
                    EXPECT_EQ(numbers_of(y), want);
                }
            }
        });
        amp_graph_release(graph_);
        graph_ = nullptr;
    }
}

} // namespace
