// The tape and the way back over it: leaves, sums, views, writes in place, regions, errors. That each op's gradient is right is
// tested where ops are (amp replay of recorded gradients).
#include "amp_test.h"
#include "ending_memory.h"

#include <thread>

using namespace amp_test;

namespace {

class Backward : public Test {
  protected:
    // A leaf of these numbers.
    static amp_tensor *leaf(const Shape &shape, const std::vector<double> &numbers, amp_dtype dtype = AMP_F32) {
        amp_tensor *t = tensor(dtype, shape, numbers);
        EXPECT_EQ(amp_tensor_set_requires_grad(t, true), AMP_OK) << amp_last_error();
        return t;
    }
    static amp_status back(amp_tensor *loss, bool retain = false, amp_tensor *gradient = nullptr, bool create = false) {
        amp_backward_args args = {};
        args.struct_size = sizeof args;
        args.loss = loss;
        args.gradient = gradient;
        args.retain_graph = retain;
        args.create_graph = create;
        return amp_backward_call(&args);
    }
    static std::vector<amp_tensor *> gradients(amp_tensor *output, const std::vector<amp_tensor *> &inputs,
                                               bool create = false, bool allow_unused = false) {
        amp_grad_args args = {};
        args.struct_size = sizeof args;
        args.outputs = {&output, 1, nullptr};
        args.inputs = {inputs.data(), int64_t(inputs.size()), nullptr};
        args.create_graph = create;
        args.allow_unused = allow_unused;
        const amp_tensor_list list = amp_grad_call(&args);
        return {list.items, list.items + list.count};
    }
};

TEST_F(Backward, OfAProductGoesToBothFactors) {
    amp_tensor *x = leaf({2, 2}, {1, 2, 3, 4}), *w = leaf({2}, {5, 6});
    amp_tensor *y = op("mul", {x, w});
    EXPECT_TRUE(amp_tensor_requires_grad(y));
    EXPECT_FALSE(amp_tensor_is_leaf(y));
    EXPECT_EQ(back(op("sum", {y})), AMP_OK) << amp_last_error();
    expect_near(amp_tensor_grad(x), {5, 6, 5, 6}, 0);
    expect_near(amp_tensor_grad(w), {4, 6}, 0);
    EXPECT_EQ(amp_tensor_grad(y), nullptr) << "only leaves keep theirs";
}

TEST_F(Backward, AddsToWhatIsThere) {
    amp_tensor *x = leaf({2}, {1, 2});
    for (int i = 1; i <= 3; i++) {
        EXPECT_EQ(back(op("sum", {op("mul", {x, x})})), AMP_OK);
        expect_near(amp_tensor_grad(x), {2.0 * i, 4.0 * i}, 0);
    }
    EXPECT_EQ(amp_tensor_zero_grad(x), AMP_OK);
    EXPECT_EQ(amp_tensor_grad(x), nullptr);
}

TEST_F(Backward, ALeafsGradientIsItsOwn) {
    amp_tensor *x = leaf({2}, {1, 2}), *y = leaf({2}, {3, 4});
    EXPECT_EQ(back(op("add", {x, y}), false, tensor(AMP_F32, {2}, {1, 1})), AMP_OK);
    EXPECT_EQ(back(op("sum", {x})), AMP_OK);
    expect_near(amp_tensor_grad(x), {2, 2}, 0);
    expect_near(amp_tensor_grad(y), {1, 1}, 0); // the two were handed the same memory
}

TEST_F(Backward, NothingIsRecordedWhereNothingIsAsked) {
    amp_tensor *x = leaf({2}, {1, 2}), *plain = tensor(AMP_F32, {2});
    EXPECT_FALSE(amp_tensor_requires_grad(op("mul", {plain, plain})));
    const bool was = amp_grad_set_enabled(false);
    amp_tensor *y = op("mul", {x, x});
    amp_grad_set_enabled(was);
    EXPECT_FALSE(amp_tensor_requires_grad(y));
    EXPECT_TRUE(amp_tensor_is_leaf(y));
    EXPECT_FALSE(amp_tensor_requires_grad(op("detach", {op("mul", {x, x})})));
    EXPECT_FALSE(amp_tensor_requires_grad(op("argmax", {x})));
}

TEST_F(Backward, GoesOnceUnlessTheRecordIsKept) {
    amp_tensor *x = leaf({2}, {1, 2});
    amp_tensor *loss = op("sum", {op("mul", {x, x})});
    EXPECT_EQ(back(loss, true), AMP_OK);
    EXPECT_EQ(back(loss), AMP_OK);
    expect_near(amp_tensor_grad(x), {4, 8}, 0);
    EXPECT_EQ(back(loss), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"backward", "mul", "retain_graph"}));
    expect_near(amp_tensor_grad(x), {4, 8}, 0); // as before
}

