// Functions with a backward of the program's own: what they save, the regions that they run in, gradients of gradients, mistakes.
#include "amp_test.h"
#include "ending_memory.h"

#include <thread>

using namespace amp_test;

namespace {

amp_custom_function custom(const char *name, amp_custom_forward forward, amp_custom_backward backward, int inputs,
                           int outputs) {
    amp_custom_function f = {};
    f.struct_size = sizeof f;
    f.name = name;
    f.forward = forward;
    f.backward = backward;
    f.inputs = inputs;
    f.outputs = outputs;
    return f;
}

// ---- A product, as in PyTorch's documentation ----

struct Seen { // what the two saw
    amp_dtype input = AMP_DTYPE_NONE, product = AMP_DTYPE_NONE;
    bool forward = false, backward = false;
    bool wants[2] = {};
};
Seen seen;

amp_status mm_forward(amp_custom_call *call, amp_tensor *const *in, amp_tensor **out) {
    seen.forward = amp_autocast_is_enabled(AMP_DEVICE_CPU);
    seen.input = amp_tensor_dtype(in[0]);
    amp_custom_save(call, in[0]);
    amp_custom_save(call, in[1]);
    out[0] = op("mm", {in[0], in[1]});
    return amp_last_status();
}

amp_status mm_backward(amp_custom_call *call, amp_tensor *const *gradients, amp_tensor **given) {
    seen.backward = amp_autocast_is_enabled(AMP_DEVICE_CPU);
    amp_tensor *a = amp_custom_saved(call, 0), *b = amp_custom_saved(call, 1);
    for (int i = 0; i < 2; i++) seen.wants[i] = amp_custom_wants(call, i);
    if (seen.wants[0]) given[0] = op("mm", {gradients[0], op("t", {b})});
    if (seen.wants[1]) given[1] = op("mm", {op("t", {a}), gradients[0]});
    seen.product = amp_tensor_dtype(op("mm", {op("ones", {AMP_DIMS(2, 2)}), op("ones", {AMP_DIMS(2, 2)})}));
    return amp_last_status();
}

const amp_custom_function mm = custom("mm_of_mine", mm_forward, mm_backward, 2, 1);

class Custom : public Test {
  protected:
    Custom() {
        seen = {};
    }
    static amp_tensor *leaf(const Shape &shape, const std::vector<double> &numbers, amp_dtype dtype = AMP_F32) {
        amp_tensor *t = tensor(dtype, shape, numbers);
        EXPECT_EQ(amp_tensor_set_requires_grad(t, true), AMP_OK) << amp_last_error();
        return t;
    }
    static amp_status back(amp_tensor *loss, bool retain = false) {
        amp_backward_args args = {};
        args.struct_size = sizeof args;
        args.loss = loss;
        args.retain_graph = retain;
        return amp_backward_call(&args);
    }
    static amp_tensor *gradient(amp_tensor *output, amp_tensor *input, bool create = false) {
        amp_grad_args args = {};
        args.struct_size = sizeof args;
        args.outputs = {&output, 1, nullptr};
        args.inputs = {&input, 1, nullptr};
        args.create_graph = create;
        const amp_tensor_list list = amp_grad_call(&args);
        return list.count ? list.items[0] : nullptr;
    }
    static amp_tensor *apply(const amp_custom_function &f, const std::vector<amp_tensor *> &inputs,
                             const void *context = nullptr) {
        amp_tensor *out = nullptr;
        (void)amp_custom_apply(&f, context, inputs.data(), &out);
        return out;
    }
};

TEST_F(Custom, AProductHasTheGradientsThatItGives) {
    amp_tensor *a = leaf({2, 2}, {1, 2, 3, 4}), *b = leaf({2, 2}, {5, 6, 7, 8});
    amp_tensor *y = apply(mm, {a, b});
    ASSERT_TRUE(y) << amp_last_error();
    EXPECT_TRUE(amp_tensor_requires_grad(y));
    EXPECT_FALSE(amp_tensor_is_leaf(y));
    EXPECT_EQ(back(op("sum", {y})), AMP_OK) << amp_last_error();
    expect_near(amp_tensor_grad(a), {11, 15, 11, 15}, 0);
    expect_near(amp_tensor_grad(b), {4, 4, 6, 6}, 0);
    EXPECT_EQ(back(op("sum", {apply(mm, {a, tensor(AMP_F32, {2, 2})})})), AMP_OK) << amp_last_error();
    EXPECT_TRUE(seen.wants[0]);
    EXPECT_FALSE(seen.wants[1]);
}

TEST_F(Custom, NothingIsRecordedWhereNothingIsAsked) {
    amp_tensor *a = leaf({2, 2}, {1, 2, 3, 4}), *plain = tensor(AMP_F32, {2, 2});
    EXPECT_FALSE(amp_tensor_requires_grad(apply(mm, {plain, plain})));
    const bool was = amp_grad_set_enabled(false);
    EXPECT_FALSE(amp_tensor_requires_grad(apply(mm, {a, plain})));
    EXPECT_FALSE(amp_grad_is_enabled());
    amp_grad_set_enabled(was);
    EXPECT_TRUE(amp_tensor_requires_grad(apply(mm, {a, plain})));
    EXPECT_TRUE(amp_grad_is_enabled());
}

// ---- Regions ----

TEST_F(Custom, TheBackwardIsInTheRegionsOfTheForward) {
    amp_tensor *a = leaf({2, 2}, {1, 2, 3, 4}), *b = leaf({2, 2}, {5, 6, 7, 8}), *y = nullptr;
    {
        const Region region;
        y = apply(mm, {a, b});
    }
    EXPECT_EQ(amp_tensor_dtype(y), AMP_BF16);
    EXPECT_EQ(back(op("sum", {y})), AMP_OK) << amp_last_error();
    EXPECT_TRUE(seen.forward && seen.backward);
    EXPECT_EQ(seen.input, AMP_F32) << "nothing is cast but by the ops";
    EXPECT_EQ(seen.product, AMP_BF16);
    EXPECT_EQ(amp_tensor_dtype(amp_tensor_grad(a)), AMP_F32);
    expect_near(amp_tensor_grad(a), {11, 15, 11, 15}, 0);
    // And in none, where the forward was in none, whatever is open around the backward.
    y = apply(mm, {a, b});
    {
        const Region region;
        EXPECT_EQ(back(op("sum", {y})), AMP_OK) << amp_last_error();
    }
    EXPECT_FALSE(seen.backward);
    EXPECT_EQ(seen.product, AMP_F32);
}

TEST_F(Custom, WithCastInputsBothRunWithAutocastOff) {
    amp_custom_function f = mm;
    f.cast_inputs = AMP_F32;
    amp_tensor *a = leaf({2, 2}, {1, 2, 3, 4}, AMP_BF16), *b = leaf({2, 2}, {5, 6, 7, 8}), *y = nullptr;
    {
        const Region region;
        y = apply(f, {a, b});
        EXPECT_TRUE(amp_autocast_is_enabled(AMP_DEVICE_CPU));
        EXPECT_EQ(back(op("sum", {y})), AMP_OK) << amp_last_error();
        EXPECT_EQ(amp_tensor_dtype(op("mm", {b, b})), AMP_BF16) << "the region is open as before";
    }
    EXPECT_EQ(amp_tensor_dtype(y), AMP_F32);
    EXPECT_EQ(seen.input, AMP_F32);
    EXPECT_FALSE(seen.forward || seen.backward);
    EXPECT_EQ(seen.product, AMP_F32);
    EXPECT_EQ(amp_tensor_dtype(amp_tensor_grad(a)), AMP_BF16);
    expect_near(amp_tensor_grad(a), {11, 15, 11, 15}, 0);
    // To a narrower one: the leaf has its own dtype all the same.
    f.cast_inputs = AMP_BF16;
    {
        const Region region;
        y = apply(f, {b, a});
    }
    EXPECT_EQ(amp_tensor_dtype(y), AMP_BF16);
    amp_tensor_zero_grad(b);
    EXPECT_EQ(back(op("sum", {y})), AMP_OK) << amp_last_error();
    EXPECT_EQ(amp_tensor_dtype(amp_tensor_grad(b)), AMP_F32);
    expect_near(amp_tensor_grad(b), {3, 7, 3, 7}, 0);
    // Outside of regions, and f64 and integers anywhere, nothing is cast.
    f.cast_inputs = AMP_F16;
    EXPECT_EQ(amp_tensor_dtype(apply(f, {b, b})), AMP_F32);
    {
        const Region region;
        amp_tensor *wide = leaf({2, 2}, {1}, AMP_F64);
        EXPECT_EQ(amp_tensor_dtype(apply(f, {wide, wide})), AMP_F64);
    }
}

amp_status twice(void *, amp_tensor *const *in, amp_tensor **out) {
    out[0] = op("mul", {in[0], 2.0});
    return amp_last_status();
}

amp_dtype hooked;
amp_tensor *multiplies(void *, amp_tensor *) {
    amp_tensor *ones = op("ones", {AMP_DIMS(2, 2)});
    hooked = amp_tensor_dtype(op("mm", {ones, ones}));
    return nullptr;
}

TEST_F(Custom, WhatComesBehindInABackwardInsideOfARegionIsInNone) {
    for (const bool checkpointed : {true, false}) {
        const Region region;
        amp_tensor *x = leaf({2, 2}, {1}), *h = op("mul", {x, 1.0}), *y = nullptr;
        EXPECT_EQ(amp_tensor_register_hook(h, multiplies, nullptr), AMP_OK);
        if (checkpointed) {
            EXPECT_EQ(amp_checkpoint(twice, nullptr, &h, 1, &y, 1), AMP_OK);
        } else {
            y = apply(mm, {h, tensor(AMP_F32, {2, 2})});
        }
        EXPECT_EQ(back(op("sum", {y})), AMP_OK) << amp_last_error();
        EXPECT_EQ(hooked, AMP_F32);
    }
}

// ---- Several outputs, saved things, gradients of gradients ----

struct Scale {
    double factor;
    int calls;
};

// (x · factor, exp(x), how many): the second saves its output, the third has no gradient.
amp_status three_forward(amp_custom_call *call, amp_tensor *const *in, amp_tensor **out) {
    auto *scale = static_cast<Scale *>(amp_custom_context(call));
    scale->calls++;
    out[0] = op("mul", {in[0], scale->factor});
    out[1] = op("exp", {in[0]});
    out[2] = tensor(AMP_I64, {1}, {double(amp_tensor_numel(in[0]))});
    amp_custom_save(call, out[1]);
    amp_custom_save(call, nullptr);
    return amp_last_status();
}

bool arrived[3];
amp_status three_backward(amp_custom_call *call, amp_tensor *const *gradients, amp_tensor **given) {
    const auto *scale = static_cast<Scale *>(amp_custom_context(call));
    for (int i = 0; i < 3; i++) arrived[i] = gradients[i] != nullptr;
    EXPECT_EQ(amp_custom_saved(call, 1), nullptr);
    EXPECT_EQ(scale->calls, 1) << "of this call";
    amp_tensor *sum = nullptr;
    if (gradients[0]) sum = op("mul", {gradients[0], scale->factor});
    amp_tensor *more = gradients[1] ? op("mul", {gradients[1], amp_custom_saved(call, 0)}) : nullptr;
    given[0] = sum && more ? op("add", {sum, more}) : sum ? sum : more;
    return amp_last_status();
}

amp_custom_function three() {
    amp_custom_function f = custom("three", three_forward, three_backward, 1, 3);
    f.context_size = sizeof(Scale);
    return f;
}

TEST_F(Custom, SeveralOutputsAndThoseWithoutAGradient) {
    const amp_custom_function f = three();
    amp_tensor *x = leaf({2}, {0, 1}), *out[3];
    for (const double factor : {2.0, 3.0}) {
        amp_tensor_zero_grad(x);
        const Scale scale = {factor, 0};
        ASSERT_EQ(amp_custom_apply(&f, &scale, &x, out), AMP_OK) << amp_last_error();
        EXPECT_FALSE(amp_tensor_requires_grad(out[2]));
        EXPECT_EQ(amp_item(out[2]), 2);
        EXPECT_EQ(back(op("sum", {out[0]}), true), AMP_OK) << amp_last_error();
        EXPECT_TRUE(arrived[0] && !arrived[1] && !arrived[2]);
        expect_near(amp_tensor_grad(x), {factor, factor}, 0);
        EXPECT_EQ(back(op("sum", {op("add", {out[0], out[1]})})), AMP_OK) << amp_last_error();
        EXPECT_TRUE(arrived[0] && arrived[1]);
        expect_near(amp_tensor_grad(x), {2 * factor + 1, 2 * factor + std::exp(1.0)}, 1e-6);
    }
}

TEST_F(Custom, GradientsOfGradientsGoThroughInputsAndOutputs) {
    const amp_custom_function f = three();
    amp_tensor *x = leaf({2}, {0, 1}), *out[3];
    const Scale scale = {2, 0};
    ASSERT_EQ(amp_custom_apply(&f, &scale, &x, out), AMP_OK);
    amp_tensor *first = gradient(op("sum", {op("mul", {out[1], out[1]})}), x, true); // 2 exp(2x)
    ASSERT_TRUE(first) << amp_last_error();
    expect_near(first, {2, 2 * std::exp(2.0)}, 1e-6);
    expect_near(gradient(op("sum", {first}), x), {4, 4 * std::exp(2.0)}, 1e-6);
    amp_tensor *a = leaf({1, 1}, {3}), *b = leaf({1, 1}, {5});
    amp_tensor *product = apply(mm, {a, b});
    amp_tensor *da = gradient(op("sum", {op("mul", {product, product})}), a, true); // 2ab²
    ASSERT_TRUE(da) << amp_last_error();
    expect_near(da, {150}, 1e-6);
    expect_near(gradient(op("sum", {da}), b), {60}, 1e-5); // 4ab
}

// x · (1 + x), of which the factor is made on the way.
amp_status way_forward(amp_custom_call *call, amp_tensor *const *in, amp_tensor **out) {
    amp_tensor *way = op("add", {in[0], 1.0});
    amp_custom_save(call, way);
    amp_custom_save(call, in[0]);
    out[0] = op("mul", {in[0], way});
    if (in[1]) out[0] = op("add", {out[0], in[1]});
    return amp_last_status();
}
amp_status way_backward(amp_custom_call *call, amp_tensor *const *gradients, amp_tensor **given) {
    given[0] = op("mul", {gradients[0], op("add", {amp_custom_saved(call, 0), amp_custom_saved(call, 1)})});
    given[1] = gradients[0];
    return amp_last_status();
}
const amp_custom_function way = custom("way", way_forward, way_backward, 2, 1);

TEST_F(Custom, WhatWasMadeOnTheWayIsKeptAndInputsMayBeAbsent) {
    amp_tensor *x = leaf({2}, {1, 2}), *bias = leaf({1}, {7});
    EXPECT_EQ(back(op("sum", {apply(way, {x, nullptr})})), AMP_OK) << amp_last_error();
    expect_near(amp_tensor_grad(x), {3, 5}, 0);
    EXPECT_EQ(back(op("sum", {apply(way, {x, bias})})), AMP_OK) << amp_last_error();
    expect_near(amp_tensor_grad(bias), {2}, 0); // summed over what it was broadcast to
}

TEST_F(Custom, WritingWhatWasSavedIsAnError) {
    amp_tensor *a = leaf({2, 2}, {1, 2, 3, 4}), *b = tensor(AMP_F32, {2, 2}, {5, 6, 7, 8});
    amp_tensor *y = apply(mm, {a, b});
    op("add_", {b, 1.0});
    EXPECT_EQ(back(op("sum", {y})), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"backward of mm_of_mine", "was written after"}));
    const amp_custom_function f = three();
    amp_tensor *x = leaf({2}, {0, 1}), *out[3];
    ASSERT_EQ(amp_custom_apply(&f, nullptr, &x, out), AMP_OK);
    op("add_", {out[1], 1.0});
    EXPECT_EQ(back(op("sum", {out[1]})), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"backward of three", "its result"}));
    EXPECT_EQ(back(op("sum", {apply(mm, {a, b})})), AMP_OK) << "the next right call works";
}

