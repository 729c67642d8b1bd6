// One way through: layers in their order, each skipped by one bit; argument structs of older and newer callers; calls
// by name. Trace and grad are doubles here: what they will see is fixed before they exist.
#include "fake_device.h"

using namespace amp_test;

namespace {

// ---- Doubles of the layers ----------------------------------------------------------------------------------------
struct Event {
    std::string text; // "trace:linear bf16<f32 bf16": the first argument is a pending cast from f32
    std::vector<const amp_tensor *> arguments; // of such a cast its source
    bool operator==(const std::string &other) const {
        return text == other;
    }
};

std::vector<Event> events;
std::vector<std::string> texts() {
    std::vector<std::string> all;
    for (const Event &e : events) all.push_back(e.text);
    return all;
}

amp_status note(const char *layer, amp_call *call) {
    Event e = {std::string(layer) + ":" + amp_call_name(call), {}};
    for (int i = 0; i < call->op->arg_count; i++) {
        if (call->op->args[i].kind != AMP_ARG_TENSOR) continue;
        const amp_tensor *t = *amp_call_tensor(call, &call->op->args[i]);
        if (!t) continue;
        e.arguments.push_back(t->source ? t->source : t);
        e.text += std::string(" ") + amp_dtype_name(t->dtype);
        if (t->source) e.text += std::string("<") + amp_dtype_name(t->source->dtype);
    }
    events.push_back(e);
    return amp_call_next(call);
}

amp_status outermost(amp_call *call) {
    return note("explain", call);
}
amp_status trace(amp_call *call) {
    return note("trace", call);
}
amp_status grad(amp_call *call) {
    return note("grad", call);
}
amp_status refuse(amp_call *call) {
    return amp_fail(AMP_ERROR_INVALID, "%s: refused by the layer", amp_call_name(call));
}

using Texts = std::vector<std::string>;

class Layers : public Test {
  protected:
    void SetUp() override {
        events.clear();
        amp_cast_cache_clear();
    }
    void TearDown() override {
        for (unsigned layer : {AMP_LAYER_EXPLAIN, AMP_LAYER_TRACE, AMP_LAYER_GRAD}) amp_layer_activate(layer, false);
        amp_layer_install(AMP_LAYER_EXPLAIN, amp_explain_layer);
        amp_layer_install(AMP_LAYER_TRACE, nullptr);
        amp_layer_install(AMP_LAYER_GRAD, nullptr);
        Test::TearDown();
    }
    static void turn_on(unsigned layer, amp_layer_function run) {
        amp_layer_install(layer, run);
        amp_layer_activate(layer, true);
    }

    amp_tensor *x_ = tensor(AMP_F32, {2, 3}), *w_ = tensor(AMP_F32, {4, 3});
};

class CallOp : public Test {
  protected:
    amp_tensor *a_ = tensor(AMP_F32, {2}, {3, 4}), *b_ = tensor(AMP_F32, {2}, {1, 2});
};

using Structs = Layers;

} // namespace

// ---- Layers --------------------------------------------------------------------------------------------------------
TEST_F(Layers, RunOutermostFirstAndCastsAreFactsBelowAutocast) {
    turn_on(AMP_LAYER_EXPLAIN, outermost);
    turn_on(AMP_LAYER_TRACE, trace);
    turn_on(AMP_LAYER_GRAD, grad);
    Region region;
    ASSERT_NE(op("linear", {x_, w_}), nullptr) << amp_last_error();
    EXPECT_EQ(texts(),
              (Texts{"explain:linear f32 f32", "trace:linear bf16<f32 bf16<f32", "grad:linear bf16<f32 bf16<f32"}));
}