TEST_F(Backward, ASharedResultGetsItsSumOnce) {
    amp_tensor *x = leaf({1}, {3});
    amp_tensor *y = x;
    for (int i = 0; i < 60; i++) y = op("add", {y, y}); // 2^60 paths
    EXPECT_EQ(back(y), AMP_OK);
    expect_near(amp_tensor_grad(x), {std::ldexp(1.0, 60)}, 0);
}

TEST_F(Backward, ALongTapeNeedsNoStack) {
    amp_tensor *x = leaf({1}, {1});
    amp_tensor *y = x;
    for (int i = 0; i < 100000; i++) y = op("add", {y, 1.0});
    EXPECT_EQ(back(y), AMP_OK);
    expect_near(amp_tensor_grad(x), {1}, 0);
}

TEST_F(Backward, RegionsCastAndGradientsComeBackInTheLeafsType) {
    amp_tensor *x = leaf({4, 8}, {0.5, -1.25, 2}), *w = leaf({3, 8}, {0.75, 0.125, -1}), *b = leaf({3}, {1});
    amp_tensor *y = nullptr;
    {
        Region region;
        y = op("linear", {x, w, b});
    }
    ASSERT_EQ(amp_tensor_dtype(y), AMP_BF16);
    EXPECT_EQ(back(op("sum", {y}, {{"dtype", AMP_F32}})), AMP_OK) << amp_last_error();
    for (amp_tensor *t : {x, w, b}) EXPECT_EQ(amp_tensor_dtype(amp_tensor_grad(t)), AMP_F32);
    expect_near(amp_tensor_grad(b), {4, 4, 4}, 0);
    amp_tensor *sums = op("sum", {w, AMP_DIMS(0)});
    const std::vector<double> row = numbers_of(sums);
    std::vector<double> rows;
    for (int i = 0; i < 4; i++) rows.insert(rows.end(), row.begin(), row.end());
    expect_near(amp_tensor_grad(x), rows, 1e-2);
}

// ---- Writing in place ----

TEST_F(Backward, WhatIsWrittenInPlaceHasTheNewHistory) {
    amp_tensor *x = leaf({2}, {1, 2});
    amp_tensor *y = op("mul", {x, 3.0});
    op("mul_", {y, 2.0});
    EXPECT_EQ(back(op("sum", {y})), AMP_OK) << amp_last_error();
    expect_near(amp_tensor_grad(x), {6, 6}, 0);
}

TEST_F(Backward, AWriteThroughAViewReachesTheWhole) {
    amp_tensor *x = leaf({2}, {1, 2});
    amp_tensor *y = op("mul", {x, 3.0});
    op("mul_", {op("select", {y, 0, 0}), 10.0});
    EXPECT_EQ(back(op("sum", {y})), AMP_OK) << amp_last_error();
    expect_near(amp_tensor_grad(x), {30, 3}, 0);
}

TEST_F(Backward, AViewSeesWhatWasWrittenToTheWhole) {
    amp_tensor *x = leaf({2}, {1, 2});
    amp_tensor *y = op("mul", {x, 3.0});
    amp_tensor *view = op("select", {y, 0, 1});
    op("mul_", {y, 10.0});
    EXPECT_EQ(back(view), AMP_OK) << amp_last_error();
    expect_near(amp_tensor_grad(x), {0, 30}, 0);
}

