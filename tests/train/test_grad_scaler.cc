// The scaler does what PyTorch's does, action by action.
#include "amp/grad_scaler.h"

#include "amp/grad.h"
#include "recorded.h"

using namespace amp_test;

namespace {

amp_optimizer_kind kind_of(const std::string &name) {
    const std::map<std::string, amp_optimizer_kind> kinds = {
        {"sgd", AMP_SGD}, {"adam", AMP_ADAM}, {"adamw", AMP_ADAMW}, {"adagrad", AMP_ADAGRAD}, {"rmsprop", AMP_RMSPROP}};
    return kinds.at(name);
}

// What the sentence of each recorded error has.
const std::map<std::string, const char *> sentences = {
    {"unscale_twice", "unscaled already"},
    {"unscale_after_step", "stepped already"},
    {"step_twice", "stepped already"},
    {"scale_not_initialized", "no loss was scaled yet"},
    {"no_inf_checks_for_optimizer", "none of this optimizer's parameters has a gradient"},
    {"no_inf_checks_before_update", "no gradients were unscaled"},
    {"f16_gradients", "f16 gradients are not unscaled"},
    {"empty_state_dict", "the state is empty"},
    {"growth_factor", "growth_factor is"},
    {"backoff_factor", "backoff_factor is"}};

class Script {
  public:
    explicit Script(const json_t *json) : json_(json) {
        const char *name;
        json_t *o;
        json_object_foreach(json_object_get(json, "optimizers"), name, o) optimizers_[name] = make(o);
        amp_grad_scaler_args args = {};
        args.struct_size = sizeof args;
        const json_t *given = json_object_get(json, "scaler");
        if (json_object_get(given, "init_scale")) args.init_scale = amp_opt_float(number(given, "init_scale"));
        if (json_object_get(given, "growth_factor")) args.growth_factor = amp_opt_float(number(given, "growth_factor"));
        if (json_object_get(given, "backoff_factor"))
            args.backoff_factor = amp_opt_float(number(given, "backoff_factor"));
        if (json_object_get(given, "growth_interval"))
            args.growth_interval = amp_opt_int(integer(given, "growth_interval"));
        if (json_object_get(given, "enabled"))
            args.enabled = amp_opt_bool(json_is_true(json_object_get(given, "enabled")));
        scaler_ = amp_grad_scaler_create_call(&args);
        expect_error(json);
    }
    ~Script() {
        amp_grad_scaler_destroy(scaler_);
        for (auto &[name, o] : optimizers_) amp_optimizer_destroy(o);
        for (auto &[name, t] : tensors_) amp_release(t);
    }
    Script(const Script &) = delete;
    Script &operator=(const Script &) = delete;

    void run() {
        json_t *action;
        size_t i;
        json_array_foreach(json_object_get(json_, "actions"), i, action) {
            Scope scope;
            SCOPED_TRACE(text(json_, "name") + ", action " + std::to_string(i) + ": " + text(action, "do"));
            act(action);
            expect_error(action);
            compare(action);
        }
    }

  private:
    amp_optimizer *make(const json_t *json) {
        amp_parameters *list = amp_parameters_create();
        const char *name;
        json_t *p;
        json_object_foreach(json_object_get(json, "params"), name, p) {
            const std::vector<double> values = list_of(json_object_get(p, "values"));
            tensors_[name] = amp_keep(tensor(dtype_of(p), {int64_t(values.size())}, values));
            EXPECT_TRUE(amp_parameters_add(list, name, tensors_[name])) << amp_last_error();
        }
        amp_optimizer_args args = options_of(json_object_get(json, "options"));
        args.parameters = list;
        amp_optimizer *made = amp_optimizer_create(kind_of(text(json, "optimizer")), &args);
        EXPECT_TRUE(made) << amp_last_error();
        amp_parameters_destroy(list);
        return made;
    }

    // An action that must fail has failed, and none else has.
    static void expect_error(const json_t *json) {
        const std::string sentence = amp_last_error(), error = text(json, "error");
        if (error.empty())
            EXPECT_EQ(sentence, "");
        else
            EXPECT_NE(sentence.find(sentences.at(error)), std::string::npos) << error << ": " << sentence;
        amp_clear_error();
    }

