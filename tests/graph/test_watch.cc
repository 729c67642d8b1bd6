// A run that is watched: each step with its operands and results, the same results as an unwatched one, and f32 beside it.
#include <climits>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>

#include "amp_test.h"
#include "ending_memory.h"

using namespace amp_test;

namespace {

using Function = std::function<amp_tensor *(amp_tensor *)>;

amp_status compute(void *context, amp_tensor *const *inputs, amp_tensor **outputs) {
    outputs[0] = (*static_cast<Function *>(context))(inputs[0]);
    return amp_last_status();
}

struct Seen {
    std::string op, places;
    std::vector<int> operands, results;
    amp_dtype dtype = AMP_DTYPE_NONE, f32 = AMP_DTYPE_NONE;
    double local = 0; // how far the step's own result is from f32's, at most
    int count = 0, output = -1, input = -1;
};

struct Watcher {
    std::vector<Seen> steps;
    std::vector<std::string> passes;
    int ends_at = -1;
};

double farthest(const amp_tensor *a, const amp_tensor *b) {
    double far = 0;
    const std::vector<double> x = numbers_of(a), y = numbers_of(b);
    for (size_t i = 0; i < x.size(); i++) far = std::max(far, std::fabs(x[i] - y[i]));
    return far;
}

amp_status note(void *context, const amp_graph_step *step) {
    auto *watcher = static_cast<Watcher *>(context);
    Seen seen;
    EXPECT_GE(step->struct_size, sizeof *step);
    EXPECT_EQ(size_t(step->number), watcher->steps.size());
    EXPECT_GE(step->seconds, 0);
    EXPECT_FALSE(amp_autocast_is_enabled(AMP_DEVICE_CPU));
    seen.op = step->op;
    if (*step->overload) seen.op += std::string(".") + step->overload;
    seen.count = step->count;
    for (int i = 0; i < step->place_count; i++) seen.places += std::string(i > 0 ? " " : "") + step->places[i];
    for (int i = 0; i < step->operand_count; i++) {
        if (!step->operands[i].is_constant) seen.operands.push_back(step->operands[i].value);
        if (step->operands[i].input >= 0) seen.input = step->operands[i].input;
    }
    for (int i = 0; i < step->result_count; i++) seen.results.push_back(step->results[i].value);
    const amp_graph_operand &result = step->results[0];
    EXPECT_STRNE(result.argument, "");
    seen.output = result.output;
    seen.dtype = amp_tensor_dtype(result.tensor);
    if (result.f32) {
        seen.f32 = amp_tensor_dtype(result.f32);
        seen.local = farthest(result.local, result.f32);
    }
    (void)op("relu", {result.tensor}); // goes by itself
    watcher->steps.push_back(seen);
    return watcher->ends_at == step->number ? AMP_ERROR_IO : AMP_OK;
}

void note_pass(void *context, const char *name, int places, int before, int after) {
    static_cast<Watcher *>(context)->passes.push_back(std::string(name) + " " + std::to_string(places) + " " +
                                                      std::to_string(before) + " " + std::to_string(after));
}

class Watch : public Test {
  protected:
    void make(Function function, bool exact = false) {
        function_ = std::move(function);
        amp_graph_options options = {};
        options.exact = exact;
        graph_ = amp_graph_trace("watched", compute, &function_, 1, 1, &options);
    }
    amp_status watch(amp_tensor *x, bool beside_f32 = false, amp_tensor **y = nullptr) {
        amp_graph_watcher watcher = {};
        watcher.step = note;
        watcher.pass = note_pass;
        watcher.context = &seen;
        watcher.beside_f32 = beside_f32;
        amp_tensor *unwanted = nullptr;
        return amp_graph_watch(graph_, &x, 1, y ? y : &unwanted, 1, &watcher);
    }
    amp_tensor *run(amp_tensor *x) {
        amp_tensor *y = nullptr;
        EXPECT_EQ(amp_graph_run(graph_, &x, 1, &y, 1), AMP_OK) << amp_last_error();
        return y;
    }
    // linear, then relu and a mean, under labels
    Function mlp() {
        return [this](amp_tensor *x) {
            amp_tensor *h = nullptr;
            amp_label("first") h = op("relu", {op("linear", {x, w, b})});
            amp_label("second") h = op("softmax", {op("linear", {h, v}), -1});
            return h;
        };
    }
    void TearDown() override {
        amp_graph_release(graph_);
        Test::TearDown();
    }
    amp_tensor *w = random_tensor(AMP_F32, {8, 6}, 1), *b = random_tensor(AMP_F32, {8}, 2);
    amp_tensor *v = random_tensor(AMP_F32, {5, 8}, 3), *x = random_tensor(AMP_F32, {3, 6}, 4);
    Watcher seen;
    amp_graph *graph_ = nullptr;

  private:
    Function function_;
};

} // namespace