TEST_F(Backward, WhatWasNoResultCanBecomeOne) {
    amp_tensor *x = leaf({2}, {1, 2}), *room = tensor(AMP_F32, {2, 2}, {7});
    op("copy_", {op("select", {room, 0, 1}), op("mul", {x, 2.0})});
    EXPECT_TRUE(amp_tensor_requires_grad(room));
    EXPECT_EQ(back(op("sum", {op("mul", {room, room})})), AMP_OK) << amp_last_error();
    expect_near(amp_tensor_grad(x), {8, 16}, 0);
}

TEST_F(Backward, WhatWasSavedAndWrittenIsAnError) {
    amp_tensor *x = leaf({2}, {1, 2});
    amp_tensor *y = op("mul", {x, 3.0});
    amp_tensor *loss = op("sum", {op("mul", {y, y})});
    op("add_", {y, 1.0});
    EXPECT_EQ(back(loss), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"mul", "input", "[2] f32", "version"}));
}

TEST_F(Backward, LeavesAreNotWritten) {
    amp_tensor *x = leaf({2}, {1, 2});
    EXPECT_EQ(op("mul_", {x, 2.0}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"mul_", "[2] f32", "leaf", "amp_no_grad"}));
    expect_near(x, {1, 2}, 0); // as it was
    EXPECT_EQ(op("mul_", {op("select", {x, 0, 0}), 2.0}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"mul_", "view of a leaf"}));
    const bool was = amp_grad_set_enabled(false);
    EXPECT_NE(op("mul_", {x, 2.0}), nullptr);
    amp_grad_set_enabled(was);
    expect_near(x, {2, 4}, 0);
}

TEST_F(Backward, AViewThatWasFoundAgainComesAfterWhatReadsIt) {
    amp_tensor *s = leaf({2}, {1, 2}), *w = leaf({2}, {1, 1});
    amp_tensor *b = op("mul", {s, 2.0});
    amp_tensor *v = op("view", {b, AMP_DIMS(2)});
    op("mul_", {b, 2.0});
    amp_tensor *y = op("mul", {w, v}), *z = op("mul", {v, 3.0});
    EXPECT_EQ(back(op("add", {op("sum", {y}), op("sum", {z})})), AMP_OK) << amp_last_error();
    expect_near(amp_tensor_grad(s), {16, 16}, 0);
}

TEST_F(Backward, WhatIsWrittenWithoutAGradientHasNone) {
    amp_tensor *w = leaf({2}, {1, 2});
    amp_tensor *y = op("mul", {w, 3.0});
    op("normal_", {y});
    EXPECT_FALSE(amp_tensor_requires_grad(y));
    EXPECT_EQ(op("normal_", {w}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"normal_", "leaf"}));
    amp_tensor *part = op("mul", {w, 3.0});
    op("normal_", {op("select", {part, 0, 0})});
    EXPECT_EQ(back(op("sum", {part})), AMP_OK) << amp_last_error();
    expect_near(amp_tensor_grad(w), {0, 3}, 0);
    EXPECT_EQ(op("ldexp_", {op("mul", {w, 3.0}), w}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_NOT_IMPLEMENTED, {"ldexp_", "in place"}));
}

TEST_F(Backward, TargetsThatRequireGradientsAreRefused) {
    amp_tensor *w = leaf({2}, {1, 2}), *plain = tensor(AMP_F32, {2}, {5});
    amp_tensor *y = op("mul", {w, 3.0});
    amp_add_args args = {};
    args.struct_size = sizeof args;
    args.input = args.other = plain;
    EXPECT_EQ(amp_add_out_call(y, &args), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"add_out", "requires gradients"}));
    EXPECT_EQ(amp_add_out_call(w, &args), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"add_out", "requires gradients"}));
    expect_near(w, {1, 2}, 0);
}

