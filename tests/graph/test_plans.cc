// Plans: later runs of a graph call what the dispatcher would have called, with results in one block of memory. They
// give its bits, whatever the ops are, from any thread, and leave what the caller holds alone.
#include <cstdlib>
#include <functional>
#include <thread>

#include "amp/autocast.h"
#include "amp/explain.h"
#include "amp/memory.h"
#include "amp_test.h"
#include "sanitizers.h"

using namespace amp_test;

namespace {

using Tensors = std::vector<amp_tensor *>;
using Function = std::function<Tensors(amp_tensor *const *)>;
using Numbers = std::vector<std::vector<double>>;

amp_status compute(void *context, amp_tensor *const *inputs, amp_tensor **outputs) {
    const Tensors results = (*static_cast<Function *>(context))(inputs);
    std::copy(results.begin(), results.end(), outputs);
    return amp_last_status();
}

class Plans : public Test {
  protected:
    void make(int inputs, int outputs, Function function) {
        function_ = std::move(function);
        outputs_ = outputs;
        graph_ = amp_graph_trace("plans", compute, &function_, inputs, outputs, nullptr);
    }
    void TearDown() override {
        amp_graph_release(graph_);
        Test::TearDown();
    }
    Tensors outputs(const Tensors &inputs) const {
        Tensors y(static_cast<size_t>(outputs_));
        EXPECT_EQ(amp_graph_run(graph_, inputs.data(), static_cast<int>(inputs.size()), y.data(), outputs_), AMP_OK)
            << amp_last_error();
        return y;
    }
    Numbers run(const Tensors &inputs) const {
        const Scope scope;
        Numbers numbers;
        for (amp_tensor *y : outputs(inputs)) numbers.push_back(numbers_of(y));
        return numbers;
    }
    // While a report is made, every call goes through the dispatcher.
    Numbers dispatched(const Tensors &inputs) const {
        amp_explain_begin();
        const Numbers numbers = run(inputs);
        amp_explain_end();
        amp_explain_reset();
        return numbers;
    }
    // What AMP_VERBOSE=graph says of the plan that these inputs bring about; "" where there is none.
    std::string plan_for(const Tensors &inputs) const {
        setenv("AMP_VERBOSE", "graph", 1);
        testing::internal::CaptureStderr();
        for (int round = 0; round < 2; round++) (void)run(inputs);
        const std::string text = testing::internal::GetCapturedStderr();
        unsetenv("AMP_VERBOSE");
        const size_t at = text.find("plan: ");
        return at == std::string::npos ? "" : text.substr(at, text.find('\n', at) - at);
    }
    void expect_dispatchers_bits(const Tensors &inputs, const Tensors &others) const {
        EXPECT_NE(plan_for(inputs), "");
        const Numbers one = dispatched(inputs), other = dispatched(others);
        for (int round = 0; round < 3; round++) {
            EXPECT_EQ(run(inputs), one);
            EXPECT_EQ(run(others), other);
        }
    }
    amp_graph *graph_ = nullptr;

