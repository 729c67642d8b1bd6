// Nets: what a function computes is written down in its first run, and run from there on.
#include <atomic>
#include <functional>
#include <thread>

#include "internals.h"
#include "traced.h"

extern "C" {
#include "core/lock.h"
}

using namespace amp_test;

namespace {

using namespace traced;

class Nets : public Test {
  protected:
    void make(int inputs, int outputs, Function function) {
        source_.function = std::move(function);
        graph_ = amp_graph_trace("test", compute, &source_, inputs, outputs, nullptr);
    }
    void TearDown() override {
        amp_graph_release(graph_);
        Test::TearDown();
    }
    Tensors outputs(const Tensors &inputs, int count = 1) {
        Tensors y(static_cast<size_t>(count));
        EXPECT_EQ(amp_graph_run(graph_, inputs.data(), static_cast<int>(inputs.size()), y.data(), count), AMP_OK)
            << amp_last_error();
        return y;
    }
    std::vector<double> run(const Tensors &inputs) {
        return numbers_of(outputs(inputs)[0]);
    }
    int runs() const {
        return source_.runs;
    }
    amp_graph *graph_ = nullptr;

  private:
    Source source_;
};

TEST_F(Nets, TheSecondRunNeedsNoSource) {
    amp_tensor *w = random_tensor(AMP_F32, {8, 6}, 1), *b = random_tensor(AMP_F32, {8}, 2);
    make(1, 1, [=](amp_tensor *const *x) {
        amp_tensor *h = op("relu", {op("linear", {x[0], w, b})});
        return Tensors{op("softmax", {op("add", {h, op("mul.scalar", {h, 2.0})}), -1})};
    });
    amp_tensor *one = random_tensor(AMP_F32, {3, 6}, 3), *two = random_tensor(AMP_F32, {3, 6}, 4);
    const std::vector<double> first = run({one});
    EXPECT_EQ(run({one}), first);
    const std::vector<double> other = run({two});
    EXPECT_EQ(runs(), 1);
    EXPECT_NE(first, other);
    EXPECT_EQ(run({random_tensor(AMP_F32, {5, 6}, 5)}).size(), 40u);
    EXPECT_EQ(runs(), 2) << "another shape";
    EXPECT_EQ(run({two}), other);
    EXPECT_EQ(runs(), 2);
}

TEST_F(Nets, WhatDependsOnNoInputIsComputedOnce) {
    amp_tensor *w = random_tensor(AMP_F32, {6, 8}, 1);
    make(1, 1, [=](amp_tensor *const *x) {
        amp_tensor *scaled = op("contiguous", {op("mul.scalar", {op("t", {w}), 3.0})});
        return Tensors{op("linear", {x[0], scaled})};
    });
    amp_tensor *x = random_tensor(AMP_F32, {3, 6}, 3);
    const std::vector<double> first = run({x});
    EXPECT_EQ(run({x}), first);
    EXPECT_EQ(runs(), 1);
}

TEST_F(Nets, CallsThatNobodyNeedsTakeNoMemory) {
    constexpr int CALLS = 2000;
    constexpr size_t MOST_BYTES = 32 << 10;
    make(1, 1, [](amp_tensor *const *x) {
        for (int i = 0; i < CALLS; i++) op("mul.scalar", {x[0], double(i)});
        return Tensors{op("relu", {x[0]})};
    });
    amp_tensor *x = random_tensor(AMP_F32, {3, 6}, 3);
    const size_t before = amp_memory_statistics().live_bytes;
    const std::vector<double> first = run({x});
    amp_memory_trim(); // of tensors' headers, which wait for others
    EXPECT_LT(amp_memory_statistics().live_bytes - before, MOST_BYTES);
    EXPECT_EQ(run({x}), first);
    EXPECT_EQ(runs(), 1);
}

// A result that is the argument itself, a list, a second result, a text among the arguments.
TEST_F(Nets, ResultsOfAllKinds) {
    make(1, 4, [](amp_tensor *const *x) {
        Tensors parts(3);
        amp_argument arguments[3] = {};
        arguments[0].value = Value(op("contiguous", {x[0]})).v;
        arguments[1].value = Value(2).v;
        arguments[2].value = Value(1).v;
        EXPECT_EQ(amp_call_op("split", arguments, 3, parts.data(), 3, nullptr), AMP_OK);
        const std::string how = "tanh";
        Tensors y = both("max.dim", {parts[1], 1});
        y.push_back(op("contiguous", {x[0]}));
        y.push_back(op("gelu", {x[0]}, {{"approximate", how.c_str()}}));
        return y;
    });
    amp_tensor *x = random_tensor(AMP_F32, {3, 6}, 3);
    const std::vector<double> gelu = numbers_of(outputs({x}, 4)[3]);
    for (int round = 0; round < 3; round++) {
        const Tensors y = outputs({x}, 4);
        EXPECT_EQ(amp_tensor_numel(y[0]), 3);
        EXPECT_EQ(amp_tensor_dtype(y[1]), AMP_I64);
        EXPECT_NE(y[2], x);
        EXPECT_EQ(numbers_of(y[2]), numbers_of(x));
        EXPECT_EQ(numbers_of(y[3]), gelu);
    }
    EXPECT_EQ(runs(), 1);
}

// The function looks at an element of an input: one net for each value.
TEST_F(Nets, WhatIsReadIsPartOfTheQuestion) {
    make(2, 1, [](amp_tensor *const *x) {
        const double factor = amp_item(op("add.scalar", {x[1], 1.0}));
        return Tensors{op("mul.scalar", {x[0], factor})};
    });
    amp_tensor *x = random_tensor(AMP_F32, {4}, 1), *one = tensor(AMP_F32, {}, {1}), *three = tensor(AMP_F32, {}, {3});
    const std::vector<double> doubled = run({x, one}), fourfold = run({x, three});
    EXPECT_EQ(doubled[0] * 2, fourfold[0]);
    EXPECT_EQ(run({x, one}), doubled);
    EXPECT_EQ(run({x, three}), fourfold);
    EXPECT_EQ(runs(), 2);
}

// To read elements may compute them, by ops that run graphs, and that takes the lock of nets.
bool was_locked;
bool (*read_as_before)(const amp_tensor *tensor, bool decides);

bool read_unlocked(const amp_tensor *tensor, bool decides) {
    const bool is_free = pthread_mutex_trylock(&amp_locks[AMP_LOCK_GRAPHS]) == 0;
    was_locked |= !is_free;
    if (is_free) amp_unlock(AMP_LOCK_GRAPHS);
    return read_as_before(tensor, decides);
}

TEST_F(Nets, NoLockIsHeldWhileElementsAreRead) {
    make(1, 1, [](amp_tensor *const *x) { return Tensors{op("mul.scalar", {x[0], amp_item(op("amax", {x[0]}))})}; });
    Source outer = {[this](amp_tensor *const *x) { return outputs({op("exp", {x[0]})}); }, 0};
    amp_graph *graph = amp_graph_trace("outer", compute, &outer, 1, 1, nullptr);
    amp_tensor *x = random_tensor(AMP_F32, {4}, 1), *other = random_tensor(AMP_F32, {4}, 2), *y = nullptr;
    const std::vector<double> want = run({op("exp", {x})});
    run({op("exp", {other})});
    read_as_before = amp_tensor_on_read;
    amp_tensor_on_read = read_unlocked;
    was_locked = false;
    EXPECT_EQ(amp_graph_run(graph, &x, 1, &y, 1), AMP_OK) << amp_last_error();
    amp_tensor_on_read = read_as_before;
    EXPECT_FALSE(was_locked);
    EXPECT_EQ(numbers_of(y), want);
    EXPECT_EQ(runs(), 2) << "the elements were found, one after the other";
    amp_graph_release(graph);
}

// What cannot be written down is computed by the function each time, right.
// Three bytes first, so that the integers behind them would lie at an odd address.
TEST_F(Nets, WhatIsReadOfSeveralInputs) {
    make(3, 1, [](amp_tensor *const *x) {
        int8_t few[3];
        int64_t two[2];
        EXPECT_EQ(amp_read(x[0], AMP_I8, few, sizeof few), AMP_OK);
        EXPECT_EQ(amp_read(x[1], AMP_I64, two, sizeof two), AMP_OK);
        return Tensors{op("mul.scalar", {x[2], double(few[2] * two[1])})};
    });
    amp_tensor *few = tensor(AMP_I8, {3}, {1, 2, 3}), *two = tensor(AMP_I64, {2}, {4, 5});
    amp_tensor *other = tensor(AMP_I64, {2}, {4, 6}), *x = tensor(AMP_F32, {1}, {1});
    for (int round = 0; round < 2; round++) {
        EXPECT_EQ(run({few, two, x}), (std::vector<double>{15}));
        EXPECT_EQ(run({few, other, x}), (std::vector<double>{18}));
    }
    EXPECT_EQ(runs(), 2);
}

TEST_F(Nets, SizesThatDependOnElements) {
    make(1, 1, [](amp_tensor *const *x) { return Tensors{op("one_hot", {x[0]})}; });
    amp_tensor *few = tensor(AMP_I64, {3}, {0, 1, 2}), *many = tensor(AMP_I64, {3}, {0, 1, 6});
    EXPECT_EQ(run({few}).size(), 9u);
    EXPECT_EQ(run({many}).size(), 21u);
    EXPECT_EQ(run({few}).size(), 9u);
    EXPECT_EQ(runs(), 3);
}

TEST_F(Nets, RandomNumbersAreNewEachTime) {
    make(1, 1, [](amp_tensor *const *x) { return Tensors{op("add", {x[0], op("rand_like", {x[0]})})}; });
    amp_tensor *x = random_tensor(AMP_F32, {64}, 1);
    EXPECT_NE(run({x}), run({x}));
    EXPECT_EQ(runs(), 2);
}

TEST_F(Nets, ARegionHasANetOfItsOwn) {
    amp_tensor *w = random_tensor(AMP_F32, {8, 6}, 1), *x = random_tensor(AMP_F32, {3, 6}, 3);
    make(1, 1, [=](amp_tensor *const *in) { return Tensors{op("linear", {in[0], w})}; });
    const std::vector<double> exact = run({x});
    for (int round = 0; round < 2; round++) {
        const Region region;
        EXPECT_EQ(amp_tensor_dtype(outputs({x})[0]), AMP_BF16);
    }
    EXPECT_EQ(run({x}), exact);
    EXPECT_EQ(runs(), 2);
}

TEST_F(Nets, NinthShapesPushOutTheFirst) {
    make(1, 1, [](amp_tensor *const *x) { return Tensors{op("relu", {x[0]})}; });
    for (int round = 0; round < 2; round++) {
        for (int64_t n = 1; n <= 9; n++) EXPECT_EQ(run({random_tensor(AMP_F32, {n}, 1)}).size(), size_t(n));
    }
    EXPECT_EQ(runs(), 18);
    EXPECT_EQ(run({random_tensor(AMP_F32, {9}, 1)}).size(), 9u);
    EXPECT_EQ(runs(), 18);
}

// A weight that is written makes a new net; one that an op made is a weight too.
TEST_F(Nets, WrittenWeightsAreSeen) {
    amp_tensor *w = op("mul.scalar", {random_tensor(AMP_F32, {8, 6}, 1), 2.0});
    amp_tensor *x = random_tensor(AMP_F32, {3, 6}, 3);
    make(1, 1, [=](amp_tensor *const *in) { return Tensors{op("linear", {in[0], op("mul.scalar", {w, 3.0})})}; });
    const std::vector<double> before = run({x});
    EXPECT_EQ(run({x}), before);
    EXPECT_EQ(runs(), 1);
    op("mul_", {w, -1.0});
    const std::vector<double> after = run({x});
    for (size_t i = 0; i < before.size(); i++) EXPECT_EQ(after[i], -before[i]);
    EXPECT_EQ(runs(), 2);
    EXPECT_EQ(run({x}), after);
    EXPECT_EQ(runs(), 2);
}

TEST_F(Nets, RegionsOfItsOwnAreKept) {
    amp_tensor *w = random_tensor(AMP_F32, {8, 6}, 1), *x = random_tensor(AMP_F32, {3, 6}, 3);
    make(1, 1, [=](amp_tensor *const *in) {
        const Region region;
        return Tensors{op("linear", {in[0], w})};
    });
    for (int round = 0; round < 3; round++) EXPECT_EQ(amp_tensor_dtype(outputs({x})[0]), AMP_BF16);
}

// Threads that come first capture at the same time; each has its own results, the same as everybody's.
TEST_F(Nets, AnyNumberOfThreadsMayRunOne) {
    amp_tensor *w = random_tensor(AMP_F32, {8, 6}, 1);
    std::atomic<int> calls{0};
    Function function = [&](amp_tensor *const *in) {
        calls++;
        return Tensors{op("relu", {op("linear", {in[0], w})})};
    };
    const auto compute = [](void *context, amp_tensor *const *in, amp_tensor **out) {
        out[0] = (*static_cast<Function *>(context))(in)[0];
        return amp_last_status();
    };
    graph_ = amp_graph_trace("threads", compute, &function, 1, 1, nullptr);
    std::vector<std::thread> threads;
    for (int number = 0; number < 4; number++) {
        threads.emplace_back([&, number] {
            for (int round = 0; round < 20; round++) {
                const Scope scope;
                amp_tensor *x = random_tensor(AMP_F32, {1 + (number + round) % 2, 6}, 3), *y = nullptr;
                EXPECT_EQ(amp_graph_run(graph_, &x, 1, &y, 1), AMP_OK) << amp_last_error();
                EXPECT_EQ(numbers_of(y), numbers_of(op("relu", {op("linear", {x, w})})));
            }
        });
    }
    for (std::thread &t : threads) t.join();
    EXPECT_LE(calls, 8) << "two shapes, at most once for each thread";
}

TEST_F(Nets, WrongInputsAreNamed) {
    make(1, 1, [](amp_tensor *const *x) { return Tensors{op("relu", {x[0]})}; });
    amp_tensor *nothing = nullptr, *x = tensor(AMP_F32, {2}), *y = x;
    EXPECT_EQ(amp_graph_run(graph_, &nothing, 1, &y, 1), AMP_ERROR_INVALID);
    EXPECT_EQ(y, nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"test: the input '0' is NULL; expected any shape"}));
    EXPECT_EQ(amp_graph_run(graph_, &x, 2, &y, 1), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"2 inputs were given; the graph has 1"}));
}

} // namespace