TEST_F(Custom, GoneOverTwiceOnlyWhereTheRecordIsRetained) {
    amp_tensor *a = leaf({2, 2}, {1, 2, 3, 4});
    amp_tensor *loss = op("sum", {apply(mm, {a, a})});
    EXPECT_EQ(back(loss, true), AMP_OK);
    EXPECT_EQ(back(loss), AMP_OK);
    EXPECT_EQ(back(loss), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"gone over before"}));
}

amp_tensor *doubles(void *, amp_tensor *g) {
    return op("mul", {g, 2.0});
}

TEST_F(Custom, HooksInputsThatComeBackAndChains) {
    const auto same = custom(
        "same",
        [](amp_custom_call *, amp_tensor *const *in, amp_tensor **out) {
            out[0] = in[0];
            return AMP_OK;
        },
        [](amp_custom_call *, amp_tensor *const *g, amp_tensor **given) {
            given[0] = op("neg", {g[0]}); // reversed
            return amp_last_status();
        },
        1, 1);
    amp_tensor *x = leaf({2}, {1, 2}), *y = apply(same, {x});
    ASSERT_TRUE(y);
    EXPECT_NE(y, x);
    EXPECT_TRUE(amp_tensor_is_leaf(x));
    EXPECT_EQ(amp_tensor_register_hook(y, doubles, nullptr), AMP_OK);
    EXPECT_EQ(back(op("sum", {apply(same, {op("mul", {y, 3.0})})})), AMP_OK) << amp_last_error();
    expect_near(amp_tensor_grad(x), {6, 6}, 0);
}

