// Learning rates are those that PyTorch's schedulers were recorded with.
#include <functional>

#include "amp/scheduler.h"

#include "recorded.h"

using namespace amp_test;

namespace {

const std::map<std::string, amp_scheduler_kind> kinds = {
    {"StepLR", AMP_STEP_LR},
    {"MultiStepLR", AMP_MULTI_STEP_LR},
    {"ConstantLR", AMP_CONSTANT_LR},
    {"LinearLR", AMP_LINEAR_LR},
    {"ExponentialLR", AMP_EXPONENTIAL_LR},
    {"PolynomialLR", AMP_POLYNOMIAL_LR},
    {"CosineAnnealingLR", AMP_COSINE_ANNEALING_LR},
    {"CosineAnnealingWarmRestarts", AMP_COSINE_ANNEALING_WARM_RESTARTS},
    {"OneCycleLR", AMP_ONE_CYCLE_LR},
    {"LambdaLR", AMP_LAMBDA_LR}};

double poly(void *, int64_t s) {
    return std::pow(1 - double(std::min<int64_t>(s, 36)) / 36, 0.9);
}
double warmup_linear(void *, int64_t s) {
    return std::min(double(s + 1) / 4, 1.0) * std::max(0.0, 1 - double(s) / 50);
}
double warmup_cosine(void *, int64_t s) {
    return s < 8 ? double(s + 1) / 8 : (1 + std::cos(M_PI * double(s - 8) / 32)) / 2;
}
const std::map<std::string, amp_lr_function> functions = {
    {"poly", poly}, {"warmup-linear", warmup_linear}, {"warmup-cosine", warmup_cosine}};

amp_scheduler_args read_scheduler(const json_t *options) {
    amp_scheduler_args a = {};
    a.struct_size = sizeof a;
    const std::map<std::string, amp_opt_float *> floats = {{"gamma", &a.gamma},
                                                           {"factor", &a.factor},
                                                           {"start_factor", &a.start_factor},
                                                           {"end_factor", &a.end_factor},
                                                           {"power", &a.power},
                                                           {"eta_min", &a.eta_min},
                                                           {"max_lr", &a.max_lr},
                                                           {"pct_start", &a.pct_start},
                                                           {"div_factor", &a.div_factor},
                                                           {"final_div_factor", &a.final_div_factor}};
    const std::map<std::string, amp_opt_int *> wholes = {{"step_size", &a.step_size}, {"total_iters", &a.total_iters},
                                                         {"T_max", &a.t_max},         {"T_0", &a.t_0},
                                                         {"T_mult", &a.t_mult},       {"total_steps", &a.total_steps}};
    const char *name;
    json_t *value;
    json_object_foreach(const_cast<json_t *>(options), name, value) {
        if (floats.count(name)) *floats.at(name) = amp_opt_float(number_of(value));
        if (wholes.count(name)) *wholes.at(name) = amp_opt_int(json_integer_value(value));
        if (std::string(name) == "milestones") {
            a.milestones = AMP_DIMS();
            for (double m : list_of(value)) a.milestones.values[a.milestones.count++] = int64_t(m);
        }
        if (std::string(name) == "lr_lambda") a.function = functions.at(json_string_value(value));
        if (std::string(name) == "three_phase") a.three_phase = amp_opt_bool(json_is_true(value));
    }
    if (json_object_get(options, "epochs"))
        a.total_steps = amp_opt_int(integer(options, "epochs") * integer(options, "steps_per_epoch"));
    return a;
}

// An optimizer of a group for each learning rate.
amp_optimizer *optimizer_of(const std::vector<double> &rates) {
    amp_optimizer *o = nullptr;
    for (size_t i = 0; i < rates.size(); i++) {
        amp_parameters *list = amp_parameters_create();
        EXPECT_TRUE(amp_parameters_add(list, ("p" + std::to_string(i)).c_str(), tensor(AMP_F32, {1})));
        amp_optimizer_args args = options_of(nullptr);
        args.parameters = list;
        args.lr = amp_opt_float(rates[i]);
        if (o)
            EXPECT_EQ(amp_optimizer_add_group_call(o, &args), AMP_OK);
        else
            o = amp_optimizer_create(AMP_SGD, &args);
        amp_parameters_destroy(list);
    }
    return o;
}

class Schedulers : public Test {};

TEST_F(Schedulers, GiveTheRecordedRates) {
    Recorded file("schedulers");
    if (!file) GTEST_SKIP() << "neither AMP_GOLDEN_TRAIN nor AMP_GOLDEN names a folder of recorded training";
    int followed = 0;
    for (size_t c = 0; c < json_array_size(file.cases()); c++) {
        Scope scope;
        const json_t *json = json_array_get(file.cases(), c), *options = json_object_get(json, "options");
        const std::string kind = text(json, "scheduler"), name = text(json, "name");
        // A max_lr of each group, and schedulers of schedulers, are not there.
        if (!kinds.count(kind) || json_is_array(json_object_get(options, "max_lr"))) continue;
        amp_optimizer *o = optimizer_of(list_of(json_object_get(json, "initial_lr")));
        amp_scheduler_args args = read_scheduler(options);
        args.optimizer = o;
        amp_scheduler *s = amp_scheduler_create(kinds.at(kind), &args);
        ASSERT_TRUE(s) << name << ": " << amp_last_error();
        const json_t *sequence = json_object_get(json_object_get(json, "sequence"), "lr");
        for (size_t step = 0; step < json_array_size(sequence); step++) {
            const std::vector<double> want = list_of(json_array_get(sequence, step));
            for (size_t g = 0; g < want.size(); g++)
                EXPECT_NEAR(amp_optimizer_lr(o, int(g)), want[g], 1e-12 * std::fabs(want[g]) + 1e-18)
                    << name << " step " << step;
            EXPECT_EQ(amp_scheduler_step(s), AMP_OK) << name << ": " << amp_last_error();
        }
        followed++;
        amp_scheduler_destroy(s);
        amp_optimizer_destroy(o);
    }
    EXPECT_GT(followed, 0);
}

// ---- By what is seen ------------------------------------------------------------------------------------------------------
amp_plateau_args read_plateau(const json_t *options) {
    amp_plateau_args a = {};
    a.struct_size = sizeof a;
    a.maximize = text(options, "mode") == "max";
    a.absolute = text(options, "threshold_mode") == "abs";
    const std::map<std::string, amp_opt_float *> floats = {
        {"factor", &a.factor}, {"threshold", &a.threshold}, {"eps", &a.eps}};
    const std::map<std::string, amp_opt_int *> wholes = {{"patience", &a.patience}, {"cooldown", &a.cooldown}};
    const char *name;
    json_t *value;
    json_object_foreach(const_cast<json_t *>(options), name, value) {
        if (floats.count(name)) *floats.at(name) = amp_opt_float(number_of(value));
        if (wholes.count(name)) *wholes.at(name) = amp_opt_int(json_integer_value(value));
        if (std::string(name) != "min_lr") continue;
        a.min_lr.set = AMP_PRESENT;
        for (const double least : json_is_array(value) ? list_of(value) : std::vector<double>{number_of(value)})
            a.min_lr.values[a.min_lr.count++] = least;
    }
    return a;
}

TEST_F(Schedulers, APlateauGivesTheRecordedRates) {
    Recorded file("schedulers");
    if (!file) GTEST_SKIP() << "neither AMP_GOLDEN_TRAIN nor AMP_GOLDEN names a folder of recorded training";
    int followed = 0;
    for (size_t c = 0; c < json_array_size(file.cases()); c++) {
        Scope scope;
        const json_t *json = json_array_get(file.cases(), c);
        if (text(json, "scheduler") != "ReduceLROnPlateau") continue;
        amp_optimizer *o = optimizer_of(list_of(json_object_get(json, "initial_lr")));
        amp_plateau_args args = read_plateau(json_object_get(json, "options"));
        args.optimizer = o;
        amp_plateau *plateau = amp_plateau_create_call(&args);
        ASSERT_TRUE(plateau) << amp_last_error();
        const json_t *sequence = json_object_get(json_object_get(json, "sequence"), "lr");
        const std::vector<double> metrics = list_of(json_object_get(json, "metrics"));
        for (size_t step = 0; step < json_array_size(sequence); step++) {
            const std::vector<double> want = list_of(json_array_get(sequence, step));
            for (size_t g = 0; g < want.size(); g++)
                EXPECT_NEAR(amp_optimizer_lr(o, int(g)), want[g], 1e-12 * want[g]) << text(json, "name") << " " << step;
            if (step == metrics.size()) break;
            const amp_plateau_state state = amp_plateau_get_state(plateau); // as where a run is resumed
            amp_plateau_destroy(plateau);
            plateau = amp_plateau_create_call(&args);
            EXPECT_EQ(amp_plateau_set_state(plateau, state), AMP_OK);
            EXPECT_EQ(amp_plateau_step(plateau, metrics[step]), AMP_OK);
        }
        followed++;
        amp_plateau_destroy(plateau);
        amp_optimizer_destroy(o);
    }
    EXPECT_EQ(followed, 4);
}

TEST_F(Schedulers, APlateauRefusesWhatMakesNoSense) {
    amp_optimizer *o = optimizer_of({0.1, 0.2});
    amp_plateau_args args = {};
    args.struct_size = sizeof args;
    EXPECT_FALSE(amp_plateau_create_call(&args));
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"reduce_lr_on_plateau", "the optimizer is NULL"}));
    amp_clear_error();
    args.optimizer = o;
    args.factor = amp_opt_float(1);
    EXPECT_FALSE(amp_plateau_create_call(&args));
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"'factor' is 1", "below 1"}));
    amp_clear_error();
    args.factor = amp_opt_float(0.5);
    args.min_lr = {{0, 0, 0}, 3, AMP_PRESENT};
    EXPECT_FALSE(amp_plateau_create_call(&args));
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"'min_lr' has 3 numbers; expected 1 or 2"}));
    amp_clear_error();
    args.min_lr = {};
    amp_plateau *plateau = amp_plateau_create_call(&args);
    EXPECT_EQ(amp_plateau_step(plateau, NAN), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"the metric is NaN"}));
    amp_clear_error();
    amp_plateau_destroy(plateau);
    amp_optimizer_destroy(o);
}