    void act(const json_t *a) {
        const std::string what = text(a, "do");
        amp_optimizer *o = optimizers_.count(text(a, "optimizer")) ? optimizers_.at(text(a, "optimizer")) : nullptr;
        const json_t *state = json_object_get(a, "state"), *stepped = json_object_get(a, "stepped");
        if (what == "scale") scale(a);
        if (what == "set_grads") set_grads(json_object_get(a, "grads"));
        if (what == "unscale_") (void)amp_grad_scaler_unscale(scaler_, o);
        if (what == "step") {
            const amp_step_result result = amp_grad_scaler_step(scaler_, o);
            if (stepped) {
                EXPECT_EQ(result, json_is_true(stepped) ? AMP_STEPPED : AMP_SKIPPED);
            }
        }
        if (what == "update" && json_object_get(a, "new_scale"))
            (void)amp_grad_scaler_update_to(scaler_, number(a, "new_scale"));
        else if (what == "update")
            (void)amp_grad_scaler_update(scaler_);
        if (what == "state_dict") compare_state(json_object_get(a, "result"));
        if (what == "load_state_dict") load(state);
        if (what.rfind("set_", 0) == 0 && what != "set_grads") set(what.substr(4), number(a, "value"));
        if (what == "zero_grad") {
            for (auto &[name, optimizer] : optimizers_) amp_optimizer_zero_grad(optimizer);
        }
    }

    void scale(const json_t *a) {
        const std::vector<double> values = list_of(json_object_get(a, "values"));
        const json_t *result = json_object_get(a, "result");
        const std::vector<double> want =
            json_is_array(result) ? list_of(result) : std::vector<double>{number_of(result)};
        for (size_t i = 0; i < values.size(); i++) {
            amp_tensor *scaled = amp_grad_scaler_scale(scaler_, tensor(AMP_F32, {}, {values[i]}));
            ASSERT_TRUE(scaled) << amp_last_error();
            EXPECT_EQ(amp_item(scaled), want[i]);
        }
    }

    void set_grads(const json_t *grads) {
        const char *name;
        json_t *values;
        json_object_foreach(const_cast<json_t *>(grads), name, values) {
            amp_tensor *t = tensors_.at(name);
            const std::vector<double> numbers = list_of(values);
            amp_tensor *g =
                json_is_null(values) ? nullptr : tensor(amp_tensor_dtype(t), {int64_t(numbers.size())}, numbers);
            EXPECT_EQ(amp_tensor_set_grad(t, g), AMP_OK);
        }
    }

    amp_grad_scaler_state state() const {
        amp_grad_scaler_state state = {};
        state.struct_size = sizeof state;
        EXPECT_EQ(amp_grad_scaler_get_state(scaler_, &state), AMP_OK);
        return state;
    }

    void set(const std::string &what, double value) {
        amp_grad_scaler_state s = state();
        (what == "growth_factor" ? s.growth_factor : what == "backoff_factor" ? s.backoff_factor : unused_) = value;
        if (what == "growth_interval") s.growth_interval = int64_t(value);
        EXPECT_EQ(amp_grad_scaler_set_state(scaler_, &s), AMP_OK) << amp_last_error();
    }

    void load(const json_t *json) {
        amp_grad_scaler_state s = {};
        s.struct_size = sizeof s;
        s.scale = number(json, "scale");
        s.growth_factor = number(json, "growth_factor");
        s.backoff_factor = number(json, "backoff_factor");
        s.growth_interval = integer(json, "growth_interval");
        s.growth_tracker = integer(json, "_growth_tracker");
        (void)amp_grad_scaler_set_state(scaler_, &s);
    }

    void compare_state(const json_t *want) const {
        const amp_grad_scaler_state s = state();
        EXPECT_EQ(s.scale, number(want, "scale"));
        EXPECT_EQ(s.growth_factor, number(want, "growth_factor"));
        EXPECT_EQ(s.backoff_factor, number(want, "backoff_factor"));
        EXPECT_EQ(s.growth_interval, integer(want, "growth_interval"));
        EXPECT_EQ(s.growth_tracker, integer(want, "_growth_tracker"));
    }

