// The first run of a graph: what the function calls is written down and computed afterwards, by the net; but whoever
// looks at a value on the way sees the right one.
#include <climits>
#include <cstdio>
#include <functional>
#include <thread>
#include <unistd.h>

#include "amp/dlpack.h"
#include "ending_memory.h"
#include "traced.h"

using namespace amp_test;

namespace {

using namespace traced;

int calls_of(const std::string &op) {
    char *report = amp_explain_report(AMP_EXPLAIN_JSON);
    const std::string text = report;
    amp_explain_free(report);
    int count = 0;
    const std::string key = "\"op\": \"" + op + "\"", calls = "\"calls\": ";
    for (size_t at = text.find(key); at != std::string::npos; at = text.find(key, at + 1)) {
        const size_t number = text.find(calls, at);
        if (number != std::string::npos) count += std::stoi(text.substr(number + calls.size()));
    }
    return count;
}

class FirstRun : public Test {
  protected:
    void make(Function function, int inputs = 1, int outputs = 1) {
        source_ = {std::move(function), 0};
        amp_graph_release(graph_);
        graph_ = amp_graph_trace("first", compute, &source_, inputs, outputs, nullptr);
    }
    void TearDown() override {
        amp_graph_release(graph_);
        Test::TearDown();
    }
    std::vector<double> run(const Tensors &inputs) {
        amp_tensor *y = nullptr;
        EXPECT_EQ(amp_graph_run(graph_, inputs.data(), int(inputs.size()), &y, 1), AMP_OK) << amp_last_error();
        return y ? numbers_of(y) : std::vector<double>();
    }
    // The function gives this for x, run after run, in few calls; and what it gives for another input.
    void expect_runs(const std::vector<double> &want, int calls) {
        for (int round = 0; round < 3; round++) EXPECT_EQ(run({x_}), want) << round;
        EXPECT_EQ(source_.runs, calls);
        EXPECT_NE(run({other_}), want);
    }
    // The function's graph gives what the ops one by one do, in one call of each of `ops` a run.
    std::vector<double> expect_each_once(const Function &function, int runs, const std::vector<std::string> &ops) {
        make(function);
        amp_explain_reset();
        amp_explain_begin();
        const std::vector<double> want = eager(function);
        std::vector<int> once;
        for (const std::string &name : ops) once.push_back(calls_of(name));
        for (int run_number = 1; run_number <= runs; run_number++) {
            EXPECT_EQ(run({x_}), want);
            for (size_t i = 0; i < ops.size(); i++) {
                EXPECT_GT(once[i], 0) << ops[i];
                EXPECT_EQ(calls_of(ops[i]), (run_number + 1) * once[i]) << ops[i];
            }
        }
        amp_explain_end();
        amp_explain_reset();
        return want;
    }
    std::vector<double> eager(const Function &function) {
        return numbers_of(function(&x_)[0]);
    }
    amp_tensor *w_ = random_tensor(AMP_F32, {64, 64}, 1), *x_ = random_tensor(AMP_F32, {96, 64}, 2),
               *other_ = random_tensor(AMP_F32, {96, 64}, 3);
    amp_graph *graph_ = nullptr;
    Source source_;
};

TEST_F(FirstRun, ComputesEachCallOnce) {
    const Function function = [this](amp_tensor *const *x) {
        return Tensors{op("softmax", {op("linear", {op("exp", {x[0]}), w_}), -1})};
    };
    expect_each_once(function, 2, {"exp", "linear"});
    EXPECT_EQ(source_.runs, 1);
}

// Of memory of its own that no call takes yet.
TEST_F(FirstRun, WritingANewTensorComputesNothing) {
    const Function function = [this](amp_tensor *const *x) {
        amp_tensor *h = op("exp", {x[0]}), *mask = op("zeros", {AMP_DIMS(96, 64)});
        auto *ones = static_cast<float *>(amp_data_mut(mask));
        for (int i = 0; ones && i < 96 * 64; i += 3) ones[i] = 1;
        return Tensors{op("mul", {op("linear", {h, w_}), mask})};
    };
    expect_runs(expect_each_once(function, 1, {"exp"}), 1);
}

// A result that was looked at is still what calls before that take.
TEST_F(FirstRun, AResultIsReadAndThenWritten) {
    const Function function = [this](amp_tensor *const *x) {
        amp_tensor *h = op("linear", {x[0], w_}), *e = op("exp", {h});
        EXPECT_NE(amp_data(h), nullptr);
        auto *elements = static_cast<float *>(amp_data_mut(h));
        if (elements) elements[0] = 5;
        return Tensors{op("add", {e, h})};
    };
    const std::vector<double> want = eager(function);
    make(function);
    expect_runs(want, 3);
}

TEST_F(FirstRun, WrittenBetweenTwoCalls) {
    const Function function = [](amp_tensor *const *x) {
        amp_tensor *m = op("zeros", {AMP_DIMS(96, 64)}), *a = op("add", {x[0], m});
        auto *elements = static_cast<float *>(amp_data_mut(m));
        if (elements) elements[0] = 5;
        return Tensors{op("mul", {a, op("add", {x[0], m})})};
    };
    const std::vector<double> want = eager(function);
    make(function);
    expect_runs(want, 3);
}

// By the caller's tensor, of which the function sees a view.
TEST_F(FirstRun, AFunctionThatWritesItsInputRunsOpByOp) {
    const std::vector<double> want = numbers_of(op("relu", {op("linear", {x_, w_})}));
    make([this](amp_tensor *const *x) {
        amp_tensor *h = op("linear", {x[0], w_});
        auto *elements = static_cast<float *>(amp_data_mut(x_));
        if (elements) elements[0] += 1;
        return Tensors{op("relu", {h})};
    });
    EXPECT_EQ(run({x_}), want);
    EXPECT_NE(run({x_}), want);
    EXPECT_EQ(source_.runs, 2);
}

TEST_F(FirstRun, WhatIsPrintedAndSavedIsThere) {
    const std::string path = testing::TempDir() + "first_run_" + std::to_string(getpid()) + ".npy";
    const Function plain = [this](amp_tensor *const *x) { return Tensors{op("linear", {x[0], w_})}; };
    std::vector<double> saved, lent;
    std::string printed;
    make([&](amp_tensor *const *x) {
        amp_tensor *h = plain(x)[0];
        char text[4096] = "";
        FILE *file = fmemopen(text, sizeof text, "w");
        EXPECT_EQ(amp_print(h, file), AMP_OK);
        fclose(file);
        printed = text;
        EXPECT_EQ(amp_save_npy(path.c_str(), h), AMP_OK);
        saved = numbers_of(amp_load_npy(path.c_str()));
        DLManagedTensorVersioned *managed = amp_to_dlpack(op("t", {h}));
        if (managed) lent = numbers_of(amp_from_dlpack(managed));
        return Tensors{op("relu", {h})};
    });
    run({x_});
    remove(path.c_str());
    const std::vector<double> want = eager(plain);
    EXPECT_EQ(saved, want);
    EXPECT_EQ(lent, numbers_of(op("contiguous", {op("t", {plain(&x_)[0]})})));
    char text[4096] = "";
    FILE *file = fmemopen(text, sizeof text, "w");
    EXPECT_EQ(amp_print(plain(&x_)[0], file), AMP_OK);
    fclose(file);
    EXPECT_EQ(printed, text);
    EXPECT_EQ(run({x_}), eager([&](amp_tensor *const *x) { return Tensors{op("relu", {plain(x)[0]})}; }));
}

// By amp_data, amp_read and amp_item; of views and of one among several results; and what was read goes on into ops.
TEST_F(FirstRun, WhatIsLookedAtIsThere) {
    const Function function = [this](amp_tensor *const *x) {
        amp_tensor *h = op("linear", {x[0], w_});
        const Tensors largest = both("max.dim", {h, 1});
        const auto *places = static_cast<const int64_t *>(amp_data(largest[1]));
        float row[64];
        EXPECT_EQ(amp_read(op("select", {op("t", {h}), 1, 5}), AMP_F32, row, sizeof row), AMP_OK);
        const double item = amp_item(op("sum", {h}));
        amp_tensor *shifted = op("add.scalar", {h, double(places[3]) + double(row[7]) + item});
        return Tensors{op("mul", {shifted, op("unsqueeze", {largest[0], 1})})};
    };
    make(function);
    const std::vector<double> want = eager(function);
    for (int round = 0; round < 3; round++) EXPECT_EQ(run({x_}), want);
    EXPECT_EQ(source_.runs, 3) << "24 KiB of input are too much to compare";
}

TEST_F(FirstRun, ManyLooksAtALongChain) {
    amp_tensor *few = random_tensor(AMP_F32, {4}, 7);
    make([](amp_tensor *const *x) {
        amp_tensor *h = x[0];
        for (int i = 0; i < 200; i++) {
            h = op("mul.scalar", {op("sin", {h}), 1.01});
            if (i % 2 == 0 && amp_item(op("amax", {h})) > 0.5) h = op("neg", {h});
        }
        return Tensors{h};
    });
    const std::vector<double> want = eager([&](amp_tensor *const *) { return source_.function(&few); });
    for (int round = 0; round < 3; round++) EXPECT_EQ(run({few}), want);
    EXPECT_EQ(source_.runs, 1);
}

TEST_F(FirstRun, WhatIsKeptIsThereAfterwards) {
    amp_tensor *kept = nullptr, *view = nullptr;
    make([&](amp_tensor *const *x) {
        amp_tensor *h = op("linear", {x[0], w_});
        kept = amp_retain(h);
        view = amp_retain(op("select", {op("exp", {h}), 0, 3}));
        return Tensors{op("relu", {h})};
    });
    run({x_});
    amp_tensor *h = op("linear", {x_, w_});
    EXPECT_EQ(numbers_of(kept), numbers_of(h));
    EXPECT_EQ(numbers_of(view), numbers_of(op("select", {op("exp", {h}), 0, 3})));
    EXPECT_EQ(numbers_of(op("exp", {kept})), numbers_of(op("exp", {h})));
    amp_release(kept);
    amp_release(view);
}

// What was called before a write sees the elements that were there then.
TEST_F(FirstRun, WritesComeInTheirOrder) {
    const Function function = [this](amp_tensor *const *x) {
        amp_tensor *h = op("linear", {x[0], w_}), *before = op("exp", {h});
        op("relu_", {h});
        return Tensors{op("add", {before, h})};
    };
    make(function);
    expect_runs(eager(function), 3);
}

TEST_F(FirstRun, ElementsOfAResultAreWritten) {
    const Function function = [this](amp_tensor *const *x) {
        amp_tensor *h = op("linear", {x[0], w_}), *before = op("exp", {h});
        static_cast<float *>(amp_data_mut(h))[0] = 5.0f;
        return Tensors{op("add", {before, h})};
    };
    make(function);
    expect_runs(eager(function), 3);
}

TEST_F(FirstRun, ElementsOfItsOwnTensorAreWritten) {
    const Function function = [](amp_tensor *const *x) {
        amp_tensor *mask = op("zeros_like", {x[0]}), *before = op("add", {x[0], mask});
        static_cast<float *>(amp_data_mut(mask))[0] = 5.0f;
        return Tensors{op("mul", {before, op("add", {x[0], mask})})};
    };
    make(function);
    const std::vector<double> want = eager(function);
    EXPECT_EQ(run({x_}), want);
}

// The program's own memory, which it writes unseen and tells of afterwards.
TEST_F(FirstRun, MemoryIsWrittenUnseen) {
    std::vector<float> memory(64);
    const int64_t shape[] = {64};
    amp_tensor *own = amp_from_memory(memory.data(), AMP_F32, 1, shape, nullptr, nullptr, nullptr);
    const Function function = [&](amp_tensor *const *x) {
        memory.assign(64, 1.0f);
        EXPECT_EQ(amp_tensor_mark_dirty(own), AMP_OK);
        amp_tensor *first = op("add", {x[0], own});
        memory.assign(64, 2.0f);
        EXPECT_EQ(amp_tensor_mark_dirty(own), AMP_OK);
        return Tensors{op("mul", {first, own})};
    };
    make(function);
    const std::vector<double> want = eager(function);
    for (int round = 0; round < 3; round++) EXPECT_EQ(run({x_}), want);
}

struct DoubleArgs {
    size_t struct_size;
    amp_tensor *input;
};

amp_status doubled(amp_call *call, const void *args) {
    const amp_tensor *x = static_cast<const DoubleArgs *>(args)->input;
    amp_tensor *y = amp_call_output(call, 0, AMP_F32, amp_tensor_rank(x), amp_tensor_shape(x));
    const auto *from = static_cast<const float *>(amp_data(x));
    auto *to = y ? static_cast<float *>(amp_data_mut(y)) : nullptr;
    for (int64_t i = 0; from && to && i < amp_tensor_numel(x); i++) to[i] = 2 * from[i];
    return amp_last_status();
}

TEST_F(FirstRun, OpsOfTheProgramSeeElements) {
    amp_op_definition d = {};
    d.struct_size = sizeof d;
    d.schema = "first_run_doubled(Tensor input) -> Tensor";
    d.args_size = sizeof(DoubleArgs);
    d.cpu.run = doubled;
    static const amp_op *const defined = amp_define_op_call(&d);
    ASSERT_NE(defined, nullptr) << amp_last_error();
    const Function function = [](amp_tensor *const *x) {
        return Tensors{op("neg", {op("first_run_doubled", {op("exp", {x[0]})})})};
    };
    make(function);
    amp_tensor *few = random_tensor(AMP_F32, {8}, 4);
    for (int round = 0; round < 2; round++) {
        EXPECT_EQ(run({few}), numbers_of(function(&few)[0]));
        EXPECT_EQ(run({x_}), numbers_of(function(&x_)[0]));
    }
}

// What fails in a net is tried again by the source, and only that is told. A graph that an op of the program runs for the
// first time, in the middle of the net, has such silence of its own, and leaves the outer one's as it was.
amp_status in_a_new_graph(amp_call *call, const void *args) {
    Source inner = {[](amp_tensor *const *x) { return Tensors{op("add.scalar", {x[0], 1})}; }, 0};
    amp_tensor *x = static_cast<const DoubleArgs *>(args)->input, *y = nullptr;
    amp_graph *graph = amp_graph_trace("inner", compute, &inner, 1, 1, nullptr);
    amp_graph_run(graph, &x, 1, &y, 1);
    const amp_status status = amp_call_return(call, 0, y);
    amp_graph_release(graph);
    return status;
}

TEST_F(FirstRun, AGraphInsideLeavesTheOuterOnesSilence) {
    amp_op_definition d = {};
    d.struct_size = sizeof d;
    d.schema = "first_run_in_a_new_graph(Tensor input) -> Tensor";
    d.args_size = sizeof(DoubleArgs);
    d.cpu.run = in_a_new_graph;
    static const amp_op *const defined = amp_define_op_call(&d);
    ASSERT_NE(defined, nullptr) << amp_last_error();
    make([this](amp_tensor *const *x) {
        return Tensors{op("index_select", {w_, 0, op("first_run_in_a_new_graph", {x[0]})})};
    });
    std::vector<std::string> told;
    amp_set_error_hook([](amp_status, const char *sentence,
                          void *context) { static_cast<std::vector<std::string> *>(context)->emplace_back(sentence); },
                       &told);
    amp_tensor *wrong = tensor(AMP_I64, {2}, {1, 63}), *y = nullptr;
    EXPECT_EQ(amp_graph_run(graph_, &wrong, 1, &y, 1), AMP_ERROR_INVALID);
    amp_set_error_hook(nullptr, nullptr);
    ASSERT_EQ(told.size(), 1u);
    EXPECT_EQ(told[0], amp_last_error());
    EXPECT_NE(told[0].find("index_select"), std::string::npos) << told[0];
    amp_clear_error();
    EXPECT_EQ(run({tensor(AMP_I64, {2}, {1, 62})}),
              numbers_of(op("index_select", {w_, 0, tensor(AMP_I64, {2}, {2, 63})})));
}

// A graph in a graph: the inner one's calls are the outer one's too.
TEST_F(FirstRun, GraphsInGraphs) {
    Source inner = {[this](amp_tensor *const *x) { return Tensors{op("linear", {op("exp", {x[0]}), w_})}; }, 0};
    Source reads = {[](amp_tensor *const *x) {
                        amp_tensor *h = op("sin", {x[0]});
                        return Tensors{op("mul.scalar", {h, amp_item(op("amax", {h}))})};
                    },
                    0};
    for (Source *source : {&inner, &reads}) {
        amp_graph *graph = amp_graph_trace("inner", compute, source, 1, 1, nullptr);
        const Function function = [&](amp_tensor *const *x) {
            amp_tensor *h = op("relu", {x[0]}), *y = nullptr;
            EXPECT_EQ(amp_graph_run(graph, &h, 1, &y, 1), AMP_OK) << amp_last_error();
            return Tensors{op("add.scalar", {y, 1.0})};
        };
        const auto want = [&](amp_tensor *x) {
            amp_tensor *h = op("relu", {x});
            return numbers_of(op("add.scalar", {source->function(&h)[0], 1.0}));
        };
        make(function);
        for (int round = 0; round < 3; round++) {
            EXPECT_EQ(run({x_}), want(x_)) << round;
            EXPECT_EQ(run({other_}), want(other_)) << round;
        }
        amp_graph_release(graph);
    }
}

// Only the thread that captures can compute what another one wants before.
TEST_F(FirstRun, AnotherThreadIsToldThatElementsAreMissing) {
    std::string of_op, of_data;
    make([&](amp_tensor *const *x) {
        amp_tensor *h = op("linear", {x[0], w_});
        std::thread([&] {
            const Scope scope;
            EXPECT_EQ(op("relu", {h}), nullptr);
            of_op = amp_last_error();
            amp_clear_error();
            EXPECT_EQ(amp_data(h), nullptr);
            of_data = amp_last_error();
            amp_clear_error();
        }).join();
        return Tensors{h};
    });
    EXPECT_EQ(run({x_}), numbers_of(op("linear", {x_, w_})));
    EXPECT_NE(of_op.find("relu: the argument 'input', [96, 64] f32, is not computed yet"), std::string::npos) << of_op;
    EXPECT_NE(of_data.find("is not computed yet"), std::string::npos) << of_data;
}

// Elements that an op refuses are found where the function calls it.
TEST_F(FirstRun, RefusedElements) {
    make([this](amp_tensor *const *x) { return Tensors{op("index_select", {w_, 0, op("add.scalar", {x[0], 1})})}; });
    amp_tensor *wrong = tensor(AMP_I64, {2}, {1, 63}), *right = tensor(AMP_I64, {2}, {1, 62}), *y = nullptr;
    EXPECT_EQ(amp_graph_run(graph_, &wrong, 1, &y, 1), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"index_select", "64"}));
    amp_clear_error();
    EXPECT_EQ(run({right}).size(), 128u);
    EXPECT_EQ(run({right}), numbers_of(op("index_select", {w_, 0, tensor(AMP_I64, {2}, {2, 63})})));
}