// A function within a function, in both directions.
amp_status outer_forward(amp_custom_call *call, amp_tensor *const *in, amp_tensor **out) {
    amp_custom_save(call, in[0]);
    return amp_custom_apply(&mm, nullptr, std::vector<amp_tensor *>{in[0], in[0]}.data(), out);
}
amp_status outer_backward(amp_custom_call *call, amp_tensor *const *g, amp_tensor **given) {
    amp_tensor *t = op("t", {amp_custom_saved(call, 0)}), *parts[2] = {};
    amp_custom_apply(&mm, nullptr, std::vector<amp_tensor *>{g[0], t}.data(), &parts[0]);
    amp_custom_apply(&mm, nullptr, std::vector<amp_tensor *>{t, g[0]}.data(), &parts[1]);
    given[0] = op("add", {parts[0], parts[1]});
    return amp_last_status();
}
const amp_custom_function outer = custom("outer", outer_forward, outer_backward, 1, 1);

amp_status outer_again(void *, amp_tensor *const *in, amp_tensor **out) {
    return amp_custom_apply(&outer, nullptr, in, out);
}

TEST_F(Custom, FunctionsMayBeNestedAndComputedAgain) {
    amp_tensor *x = leaf({1, 1}, {3});
    amp_tensor *first = gradient(op("sum", {apply(outer, {x})}), x, true); // 2x
    ASSERT_TRUE(first) << amp_last_error();
    expect_near(first, {6}, 0);
    expect_near(gradient(op("sum", {op("mul", {first, first})}), x), {24}, 1e-5); // of 4x²
    amp_tensor *y = nullptr;
    EXPECT_EQ(amp_checkpoint(outer_again, nullptr, &x, 1, &y, 1), AMP_OK) << amp_last_error();
    EXPECT_EQ(back(op("sum", {y})), AMP_OK) << amp_last_error();
    expect_near(amp_tensor_grad(x), {6}, 0);
}