  private:
    Function function_;
    int outputs_ = 0;
};

amp_tensor *chain(amp_tensor *x, int length) {
    amp_tensor *y = x;
    for (int i = 0; i < length; i++) y = op("add", {op("mul", {y, x}), op("sub", {y, x})});
    return y;
}

// Attention, norms, lists, views of views, a second result, in f32 and under autocast.
Tensors all_kinds(amp_tensor *x, amp_tensor *w, amp_tensor *b) {
    amp_tensor *h = op("gelu", {op("linear", {x, w, b})});
    Tensors parts(2);
    amp_argument arguments[3] = {};
    arguments[0].value = Value(h).v;
    arguments[1].value = Value(8).v;
    arguments[2].value = Value(-1).v;
    EXPECT_EQ(amp_call_op("split", arguments, 3, parts.data(), 2, nullptr), AMP_OK);
    amp_tensor *q = op("transpose", {parts[0], 1, 2}), *k = op("transpose", {parts[1], 1, 2});
    amp_tensor *scores = op("softmax", {op("matmul", {op("transpose", {q, 1, 2}), k}), -1});
    amp_tensor *mixed = op("matmul", {scores, parts[1]});
    Tensors y = both("max.dim", {mixed, 1});
    y.push_back(op("transpose", {mixed, 0, 1}));
    y.push_back(op("layer_norm", {op("add", {mixed, parts[0]}), AMP_DIMS(8)}));
    y.push_back(op("contiguous", {x}));
    y.push_back(op("scaled_dot_product_attention", {mixed, parts[0], parts[1]}));
    return y;
}

TEST_F(Plans, TheDispatchersBits) {
    amp_tensor *w = random_tensor(AMP_F32, {16, 6}, 1), *b = random_tensor(AMP_F32, {16}, 2);
    make(1, 6, [=](amp_tensor *const *x) { return all_kinds(x[0], w, b); });
    expect_dispatchers_bits({random_tensor(AMP_F32, {3, 5, 6}, 3)}, {random_tensor(AMP_F32, {3, 5, 6}, 4)});
}

TEST_F(Plans, TheDispatchersBitsInARegion) {
    amp_tensor *w = random_tensor(AMP_F32, {16, 6}, 1), *b = random_tensor(AMP_F32, {16}, 2);
    make(1, 6, [=](amp_tensor *const *x) { return all_kinds(x[0], w, b); });
    const Region region;
    expect_dispatchers_bits({random_tensor(AMP_F32, {3, 5, 6}, 3)}, {random_tensor(AMP_F32, {3, 5, 6}, 4)});
}

TEST_F(Plans, ImagesWithChannelsLast) {
    amp_tensor *w = random_tensor(AMP_F32, {16, 8, 3, 3}, 1), *v = random_tensor(AMP_F32, {16, 16, 1, 1}, 2);
    make(1, 1, [=](amp_tensor *const *x) {
        amp_tensor *h = op("relu", {op("conv2d", {x[0], w})});
        return Tensors{op("cat", {Value(Tensors{h, op("sigmoid", {op("conv2d", {h, v})})}), 1})};
    });
    expect_dispatchers_bits({random_tensor(AMP_F32, {2, 8, 9, 7}, 3)}, {random_tensor(AMP_F32, {2, 8, 9, 7}, 4)});
}

TEST_F(Plans, AChainLiesInTwoPlaces) {
    make(1, 1, [](amp_tensor *const *x) {
        amp_tensor *y = x[0];
        for (int i = 0; i < 50; i++) y = op("add", {y, x[0]});
        return Tensors{y};
    });
    EXPECT_EQ(plan_for({random_tensor(AMP_F32, {256}, 1)}),
              "plan: 50 calls, 0 of them through the dispatcher; 2048 bytes for 2048 at once");
}

TEST_F(Plans, ViewsTakeNoStep) {
    make(1, 1, [](amp_tensor *const *x) {
        amp_tensor *h = op("t", {op("relu", {op("t", {x[0]})})});
        return Tensors{op("relu", {op("select", {op("unsqueeze", {h, 0}), 0, 0})})};
    });
    amp_tensor *x = random_tensor(AMP_F32, {4, 16}, 1);
    EXPECT_EQ(plan_for({x}).substr(0, 42), "plan: 2 calls, 0 of them through the dispa");
    EXPECT_EQ(run({x})[0], numbers_of(op("relu", {x})));
}

// What was handed out stays as it is while the graph runs again, and after it is gone.
TEST_F(Plans, ResultsAreTheCallers) {
    make(1, 3, [](amp_tensor *const *x) {
        amp_tensor *h = chain(x[0], 3);
        return Tensors{op("t", {h}), h, x[0]};
    });
    amp_tensor *one = random_tensor(AMP_F32, {4, 6}, 1), *two = random_tensor(AMP_F32, {4, 6}, 2);
    std::vector<Tensors> held;
    Numbers numbers;
    for (int round = 0; round < 6; round++) {
        held.push_back(outputs({round % 2 ? one : two}));
        for (amp_tensor *y : held.back()) numbers.push_back(numbers_of(y));
    }
    amp_graph_release(graph_);
    graph_ = nullptr;
    for (size_t i = 0; i < numbers.size(); i++) EXPECT_EQ(numbers_of(held[i / 3][i % 3]), numbers[i]) << i;
    EXPECT_EQ(numbers[0], numbers[6]);
    EXPECT_EQ(numbers[3], numbers[9]);
    EXPECT_NE(numbers[0], numbers[3]);
}

TEST_F(Plans, InputsThatLieOtherwise) {
    make(2, 1, [](amp_tensor *const *x) { return Tensors{op("add", {op("view", {x[0], AMP_DIMS(4, 6)}), x[1]})}; });
    amp_tensor *plain = random_tensor(AMP_F32, {4, 6}, 1), *bias = random_tensor(AMP_F32, {6}, 2);
    amp_tensor *wide = random_tensor(AMP_F32, {8, 6}, 3), *turned = op("t", {random_tensor(AMP_F32, {6, 4}, 4)});
    amp_tensor *part = op("narrow", {wide, 0, 3, 4});
    for (int round = 0; round < 3; round++) {
        for (amp_tensor *x : {plain, part, turned}) EXPECT_EQ(run({x, bias})[0], numbers_of(op("add", {x, bias})));
        EXPECT_EQ(run({plain, plain})[0], numbers_of(op("add", {plain, plain})));
    }
}

// What an implementation makes on the way does not lie where its result will, which it is copied to otherwise laid out.
TEST_F(Plans, StepsOnTheWayAreNotTheResult) {
    amp_tensor *grid = random_tensor(AMP_F32, {1, 2, 12, 2}, 1), *pixels = random_tensor(AMP_F32, {1, 45, 3, 2}, 2);
    amp_tensor *a = tensor(AMP_F32, {3, 3}, {8, 1, 2, -1, 9, 1, 3, 2, 7});
    amp_tensor *rows = random_tensor(AMP_F32, {5, 3}, 4), *index = tensor(AMP_I64, {5, 3}, std::vector<double>(15, 1));
    const std::vector<std::pair<Function, amp_tensor *>> cases = {
        {[=](amp_tensor *const *x) {
             return Tensors{op("grid_sampler_2d", {x[0], grid, 0, 0, false})};
         },
         pixels},
        {[=](amp_tensor *const *x) {
             return Tensors{op("linalg_solve", {a, x[0], false})};
         },
         rows},
        {[=](amp_tensor *const *x) {
             return Tensors{op("linalg_solve_triangular", {a, x[0], true, false})};
         },
         rows},
        {[=](amp_tensor *const *x) {
             return Tensors{op("scatter_reduce", {x[0], 0, index, rows, "mean", false})};
         },
         rows},
    };
    for (const auto &[function, x] : cases) {
        make(1, 1, function);
        const Numbers expected = {numbers_of(function(&x)[0])};
        for (int round = 0; round < 3; round++) EXPECT_EQ(run({x}), expected);
        amp_graph_release(graph_);
        graph_ = nullptr;
    }
}

TEST_F(Plans, ShapesTakeTurns) {
    make(1, 1, [](amp_tensor *const *x) { return Tensors{chain(x[0], 5)}; });
    for (int round = 0; round < 4; round++) {
        for (int64_t n = 1; n <= 4; n++) {
            amp_tensor *x = random_tensor(AMP_F32, {n, 100 * n}, static_cast<unsigned>(n));
            EXPECT_EQ(run({x})[0], numbers_of(chain(x, 5)));
        }
    }
    EXPECT_EQ(run({tensor(AMP_F32, {0, 3}, {})})[0].size(), 0u);
    EXPECT_EQ(run({tensor(AMP_F32, {0, 3}, {})})[0].size(), 0u);
}

TEST_F(Plans, WrittenWeightsAreSeen) {
    amp_tensor *w = random_tensor(AMP_F32, {8, 6}, 1), *x = random_tensor(AMP_F32, {3, 6}, 3);
    make(1, 1, [=](amp_tensor *const *in) { return Tensors{op("linear", {op("relu", {in[0]}), w})}; });
    for (int round = 0; round < 3; round++) {
        for (int again = 0; again < 3; again++) EXPECT_EQ(run({x})[0], numbers_of(op("linear", {op("relu", {x}), w})));
        op("mul_", {w, -1.5});
    }
}

// A policy that changes, a region that caches nothing: a plan knows casts only as they were.
TEST_F(Plans, RegionsAreAsked) {
    amp_tensor *w = random_tensor(AMP_F32, {8, 6}, 1), *x = random_tensor(AMP_F32, {3, 6}, 3);
    make(1, 1, [=](amp_tensor *const *in) { return Tensors{op("linear", {op("relu", {in[0]}), w})}; });
    const Region region;
    for (int round = 0; round < 3; round++) EXPECT_EQ(amp_tensor_dtype(outputs({x})[0]), AMP_BF16);
    ASSERT_EQ(amp_autocast_override("linear", AMP_DEVICE_CPU, AMP_OVERRIDE_DENY), AMP_OK);
    EXPECT_EQ(amp_tensor_dtype(outputs({x})[0]), AMP_F32);
    ASSERT_EQ(amp_autocast_override("linear", AMP_DEVICE_CPU, AMP_OVERRIDE_NONE), AMP_OK);
    EXPECT_EQ(amp_tensor_dtype(outputs({x})[0]), AMP_BF16);
}

TEST_F(Plans, NothingIsAllocatedAfterTheFirstRuns) {
    amp_tensor *w = random_tensor(AMP_F32, {16, 6}, 1), *b = random_tensor(AMP_F32, {16}, 2);
    make(1, 6, [=](amp_tensor *const *x) { return all_kinds(x[0], w, b); });
    amp_tensor *x = random_tensor(AMP_F32, {3, 5, 6}, 3);
    for (int round = 0; round < 4; round++) {
        const Scope scope;
        (void)outputs({x});
    }
    const amp_memory_stats before = amp_memory_statistics();
    for (int round = 0; round < 20; round++) {
        const Scope scope;
        (void)outputs({x});
    }
    const amp_memory_stats after = amp_memory_statistics();
    EXPECT_EQ(after.live_bytes, before.live_bytes);
    EXPECT_EQ(after.live_tensors, before.live_tensors);
    if (!amp_test::under_asan) {
        EXPECT_EQ(after.system_allocations, before.system_allocations);
    }
}

TEST_F(Plans, AnyNumberOfThreads) {
    amp_tensor *w = random_tensor(AMP_F32, {16, 6}, 1), *b = random_tensor(AMP_F32, {16}, 2);
    make(1, 6, [=](amp_tensor *const *x) { return all_kinds(x[0], w, b); });
    Tensors inputs;
    std::vector<Numbers> expected;
    for (unsigned i = 0; i < 4; i++) {
        inputs.push_back(random_tensor(AMP_F32, {3, 5, 6}, 10 + i));
        expected.push_back(run({inputs.back()}));
    }
    std::vector<std::thread> threads;
    for (size_t number = 0; number < 4; number++) {
        threads.emplace_back([&, number] {
            for (int round = 0; round < 30; round++) EXPECT_EQ(run({inputs[number]}), expected[number]);
        });
    }
    for (std::thread &t : threads) t.join();
}

// The n-th request for memory fails, for each n: a run gives an error or the right result, and later ones are as
// before.
class Failing {
  public:
    Failing() {
        amp_memory_trim();
        amp_allocator hook = {};
        hook.allocate = [](void *, size_t bytes, size_t alignment) {
            void *block = nullptr;
            return left-- > 0 && posix_memalign(&block, alignment, bytes) == 0 ? block : nullptr;
        };
        hook.release = [](void *, void *block, size_t) { free(block); };
        left = PLENTY;
        EXPECT_EQ(amp_set_allocator(&hook), AMP_OK);
    }
    ~Failing() {
        left = PLENTY;
        amp_memory_trim();
        EXPECT_EQ(amp_set_allocator(nullptr), AMP_OK);
    }
    static constexpr int PLENTY = 1 << 30;
    static int left;
};
int Failing::left = Failing::PLENTY;

TEST_F(Plans, MemoryMayBeMissingAnywhere) {
    amp_tensor *w = random_tensor(AMP_F32, {16, 6}, 1), *b = random_tensor(AMP_F32, {16}, 2);
    amp_tensor *x = random_tensor(AMP_F32, {3, 5, 6}, 3);
    make(1, 6, [=](amp_tensor *const *in) { return all_kinds(in[0], w, b); });
    const Numbers expected = run({x});
    int failures = 0, succeeded_in_turn = 0;
    for (int n = 0; n < 400 && succeeded_in_turn < 3; n++) {
        const Failing failing;
        const Scope scope;
        Tensors y(6);
        Failing::left = n;
        const amp_status status = amp_graph_run(graph_, &x, 1, y.data(), 6);
        Failing::left = Failing::PLENTY;
        failures += status != AMP_OK;
        succeeded_in_turn = status == AMP_OK ? succeeded_in_turn + 1 : 0;
        if (status == AMP_OK) {
            for (size_t i = 0; i < 6; i++) EXPECT_EQ(numbers_of(y[i]), expected[i]);
        } else {
            EXPECT_EQ(status, AMP_ERROR_MEMORY) << amp_last_error();
            for (amp_tensor *t : y) EXPECT_EQ(t, nullptr);
        }
        amp_clear_error();
    }
    EXPECT_GT(failures, 5);
    EXPECT_EQ(succeeded_in_turn, 3);
    EXPECT_EQ(run({x}), expected);
}

TEST_F(Plans, RunForTensorsThatRequireGradientsAndLeadNoneThrough) {
    amp_tensor *w = tensor(AMP_F32, {4}, {2}), *x = tensor(AMP_F32, {4}, {3});
    ASSERT_EQ(amp_tensor_set_requires_grad(w, true), AMP_OK);
    make(1, 1, [w](amp_tensor *const *in) { return Tensors{op("add", {op("mul", {in[0], w}), w})}; });
    EXPECT_NE(plan_for({x}), "");
    const Tensors y = outputs({x});
    EXPECT_EQ(numbers_of(y[0]), (std::vector<double>{8, 8, 8, 8}));
    EXPECT_FALSE(amp_tensor_requires_grad(y[0]));
    EXPECT_TRUE(amp_grad_is_enabled()) << "afterwards, as before";
}

} // namespace