TEST_F(Backward, AViewTurnedInPlaceIsNoWrite) {
    amp_tensor *s = leaf({2, 3}, {1, 2, 3, 4, 5, 6}), *k = tensor(AMP_F32, {2, 3}, {1, 2, 3, 4, 5, 6});
    amp_tensor *b = op("mul", {s, 2.0});
    amp_tensor *v = op("view", {b, AMP_DIMS(2, 3)});
    op("transpose_", {v, 0, 1});
    EXPECT_EQ(back(op("sum", {op("mul", {b, k})}), true), AMP_OK) << amp_last_error();
    expect_near(amp_tensor_grad(s), {2, 4, 6, 8, 10, 12}, 0);
    amp_tensor_zero_grad(s);
    EXPECT_EQ(back(op("sum", {op("mul", {v, op("t", {k})})})), AMP_OK) << amp_last_error();
    expect_near(amp_tensor_grad(s), {2, 4, 6, 8, 10, 12}, 0);
}

TEST_F(Backward, AViewOfAnotherDtypeIsNotWritten) {
    amp_tensor *w = leaf({2, 2}, {1, 2, 3, 4});
    amp_tensor *z = op("view_as_complex", {op("mul", {w, 2.0})});
    EXPECT_EQ(op("mul_", {op("view_as_real", {z}), 0.0}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"mul_", "another dtype"}));
}

// ---- Asking, hooks, gradients of gradients ----

TEST_F(Backward, GradAnswersAndLeavesLeavesAlone) {
    amp_tensor *x = leaf({2}, {1, 2}), *other = leaf({2}, {1, 1});
    amp_tensor *y = op("mul", {x, x});
    const auto found = gradients(op("sum", {op("mul", {y, 3.0})}), {x, y});
    ASSERT_EQ(found.size(), 2u) << amp_last_error();
    expect_near(found[0], {6, 12}, 0);
    expect_near(found[1], {3, 3}, 0);
    EXPECT_EQ(amp_tensor_grad(x), nullptr);
    EXPECT_TRUE(gradients(op("sum", {x}), {x, other}).empty());
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"grad", "input 1", "allow_unused"}));
    const auto some = gradients(op("sum", {x}), {x, other}, false, true);
    ASSERT_EQ(some.size(), 2u);
    EXPECT_EQ(some[1], nullptr);
}

TEST_F(Backward, GradientsOfGradients) {
    amp_tensor *x = leaf({2}, {2, 3});
    amp_tensor *cube = op("mul", {op("mul", {x, x}), x});
    const auto first = gradients(op("sum", {cube}), {x}, true);
    ASSERT_EQ(first.size(), 1u) << amp_last_error();
    expect_near(first[0], {12, 27}, 0);
    const auto second = gradients(op("sum", {first[0]}), {x});
    ASSERT_EQ(second.size(), 1u) << amp_last_error();
    expect_near(second[0], {12, 18}, 0);
}

TEST_F(Backward, ARecordedGradientIsTheLeafsOwn) {
    amp_tensor *w = leaf({2}, {1, 2}), *u = leaf({2}, {3, 4}), *x = tensor(AMP_F32, {2}, {12});
    for (const bool create : {true, false}) {
        EXPECT_EQ(back(op("sum", {op("mul", {op("add", {w, u}), x})}), false, nullptr, create), AMP_OK)
            << amp_last_error();
    }
    expect_near(amp_tensor_grad(w), {24, 24}, 0);
    expect_near(amp_tensor_grad(u), {24, 24}, 0);
    amp_tensor_zero_grad(w);
    amp_tensor_zero_grad(u);
    const auto twice = gradients(op("sum", {w}), {w, w});
    ASSERT_EQ(twice.size(), 2u);
    EXPECT_NE(twice[0], twice[1]);
}

amp_tensor *doubles(void *context, amp_tensor *gradient) {
    ++*static_cast<int *>(context);
    return op("mul", {gradient, 2.0});
}