// ---- Mistakes ----

TEST_F(Custom, BadInputIsOneSentence) {
    const auto forward = [](amp_custom_call *, amp_tensor *const *in, amp_tensor **out) {
        out[0] = op("mul", {in[0], 1.0});
        return amp_last_status();
    };
    const auto wrong_shape = [](amp_custom_call *, amp_tensor *const *, amp_tensor **given) {
        given[0] = tensor(AMP_F32, {3});
        return amp_last_status();
    };
    amp_tensor *x = leaf({2}, {1, 2});
    EXPECT_EQ(back(op("sum", {apply(custom("mine", forward, wrong_shape, 1, 1), {x})})), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"backward of mine", "[3] f32", "[2]"}));
    const auto gone = [](amp_custom_call *, amp_tensor *const *, amp_tensor **given) {
        const Scope scope;
        given[0] = tensor(AMP_F32, {2});
        return AMP_OK;
    };
    EXPECT_EQ(back(op("sum", {apply(custom("mine", forward, gone, 1, 1), {x})})), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"mine: the gradient of input 0 was released"}));
    const auto fails = [](amp_custom_call *, amp_tensor *const *, amp_tensor **) { return AMP_ERROR_IO; };
    EXPECT_EQ(back(op("sum", {apply(custom("mine", forward, fails, 1, 1), {x})})), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"backward of mine: mine: its backward returned 5, and no error"}));
    const auto op_fails = [](amp_custom_call *, amp_tensor *const *g, amp_tensor **given) {
        given[0] = op("mm", {g[0], g[0]});
        return amp_last_status();
    };
    EXPECT_EQ(back(op("sum", {apply(custom("mine", forward, op_fails, 1, 1), {x})})), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"backward of mine: mm: "}));
    const auto nothing = [](amp_custom_call *, amp_tensor *const *, amp_tensor **) { return AMP_OK; };
    EXPECT_EQ(apply(custom("mine", nothing, fails, 1, 1), {x}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"mine: its forward did not set output 0"}));
    EXPECT_EQ(back(op("sum", {apply(custom("mine", forward, nothing, 1, 1), {x})})), AMP_OK) << amp_last_error();
    EXPECT_EQ(amp_tensor_grad(x), nullptr) << "no gradient was given";
}