amp_scheduler *make(amp_scheduler_kind kind, amp_optimizer *o, const std::function<void(amp_scheduler_args *)> &fill) {
    amp_scheduler_args args = {};
    args.struct_size = sizeof args;
    args.optimizer = o;
    fill(&args);
    return amp_scheduler_create(kind, &args);
}

TEST_F(Schedulers, AnyStepHasARateOrIsRefused) {
    amp_optimizer *o = optimizer_of({0.1});
    amp_scheduler *s = make(AMP_COSINE_ANNEALING_WARM_RESTARTS, o, [](amp_scheduler_args *a) {
        a->t_0 = amp_opt_int(1);
        a->t_mult = amp_opt_int(2);
    });
    ASSERT_TRUE(s) << amp_last_error();
    EXPECT_EQ(amp_scheduler_set_step(s, INT64_MAX - 1), AMP_OK) << amp_last_error();
    EXPECT_EQ(amp_scheduler_step(s), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"step is 9223372036854775807"}));
    amp_clear_error();
    EXPECT_EQ(amp_scheduler_set_step(s, -1), AMP_ERROR_INVALID);
    amp_clear_error();
    EXPECT_EQ(amp_scheduler_get_step(s), INT64_MAX - 1);
    amp_scheduler_destroy(s);
    amp_optimizer_destroy(o);
}

