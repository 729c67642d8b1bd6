// Plans beside what else a program may do: ops of its own that choose, keep views or fail, and rules for labels.
#include <functional>
#include <thread>

#include "amp/autocast.h"
#include "amp/explain.h"
#include "amp_test.h"

using namespace amp_test;

namespace {

using Tensors = std::vector<amp_tensor *>;
using Function = std::function<Tensors(amp_tensor *const *)>;

amp_status compute(void *context, amp_tensor *const *inputs, amp_tensor **outputs) {
    const Tensors results = (*static_cast<Function *>(context))(inputs);
    std::copy(results.begin(), results.end(), outputs);
    return amp_last_status();
}

class PlanSeams : public Test {
  protected:
    void make(Function function) {
        function_ = std::move(function);
        graph_ = amp_graph_trace("seams", compute, &function_, 1, 1, nullptr);
    }
    void TearDown() override {
        amp_graph_release(graph_);
        Test::TearDown();
    }
    amp_tensor *output(amp_tensor *x) const {
        amp_tensor *y = nullptr;
        EXPECT_EQ(amp_graph_run(graph_, &x, 1, &y, 1), AMP_OK) << amp_last_error();
        return y;
    }
    std::vector<double> run(amp_tensor *x) const {
        const Scope scope;
        amp_tensor *y = output(x);
        return y ? numbers_of(y) : std::vector<double>();
    }
    std::vector<double> eager(amp_tensor *x) {
        const Scope scope;
        return numbers_of(function_(&x)[0]);
    }
    amp_graph *graph_ = nullptr;
    Function function_;
};

struct OneTensor {
    size_t struct_size;
    amp_tensor *input;
};

// Its argument where that begins with a positive number, else twice that; fails where it is not a number.
amp_status choose(amp_call *call, const void *args) {
    amp_tensor *x = static_cast<const OneTensor *>(args)->input;
    const auto *from = static_cast<const float *>(amp_data(x));
    if (!from) return amp_last_status();
    if (from[0] != from[0]) return amp_call_fail(call, AMP_ERROR_INVALID, "not a number");
    return amp_call_return(call, 0, from[0] > 0 ? x : op("mul.scalar", {x, 2.0}));
}

amp_tensor *kept;

// A view of its argument stays with the program.
amp_status keep(amp_call *call, const void *args) {
    amp_tensor *x = static_cast<const OneTensor *>(args)->input;
    amp_release(kept);
    kept = amp_keep(op("reshape", {x, AMP_DIMS(-1)}));
    return amp_call_return(call, 0, op("neg", {x}));
}

void define(const char *schema, amp_op_implementation run) {
    amp_op_definition d = {};
    d.struct_size = sizeof d;
    d.schema = schema;
    d.args_size = sizeof(OneTensor);
    d.cpu.run = run;
    ASSERT_NE(amp_define_op_call(&d), nullptr) << amp_last_error();
}

TEST_F(PlanSeams, OpsOfTheProgramMayChoose) {
    static const bool defined = (define("seams_choose(Tensor input) -> Tensor", choose), true);
    ASSERT_TRUE(defined);
    amp_tensor *up = op("abs", {random_tensor(AMP_F32, {4, 6}, 1)}), *down = op("neg", {up});
    const Function functions[] = {
        [](amp_tensor *const *x) {
            return Tensors{op("exp", {op("seams_choose", {op("mul.scalar", {x[0], 3.0})})})};
        },
        [](amp_tensor *const *x) { return Tensors{op("exp", {op("seams_choose", {x[0]})})}; },
        [](amp_tensor *const *x) {
            amp_tensor *h = op("mul.scalar", {x[0], 3.0}), *y = op("seams_choose", {h});
            amp_tensor *turned = op("transpose", {y, 0, 1});
            return Tensors{op("add", {op("exp", {turned}), op("transpose", {h, 0, 1})})};
        },
        [](amp_tensor *const *x) {
            return Tensors{op("seams_choose", {op("mul.scalar", {x[0], 3.0})})};
        },
        [](amp_tensor *const *x) {
            return Tensors{op("transpose", {op("seams_choose", {op("seams_choose", {op("neg", {x[0]})})}), 0, 1})};
        }};
    for (const Function &function : functions) {
        for (amp_tensor *first : {up, down}) {
            make(function);
            for (int round = 0; round < 3; round++) EXPECT_EQ(run(first), eager(first)) << round;
            for (amp_tensor *x : {up, down, up}) EXPECT_EQ(run(x), eager(x));
            amp_graph_release(graph_);
            graph_ = nullptr;
        }
    }
}

bool passes;

// A view of its argument, or something else, as the program has set it.
amp_status pass_or_negate(amp_call *call, const void *args) {
    amp_tensor *x = static_cast<const OneTensor *>(args)->input;
    return amp_call_return(call, 0, passes ? op("reshape", {x, AMP_DIMS(4, 6)}) : op("neg", {x}));
}

TEST_F(PlanSeams, OpsOfTheProgramAreCalledEachTime) {
    static const bool defined = (define("seams_pass(Tensor input) -> Tensor", pass_or_negate), true);
    ASSERT_TRUE(defined);
    amp_tensor *x = random_tensor(AMP_F32, {4, 6}, 1);
    make([](amp_tensor *const *t) {
        amp_tensor *h = op("seams_pass", {op("mul.scalar", {t[0], 3.0})});
        return Tensors{op("exp", {op("transpose", {h, 0, 1})})};
    });
    for (int round = 0; round < 6; round++) {
        passes = round != 2 && round != 4;
        EXPECT_EQ(run(x), eager(x)) << round;
    }
}

TEST_F(PlanSeams, OpsOfTheProgramMayFailInTheMiddle) {
    amp_tensor *x = random_tensor(AMP_F32, {4, 6}, 1), *bad = op("div", {op("sub", {x, x}), op("sub", {x, x})});
    make([](amp_tensor *const *t) {
        amp_tensor *h = op("mul.scalar", {t[0], 3.0});
        return Tensors{op("add", {op("seams_choose", {op("exp", {h})}), h})};
    });
    for (int round = 0; round < 3; round++) {
        EXPECT_EQ(run(x), eager(x)) << round;
        amp_tensor *y = nullptr;
        EXPECT_EQ(amp_graph_run(graph_, &bad, 1, &y, 1), AMP_ERROR_INVALID);
        EXPECT_EQ(y, nullptr);
        amp_clear_error();
    }
}

TEST_F(PlanSeams, OpsOfTheProgramMayKeepViews) {
    static const bool defined = (define("seams_keep(Tensor input) -> Tensor", keep), true);
    ASSERT_TRUE(defined);
    make([](amp_tensor *const *x) {
        amp_tensor *h = op("seams_keep", {op("mul.scalar", {x[0], 3.0})});
        for (int i = 0; i < 6; i++) h = op("add.scalar", {h, 1.0});
        return Tensors{h};
    });
    for (int round = 0; round < 4; round++) {
        amp_tensor *x = random_tensor(AMP_F32, {4, 600}, unsigned(round));
        (void)run(x);
        const std::vector<double> want = numbers_of(op("mul.scalar", {x, 3.0}));
        (void)random_tensor(AMP_F32, {4, 600 * 8}, 77);
        EXPECT_EQ(numbers_of(kept), want) << round;
    }
    amp_graph_release(graph_);
    graph_ = nullptr;
    EXPECT_EQ(numbers_of(kept).size(), 2400u);
    amp_release(kept);
    kept = nullptr;
}

// What another thread's capture has not computed is refused by a plan too, not read as zeros.
TEST_F(PlanSeams, InputsThatAreNotComputedYet) {
    make([](amp_tensor *const *x) { return Tensors{op("exp", {op("mul.scalar", {x[0], 3.0})})}; });
    amp_tensor *x = random_tensor(AMP_F32, {4, 6}, 1);
    for (int round = 0; round < 3; round++) EXPECT_EQ(run(x), eager(x)) << round;
    Function captured = [&](amp_tensor *const *t) {
        amp_tensor *h = op("mul.scalar", {t[0], 2.0});
        std::thread([&] {
            const Scope scope;
            amp_tensor *y = nullptr;
            EXPECT_EQ(amp_graph_run(graph_, &h, 1, &y, 1), AMP_ERROR_INVALID);
            EXPECT_NE(std::string(amp_last_error()).find("is not computed yet"), std::string::npos) << amp_last_error();
            amp_clear_error();
        }).join();
        return Tensors{h};
    };
    amp_graph *outer = amp_graph_trace("outer", compute, &captured, 1, 1, nullptr);
    amp_tensor *y = nullptr;
    EXPECT_EQ(amp_graph_run(outer, &x, 1, &y, 1), AMP_OK) << amp_last_error();
    amp_graph_release(outer);
}

std::vector<double> under(const char *label, const std::function<std::vector<double>()> &function) {
    EXPECT_EQ(amp_label_enter(label), AMP_OK);
    const std::vector<double> y = function();
    EXPECT_EQ(amp_label_exit(), AMP_OK);
    return y;
}

// Rules for a label hold for runs under it, whichever label came first, and however the run is made.
TEST_F(PlanSeams, RulesForLabels) {
    amp_tensor *w = random_tensor(AMP_F32, {16, 16}, 1), *x = random_tensor(AMP_F32, {8, 16}, 2);
    amp_autocast_rules *rules = amp_autocast_rules_parse("amp-policy 1\nf32 node \"here\"", "rules");
    amp_autocast_args args = {};
    args.struct_size = sizeof args;
    args.rules = rules;
    for (const bool here_first : {false, true}) {
        make([=](amp_tensor *const *t) { return Tensors{op("linear", {op("linear", {t[0], w}), w})}; });
        const Region region(args);
        const auto plain = [&] { return run(x); };
        const auto want = under("here", [&] { return eager(x); }), elsewhere = eager(x);
        EXPECT_NE(want, elsewhere);
        if (here_first) {
            EXPECT_EQ(under("here", plain), want);
        }
        for (int round = 0; round < 3; round++) {
            EXPECT_EQ(run(x), elsewhere) << round;
            EXPECT_EQ(under("here", plain), want) << round;
            EXPECT_EQ(under("there", plain), elsewhere) << round;
        }
        amp_graph_release(graph_);
        graph_ = nullptr;
    }
    amp_autocast_rules_release(rules);
}

} // namespace