TEST_F(Custom, DefinitionsAndQuestionsThatAreWrong) {
    amp_tensor *x = leaf({2, 2}, {1, 2}), *y = nullptr;
    amp_custom_function f = mm;
    f.backward = nullptr;
    EXPECT_EQ(apply(f, {x, x}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"custom_apply: the function has no backward"}));
    f = mm;
    f.cast_inputs = AMP_I32;
    EXPECT_EQ(apply(f, {x, x}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"mm_of_mine: cast_inputs is i32"}));
    EXPECT_EQ(amp_custom_apply(&mm, nullptr, nullptr, &y), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"mm_of_mine: it takes its 2 inputs"}));
    EXPECT_EQ(amp_custom_apply(nullptr, nullptr, &x, &y), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"custom_apply"}));
    const auto asks = [](amp_custom_call *call, amp_tensor *const *, amp_tensor **) {
        amp_custom_saved(call, 3);
        return amp_last_status();
    };
    const auto late = [](amp_custom_call *call, amp_tensor *const *g, amp_tensor **) {
        return amp_custom_save(call, g[0]);
    };
    EXPECT_EQ(apply(custom("mine", asks, mm_backward, 1, 1), {x}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"mine: saved tensor 3 is asked for before the backward"}));
    EXPECT_EQ(back(op("sum", {apply(custom("mine", mm_forward, asks, 2, 1), {x, x})})), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"mine: saved tensor 3 is asked for in the backward; there are 2"}));
    EXPECT_EQ(back(op("sum", {apply(custom("mine", mm_forward, late, 2, 1), {x, x})})), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"tensors are saved in the forward"}));
}