TEST_F(Backward, HooksSeeTheWholeGradientOnce) {
    amp_tensor *x = leaf({2}, {1, 2});
    amp_tensor *y = op("mul", {x, 3.0});
    int calls = 0;
    EXPECT_EQ(amp_tensor_register_hook(y, doubles, &calls), AMP_OK);
    EXPECT_EQ(amp_tensor_retain_grad(y), AMP_OK);
    EXPECT_EQ(back(op("sum", {op("add", {y, y})})), AMP_OK) << amp_last_error();
    EXPECT_EQ(calls, 1);
    expect_near(amp_tensor_grad(y), {4, 4}, 0);
    expect_near(amp_tensor_grad(x), {12, 12}, 0);
}

struct OwnedContext {
    int calls, releases;
};

amp_tensor *counts(void *context, amp_tensor *) {
    static_cast<OwnedContext *>(context)->calls++;
    return nullptr;
}

void counts_releases(void *context) {
    static_cast<OwnedContext *>(context)->releases++;
}

TEST_F(Backward, AHookThatOwnsItsContextLetsItGoWithTheRecord) {
    OwnedContext result = {0, 0}, of_leaf = {0, 0}, refused = {0, 0};
    {
        const Scope scope;
        amp_tensor *x = leaf({2}, {1, 2}), *y = op("mul", {x, 3.0});
        EXPECT_EQ(amp_tensor_register_hook_owned(y, counts, &result, counts_releases), AMP_OK);
        EXPECT_EQ(amp_tensor_register_hook_owned(x, counts, &of_leaf, counts_releases), AMP_OK);
        EXPECT_EQ(back(op("sum", {y})), AMP_OK) << amp_last_error();
        EXPECT_EQ(of_leaf.releases, 0);
        EXPECT_NE(amp_tensor_register_hook_owned(tensor(AMP_F32, {1}, {1}), counts, &refused, counts_releases), AMP_OK);
        amp_clear_error();
        EXPECT_NE(amp_tensor_register_hook_owned(x, nullptr, &refused, counts_releases), AMP_OK);
        amp_clear_error();
    }
    EXPECT_EQ(result.calls, 1);
    EXPECT_EQ(result.releases, 1);
    EXPECT_EQ(of_leaf.calls, 1);
    EXPECT_EQ(of_leaf.releases, 1);
    EXPECT_EQ(refused.calls, 0);
    EXPECT_EQ(refused.releases, 2);
}

// A tensor that is written over is another node's, and nothing is left behind at the first.
TEST_F(Backward, AKeptGradientGoesWithTheTensorThatIsWrittenOver) {
    const amp_allocator filled = {[](void *, size_t bytes, size_t alignment) -> void * {
                                      void *block = nullptr;
                                      if (posix_memalign(&block, alignment, bytes) != 0) return nullptr;
                                      return memset(block, 0x55, bytes);
                                  },
                                  [](void *, void *block, size_t) { free(block); }, nullptr};
    amp_memory_trim();
    ASSERT_EQ(amp_set_allocator(&filled), AMP_OK);
    {
        const Scope scope;
        amp_tensor *x = leaf({2}, {1, 2}), *y = op("mul", {x, 3.0});
        EXPECT_EQ(amp_tensor_retain_grad(y), AMP_OK);
        EXPECT_NE(op("mul_", {y, 2.0}), nullptr) << amp_last_error();
        EXPECT_EQ(back(op("sum", {op("mul", {y, 5.0})})), AMP_OK) << amp_last_error();
        expect_near(amp_tensor_grad(y), {5, 5}, 0);
        expect_near(amp_tensor_grad(x), {30, 30}, 0);
    }
    amp_memory_trim();
    EXPECT_EQ(amp_set_allocator(nullptr), AMP_OK);
}

