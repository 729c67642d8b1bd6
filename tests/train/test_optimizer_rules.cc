// What optimizers take and refuse; their state, there and back; parameters that lie otherwise in memory.
#include "amp/grad.h"
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

} // namespace