TEST_F(FirstRun, WrongCallsFailAtOnce) {
    bool failed = false;
    make([&](amp_tensor *const *x) {
        amp_tensor *h = op("linear", {x[0], w_});
        amp_tensor *y = op("matmul", {h, op("narrow", {h, 0, 0, 7})});
        failed = y == nullptr;
        return Tensors{y};
    });
    amp_tensor *y = nullptr;
    EXPECT_EQ(amp_graph_run(graph_, &x_, 1, &y, 1), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"matmul"}));
    amp_clear_error();
}

amp_tensor *in_half(amp_tensor *x, amp_tensor *w) {
    amp_half_function(&x, &w);
    return op("linear", {x, w});
}

TEST_F(FirstRun, FunctionsWithCasts) {
    make([this](amp_tensor *const *x) { return Tensors{op("relu", {in_half(op("exp", {x[0]}), w_)})}; });
    const Region region;
    const std::vector<double> want = numbers_of(op("relu", {in_half(op("exp", {x_}), w_)}));
    for (int round = 0; round < 3; round++) EXPECT_EQ(run({x_}), want);
}

// Autocast says what dtypes results have, of casts as well.
TEST_F(FirstRun, InARegion) {
    amp_tensor *image = random_tensor(AMP_F32, {2, 8, 9, 9}, 5), *kernel = random_tensor(AMP_F32, {8, 8, 3, 3}, 6),
               *wide = random_tensor(AMP_F32, {8, 1, 1}, 7);
    const Function function = [=](amp_tensor *const *x) {
        amp_tensor *h = op("conv2d", {x[0], kernel});
        EXPECT_EQ(amp_tensor_dtype(h), AMP_BF16);
        amp_tensor *f = op("add", {op("softmax", {h, 1}), wide});
        EXPECT_EQ(amp_tensor_dtype(f), AMP_F32);
        EXPECT_EQ(amp_tensor_dtype(op("cat", {Tensors{h, f}, 1})), AMP_F32);
        const double item = amp_item(op("amax", {h}));
        return Tensors{
            op("mul.scalar", {op("reshape", {op("permute", {f, AMP_DIMS(0, 2, 3, 1)}), AMP_DIMS(2, -1)}), item})};
    };
    make(function);
    const Region region;
    const std::vector<double> want = numbers_of(function(&image)[0]);
    for (int round = 0; round < 3; round++) EXPECT_EQ(run({image}), want);
}