    void compare(const json_t *a) const {
        if (json_object_get(a, "scale")) {
            EXPECT_EQ(amp_grad_scaler_get_scale(scaler_), number(a, "scale"));
            EXPECT_EQ(state().growth_tracker, integer(a, "growth_tracker"));
        }
        compare_tensors(json_object_get(a, "params"), false);
        if (text(a, "do") == "unscale_") compare_tensors(json_object_get(a, "grads"), true);
    }

    void compare_tensors(const json_t *want, bool gradients) const {
        const char *name;
        json_t *values;
        json_object_foreach(const_cast<json_t *>(want), name, values) {
            amp_tensor *t = gradients ? amp_tensor_grad(tensors_.at(name)) : tensors_.at(name);
            ASSERT_EQ(t == nullptr, json_is_null(values)) << name;
            const std::vector<double> got = t ? numbers_of(t) : std::vector<double>{}, numbers = list_of(values);
            for (size_t i = 0; i < got.size(); i++) {
                if (std::isfinite(numbers[i]))
                    EXPECT_NEAR(got[i], numbers[i], 1e-6 * std::max(1.0, std::fabs(numbers[i]))) << name;
                else
                    EXPECT_EQ(std::isnan(got[i]) ? 0 : got[i], std::isnan(numbers[i]) ? 0 : numbers[i]) << name;
            }
        }
    }

    const json_t *json_;
    std::map<std::string, amp_tensor *> tensors_;
    std::map<std::string, amp_optimizer *> optimizers_;
    amp_grad_scaler *scaler_ = nullptr;
    double unused_ = 0;
};

class GradScaler : public Test {};

TEST_F(GradScaler, FollowsTheRecordedScripts) {
    Recorded file("grad_scaler");
    if (!file) GTEST_SKIP() << "neither AMP_GOLDEN_TRAIN nor AMP_GOLDEN names a folder of recorded training";
    for (size_t i = 0; i < json_array_size(file.cases()); i++) {
        Scope scope;
        Script(json_array_get(file.cases(), i)).run();
    }
}

TEST_F(GradScaler, OptionsWithoutTheirMarkAndNoDeviceAreRefused) {
    amp_grad_scaler_args args = {};
    args.struct_size = sizeof args;
    args.growth_interval = amp_opt_int(5, 0);
    EXPECT_FALSE(amp_grad_scaler_create_call(&args));
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"grad_scaler_create", "'growth_interval' is a bare value"}));
    amp_clear_error();
    args.growth_interval = {};
    args.device = amp_device(99);
    EXPECT_FALSE(amp_grad_scaler_create_call(&args));
    EXPECT_TRUE(failed_with(AMP_ERROR_DEVICE, {"grad_scaler_create", "device 99"}));
    amp_clear_error();
}

TEST_F(GradScaler, NamesTheParameterWhereTheScaleEnds) {
    amp_parameters *list = amp_parameters_create();
    amp_tensor *fine = amp_parameters_add(list, "fine", tensor(AMP_F32, {2}));
    amp_tensor *bad = amp_parameters_add(list, "layer.bad", tensor(AMP_F32, {2}));
    amp_optimizer_args options = options_of(nullptr);
    options.parameters = list;
    amp_optimizer *o = amp_optimizer_create(AMP_SGD, &options);
    amp_grad_scaler_args args = {};
    args.struct_size = sizeof args;
    args.init_scale = amp_opt_float(4);
    args.min_scale = amp_opt_float(2);
    amp_grad_scaler *s = amp_grad_scaler_create_call(&args);
    for (double want : {2.0, 0.0}) {
        ASSERT_TRUE(amp_grad_scaler_scale(s, tensor(AMP_F32, {})));
        amp_tensor_set_grad(fine, tensor(AMP_F32, {2}));
        amp_tensor_set_grad(bad, tensor(AMP_F32, {2}, {1, INFINITY}));
        EXPECT_EQ(amp_grad_scaler_step(s, o), AMP_SKIPPED);
        EXPECT_EQ(amp_grad_scaler_update(s), want > 0 ? AMP_OK : AMP_ERROR_INVALID);
        EXPECT_EQ(amp_grad_scaler_get_scale(s), 2);
    }
    EXPECT_NE(std::string(amp_last_error()).find("'layer.bad' is the first"), std::string::npos) << amp_last_error();
    amp_clear_error();
    amp_grad_scaler_destroy(s);
    amp_optimizer_destroy(o);
    amp_parameters_destroy(list);
}

} // namespace