TEST_F(Layers, TheCastThatGradSeesStartsFromTheLeaf) {
    ASSERT_EQ(amp_tensor_set_requires_grad(w_, true), AMP_OK); // which installs the real one
    turn_on(AMP_LAYER_GRAD, grad);
    Region region;
    ASSERT_NE(op("linear", {x_, w_}), nullptr);
    ASSERT_EQ(texts(), (Texts{"grad:linear bf16<f32 bf16<f32"}));
    EXPECT_EQ(events[0].arguments[1], w_) << "so the gradient reaches the f32 leaf";
}

TEST_F(Layers, WhileTracingThePackedWeightStaysCached) {
    Region region;
    op("linear", {x_, w_});
    const amp_cast_cache_stats before = amp_cast_cache_statistics();
    EXPECT_EQ(before.entries, 1u);
    turn_on(AMP_LAYER_TRACE, trace);
    turn_on(AMP_LAYER_GRAD, grad);
    op("linear", {x_, w_});
    op("linear", {x_, w_});
    const amp_cast_cache_stats after = amp_cast_cache_statistics();
    EXPECT_EQ(after.hits, before.hits + 2);
    EXPECT_EQ(after.misses, before.misses);
}

TEST_F(Layers, TracedAndPlainResultsAgree) {
    amp_tensor *x = random_tensor(AMP_F32, {3, 40}, 1), *w = random_tensor(AMP_F32, {7, 40}, 2);
    Region region;
    const std::vector<double> plain = numbers_of(op("linear", {x, w}));
    turn_on(AMP_LAYER_TRACE, trace);
    EXPECT_EQ(numbers_of(op("linear", {x, w})), plain);
}

TEST_F(Layers, SeeThePartsOfAnOpThatAutocastLeavesToThem) {
    using Tensors = std::vector<amp_tensor *>;
    amp_tensor *square = tensor(AMP_F32, {3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
    turn_on(AMP_LAYER_EXPLAIN, outermost);
    turn_on(AMP_LAYER_TRACE, trace);
    op("einsum", {"ii,ij->j", Tensors{square, square}});
    EXPECT_EQ(texts(), (Texts{"explain:einsum", "trace:einsum"})) << "outside of a region it is one op";
    events.clear();
    Region region;
    amp_tensor *product = op("einsum", {"ii,ij->j", Tensors{square, square}});
    ASSERT_NE(product, nullptr) << amp_last_error();
    EXPECT_EQ(numbers_of(product), (std::vector<double>{84, 99, 114}));
    EXPECT_EQ(texts(), (Texts{"explain:einsum", "trace:diagonal f32", "trace:permute f32", "trace:reshape f32",
                              "trace:permute f32", "trace:reshape f32", "trace:bmm bf16<f32 bf16<f32",
                              "trace:reshape bf16", "trace:permute bf16", "trace:reshape bf16"}));
}

TEST_F(Layers, OneBitSkipsEach) {
    amp_layer_install(AMP_LAYER_TRACE, trace);
    op("add", {x_, x_});
    EXPECT_EQ(texts(), Texts{}) << "installed, not on";
    amp_layer_activate(AMP_LAYER_TRACE, true);
    op("add", {x_, x_});
    EXPECT_EQ(texts(), Texts{"trace:add f32 f32"});
    amp_layer_activate(AMP_LAYER_TRACE, false);
    op("add", {x_, x_});
    EXPECT_EQ(texts().size(), 1u);
    EXPECT_EQ(amp_this_thread.layers, 0u) << "a call outside of everything is one test of zero";
}

TEST_F(Layers, ALayerThatIsNotInstalledCannotBeSwitchedOn) {
    amp_layer_activate(AMP_LAYER_TRACE, true);
    EXPECT_EQ(amp_this_thread.layers, 0u);
    EXPECT_NE(op("add", {x_, x_}), nullptr);
}

TEST_F(Layers, ADisabledRegionIsTheSameAsNone) {
    amp_autocast_args off = region_args();
    off.enabled = AMP_SET(false);
    Region region(off);
    EXPECT_EQ(amp_this_thread.layers, 0u);
}

TEST_F(Layers, InnerOpsOfAnImplementationSeeNone) {
    turn_on(AMP_LAYER_TRACE, trace);
    ASSERT_NE(op("matmul", {tensor(AMP_F32, {2, 2, 3}), tensor(AMP_F32, {3, 2})}), nullptr);
    ASSERT_NE(op("flatten", {op("transpose", {x_, 0, 1})}), nullptr);
    EXPECT_EQ(texts(), (Texts{"trace:matmul f32 f32", "trace:transpose f32", "trace:flatten f32"}));
}

TEST_F(Layers, InPlaceAndOutFormsReachTheLayersUncast) {
    turn_on(AMP_LAYER_TRACE, trace);
    Region region;
    amp_tensor *out = tensor(AMP_F32, {2, 2});
    ASSERT_EQ(op("mm_out", {x_, op("t", {x_})}, {{"out", out}}), out);
    ASSERT_EQ(op("add_", {x_, x_}), x_);
    EXPECT_EQ(texts(), (Texts{"trace:t f32", "trace:mm_out f32 f32", "trace:add_ f32 f32"}));
}

TEST_F(Layers, ALayersRefusalIsTheCallsError) {
    turn_on(AMP_LAYER_GRAD, refuse);
    Region region;
    EXPECT_EQ(op("linear", {x_, w_}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"linear: refused by the layer"}));
}

TEST_F(Layers, AreOfTheirThread) {
    turn_on(AMP_LAYER_TRACE, trace);
    const unsigned layers = amp_this_thread.layers;
    op("no_such_op", {});
    amp_clear_error();
    op("mm", {x_, x_});
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"mm"}));
    EXPECT_EQ(amp_this_thread.layers, layers) << "a failed call restores them";
}