TEST_F(FirstRun, OutputsOfOtherKinds) {
    make(
        [this](amp_tensor *const *x) {
            return Tensors{x[0], op("t", {op("exp", {x[0]})}), w_, op("neg", {w_})};
        },
        1, 4);
    for (int round = 0; round < 2; round++) {
        Tensors y(4);
        ASSERT_EQ(amp_graph_run(graph_, &x_, 1, y.data(), 4), AMP_OK) << amp_last_error();
        EXPECT_EQ(numbers_of(y[0]), numbers_of(x_));
        EXPECT_EQ(numbers_of(y[1]), numbers_of(op("contiguous", {op("t", {op("exp", {x_})})})));
        EXPECT_EQ(numbers_of(y[2]), numbers_of(w_));
        EXPECT_EQ(numbers_of(y[3]), numbers_of(op("neg", {w_})));
    }
}

// Also while values are computed on the way, for the function and for what it keeps.
TEST_F(FirstRun, MemoryMayEndAnywhere) {
    amp_tensor *kept = nullptr, *few = random_tensor(AMP_F32, {3, 64}, 4);
    make([&](amp_tensor *const *x) {
        amp_tensor *h = op("linear", {x[0], w_}), *e = op("exp", {h});
        amp_release(kept); /* the function is called a second time where the net fails */
        kept = e ? amp_retain(e) : nullptr;
        const double item = amp_last_status() != AMP_OK ? 0 : amp_item(op("amax", {h}));
        return Tensors{op("softmax", {op("add.scalar", {op("t", {e}), item}), -1})};
    });
    const std::vector<double> want = run({few});
    amp_release(kept);
    kept = nullptr;
    const Function function = source_.function;
    {
        EndingMemory memory;
        memory.until_it_works([&] {
            make(function);
            amp_cast_cache_clear();
            kept = nullptr;
            amp_tensor *y = nullptr;
            if (amp_graph_run(graph_, &few, 1, &y, 1) == AMP_OK) {
                EXPECT_EQ(numbers_of(y), want);
            }
            amp_release(kept);
            kept = nullptr;
        });
        amp_graph_release(graph_);
        graph_ = nullptr;
    }
    make(function);
}

} // namespace