TEST_F(Watch, EachStepInItsOrder) {
    make(mlp(), true);
    amp_tensor *y = nullptr;
    EXPECT_EQ(watch(x, false, &y), AMP_OK) << amp_last_error();
    ASSERT_EQ(seen.steps.size(), 4u);
    const char *ops[] = {"linear", "relu", "linear", "softmax"};
    for (size_t i = 0; i < 4; i++) {
        EXPECT_EQ(seen.steps[i].op, ops[i]);
        EXPECT_EQ(seen.steps[i].places, i < 2 ? "first" : "second");
        EXPECT_EQ(seen.steps[i].count, 4);
        EXPECT_EQ(seen.steps[i].output, i == 3 ? 0 : -1);
        EXPECT_EQ(seen.steps[i].input, i == 0 ? 0 : -1);
        EXPECT_EQ(seen.steps[i].f32, AMP_DTYPE_NONE);
        if (i == 0) continue;
        EXPECT_EQ(seen.steps[i].operands, seen.steps[i - 1].results) << "numbers join steps";
    }
    EXPECT_EQ(numbers_of(y), numbers_of(run(x)));
    EXPECT_EQ(seen.passes, (std::vector<std::string>{"same 0 4 4"}));
}

// The first run is that of the watcher too: it captures, and shows what runs from there on.
TEST_F(Watch, WhatPassesMakeOfCallsHasTheirPlaces) {
    make(mlp());
    EXPECT_EQ(watch(x), AMP_OK) << amp_last_error();
    ASSERT_EQ(seen.steps.size(), 3u);
    EXPECT_EQ(seen.steps[0].op, "linear_pointwise");
    EXPECT_EQ(seen.steps[0].places, "first");
    EXPECT_EQ(seen.passes.size(), 6u);
    EXPECT_EQ(seen.passes[2], "epilogues 1 4 3");
}

TEST_F(Watch, PlacesOfSeveralCallsInTheirOrder) {
    make([this](amp_tensor *t) {
        amp_tensor *h = nullptr, *e = nullptr;
        amp_label("before") h = op("tanh", {t});
        amp_label("product") h = op("linear", {h, w});
        amp_label("gate") e = op("sigmoid", {h});
        amp_label("times") h = op("mul", {h, e});
        return h;
    });
    EXPECT_EQ(watch(x), AMP_OK) << amp_last_error();
    ASSERT_EQ(seen.steps.size(), 2u);
    EXPECT_EQ(seen.steps[0].places, "before");
    EXPECT_EQ(seen.steps[1].op, "linear_pointwise");
    EXPECT_EQ(seen.steps[1].places, "product gate times");
}

TEST_F(Watch, InF32BesideTheRegion) {
    make(mlp(), true);
    amp_tensor *y = nullptr, *plain = nullptr;
    {
        Region region;
        EXPECT_EQ(watch(x, true, &y), AMP_OK) << amp_last_error();
        plain = run(x);
    }
    EXPECT_EQ(numbers_of(y), numbers_of(plain));
    ASSERT_EQ(seen.steps.size(), 4u);
    for (const Seen &step : seen.steps) EXPECT_EQ(step.f32, AMP_F32) << step.op;
    EXPECT_EQ(seen.steps[0].dtype, AMP_BF16);
    EXPECT_GT(seen.steps[0].local, 0);
    EXPECT_LT(seen.steps[0].local, 0.1);
    EXPECT_EQ(seen.steps[1].local, 0) << "relu of f32 adds no error of its own";
    EXPECT_GT(seen.steps[2].local, 0);
}

TEST_F(Watch, WithoutARegionNothingDiffers) {
    make(mlp());
    EXPECT_EQ(watch(x, true), AMP_OK) << amp_last_error();
    for (const Seen &step : seen.steps) EXPECT_EQ(step.local, 0) << step.op;
}

// An importer brings results back to the dtype that it found: beside the region that is f32.
TEST_F(Watch, RoundingsOfTheRegionAreNoneInF32) {
    make([this](amp_tensor *t) {
        amp_tensor *h = op("linear", {t, w});
        return op("add.scalar", {op("to", {op("to", {h, AMP_F32}), amp_tensor_dtype(h)}), 0.25});
    });
    {
        Region region;
        EXPECT_EQ(watch(x, true), AMP_OK) << amp_last_error();
    }
    ASSERT_FALSE(seen.steps.empty());
    EXPECT_EQ(seen.steps.back().f32, AMP_F32);
}

TEST_F(Watch, AWatcherMayEndIt) {
    make(mlp());
    seen.ends_at = 1;
    EXPECT_EQ(watch(x), AMP_ERROR_IO);
    EXPECT_EQ(seen.steps.size(), 2u);
    EXPECT_TRUE(failed_with(AMP_ERROR_IO, {"graph_watch", "ended the run"}));
}