// ---- Argument structs ----------------------------------------------------------------------------------------------
TEST_F(Structs, AnOlderCallersShorterStructGetsDefaults) {
    amp_linear_args args = {sizeof args, x_, w_, tensor(AMP_F32, {99})}; // the bias does not fit …
    args.struct_size = offsetof(amp_linear_args, bias);                  // … and is not there
    EXPECT_NE(amp_linear_call(&args), nullptr) << amp_last_error();
    args.struct_size = offsetof(amp_linear_args, weight);
    EXPECT_EQ(amp_linear_call(&args), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"linear", "'weight'", "missing"}));
}

TEST_F(Structs, ANewerCallersLongerStructWorksUntilItAsksForMore) {
    struct Newer {
        amp_linear_args args;
        void *option;
    } newer = {{sizeof(Newer), x_, w_, nullptr}, nullptr};
    EXPECT_NE(amp_linear_call(&newer.args), nullptr) << amp_last_error();
    newer.option = x_;
    EXPECT_EQ(amp_linear_call(&newer.args), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"linear", "does not know"}));
}

// A newer caller's option of one byte may stand where this libamp has padding.
TEST_F(Structs, WhatIsReservedIsZero) {
    amp_sort_args args{};
    args.input = tensor(AMP_F32, {2, 3});
    ASSERT_NE(amp_sort_call(&args), nullptr) << amp_last_error();
    args.reserved_[sizeof args.reserved_ - 1] = 1;
    EXPECT_EQ(amp_sort_call(&args), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"sort", "does not know"}));
}

// An option that is added at the end moves no result's place.
TEST_F(Structs, FurtherResultsStandBeforeTheArguments) {
    for (int i = 0; i < amp_op_count; i++) {
        const amp_op_info &op = amp_op_table[i];
        for (int a = 0; a < op.arg_count; a++) {
            const bool is_output = op.args[a].kind == AMP_ARG_OUTPUT;
            EXPECT_EQ(is_output, op.args[a].offset < op.args[0].offset) << op.c_name << ": " << op.args[a].name;
        }
    }
    amp_tensor *indices = nullptr;
    amp_sort_args args{};
    args.input = tensor(AMP_F32, {2, 3});
    args.indices = &indices;
    ASSERT_NE(amp_sort_call(&args), nullptr) << amp_last_error();
    EXPECT_NE(indices, nullptr);
}