TEST_F(Custom, WhatIsLeftOpenIsClosedAndSaid) {
    amp_tensor *x = leaf({2, 2}, {1, 2});
    const auto scope = [](amp_custom_call *, amp_tensor *const *in, amp_tensor **out) {
        (void)amp_scope_enter();
        out[0] = op("mul", {in[0], 1.0});
        return amp_last_status();
    };
    const auto region = [](amp_custom_call *, amp_tensor *const *in, amp_tensor **out) {
        const amp_autocast_args args = region_args();
        (void)amp_autocast_enter(&args);
        out[0] = op("mul", {in[0], 1.0});
        return amp_last_status();
    };
    EXPECT_EQ(apply(custom("mine", scope, mm_backward, 1, 1), {x}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"mine: its forward left a scope open"}));
    EXPECT_EQ(apply(custom("mine", region, mm_backward, 1, 1), {x}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"mine: its forward left a region open"}));
    EXPECT_EQ(back(op("sum", {apply(custom("mine", mm_forward, scope, 2, 1), {x, x})})), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"mine: its backward left a scope open"}));
    EXPECT_EQ(back(op("sum", {apply(custom("mine", mm_forward, region, 2, 1), {x, x})})), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"mine: its backward left a region open"}));
    EXPECT_EQ(amp_autocast_nesting(), 0);
}