TEST_F(Watch, WhatIsRunOpByOpHasNoSteps) {
    make([](amp_tensor *t) { return op("nonzero", {t}); });
    EXPECT_EQ(watch(x), AMP_ERROR_NOT_IMPLEMENTED);
    EXPECT_TRUE(failed_with(AMP_ERROR_NOT_IMPLEMENTED, {"watched", "depends on elements", "nonzero"}));
}

TEST_F(Watch, WrongArguments) {
    make(mlp());
    amp_tensor *y = x;
    EXPECT_EQ(amp_graph_watch(graph_, &x, 1, &y, 1, nullptr), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"graph_watch", "amp_graph_watcher"}));
    EXPECT_EQ(y, nullptr);
    amp_graph_watcher watcher = {};
    EXPECT_EQ(amp_graph_watch(nullptr, &x, 1, &y, 1, &watcher), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"graph_watch", "NULL"}));
    EXPECT_EQ(amp_graph_watch(graph_, &x, 2, &y, 1, &watcher), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"2 inputs"}));
    watcher.reserved[0] = 1;
    EXPECT_EQ(amp_graph_watch(graph_, &x, 1, &y, 1, &watcher), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"graph_watch"}));
}

// A sum in f32 is rounded where it is made only if all who read it would round it.
TEST_F(Watch, WhatAPinnedStepReadsIsNotRounded) {
    amp_tensor *shift = random_tensor(AMP_F32, {8}, 5);
    make([=](amp_tensor *t) {
        amp_tensor *h = op("add", {op("linear", {t, w}), shift});
        amp_label("second") h = op("linear", {h, v});
        return h;
    });
    for (const bool pinned : {false, true}) {
        amp_autocast_rules *rules =
            amp_autocast_rules_parse(pinned ? "amp-policy 1\nf32 node \"second\"\n" : "amp-policy 1\n", "rules");
        ASSERT_NE(rules, nullptr) << amp_last_error();
        amp_autocast_args args = region_args();
        args.rules = rules;
        const Region region(args);
        seen.steps.clear();
        EXPECT_EQ(watch(x), AMP_OK) << amp_last_error();
        ASSERT_EQ(seen.steps.size(), 2u);
        EXPECT_EQ(seen.steps[0].dtype, pinned ? AMP_F32 : AMP_BF16);
        EXPECT_EQ(seen.steps[1].dtype, pinned ? AMP_F32 : AMP_BF16);
        amp_autocast_rules_release(rules);
    }
}

// What is kept in f32 by a rule, and what is made of it.
TEST_F(Watch, RulesKeepStepsInF32) {
    make(mlp());
    struct {
        const char *rules, *dtypes;
    } cases[] = {{"", "bf16 bf16 bf16"},
                 {"f32 node \"first\"", "f32 bf16 bf16"},
                 {"f32 node \"second\"", "bf16 f32 f32"},
                 {"f32 relu", "f32 bf16 bf16"}, // part of the product by now
                 {"f32 softmax", "bf16 bf16 f32"},
                 {"f32 linear", "f32 f32 f32"}};
    for (const auto &c : cases) {
        const std::string text = std::string("amp-policy 1\n") + c.rules;
        amp_autocast_rules *rules = amp_autocast_rules_parse(text.c_str(), "rules");
        ASSERT_NE(rules, nullptr) << amp_last_error();
        std::string dtypes;
        std::vector<double> watched, plain;
        {
            amp_autocast_args args = region_args();
            args.rules = rules;
            const Region region(args);
            amp_tensor *y = nullptr;
            seen.steps.clear();
            EXPECT_EQ(watch(x, true, &y), AMP_OK) << amp_last_error();
            watched = numbers_of(y);
            plain = numbers_of(run(x));
        }
        amp_autocast_rules_release(rules);
        for (const Seen &step : seen.steps) {
            dtypes += std::string(dtypes.empty() ? "" : " ") + amp_dtype_name(step.dtype);
            EXPECT_TRUE(step.dtype == AMP_BF16 || step.op == "softmax" || step.local < 1e-6) << c.rules;
        }
        EXPECT_EQ(dtypes, c.dtypes) << c.rules;
        EXPECT_EQ(watched, plain) << c.rules;
    }
}

TEST_F(Watch, MemoryMayEndAnywhere) {
    EndingMemory memory;
    memory.until_it_works([&] {
        amp_autocast_rules *rules =
            amp_autocast_rules_parse("amp-policy 1\nf32 node \"first\"\nf32 softmax\n", "rules");
        make(mlp());
        seen.steps.clear();
        {
            amp_autocast_args args = region_args();
            args.rules = rules;
            const Region region(args);
            (void)watch(x, true);
        }
        amp_graph_release(graph_);
        graph_ = nullptr;
        amp_autocast_rules_release(rules);
    });
}