TEST_F(Backward, AGradientThatWasSetIsAddedToWhereItIsKept) {
    amp_tensor *x = leaf({2}, {1, 2}), *y = op("mul", {x, 3.0});
    ASSERT_EQ(amp_tensor_set_grad(y, tensor(AMP_F32, {2}, {1, 0})), AMP_OK);
    EXPECT_EQ(amp_tensor_retain_grad(y), AMP_OK);
    EXPECT_EQ(amp_tensor_retain_grad(y), AMP_OK);
    EXPECT_EQ(back(op("sum", {op("mul", {y, 5.0})})), AMP_OK) << amp_last_error();
    expect_near(amp_tensor_grad(y), {6, 5}, 0);
}

// ---- Recomputation ----

struct Block {
    amp_tensor *weight;
    int calls = 0;
};

amp_status block(void *context, amp_tensor *const *inputs, amp_tensor **outputs) {
    auto *b = static_cast<Block *>(context);
    b->calls++;
    outputs[0] = op("mul", {op("exp", {op("linear", {inputs[0], b->weight})}), op("rand", {AMP_DIMS(2, 3)})});
    return amp_last_status();
}

TEST_F(Backward, ACheckpointComputesAgainInItsRegionWithItsRandomNumbers) {
    amp_tensor *x = leaf({2, 3}, {0.1, 0.2, 0.3}), *w = leaf({3, 3}, {0.5, -0.25, 1, 0.125});
    Block b = {w};
    const auto run = [&](bool checkpointed) {
        amp_manual_seed(7);
        amp_tensor *y = nullptr;
        {
            Region region;
            EXPECT_EQ(checkpointed ? amp_checkpoint(block, &b, &x, 1, &y, 1) : block(&b, &x, &y), AMP_OK)
                << amp_last_error();
        }
        op("rand", {AMP_DIMS(5)}); // another's numbers between
        EXPECT_EQ(back(op("sum", {y})), AMP_OK) << amp_last_error();
        std::vector<double> numbers = numbers_of(amp_tensor_grad(x));
        for (double n : numbers_of(amp_tensor_grad(w))) numbers.push_back(n);
        for (double n : numbers_of(op("rand", {AMP_DIMS(3)}))) numbers.push_back(n);
        amp_tensor_zero_grad(x);
        amp_tensor_zero_grad(w);
        return numbers;
    };
    const auto plain = run(false);
    EXPECT_EQ(b.calls, 1);
    EXPECT_EQ(run(true), plain);
    EXPECT_EQ(b.calls, 3);
    amp_tensor *y = nullptr;
    EXPECT_EQ(amp_checkpoint(block, &b, &x, 1, &y, 1), AMP_OK);
    EXPECT_TRUE(gradients(op("sum", {y}), {x}).empty());
    EXPECT_TRUE(failed_with(AMP_ERROR_NOT_IMPLEMENTED, {"grad", "checkpoint"}));
    const auto forgets = [](void *, amp_tensor *const *, amp_tensor **) { return AMP_OK; };
    EXPECT_EQ(amp_checkpoint(forgets, nullptr, &x, 1, &y, 1), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"checkpoint", "result 0"}));
    amp_tensor *none = nullptr;
    EXPECT_EQ(amp_checkpoint(block, &b, &none, 1, &x, 1), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"checkpoint", "input 0"}));
}