TEST_F(Structs, NonsenseSizesAndNullAreErrors) {
    for (size_t size : {size_t(0), size_t(7), size_t(100000), SIZE_MAX}) {
        amp_linear_args args = {size, x_, w_, nullptr};
        EXPECT_EQ(amp_linear_call(&args), nullptr);
        EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"struct_size", "amp_linear_args"}));
    }
    EXPECT_EQ(amp_linear_call(nullptr), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"linear", "NULL"}));
}

TEST_F(Structs, AResultThatWasNotMadeIsNull) {
    amp_tensor *indices = x_;
    amp_max_pool1d_args args = {};
    args.struct_size = sizeof args;
    args.input = tensor(AMP_F32, {1, 4}, {1, 3, 2, 4});
    args.kernel_size = AMP_DIMS(2);
    args.indices = &indices;
    EXPECT_NE(amp_max_pool1d_call(&args), nullptr) << amp_last_error();
    EXPECT_EQ(indices, nullptr);
}

TEST_F(Structs, TheTargetMayShareLentMemoryWithAnInput) {
    std::vector<float> memory(100001);
    for (size_t i = 0; i < memory.size(); i++) memory[i] = float(i);
    const int64_t shape[] = {int64_t(memory.size()) - 1};
    amp_tensor *from = amp_from_memory(memory.data(), AMP_F32, 1, shape, nullptr, nullptr, nullptr);
    amp_tensor *to = amp_from_memory(memory.data() + 1, AMP_F32, 1, shape, nullptr, nullptr, nullptr);
    ASSERT_NE(op("neg_out", {from}, {{"out", to}}), nullptr) << amp_last_error();
    for (size_t i = 1; i < memory.size(); i++) ASSERT_EQ(memory[i], -float(i - 1)) << i;
}

TEST_F(Structs, AnExplicitZeroIsNoDefault) {
    amp_tensor *constant = tensor(AMP_F32, {1, 4}, {2});
    EXPECT_EQ(numbers_of(op("layer_norm", {constant, AMP_DIMS(4)}))[0], 0);
    EXPECT_TRUE(std::isnan(numbers_of(op("layer_norm", {constant, AMP_DIMS(4)}, {{"eps", 0.0}}))[0])) << "0 / sqrt(0)";
    EXPECT_EQ(numbers_of(op("add", {x_, x_}, {{"alpha", 0}}))[0], 1);
}

// ---- By name -------------------------------------------------------------------------------------------------------
TEST_F(CallOp, IsTheSameWayThrough) {
    EXPECT_EQ(numbers_of(op("add", {a_, b_})), (std::vector<double>{4, 6}));
    EXPECT_EQ(numbers_of(op("add", {a_, b_}, {{"alpha", 10}})), (std::vector<double>{13, 24}));
    EXPECT_EQ(numbers_of(op("add", {}, {{"other", b_}, {"input", a_}})), (std::vector<double>{4, 6}));
    Region region;
    EXPECT_EQ(amp_tensor_dtype(op("linear", {tensor(AMP_F32, {2, 3}), tensor(AMP_F32, {4, 3})})), AMP_BF16);
}