TEST_F(Custom, ThreadsCallOneFunctionAtATime) {
    amp_tensor *w = leaf({2, 2}, {1, 0, 0, 1});
    const auto square = custom(
        "square",
        [](amp_custom_call *call, amp_tensor *const *in, amp_tensor **out) {
            amp_custom_save(call, in[0]);
            out[0] = op("mul", {in[0], in[0]});
            return amp_last_status();
        },
        [](amp_custom_call *call, amp_tensor *const *g, amp_tensor **given) {
            given[0] = op("mul", {op("mul", {g[0], amp_custom_saved(call, 0)}), 2.0});
            return amp_last_status();
        },
        1, 1);
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++) {
        threads.emplace_back([&] {
            for (int k = 0; k < 50; k++) {
                const Scope scope;
                EXPECT_EQ(back(op("sum", {apply(square, {op("mul", {w, 1.0})})})), AMP_OK) << amp_last_error();
            }
        });
    }
    for (std::thread &t : threads) t.join();
    expect_near(amp_tensor_grad(w), {400, 0, 0, 400}, 0);
}

TEST_F(Custom, MemoryMayEndAnywhere) {
    EndingMemory memory;
    amp_custom_function cast = way;
    cast.cast_inputs = AMP_F32;
    memory.until_it_works([&] {
        amp_tensor *x = tensor(AMP_BF16, {2, 2}, {1, 2, 3, 4});
        if (!x) return;
        const Region region;
        (void)amp_tensor_set_requires_grad(x, true);
        amp_tensor *y = apply(cast, {x, nullptr});
        if (y) (void)back(op("sum", {apply(mm, {y, y})}));
        EXPECT_TRUE(amp_last_status() != AMP_OK || amp_tensor_grad(x));
    });
}

} // namespace