// What goes wrong at the second time only is told too, and leaves nothing open.
TEST_F(Backward, ACheckpointThatFailsAgainIsAnError) {
    enum class Fault { status, result, scope, region };
    struct Faulty {
        Fault fault;
        int calls;
    };
    const auto function = [](void *context, amp_tensor *const *inputs, amp_tensor **outputs) {
        auto *f = static_cast<Faulty *>(context);
        const bool again = f->calls++ > 0;
        if (again && f->fault == Fault::scope) (void)amp_scope_enter();
        amp_autocast_args region = {};
        region.struct_size = sizeof region;
        if (again && f->fault == Fault::region) (void)amp_autocast_enter(&region);
        if (!again || f->fault != Fault::result) outputs[0] = op("exp", {inputs[0]});
        return again && f->fault == Fault::status ? AMP_ERROR_INVALID : AMP_OK;
    };
    const std::pair<Fault, const char *> faults[] = {{Fault::status, "the function returned"},
                                                     {Fault::result, "result 0 is NULL"},
                                                     {Fault::scope, "the function left a scope open"},
                                                     {Fault::region, "the function left a region open"}};
    for (const auto &[fault, sentence] : faults) {
        SCOPED_TRACE(sentence);
        Faulty f = {fault, 0};
        amp_tensor *x = leaf({2}, {1, 2}), *y = nullptr;
        ASSERT_EQ(amp_checkpoint(function, &f, &x, 1, &y, 1), AMP_OK) << amp_last_error();
        EXPECT_NE(back(op("sum", {y})), AMP_OK);
        EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"checkpoint", sentence}));
        amp_clear_error();
        EXPECT_EQ(amp_autocast_nesting(), 0);
        EXPECT_EQ(amp_tensor_grad(x), nullptr);
        Faulty first = {fault, 1};
        EXPECT_NE(amp_checkpoint(function, &first, &x, 1, &y, 1), AMP_OK);
        EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"checkpoint", sentence}));
        amp_clear_error();
        EXPECT_EQ(amp_autocast_nesting(), 0);
    }
}

// ---- Ops of the program ----

struct ScaledArgs {
    size_t struct_size;
    amp_tensor *x, *w;
};

amp_status scaled_cpu(amp_call *call, const void *args) {
    const auto *a = static_cast<const ScaledArgs *>(args);
    return amp_call_return(call, 0, op("mul", {a->x, a->w}));
}

void scaled_gradient(amp_gradient *g) {
    const auto *a = static_cast<const ScaledArgs *>(amp_gradient_args(g));
    if (amp_gradient_wants(g, &a->x)) amp_gradient_give(g, &a->x, op("mul", {amp_gradient_of(g, 0), a->w}));
    if (amp_gradient_wants(g, &a->w)) amp_gradient_give(g, &a->w, op("mul", {amp_gradient_of(g, 0), a->x}));
}

const amp_op *define(const char *schema, amp_op_gradient gradient, const char *saves) {
    amp_op_definition d = {};
    d.struct_size = sizeof d;
    d.schema = schema;
    d.args_size = sizeof(ScaledArgs);
    d.cpu = {"lower", scaled_cpu};
    d.gradient = gradient;
    d.saves = saves;
    return amp_define_op_call(&d);
}

TEST_F(Backward, AnOpOfTheProgramHasTheGradientThatItGives) {
    ASSERT_NE(define("grad_test_scaled(Tensor x, Tensor w) -> Tensor", scaled_gradient, "x:w,w:x"), nullptr)
        << amp_last_error();
    ASSERT_NE(define("grad_test_plain(Tensor x, Tensor w) -> Tensor", nullptr, nullptr), nullptr);
    amp_tensor *x = leaf({2}, {1.5, 2}), *w = leaf({2}, {3, 4});
    amp_tensor *y = nullptr;
    {
        Region region;
        y = op("grad_test_scaled", {x, w});
    }
    EXPECT_EQ(amp_tensor_dtype(y), AMP_BF16);
    EXPECT_EQ(back(op("sum", {y})), AMP_OK) << amp_last_error();
    expect_near(amp_tensor_grad(x), {3, 4}, 0);
    expect_near(amp_tensor_grad(w), {1.5, 2}, 0);
    EXPECT_EQ(amp_tensor_dtype(amp_tensor_grad(x)), AMP_F32) << "cast for the op, not for the leaf";
    EXPECT_EQ(back(op("sum", {op("grad_test_plain", {x, w})})), AMP_ERROR_NOT_IMPLEMENTED);
    EXPECT_TRUE(failed_with(AMP_ERROR_NOT_IMPLEMENTED, {"grad_test_plain", "gradient"}));
    EXPECT_EQ(define("grad_test_wrong(Tensor x, Tensor w) -> Tensor", scaled_gradient, "x:nothing"), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"grad_test_wrong", "nothing"}));
}