TEST_F(CallOp, ChoosesTheOverloadThatTheArgumentsFit) {
    EXPECT_EQ(numbers_of(op("add", {a_, 10})), (std::vector<double>{13, 14}));
    EXPECT_EQ(numbers_of(op("add.scalar", {a_, 10.5})), (std::vector<double>{13.5, 14.5}));
    for (const char *name : {"add.scalar", "add_scalar"}) { // as in the tables, as in C
        EXPECT_EQ(op(name, {a_, b_}), nullptr) << "one overload only";
        EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {name, "'other'", "a number", "a tensor"}));
    }
    EXPECT_EQ(numbers_of(op("add_.scalar", {a_, 1})).size(), 0u);
    amp_clear_error();
    EXPECT_EQ(op("add.scalar_", {a_, 1}), a_);
    EXPECT_EQ(op("add_scalar_", {a_, 1}), a_);
    EXPECT_EQ(op("add_scalar_", {a_, b_}), nullptr) << "one overload only";
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"add_scalar_"}));
}

TEST_F(CallOp, FormsByTheirSuffix) {
    EXPECT_EQ(op("add_", {a_, b_}), a_);
    EXPECT_EQ(numbers_of(a_), (std::vector<double>{4, 6}));
    amp_tensor *out = tensor(AMP_F32, {2});
    EXPECT_EQ(op("add_out", {a_, b_}, {{"out", out}}), out);
    EXPECT_EQ(numbers_of(out), (std::vector<double>{5, 8}));
    EXPECT_EQ(op("add_out", {a_, b_}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"add_out", "'out'", "missing"}));
    EXPECT_EQ(op("add", {a_, b_}, {{"out", out}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"add", "'out'"}));
    EXPECT_EQ(op("mm_", {a_, b_}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"mm_", "no such form"}));
}

TEST_F(CallOp, UnknownOpIsAnError) {
    for (const char *name : {"no_such_op", "", "_", "_out", "add.no_such_overload", "add__"}) {
        EXPECT_EQ(op(name, {a_, b_}), nullptr) << name;
        EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"call_op", name}));
    }
    EXPECT_EQ(amp_call_op(nullptr, nullptr, 0, nullptr, 0, nullptr), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"NULL"}));
}

TEST_F(CallOp, UnknownMissingDoubleAndSurplusArgumentsAreErrors) {
    EXPECT_EQ(op("mm", {a_}, {{"mat3", b_}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"mm", "no argument 'mat3'", "mat2"})) << "the schema stands beside it";
    EXPECT_EQ(op("mm", {a_}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"mm", "'mat2'", "missing"}));
    EXPECT_EQ(op("mm", {a_, b_}, {{"input", a_}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"mm", "'input'", "twice"}));
    EXPECT_EQ(op("mm", {a_, b_, a_}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"mm", "too many arguments"}));
}

TEST_F(CallOp, AWrongKindIsAnError) {
    EXPECT_EQ(op("mm", {a_, "b"}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"mm", "'mat2' must be a tensor", "a string"}));
    EXPECT_EQ(op("softmax", {a_, 0.5}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"softmax", "'dim' must be an integer", "a number"}));
    EXPECT_EQ(op("cat", {a_}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"cat", "'tensors' must be a list of tensors"}));
    EXPECT_EQ(op("to", {a_, "f33"}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"to", "'dtype' must be a dtype"}));
    EXPECT_EQ(amp_tensor_dtype(op("to", {a_, "bfloat16"})), AMP_BF16) << "a dtype's name will do";
    EXPECT_EQ(op("view", {a_, 2.5}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"view", "'size' must be integers"}));
    EXPECT_EQ(numbers_of(op("view", {a_, 2})).size(), 2u) << "one integer stands for a list of one";
}

TEST_F(CallOp, NullArraysAreErrors) {
    amp_tensor *output = nullptr;
    EXPECT_EQ(amp_call_op("add", nullptr, 2, &output, 1, nullptr), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"argument", "NULL"}));
    EXPECT_EQ(amp_call_op("add", nullptr, 0, nullptr, 1, nullptr), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"output", "NULL"}));
}

TEST_F(CallOp, OutputsAreNullAfterAnyError) {
    for (const char *name : {"relu", "liner", "add"}) { // without arguments
        amp_tensor *outputs[2] = {a_, a_};
        int count = 7;
        EXPECT_EQ(amp_call_op(name, nullptr, 0, outputs, 2, &count), AMP_ERROR_INVALID) << name;
        EXPECT_TRUE(!outputs[0] && !outputs[1] && count == 7) << name;
        amp_clear_error();
    }
}