TEST_F(Schedulers, AllGroupsGetARateOrNone) {
    amp_optimizer *o = optimizer_of({1, 2});
    amp_scheduler *s = make(AMP_LAMBDA_LR, o, [](amp_scheduler_args *a) {
        a->function = [](void *, int64_t step) { return step == 1 ? NAN : double(step + 1); };
    });
    ASSERT_TRUE(s) << amp_last_error();
    EXPECT_EQ(amp_scheduler_step(s), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"lambda_lr", "at step 1 the rate of group 0 is"}));
    amp_clear_error();
    EXPECT_EQ(amp_optimizer_lr(o, 0), 1);
    EXPECT_EQ(amp_scheduler_set_step(s, 2), AMP_OK) << amp_last_error();
    // One that is added later starts from its own rate.
    amp_parameters *list = amp_parameters_create();
    amp_parameters_add(list, "late", tensor(AMP_F32, {2}));
    amp_optimizer_args args = {};
    args.struct_size = sizeof args;
    args.parameters = list;
    args.lr = amp_opt_float(10);
    ASSERT_EQ(amp_optimizer_add_group_call(o, &args), AMP_OK) << amp_last_error();
    EXPECT_EQ(amp_scheduler_step(s), AMP_OK) << amp_last_error();
    const double want[] = {4, 8, 40};
    for (int i = 0; i < 3; i++) EXPECT_EQ(amp_optimizer_lr(o, i), want[i]);
    amp_scheduler_destroy(s);
    amp_optimizer_destroy(o);
    amp_parameters_destroy(list);
}

TEST_F(Schedulers, APhaseOfNoLengthIsOver) {
    amp_optimizer *o = optimizer_of({0.1});
    const auto cycle = [o](double part) {
        return make(AMP_ONE_CYCLE_LR, o, [part](amp_scheduler_args *a) {
            a->max_lr = amp_opt_float(1);
            a->total_steps = amp_opt_int(10);
            a->pct_start = amp_opt_float(part);
        });
    };
    amp_scheduler *s = cycle(0.1);
    ASSERT_TRUE(s) << amp_last_error();
    EXPECT_EQ(amp_optimizer_lr(o, 0), 1);
    amp_scheduler_destroy(s);
    EXPECT_FALSE(cycle(5));
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"one_cycle_lr", "'pct_start' is 5", "0 to 1"}));
    amp_clear_error();
    amp_optimizer_destroy(o);
}

} // namespace
