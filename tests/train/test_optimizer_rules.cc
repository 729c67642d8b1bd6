// What optimizers take and refuse; their state, there and back; parameters that lie otherwise in memory.
#include "amp/grad.h"
#include "ending_memory.h"
#include "recorded.h"

using namespace amp_test;

namespace {

class OptimizerRules : public Test {
  protected:
    // An optimizer of these tensors, named p0, p1, …
    static amp_optimizer *make(amp_optimizer_kind kind, const std::vector<amp_tensor *> &tensors,
                               amp_optimizer_args args = options_of(nullptr)) {
        amp_parameters *list = amp_parameters_create();
        for (size_t i = 0; i < tensors.size(); i++)
            EXPECT_TRUE(amp_parameters_add(list, ("p" + std::to_string(i)).c_str(), tensors[i])) << amp_last_error();
        args.parameters = list;
        amp_optimizer *o = amp_optimizer_create(kind, &args);
        amp_parameters_destroy(list);
        return o;
    }
    static std::string error() {
        const std::string sentence = amp_last_error();
        amp_clear_error();
        return sentence;
    }
    static void steps(amp_optimizer *o, amp_tensor *t, int count, uint64_t seed) {
        const Shape shape(amp_tensor_shape(t), amp_tensor_shape(t) + amp_tensor_rank(t));
        for (int i = 0; i < count; i++) {
            ASSERT_EQ(amp_tensor_set_grad(t, random_tensor(amp_tensor_dtype(t), shape, seed + uint64_t(i))), AMP_OK);
            ASSERT_EQ(amp_optimizer_step(o), AMP_OK) << amp_last_error();
        }
    }
};

TEST_F(OptimizerRules, AnOptionThatTheAlgorithmLacksIsAnError) {
    amp_optimizer_args args = options_of(nullptr);
    args.momentum = amp_opt_float(0.9);
    EXPECT_FALSE(make(AMP_ADAM, {tensor(AMP_F32, {2})}, args));
    EXPECT_NE(error().find("Adam has no option 'momentum'"), std::string::npos);
    args = options_of(nullptr);
    args.beta1 = amp_opt_float(1);
    EXPECT_FALSE(make(AMP_ADAM, {tensor(AMP_F32, {2})}, args));
    EXPECT_EQ(error(), "optimizer_create: beta1 is 1; expected a number from 0 up to but without 1");
    args = options_of(nullptr);
    args.nesterov = amp_opt_bool(true);
    EXPECT_FALSE(make(AMP_SGD, {tensor(AMP_F32, {2})}, args));
    EXPECT_NE(error().find("nesterov with momentum 0"), std::string::npos);
    args = options_of(nullptr);
    args.lr = amp_opt_float(0.5, 0); // as a bare number
    EXPECT_FALSE(make(AMP_SGD, {tensor(AMP_F32, {2})}, args));
    EXPECT_EQ(error(), "optimizer_create: 'lr' is a bare value; write AMP_SET(value)");
    EXPECT_FALSE(make(AMP_SGD, {}));
    EXPECT_EQ(error(), "optimizer_create: the list of parameters is empty");
}

TEST_F(OptimizerRules, GroupsAndOptionsByName) {
    amp_optimizer *o = make(AMP_SGD, {tensor(AMP_F32, {2})});
    ASSERT_TRUE(o) << amp_last_error();
    EXPECT_EQ(amp_optimizer_lr(o, 0), 1e-3);
    EXPECT_EQ(amp_optimizer_set(o, -1, "momentum", 0.5), AMP_OK);
    EXPECT_EQ(amp_optimizer_get(o, 0, "momentum"), 0.5);
    EXPECT_EQ(amp_optimizer_set(o, 1, "lr", 0.5), AMP_ERROR_INVALID);
    EXPECT_EQ(error(), "optimizer_set: there is no group 1; there are 1");
    EXPECT_EQ(amp_optimizer_set(o, 0, "eps", 0.5), AMP_ERROR_INVALID);
    EXPECT_NE(error().find("SGD has no option 'eps'"), std::string::npos);
    EXPECT_EQ(amp_optimizer_set(o, 0, "nesterov", NAN), AMP_ERROR_INVALID);
    EXPECT_NE(error().find("nesterov is nan"), std::string::npos);
    EXPECT_EQ(amp_optimizer_set(o, 0, "nesterov", 1), AMP_OK);
    EXPECT_EQ(amp_optimizer_set(o, -1, "momentum", 0), AMP_ERROR_INVALID);
    EXPECT_NE(error().find("nesterov with momentum 0"), std::string::npos);
    EXPECT_EQ(amp_optimizer_get(o, 0, "momentum"), 0.5);
    // A parameter is in one group only, and a failure adds nothing.
    amp_parameters *list = amp_parameters_create();
    amp_parameters_add(list, "new", tensor(AMP_F32, {2}));
    amp_parameters_add(list, "p9", amp_optimizer_parameter(o, 0));
    amp_optimizer_args args = options_of(nullptr);
    args.parameters = list;
    EXPECT_EQ(amp_optimizer_add_group_call(o, &args), AMP_ERROR_INVALID);
    EXPECT_EQ(error(), "optimizer_add_group: parameter 'p9' is in group 0 already");
    EXPECT_EQ(amp_optimizer_parameter_count(o), 1);
    EXPECT_EQ(amp_optimizer_group_count(o), 1);
    amp_parameters_destroy(list);
    amp_optimizer_destroy(o);
}

TEST_F(OptimizerRules, AStateTakenElsewhereGoesOnWithTheSameBits) {
    for (amp_optimizer_kind kind : {AMP_SGD, AMP_ADAMW, AMP_NADAM, AMP_ADAGRAD}) {
        amp_tensor *a = random_tensor(AMP_BF16, {5, 3}, 1), *b = random_tensor(AMP_BF16, {5, 3}, 1);
        amp_optimizer_args args = options_of(nullptr);
        args.master_weights = true;
        if (kind == AMP_SGD) args.momentum = amp_opt_float(0.9);
        amp_optimizer *first = make(kind, {a, tensor(AMP_F32, {1})}, args);
        amp_optimizer *second = make(kind, {b, tensor(AMP_F32, {1})}, args);
        steps(first, a, 3, 10);
        const amp_state state = amp_optimizer_state(first);
        ASSERT_EQ(amp_optimizer_load_state(second, state.names, state.tensors, state.count), AMP_OK)
            << amp_last_error();
        op("copy_", {op("detach", {b}), op("detach", {a})});
        steps(first, a, 2, 20);
        steps(second, b, 2, 20);
        EXPECT_EQ(numbers_of(a), numbers_of(b));
        EXPECT_EQ(numbers_of(amp_optimizer_master(first, 0)), numbers_of(amp_optimizer_master(second, 0)));
        // One tensor less, and one that is nobody's.
        EXPECT_EQ(amp_optimizer_load_state(second, state.names + 1, state.tensors + 1, state.count - 1),
                  AMP_ERROR_INVALID);
        EXPECT_EQ(error(), "optimizer_load_state: there is no 'group0.lr'");
        std::vector<const char *> names(state.names, state.names + state.count);
        std::vector<amp_tensor *> tensors(state.tensors, state.tensors + state.count);
        names.push_back("p7.exp_avg");
        tensors.push_back(a);
        EXPECT_EQ(amp_optimizer_load_state(second, names.data(), tensors.data(), int64_t(names.size())),
                  AMP_ERROR_INVALID);
        EXPECT_NE(error().find("has no 'p7.exp_avg'"), std::string::npos);
        amp_state_free(state);
        amp_optimizer_destroy(first);
        amp_optimizer_destroy(second);
    }
}

// A state is shared with its optimizer: what is loaded may lie in what is written.
TEST_F(OptimizerRules, AStateMayBeMadeOfTheStatesThatItIsLoadedInto) {
    amp_tensor *a = random_tensor(AMP_F32, {3, 3}, 1), *b = random_tensor(AMP_F32, {3, 3}, 2);
    amp_optimizer_args args = options_of(nullptr);
    args.momentum = amp_opt_float(0.9);
    amp_optimizer *o = make(AMP_SGD, {a, b}, args);
    steps(o, a, 1, 10);
    steps(o, b, 1, 20);
    const amp_state state = amp_optimizer_state(o);
    std::vector<amp_tensor *> tensors(state.tensors, state.tensors + state.count);
    std::vector<size_t> at;
    for (size_t i = 0; i < tensors.size(); i++)
        if (std::string(state.names[i]).find("momentum_buffer") != std::string::npos) at.push_back(i);
    ASSERT_EQ(at.size(), 2u);
    amp_tensor *first = tensors[at[0]], *second = tensors[at[1]];
    const std::vector<double> want_of_a = numbers_of(second), want_of_b = numbers_of(op("t", {first}));
    tensors[at[0]] = second;
    tensors[at[1]] = op("t", {first});
    ASSERT_EQ(amp_optimizer_load_state(o, state.names, tensors.data(), state.count), AMP_OK) << amp_last_error();
    EXPECT_EQ(numbers_of(first), want_of_a);
    EXPECT_EQ(numbers_of(second), want_of_b);
    tensors[at[0]] = op("t", {first}); // of itself
    ASSERT_EQ(amp_optimizer_load_state(o, state.names, tensors.data(), state.count), AMP_OK) << amp_last_error();
    EXPECT_EQ(numbers_of(op("t", {first})), want_of_a);
    amp_state_free(state);
    amp_optimizer_destroy(o);
}

TEST_F(OptimizerRules, AStateHasTheNumbersThatOptionsMayHave) {
    amp_optimizer *o = make(AMP_SGD, {tensor(AMP_F32, {2})});
    const amp_state state = amp_optimizer_state(o);
    for (int64_t i = 0; i < state.count; i++)
        if (std::string(state.names[i]) == "group0.lr") (void)op("fill_", {state.tensors[i], NAN});
    EXPECT_EQ(amp_optimizer_load_state(o, state.names, state.tensors, state.count), AMP_ERROR_INVALID);
    EXPECT_NE(error().find("lr is nan"), std::string::npos);
    EXPECT_EQ(amp_optimizer_lr(o, 0), 1e-3);
    amp_state_free(state);
    amp_optimizer_destroy(o);
}

TEST_F(OptimizerRules, ParametersMayLieAnyWayInMemory) {
    for (amp_dtype dtype : {AMP_F32, AMP_F64, AMP_BF16}) {
        amp_tensor *dense = random_tensor(dtype, {2, 3, 4, 5}, 1);
        amp_tensor *last = amp_channels_last(random_tensor(dtype, {2, 3, 4, 5}, 1));
        amp_tensor *wide = op("zeros", {AMP_DIMS(2, 3, 4, 9)}, {{"dtype", dtype}});
        amp_tensor *slice = op("slice", {wide, 3, 1, 6, 1});
        op("copy_", {slice, dense});
        amp_optimizer *o[] = {make(AMP_ADAM, {dense}), make(AMP_ADAM, {last}), make(AMP_ADAM, {slice})};
        steps(o[0], dense, 3, 5);
        steps(o[1], last, 3, 5);
        steps(o[2], slice, 3, 5);
        EXPECT_EQ(numbers_of(dense), numbers_of(last));
        EXPECT_EQ(numbers_of(dense), numbers_of(slice));
        for (amp_optimizer *each : o) amp_optimizer_destroy(each);
    }
}

TEST_F(OptimizerRules, BitsDoNotHangOnThreads) {
    std::vector<std::vector<double>> results;
    const int before = amp_get_num_threads();
    for (int threads : {1, 3}) {
        amp_set_num_threads(threads);
        amp_tensor *t = random_tensor(AMP_F32, {100003}, 1);
        amp_optimizer *o = make(AMP_ADAMW, {t});
        steps(o, t, 2, 5);
        results.push_back(numbers_of(t));
        amp_optimizer_destroy(o);
    }
    amp_set_num_threads(before);
    EXPECT_EQ(results[0], results[1]);
}

// Parameters of every kind: without elements, of several types, with gaps, of other orders, long ones, and one without a gradient.
std::vector<amp_tensor *> motley() {
    amp_tensor *wide = op("zeros", {AMP_DIMS(7, 90)}), *slice = op("slice", {wide, 1, 3, 80, 1});
    op("copy_", {slice, random_tensor(AMP_F32, {7, 77}, 2)});
    return {random_tensor(AMP_F32, {3}, 1),
            slice,
            random_tensor(AMP_F32, {0, 5}, 3),
            random_tensor(AMP_BF16, {50021}, 4),
            amp_channels_last(random_tensor(AMP_F32, {2, 3, 4, 5}, 5)),
            random_tensor(AMP_F64, {100, 3}, 6),
            random_tensor(AMP_F16, {65}, 7),
            random_tensor(AMP_F32, {130001}, 8),
            random_tensor(AMP_F32, {4}, 9)};
}

void give_gradients(const std::vector<amp_tensor *> &tensors, uint64_t seed) {
    for (size_t i = 0; i + 1 < tensors.size(); i++) {
        const amp_tensor *t = tensors[i];
        const Shape shape(amp_tensor_shape(t), amp_tensor_shape(t) + amp_tensor_rank(t));
        ASSERT_EQ(amp_tensor_set_grad(tensors[i], random_tensor(amp_tensor_dtype(t), shape, seed + i)), AMP_OK);
    }
}

struct Kind {
    amp_optimizer_kind kind;
    amp_optimizer_args args;
};

// Every algorithm, and the options that have states of their own.
std::vector<Kind> every_kind() {
    std::vector<Kind> kinds;
    for (int kind = AMP_SGD; kind <= AMP_ADAMAX; kind++)
        kinds.push_back({amp_optimizer_kind(kind), options_of(nullptr)});
    for (amp_optimizer_kind kind : {AMP_SGD, AMP_RMSPROP, AMP_ADAM, AMP_ADAMW}) {
        amp_optimizer_args args = options_of(nullptr);
        if (kind == AMP_SGD || kind == AMP_RMSPROP) args.momentum = amp_opt_float(0.9);
        if (kind == AMP_SGD) args.dampening = amp_opt_float(0.25);
        if (kind == AMP_RMSPROP) args.centered = amp_opt_bool(true);
        if (kind == AMP_ADAM) args.amsgrad = amp_opt_bool(true);
        if (kind == AMP_ADAMW) args.master_weights = true;
        kinds.push_back({kind, args});
    }
    return kinds;
}

TEST_F(OptimizerRules, AListIsUpdatedAsItsParametersAloneByAnyNumberOfThreads) {
    const int before = amp_get_num_threads();
    for (const Kind &k : every_kind()) {
        SCOPED_TRACE(int(k.kind));
        const Scope scope;
        const std::vector<amp_tensor *> apart = motley();
        std::vector<amp_optimizer *> alone;
        for (amp_tensor *t : apart) alone.push_back(make(k.kind, {t}, k.args));
        for (uint64_t step = 0; step < 3; step++) {
            give_gradients(apart, 10 * step);
            for (amp_optimizer *o : alone) ASSERT_EQ(amp_optimizer_step(o), AMP_OK) << amp_last_error();
        }
        for (amp_optimizer *o : alone) amp_optimizer_destroy(o);
        for (int threads : {1, 2, 5}) {
            amp_set_num_threads(threads);
            const std::vector<amp_tensor *> together = motley();
            const uint64_t version = amp_tensor_version(together[0]);
            amp_optimizer *o = make(k.kind, together, k.args);
            for (uint64_t step = 0; step < 3; step++) {
                give_gradients(together, 10 * step);
                ASSERT_EQ(amp_optimizer_step(o), AMP_OK) << amp_last_error();
            }
            for (size_t i = 0; i < apart.size(); i++) EXPECT_EQ(numbers_of(together[i]), numbers_of(apart[i])) << i;
            EXPECT_GT(amp_tensor_version(together[0]), version);
            amp_optimizer_destroy(o);
        }
        amp_set_num_threads(before);
    }
}

TEST_F(OptimizerRules, ParametersAtDifferentStepsAreEachAtTheirOwn) {
    amp_tensor *late = random_tensor(AMP_F32, {33}, 1), *early = random_tensor(AMP_F32, {33}, 2);
    amp_tensor *late_alone = op("clone", {late}), *early_alone = op("clone", {early});
    amp_optimizer *both = make(AMP_NADAM, {late, early}), *first = make(AMP_NADAM, {late_alone});
    amp_optimizer *second = make(AMP_NADAM, {early_alone});
    steps(both, early, 3, 5);
    steps(second, early_alone, 3, 5);
    for (uint64_t i = 0; i < 2; i++) { // gradients of both
        for (amp_tensor *t : {late, late_alone, early, early_alone})
            ASSERT_EQ(amp_tensor_set_grad(t, random_tensor(AMP_F32, {33}, 20 + i)), AMP_OK);
        for (amp_optimizer *o : {both, first, second}) ASSERT_EQ(amp_optimizer_step(o), AMP_OK) << amp_last_error();
    }
    EXPECT_EQ(numbers_of(late), numbers_of(late_alone));
    EXPECT_EQ(numbers_of(early), numbers_of(early_alone));
    for (amp_optimizer *o : {both, first, second}) amp_optimizer_destroy(o);
}

// Calls are gathered over the whole list: of several steps, mixed, with and without masters.
TEST_F(OptimizerRules, MixedParametersAreUpdatedAsAlone) {
    std::vector<amp_tensor *> together, alone;
    for (uint64_t i = 0; i < 17; i++) {
        together.push_back(random_tensor(i % 3 == 1 ? AMP_BF16 : AMP_F32, {5}, i));
        alone.push_back(op("clone", {together[i]}));
    }
    amp_optimizer_args args = options_of(nullptr);
    args.master_weights = true;
    amp_optimizer *all = make(AMP_ADAMW, together, args);
    std::vector<amp_optimizer *> each;
    each.reserve(alone.size());
    for (amp_tensor *t : alone) each.push_back(make(AMP_ADAMW, {t}, args));
    for (uint64_t step = 0; step < 6; step++) {
        for (size_t i = 0; i < together.size(); i++) {
            const bool has_gradient = i * 7 % 5 <= step; // from different steps on
            amp_tensor *g = has_gradient ? random_tensor(amp_tensor_dtype(alone[i]), {5}, 100 * step + i) : nullptr;
            for (amp_tensor *t : {together[i], alone[i]}) ASSERT_EQ(amp_tensor_set_grad(t, g), AMP_OK);
            ASSERT_EQ(amp_optimizer_step(each[i]), AMP_OK) << amp_last_error();
        }
        ASSERT_EQ(amp_optimizer_step(all), AMP_OK) << amp_last_error();
        for (size_t i = 0; i < together.size(); i++) EXPECT_EQ(numbers_of(together[i]), numbers_of(alone[i])) << i;
    }
    for (amp_optimizer *o : each) amp_optimizer_destroy(o);
    amp_optimizer_destroy(all);
}

TEST_F(OptimizerRules, ParametersThatShareMemoryAreUpdatedOneAfterTheOther) {
    std::vector<std::vector<double>> results;
    const int before = amp_get_num_threads();
    for (int threads : {1, 4}) {
        amp_set_num_threads(threads);
        amp_tensor *all = random_tensor(AMP_F32, {200000}, 1);
        amp_tensor *low = op("slice", {all, 0, 0, 150000, 1}), *high = op("slice", {all, 0, 50000, 200000, 1});
        amp_optimizer *o = make(AMP_ADAMW, {low, high});
        for (uint64_t i = 0; i < 2; i++) {
            ASSERT_EQ(amp_tensor_set_grad(low, random_tensor(AMP_F32, {150000}, 2 + i)), AMP_OK);
            ASSERT_EQ(amp_tensor_set_grad(high, random_tensor(AMP_F32, {150000}, 9 + i)), AMP_OK);
            ASSERT_EQ(amp_optimizer_step(o), AMP_OK) << amp_last_error();
        }
        results.push_back(numbers_of(all));
        amp_optimizer_destroy(o);
    }
    amp_set_num_threads(before);
    EXPECT_EQ(results[0], results[1]);
}

TEST_F(OptimizerRules, AnUpdateTakesGradientsOfAnyFloatingTypeAndRefusesWhatDoesNotFit) {
    const auto update = [](const std::vector<amp_tensor *> &input, const std::vector<amp_tensor *> &grad,
                           const std::vector<amp_tensor *> &copy) {
        amp_optimizer_update_args args = {};
        args.struct_size = sizeof args;
        args.input = {input.data(), int64_t(input.size()), nullptr};
        args.grad = {grad.data(), int64_t(grad.size()), nullptr};
        args.algorithm = "sgd";
        args.numbers = AMP_FLOATS(1, 0, 0.5, 0, 1, 0, 0);
        args.copy = {copy.data(), int64_t(copy.size()), nullptr};
        return amp_optimizer_update_call(&args) ? AMP_OK : amp_last_status();
    };
    amp_tensor *a = tensor(AMP_F32, {2}, {1, 2}), *b = tensor(AMP_F64, {1}, {3}), *c = tensor(AMP_BF16, {1}, {0});
    amp_tensor *half = tensor(AMP_BF16, {2}, {2, 4}), *single = tensor(AMP_F32, {1}, {2}), *d = tensor(AMP_F32, {2});
    EXPECT_EQ(update({a, b}, {half, single}, {d, c}), AMP_OK) << amp_last_error();
    EXPECT_EQ(numbers_of(a), (std::vector<double>{0, 0}));
    EXPECT_EQ(numbers_of(b), (std::vector<double>{2}));
    EXPECT_EQ(numbers_of(c), (std::vector<double>{2}));
    EXPECT_EQ(update({a, b}, {half}, {}), AMP_ERROR_INVALID);
    EXPECT_EQ(error(), "optimizer_update: 'input' has 2 tensors, 'grad' 1, 'copy' 0; expected as many");
    EXPECT_EQ(update({a, b}, {half, half}, {}), AMP_ERROR_INVALID);
    EXPECT_NE(error().find("'grad' is [2] bf16, 'input' [1] f64; expected one shape"), std::string::npos);
    EXPECT_EQ(update({}, {half}, {}), AMP_ERROR_INVALID);
    EXPECT_EQ(error(), "optimizer_update: the argument 'input' is an empty list of tensors");
    EXPECT_EQ(update({a, b}, {half, tensor(AMP_I32, {1})}, {}), AMP_ERROR_DTYPE);
    EXPECT_NE(error().find("expected a floating dtype"), std::string::npos);
    EXPECT_EQ(numbers_of(b), (std::vector<double>{2}));
}

// The first step makes states: what a failure leaves of them must not pass for those of a step.
TEST_F(OptimizerRules, WithoutMemoryAStepLeavesAllAsItWas) {
    amp_optimizer_args args = options_of(nullptr);
    args.momentum = amp_opt_float(0.9);
    args.dampening = amp_opt_float(0.5);
    const auto make_all = [] {
        std::vector<amp_tensor *> all = motley();
        give_gradients(all, 40);
        return all;
    };
    const std::vector<amp_tensor *> want = make_all();
    amp_optimizer *o = make(AMP_SGD, want, args);
    ASSERT_EQ(amp_optimizer_step(o), AMP_OK);
    amp_optimizer_destroy(o);
    const std::vector<amp_tensor *> before = motley(), got = make_all();
    o = make(AMP_SGD, got, args);
    {
        EndingMemory memory;
        bool is_done = false; // perhaps without all that it asked for
        memory.until_it_works([&] { is_done = is_done || amp_optimizer_step(o) == AMP_OK; },
                              [&] {
                                  for (size_t i = 0; i < got.size(); i++)
                                      ASSERT_EQ(numbers_of(got[i]), numbers_of(before[i])) << i;
                              });
        for (size_t i = 0; i < got.size(); i++) EXPECT_EQ(numbers_of(got[i]), numbers_of(want[i])) << i;
        amp_optimizer_destroy(o);
    }
}

} // namespace