TEST_F(Backward, TheFirstNaNIsNamed) {
    amp_tensor *x = leaf({2}, {0, 1});
    const auto loss = [&] { // exp of NaN and 1: the gradient of the first is 0 · NaN
        amp_tensor *y = op("mul", {x, tensor(AMP_F32, {2}, {INFINITY, 1})});
        return op("sum", {op("mul", {op("exp", {y}), 0.0})});
    };
    EXPECT_EQ(back(loss()), AMP_OK);
    amp_tensor_zero_grad(x);
    const bool was = amp_detect_anomaly(true);
    EXPECT_FALSE(was);
    EXPECT_EQ(back(loss()), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"backward of ", "NaN"}));
    EXPECT_EQ(back(op("sum", {op("mul", {x, 2.0})})), AMP_OK);
    amp_detect_anomaly(false);
}

// ---- Errors ----

TEST_F(Backward, BadInputIsOneSentence) {
    amp_tensor *x = leaf({2}, {1, 2}), *plain = tensor(AMP_F32, {2});
    EXPECT_EQ(back(op("mul", {x, x})), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"backward", "[2] f32", "gradient"}));
    EXPECT_EQ(back(op("sum", {plain})), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"backward", "requires no gradient"}));
    EXPECT_EQ(back(nullptr), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"backward", "NULL"}));
    EXPECT_EQ(back(op("mul", {x, x}), false, tensor(AMP_F32, {3})), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"backward", "[3] f32", "[2] f32"}));
    EXPECT_EQ(amp_tensor_set_requires_grad(tensor(AMP_I64, {2}), true), AMP_ERROR_DTYPE);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"set_requires_grad", "i64"}));
    EXPECT_EQ(amp_tensor_set_grad(x, tensor(AMP_F32, {3})), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"set_grad", "[3] f32", "[2] f32"}));
    EXPECT_EQ(amp_mul_out_call(plain, nullptr), nullptr);
    amp_clear_error();
    EXPECT_EQ(back(op("sum", {op("mul", {x, x})})), AMP_OK) << "the next right call works";
}

TEST_F(Backward, UnderAStandingErrorTheRecordGoes) {
    amp_tensor *x = leaf({2}, {1, 2});
    amp_tensor *y = op("mul", {x, x}), *loss = op("sum", {y});
    EXPECT_EQ(op("add", {x, tensor(AMP_F32, {3})}), nullptr);
    EXPECT_NE(back(loss), AMP_OK);
    amp_clear_error();
    EXPECT_EQ(back(loss), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"gone over before"}));
    EXPECT_EQ(amp_tensor_grad(x), nullptr);
}

TEST_F(Backward, ThreadsRecordAndGoBackAtATime) {
    amp_tensor *w = leaf({64}, {1});
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++) {
        threads.emplace_back([w] {
            for (int k = 0; k < 50; k++) {
                Scope scope;
                amp_tensor *x = leaf({64}, {2});
                EXPECT_EQ(back(op("sum", {op("mul", {x, op("mul", {w, 1.0})})})), AMP_OK) << amp_last_error();
                expect_near(amp_tensor_grad(x), std::vector<double>(64, 1.0), 0);
            }
        });
    }
    for (std::thread &t : threads) t.join();
    expect_near(amp_tensor_grad(w), std::vector<double>(64, 400.0), 0);
}

TEST_F(Backward, MemoryMayEndAnywhere) {
    EndingMemory memory;
    memory.until_it_works([] {
        amp_tensor *x = tensor(AMP_F32, {2, 2}, {1, 2, 3, 4}), *w = tensor(AMP_F32, {2, 2}, {1});
        if (!x || !w) return;
        (void)amp_tensor_set_requires_grad(x, true);
        (void)amp_tensor_set_requires_grad(w, true);
        const Region region;
        amp_tensor *y = op("linear", {op("mul", {x, w}), w});
        if (y) (void)op("add_", {op("select", {y, 0, 0}), 1.0});
        if (y) (void)back(op("sum", {op("mul", {y, y})}));
        EXPECT_TRUE(amp_last_status() != AMP_OK || amp_tensor_grad(w));
    });
}

} // namespace