TEST_F(CallOp, ListsOfIntegersAreChecked) {
    amp_dims long_list = AMP_DIMS(1, 1);
    long_list.count = 9;
    EXPECT_EQ(op("view", {a_, long_list}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"view", "'size'", "9", "8"}));
    long_list.count = -1;
    EXPECT_EQ(op("view", {a_, long_list}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"view", "'size'", "-1"}));
    EXPECT_EQ(op("conv2d", {a_, b_}, {{"stride", AMP_DIMS(1, 2, 3)}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"conv2d", "'stride'", "3", "expected 2, or one for all"}));
}

TEST_F(CallOp, ResultsBeyondTheCapacityAreReleased) {
    const size_t live = amp_memory_statistics().live_tensors;
    amp_tensor *base = tensor(AMP_F32, {3, 2}), *first[1] = {};
    amp_argument argument = {nullptr, Value(base).v};
    int count = 0;
    EXPECT_EQ(amp_call_op("unbind", &argument, 1, first, 1, &count), AMP_OK);
    EXPECT_EQ(count, 3);
    EXPECT_EQ(amp_memory_statistics().live_tensors, live + 2) << "the base and the first row";
    EXPECT_EQ(amp_call_op("unbind", &argument, 1, nullptr, 0, nullptr), AMP_OK);
    EXPECT_EQ(amp_call_op("clone", &argument, 1, nullptr, 0, &count), AMP_OK);
    EXPECT_EQ(count, 1);
    EXPECT_EQ(amp_memory_statistics().live_tensors, live + 2);
}

TEST_F(CallOp, EmptyAndIncompleteListsOfTensorsAreErrors) {
    EXPECT_EQ(op("cat", {std::vector<amp_tensor *>{}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"cat", "'tensors'", "empty"}));
    EXPECT_EQ(op("cat", {std::vector<amp_tensor *>{a_, nullptr}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"cat", "tensor 1", "'tensors'", "missing"}));
}

// Values without a mark of presence, as other languages may give them; tests/compile has what C says.
TEST_F(CallOp, BareNumbersAreRefused) {
    amp_leaky_relu_args slope{};
    slope.input = a_;
    slope.negative_slope.value = 0.5;
    EXPECT_EQ(amp_leaky_relu_call(&slope), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"leaky_relu", "'negative_slope'", "bare number", "AMP_SET"}));
    slope.negative_slope.set = 1; // a second number
    EXPECT_EQ(amp_leaky_relu_call(&slope), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"'negative_slope'"}));
    amp_mean_args mean{};
    mean.input = a_;
    mean.dim.values[0] = 1;
    EXPECT_EQ(amp_mean_call(&mean), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"mean", "'dim'", "bare number", "AMP_DIMS"}));
    amp_add_scalar_args add{};
    add.input = a_;
    add.other.re = 1;
    EXPECT_EQ(amp_add_scalar_call(&add), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"add", "'other'", "bare number", "amp_float"}));
}

TEST_F(CallOp, AnArgumentStructKnowsItsSizeInCxx) {
    const amp_add_args add{};
    EXPECT_EQ(add.struct_size, sizeof add);
    EXPECT_EQ(amp_autocast_args{}.struct_size, sizeof(amp_autocast_args));
}

TEST_F(CallOp, NoneIsAsIfAbsent) {
    EXPECT_NE(op("linear", {tensor(AMP_F32, {2, 3}), tensor(AMP_F32, {4, 3}), nullptr}), nullptr) << amp_last_error();
    EXPECT_EQ(numbers_of(op("add", {a_, b_}, {{"alpha", nullptr}})), (std::vector<double>{4, 6}));
}
