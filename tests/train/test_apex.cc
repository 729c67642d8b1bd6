// amp_initialize, amp_scale_loss and the handle do what apex.amp does.
#include <functional>

#include "amp/apex.h"
#include "amp/grad.h"
#include "amp/grad_scaler.h"
#include "ending_memory.h"
#include "recorded.h"
#include "train/loss_scaler.h"

using namespace amp_test;

namespace {

template <class Args>
Args args_of() {
    Args args = {};
    args.struct_size = sizeof args;
    return args;
}

std::string error() {
    const std::string sentence = amp_last_error();
    amp_clear_error();
    return sentence;
}

// ---- The scale -----------------------------------------------------------------------------------------------------------
TEST(ApexScaler, GoesAsRecorded) {
    const Recorded recorded("apex_scaler");
    if (!recorded) GTEST_SKIP() << "neither AMP_GOLDEN_TRAIN nor AMP_GOLDEN names a folder of recorded scalers";
    for (size_t i = 0; i < json_array_size(recorded.cases()); i++) {
        const json_t *json = json_array_get(recorded.cases(), i), *options = json_object_get(json, "loss_scaler");
        const auto given = [&](const char *name, double otherwise) {
            return json_object_get(options, name) ? number(options, name) : otherwise;
        };
        const bool is_dynamic = text(options, "loss_scale") == "dynamic";
        amp_loss_scaler s = is_dynamic
                                ? amp_loss_scaler_dynamic(given("min_loss_scale", 0), given("max_loss_scale", 0x1p24))
                                : amp_loss_scaler_static(number(options, "loss_scale"));
        if (json_object_get(options, "scale_window")) s.window = integer(options, "scale_window");
        const json_t *after = json_object_get(json, "after_update");
        const std::vector<double> scales = list_of(json_object_get(after, "loss_scale")),
                                  unskipped = list_of(json_object_get(after, "unskipped")),
                                  skipped = list_of(json_object_get(after, "skipped"));
        const std::string overflow = text(json, "overflow");
        ASSERT_EQ(overflow.size(), scales.size());
        for (size_t k = 0; k < overflow.size(); k++) {
            s.has_overflowed = overflow[k] == 'i';
            ASSERT_EQ(amp_loss_scaler_update(&s), skipped[k] != 0) << text(json, "name") << " step " << k;
            ASSERT_EQ(s.scale, scales[k]) << text(json, "name") << " step " << k;
            ASSERT_EQ(double(s.unskipped), unskipped[k]) << text(json, "name") << " step " << k;
        }
    }
}

amp_apex *handle_of(bool enabled = true, bool caches = true) {
    amp_init_args args = args_of<amp_init_args>();
    args.enabled = amp_opt_bool(enabled);
    args.enable_caching = amp_opt_bool(caches);
    return amp_init_call(&args);
}

// ---- Levels ---------------------------------------------------------------------------------------------------------------
// A model of a weight, and of a batch norm's weight.
class Model {
  public:
    Model(uint64_t seed = 1, amp_optimizer_kind kind = AMP_SGD, double lr = 0.5) : list(amp_parameters_create()) {
        weight = amp_parameters_add(list, "fc.weight", random_tensor(AMP_F32, {3, 4}, seed));
        norm = amp_parameters_add(list, "layer.bn1.weight", random_tensor(AMP_F32, {4}, seed + 1));
        amp_optimizer_args args = args_of<amp_optimizer_args>();
        args.parameters = list;
        args.lr = amp_opt_float(lr);
        if (kind == AMP_SGD) args.momentum = amp_opt_float(0.5);
        optimizer = amp_optimizer_create(kind, &args);
    }
    ~Model() {
        amp_optimizer_destroy(optimizer);
        amp_parameters_destroy(list);
    }
    Model(const Model &) = delete;
    Model &operator=(const Model &) = delete;

    // Σ (w · x · n), whose gradients are plain numbers: linear in w and in n.
    amp_tensor *loss(amp_tensor *x) const {
        amp_tensor *rows = op("mul", {x, op("to", {norm, amp_tensor_dtype(x)})});
        return op("mean", {op("linear", {rows, op("to", {weight, amp_tensor_dtype(x)})})});
    }

    amp_parameters *list;
    amp_tensor *weight, *norm;
    amp_optimizer *optimizer;
};

class Apex : public Test {
  protected:
    static amp_apex *initialize(const std::vector<const Model *> &models, amp_initialize_args args) {
        std::vector<amp_parameters *> lists;
        std::vector<amp_optimizer *> optimizers;
        for (const Model *m : models) lists.push_back(m->list), optimizers.push_back(m->optimizer);
        args.models = {lists.data(), int64_t(lists.size())};
        args.optimizers = {optimizers.data(), int64_t(optimizers.size())};
        return amp_initialize_call(&args);
    }
    static amp_initialize_args level(const char *name) {
        amp_initialize_args args = args_of<amp_initialize_args>();
        args.opt_level = name;
        return args;
    }
    static void scale(amp_tensor *loss, amp_optimizer *optimizer, const std::function<void(amp_tensor *)> &body,
                      int loss_id = 0, bool delay = false) {
        amp_scale_loss_args args = args_of<amp_scale_loss_args>();
        args.loss = loss;
        args.optimizer = optimizer;
        args.loss_id = amp_opt_int(loss_id);
        args.delay_unscale = delay;
        amp_scaled_loss scaled = amp_scale_loss_open(&args);
        body(scaled.loss);
        amp_scale_loss_close(&scaled);
    }
    static void backward(amp_tensor *loss) {
        amp_backward_args args = args_of<amp_backward_args>();
        args.loss = loss;
        amp_backward_call(&args);
    }
    // The sentence of an initialization that is refused; the model is as it was.
    static std::string refused(amp_initialize_args args) {
        const Model model;
        const std::vector<double> before = numbers_of(model.weight);
        amp_apex *apex = initialize({&model}, args);
        EXPECT_FALSE(apex);
        amp_apex_destroy(apex);
        const std::string sentence = error();
        EXPECT_EQ(amp_tensor_dtype(model.weight), AMP_F32);
        EXPECT_EQ(numbers_of(model.weight), before);
        EXPECT_EQ(amp_optimizer_master(model.optimizer, 0), model.weight);
        return sentence;
    }
};

TEST_F(Apex, LevelsCastWhatTheyCast) {
    struct Row {
        const char *level;
        amp_dtype weight, norm, master, output;
        bool patches;
    };
    const Row rows[] = {{"O0", AMP_F32, AMP_F32, AMP_F32, AMP_F32, false},
                        {"O1", AMP_F32, AMP_F32, AMP_F32, AMP_BF16, true},
                        {"O2", AMP_BF16, AMP_F32, AMP_F32, AMP_F32, false},
                        {"O3", AMP_BF16, AMP_BF16, AMP_BF16, AMP_F32, false}};
    for (const Row &row : rows) {
        const Model model;
        const std::vector<double> rounded = numbers_of(op("to", {op("to", {model.weight, AMP_BF16}), AMP_F32}));
        amp_tensor *const same = model.weight;
        amp_apex *apex = initialize({&model}, level(row.level));
        ASSERT_TRUE(apex) << amp_last_error();
        EXPECT_EQ(amp_parameters_find(model.list, "fc.weight"), same);
        EXPECT_EQ(amp_tensor_dtype(model.weight), row.weight) << row.level;
        EXPECT_EQ(amp_tensor_dtype(model.norm), row.norm) << row.level;
        amp_tensor *master = amp_optimizer_master(model.optimizer, 0);
        EXPECT_EQ(amp_tensor_dtype(master), row.master) << row.level;
        if (row.weight == AMP_BF16) {
            EXPECT_EQ(numbers_of(master), rounded) << "masters begin with the rounded weights";
        }
        EXPECT_EQ(amp_tensor_dtype(amp_model_output(apex, tensor(AMP_BF16, {2}))), row.output) << row.level;
        amp_region region = amp_model_region_open(apex);
        EXPECT_EQ(amp_autocast_is_enabled(AMP_DEVICE_CPU), row.patches) << row.level;
        amp_autocast_close(&region);
        EXPECT_EQ(std::string(amp_apex_describe(apex)).substr(0, 3), std::string(row.level) + ":");
        amp_apex_destroy(apex);
    }
}

TEST_F(Apex, InputsAndOutputs) {
    const Model model;
    amp_apex *apex = initialize({&model}, level("O2"));
    amp_tensor *x = tensor(AMP_F32, {2}), *i = tensor(AMP_I64, {2}), *none = nullptr;
    amp_tensor **const inputs[] = {&x, &i, &none};
    ASSERT_EQ(amp_model_inputs_call(apex, inputs, 3), AMP_OK);
    EXPECT_EQ(amp_tensor_dtype(x), AMP_BF16);
    EXPECT_EQ(amp_tensor_dtype(i), AMP_I64);
    EXPECT_EQ(none, nullptr);
    EXPECT_EQ(amp_tensor_dtype(amp_model_output(apex, i)), AMP_I64);
    EXPECT_EQ(amp_model_output(nullptr, x), nullptr);
    EXPECT_EQ(error(), "model_output: the handle is NULL");
    amp_apex_destroy(apex);
}

TEST_F(Apex, OverridesThatMakeNoSense) {
    EXPECT_EQ(refused(level("01")),
              "initialize: there is no opt_level '01'; expected O0, O1, O2 or O3, with the letter O and "
              "no zero in front");
    amp_initialize_args args = level("O1");
    args.cast_model_type = AMP_BF16;
    EXPECT_EQ(refused(args),
              "initialize: cast_model_type makes no sense at O1: there ops are cast, and the model's weights "
              "stay f32");
    args = level("O1");
    args.keep_batchnorm_fp32 = amp_opt_bool(false);
    EXPECT_NE(refused(args).find("keep_batchnorm_fp32 makes no sense at O1"), std::string::npos);
    args = level("O1");
    args.master_weights = amp_opt_bool(false);
    EXPECT_NE(refused(args).find("master_weights makes no sense at O1"), std::string::npos);
    for (const char *other : {"O0", "O2", "O3"}) {
        args = level(other);
        args.patch_functions = amp_opt_bool(true);
        EXPECT_NE(refused(args).find("patch_functions is O1's alone"), std::string::npos);
    }
    args = level("O2");
    args.loss_scale = "12x";
    EXPECT_EQ(refused(args), "initialize: loss_scale is '12x'; expected \"dynamic\" or a number above 0");
    args = level("O2");
    args.num_losses = amp_opt_int(0);
    EXPECT_EQ(refused(args), "initialize: num_losses is 0; expected 1 to 1024");
    args = level("O2");
    args.min_loss_scale = amp_opt_float(8);
    args.max_loss_scale = amp_opt_float(4);
    EXPECT_EQ(refused(args), "initialize: min_loss_scale is 8, above max_loss_scale, 4");
    args = level("O3");
    args.half = AMP_F32;
    EXPECT_EQ(refused(args), "initialize: half is f32; expected f16 or bf16");
}

TEST_F(Apex, ModelsAndOptimizersThatAreRefused) {
    const Model model;
    amp_initialize_args args = level("O2");
    EXPECT_FALSE(amp_initialize_call(&args));
    EXPECT_EQ(error(), "initialize: there is no model");
    amp_apex *apex = initialize({&model}, level("O2"));
    ASSERT_TRUE(apex);
    EXPECT_FALSE(initialize({&model}, level("O2")));
    EXPECT_EQ(error(), "initialize: optimizer 0 went through amp_initialize or amp_wrap_optimizer before");
    amp_apex_destroy(apex);
    EXPECT_FALSE(initialize({&model}, level("O0"))) << "its optimizer has masters now";
    EXPECT_EQ(error(), "initialize: optimizer 0 has master weights already; the level makes them");
    amp_parameters *const lists[] = {model.list};
    args.models = {lists, 1};
    EXPECT_FALSE(amp_initialize_call(&args)) << "its parameter is half now";
    EXPECT_NE(error().find("parameter 'fc.weight' is [3, 4] bf16 already"), std::string::npos);
}

TEST_F(Apex, DisabledChangesNothing) {
    const Model model;
    amp_initialize_args args = level("O2");
    args.enabled = amp_opt_bool(false);
    amp_apex *apex = initialize({&model}, args);
    ASSERT_TRUE(apex) << amp_last_error();
    EXPECT_EQ(amp_tensor_dtype(model.weight), AMP_F32);
    amp_tensor *loss = tensor(AMP_F32, {}, {3});
    scale(loss, model.optimizer, [&](amp_tensor *scaled) { EXPECT_EQ(scaled, loss); });
    EXPECT_TRUE(no_error());
    amp_apex_destroy(apex);
}

TEST_F(Apex, MemoryThatEndsChangesNothing) {
    const auto trained = [] { // it has a gradient and states, which are cast too
        auto model = std::make_unique<Model>(1, AMP_ADAM);
        backward(model->loss(tensor(AMP_F32, {2, 4})));
        EXPECT_EQ(amp_optimizer_step(model->optimizer), AMP_OK);
        return model;
    };
    trained(); // what products keep for the process is made
    EndingMemory memory;
    for (const char *name : {"O2", "O3"}) {
        const Scope scope;
        const auto owner = trained();
        const Model &model = *owner;
        const std::vector<double> before = numbers_of(model.weight),
                                  gradient = numbers_of(amp_tensor_grad(model.weight));
        amp_apex *apex = nullptr;
        memory.until_it_works([&] { apex = initialize({&model}, level(name)); },
                              [&] {
                                  EXPECT_FALSE(apex);
                                  EXPECT_EQ(amp_tensor_dtype(model.weight), AMP_F32);
                                  EXPECT_EQ(numbers_of(model.weight), before);
                                  EXPECT_EQ(numbers_of(amp_tensor_grad(model.weight)), gradient);
                              });
        EXPECT_EQ(amp_tensor_dtype(model.weight), AMP_BF16);
        EXPECT_EQ(amp_tensor_dtype(amp_tensor_grad(model.weight)), AMP_BF16);
        amp_apex_destroy(apex);
    }
}

// ---- Losses ---------------------------------------------------------------------------------------------------------------
TEST_F(Apex, AnOptimizerMustHaveGoneThrough) {
    const Model model;
    scale(tensor(AMP_F32, {}), model.optimizer, [](amp_tensor *scaled) { EXPECT_EQ(scaled, nullptr); });
    EXPECT_EQ(error(), "scale_loss: an optimizer did not go through amp_initialize, which comes first");
    amp_apex *apex = initialize({&model}, level("O1"));
    scale(
        tensor(AMP_F32, {}), model.optimizer, [](amp_tensor *) {}, 1);
    EXPECT_EQ(error(), "scale_loss: loss_id is 1; amp_initialize was told of 1 losses (num_losses)");
    scale(nullptr, model.optimizer, [](amp_tensor *) {});
    EXPECT_EQ(error(), "scale_loss: the loss is NULL");
    amp_apex_destroy(apex);
}

TEST_F(Apex, MastersGetUnscaledGradientsAndModelsTheirRounding) {
    const Model model;
    amp_initialize_args args = level("O2");
    args.loss_scale = "128";
    amp_apex *apex = initialize({&model}, args);
    const std::vector<double> before = numbers_of(amp_optimizer_master(model.optimizer, 0));
    amp_tensor *x = tensor(AMP_BF16, {2, 4}, {1, 2, 3, 4});
    scale(model.loss(x), model.optimizer, backward);
    const std::vector<double> scaled = numbers_of(amp_tensor_grad(model.weight));
    amp_parameters *masters = amp_master_params(model.optimizer);
    const std::vector<double> own = numbers_of(amp_tensor_grad(amp_parameters_at(masters, 0)));
    ASSERT_EQ(scaled.size(), own.size());
    for (size_t i = 0; i < own.size(); i++) EXPECT_EQ(own[i], scaled[i] / 128) << i;
    ASSERT_EQ(amp_optimizer_step(model.optimizer), AMP_OK);
    const std::vector<double> after = numbers_of(amp_optimizer_master(model.optimizer, 0));
    for (size_t i = 0; i < after.size(); i++) EXPECT_EQ(after[i], float(before[i] - 0.5 * own[i])) << i;
    EXPECT_EQ(numbers_of(model.weight), numbers_of(op("to", {amp_optimizer_master(model.optimizer, 0), AMP_BF16})));
    EXPECT_EQ(amp_tensor_grad(amp_parameters_at(masters, 0)), nullptr) << "a step drops them";
    amp_parameters_destroy(masters);
    amp_apex_destroy(apex);
}

TEST_F(Apex, AStepWithoutAScaledLossIsAnError) {
    const Model model;
    amp_apex *apex = initialize({&model}, level("O2"));
    backward(model.loss(tensor(AMP_BF16, {2, 4}, {1, 2, 3, 4})));
    EXPECT_EQ(amp_optimizer_step(model.optimizer), AMP_ERROR_INVALID);
    EXPECT_NE(error().find("the gradient of 'fc.weight' has not reached its f32 master"), std::string::npos);
    amp_optimizer_zero_grad(model.optimizer);
    EXPECT_EQ(amp_optimizer_step(model.optimizer), AMP_OK) << "there is nothing to do";
    amp_apex_destroy(apex);
}

TEST_F(Apex, WhatIsWrittenBeforeTheFirstStepCounts) {
    const Model model;
    amp_apex *apex = initialize({&model}, level("O2"));
    const bool was = amp_grad_set_enabled(false);
    op("fill_", {model.weight, 5.0}); // as by loading a file
    amp_grad_set_enabled(was);
    scale(model.loss(tensor(AMP_BF16, {2, 4})), model.optimizer, backward);
    const std::vector<double> gradient = numbers_of(amp_tensor_grad(amp_optimizer_master(model.optimizer, 0)));
    ASSERT_EQ(amp_optimizer_step(model.optimizer), AMP_OK);
    std::vector<double> want;
    for (const double g : gradient) want.push_back(5 - 0.5 * g);
    expect_near(amp_optimizer_master(model.optimizer, 0), want, 1e-6);
    amp_apex_destroy(apex);
}

TEST_F(Apex, TheTypeThatIsUsedDecidesWhetherTheScaleIsDynamic) {
    const Model model;
    amp_initialize_args args = level("O2");
    args.cast_model_type = AMP_F16;
    amp_apex *apex = initialize({&model}, args);
    EXPECT_EQ(amp_apex_loss_scaler(apex, 0).loss_scale, 65536);
    amp_apex_destroy(apex);
}

TEST_F(Apex, AnOptimizerIsNamedOnceAndInOneBlock) {
    const Model model;
    EXPECT_FALSE(initialize({&model, &model}, level("O2")));
    EXPECT_NE(error().find("optimizer 1 is optimizer 0, too"), std::string::npos);
    amp_initialize_args args = level("O1");
    args.loss_scale = "dynamic";
    amp_apex *apex = initialize({&model}, args);
    amp_tensor *x = tensor(AMP_F32, {2, 4}, {1, 2, 3, 4});
    scale(model.loss(x), model.optimizer, [&](amp_tensor *scaled) {
        scale(model.loss(x), model.optimizer, [](amp_tensor *inner) { EXPECT_EQ(inner, nullptr); });
        EXPECT_NE(error().find("in another block of a scaled loss"), std::string::npos);
        backward(scaled);
    });
    EXPECT_TRUE(no_error());
    amp_apex_destroy(apex);
}

TEST_F(Apex, ZeroGradTakesWhatWasPutAsideToo) {
    const Model model, plain;
    amp_initialize_args args = level("O1");
    args.loss_scale = "dynamic";
    amp_apex *apex = initialize({&model}, args);
    amp_tensor *x = tensor(AMP_F32, {2, 4}, {1, 2, 3, 4});
    scale(model.loss(x), model.optimizer, backward);
    scale(model.loss(x), model.optimizer, backward, 0, true);
    amp_optimizer_zero_grad(model.optimizer);
    scale(model.loss(x), model.optimizer, backward);
    backward(plain.loss(x));
    EXPECT_EQ(numbers_of(amp_tensor_grad(model.weight)), numbers_of(amp_tensor_grad(plain.weight)));
    amp_apex_destroy(apex);
}

TEST_F(Apex, OptimizersMayGoBeforeTheHandle) {
    amp_apex *apex, *handle = handle_of();
    {
        const Model model, wrapped;
        apex = initialize({&model}, level("O2"));
        ASSERT_TRUE(amp_wrap_optimizer(handle, wrapped.optimizer, 1));
    }
    amp_apex_destroy(apex);
    amp_apex_destroy(handle);
    EXPECT_TRUE(no_error());
}

TEST_F(Apex, AnInfinitySkipsOneStepAndHalvesTheScale) {
    const Model model;
    amp_initialize_args args = level("O1");
    args.loss_scale = "dynamic";
    amp_apex *apex = initialize({&model}, args);
    const std::vector<double> before = numbers_of(model.weight);
    amp_tensor *x = tensor(AMP_F32, {2, 4}, {1, INFINITY});
    scale(model.loss(x), model.optimizer, backward);
    EXPECT_EQ(amp_apex_loss_scaler(apex, 0).loss_scale, 32768);
    EXPECT_EQ(amp_optimizer_step(model.optimizer), AMP_OK);
    EXPECT_EQ(numbers_of(model.weight), before);
    amp_optimizer_zero_grad(model.optimizer);
    scale(model.loss(tensor(AMP_F32, {2, 4})), model.optimizer, backward);
    EXPECT_EQ(amp_optimizer_step(model.optimizer), AMP_OK);
    EXPECT_NE(numbers_of(model.weight), before);
    EXPECT_EQ(amp_apex_loss_scaler(apex, 0).unskipped, 1);
    amp_apex_destroy(apex);
}

// Whatever mix of models, losses, scalers and levels: after k steps parameters are those of k plain steps, for scales are powers
// of two and the loss is linear in each parameter; and an infinity skips the steps of its own optimizers.
struct Mix {
    const char *level;
    int models, losses;
    bool delayed;
};

class Mixes : public Apex, public testing::WithParamInterface<Mix> {};

TEST_P(Mixes, AreAsPlainSteps) {
    const Mix mix = GetParam();
    std::vector<std::unique_ptr<Model>> owned, plain;
    std::vector<const Model *> models;
    for (int i = 0; i < mix.models; i++) {
        owned.push_back(std::make_unique<Model>(10 + i));
        plain.push_back(std::make_unique<Model>(10 + i));
        models.push_back(owned.back().get());
    }
    amp_initialize_args args = level(mix.level);
    args.loss_scale = "dynamic";
    args.num_losses = amp_opt_int(mix.losses);
    args.cast_model_type = std::string(mix.level) == "O1" ? AMP_DTYPE_NONE : AMP_F32; // so that both compute in f32
    amp_apex *apex = initialize(models, args);
    ASSERT_TRUE(apex) << amp_last_error();
    for (int step = 0; step < 4; step++) {
        for (int k = 0; k < mix.losses; k++) {
            const int m = k % mix.models;
            amp_tensor *x = random_tensor(AMP_F32, {2, 4}, uint64_t(100 + 10 * step + k));
            scale(models[size_t(m)]->loss(x), models[size_t(m)]->optimizer, backward, mix.delayed ? 0 : k,
                  mix.delayed && k + mix.models < mix.losses);
            backward(plain[size_t(m)]->loss(x));
        }
        for (int m = 0; m < mix.models; m++) {
            for (amp_optimizer *o : {models[size_t(m)]->optimizer, plain[size_t(m)]->optimizer}) {
                ASSERT_EQ(amp_optimizer_step(o), AMP_OK) << amp_last_error();
                amp_optimizer_zero_grad(o);
            }
        }
    }
    for (int m = 0; m < mix.models; m++) {
        expect_near(models[size_t(m)]->weight, numbers_of(plain[size_t(m)]->weight), 1e-6);
        expect_near(models[size_t(m)]->norm, numbers_of(plain[size_t(m)]->norm), 1e-6);
    }
    amp_apex_destroy(apex);
}

INSTANTIATE_TEST_SUITE_P(All, Mixes,
                         testing::Values(Mix{"O0", 1, 1, false}, Mix{"O1", 1, 1, false}, Mix{"O1", 1, 3, false},
                                         Mix{"O1", 2, 2, false}, Mix{"O1", 3, 3, false}, Mix{"O2", 1, 2, false},
                                         Mix{"O2", 2, 3, false}, Mix{"O1", 1, 2, true}, Mix{"O2", 2, 4, true}));

TEST_F(Apex, HalfModelsAccumulateInTheirMasters) {
    const Model model;
    amp_initialize_args args = level("O2");
    args.loss_scale = "dynamic";
    args.num_losses = amp_opt_int(2);
    amp_apex *apex = initialize({&model}, args);
    amp_tensor *x = tensor(AMP_BF16, {2, 4}, {1, 2, 3, 4});
    scale(model.loss(x), model.optimizer, backward, 0);
    const std::vector<double> one = numbers_of(amp_tensor_grad(amp_optimizer_master(model.optimizer, 0))),
                              norm = numbers_of(amp_tensor_grad(model.norm));
    scale(model.loss(x), model.optimizer, backward, 1);
    const std::vector<double> two = numbers_of(amp_tensor_grad(amp_optimizer_master(model.optimizer, 0))),
                              norms = numbers_of(amp_tensor_grad(model.norm));
    for (size_t i = 0; i < one.size(); i++) EXPECT_EQ(two[i], 2 * one[i]) << i;
    for (size_t i = 0; i < norm.size(); i++) EXPECT_EQ(norms[i], 2 * norm[i]) << i;
    amp_apex_destroy(apex);
}

TEST_F(Apex, AFailedBackwardLeavesTheGradientsOfBefore) {
    const Model model;
    amp_initialize_args args = level("O1");
    args.loss_scale = "8";
    amp_apex *apex = initialize({&model}, args);
    amp_tensor *x = tensor(AMP_F32, {2, 4}, {1, 2, 3, 4});
    scale(model.loss(x), model.optimizer, backward);
    const std::vector<double> before = numbers_of(amp_tensor_grad(model.weight));
    scale(model.loss(x), model.optimizer, [](amp_tensor *) { backward(tensor(AMP_F32, {})); });
    EXPECT_NE(error().find("requires no gradient"), std::string::npos);
    EXPECT_EQ(numbers_of(amp_tensor_grad(model.weight)), before);
    scale(model.loss(x), model.optimizer, backward);
    EXPECT_TRUE(no_error());
    amp_apex_destroy(apex);
}

// ---- State ----------------------------------------------------------------------------------------------------------------
TEST_F(Apex, StateOfScalers) {
    const Model model;
    amp_initialize_args args = level("O1");
    args.loss_scale = "dynamic";
    args.num_losses = amp_opt_int(2);
    amp_apex *apex = initialize({&model}, args);
    const amp_loss_scaler_state states[] = {{4, 7}, {16, 1}, {2, 2}};
    EXPECT_EQ(amp_apex_load_loss_scalers(apex, states, 3), 1) << "one too many";
    EXPECT_EQ(amp_apex_loss_scaler(apex, 1).loss_scale, 16);
    EXPECT_EQ(amp_apex_loss_scaler(apex, 0).unskipped, 7);
    const amp_loss_scaler_state wrong[] = {{8, 0}, {-1, 0}};
    EXPECT_EQ(amp_apex_load_loss_scalers(apex, wrong, 2), -1);
    EXPECT_NE(error().find("state 1 has scale -1"), std::string::npos);
    EXPECT_EQ(amp_apex_loss_scaler(apex, 0).loss_scale, 4) << "nothing was changed";
    EXPECT_EQ(amp_apex_loss_scaler(apex, 2).loss_scale, -1);
    EXPECT_NE(error().find("no loss has number 2; there are 2"), std::string::npos);
    amp_apex_destroy(apex);
}

// ---- The handle -----------------------------------------------------------------------------------------------------------

TEST_F(Apex, TheHandleScalesOneLoss) {
    const Model model;
    amp_apex *handle = handle_of();
    ASSERT_TRUE(handle) << amp_last_error();
    EXPECT_TRUE(amp_apex_is_active(handle) && amp_apex_has_cache(handle));
    amp_tensor *x = tensor(AMP_F32, {2, 4}, {1, 2, 3, 4});
    backward(model.loss(x));
    const std::vector<double> plain = numbers_of(amp_tensor_grad(model.weight));
    amp_optimizer_zero_grad(model.optimizer);
    amp_scaled_loss scaled = amp_handle_scale_loss_open(handle, model.loss(x), model.optimizer);
    backward(scaled.loss);
    EXPECT_EQ(numbers_of(amp_tensor_grad(model.weight))[0], 65536 * plain[0]);
    amp_scale_loss_close(&scaled);
    EXPECT_EQ(numbers_of(amp_tensor_grad(model.weight)), plain);
    amp_apex_destroy(handle);
}

void scaled_by(amp_optimizer_wrapper *w, amp_tensor *loss) {
    amp_scaled_loss scaled = amp_wrapped_scale_loss_open(w, loss);
    amp_backward_args args = args_of<amp_backward_args>();
    args.loss = scaled.loss;
    amp_backward_call(&args);
    amp_scale_loss_close(&scaled);
}

TEST_F(Apex, WrappedOptimizersHaveAScalerForEachLoss) {
    const Model model;
    amp_apex *handle = handle_of();
    amp_optimizer_wrapper *w = amp_wrap_optimizer(handle, model.optimizer, 2);
    ASSERT_TRUE(w) << amp_last_error();
    amp_scaled_loss old = amp_handle_scale_loss_open(handle, tensor(AMP_F32, {}), model.optimizer);
    EXPECT_EQ(old.loss, nullptr);
    EXPECT_NE(error().find("amp_wrapped_scale_loss is what scales"), std::string::npos);
    const std::vector<double> before = numbers_of(model.weight);
    for (const double value : {1.0, double(INFINITY)}) {
        amp_scaled_loss scaled = amp_wrapped_scale_loss_open(w, model.loss(tensor(AMP_F32, {2, 4}, {value})));
        backward(scaled.loss);
        amp_scale_loss_close(&scaled);
    }
    amp_scaled_loss third = amp_wrapped_scale_loss_open(w, tensor(AMP_F32, {}));
    EXPECT_EQ(third.loss, nullptr);
    EXPECT_EQ(error(), "wrapped_scale_loss: 3 losses since the last step; amp_wrap_optimizer was told of 2");
    EXPECT_EQ(amp_wrapped_step(w), AMP_SKIPPED);
    EXPECT_EQ(numbers_of(model.weight), before);
    amp_optimizer_zero_grad(model.optimizer);
    scaled_by(w, model.loss(tensor(AMP_F32, {2, 4}, {INFINITY})));
    EXPECT_EQ(amp_optimizer_step(model.optimizer), AMP_OK) << "a step that is not the wrapper's is skipped as well";
    EXPECT_EQ(numbers_of(model.weight), before);
    EXPECT_EQ(amp_wrapped_step(w), AMP_SKIPPED);
    amp_optimizer_zero_grad(model.optimizer);
    amp_scaled_loss scaled = amp_wrapped_scale_loss_open(w, model.loss(tensor(AMP_F32, {2, 4})));
    backward(scaled.loss);
    amp_scale_loss_close(&scaled);
    EXPECT_EQ(amp_wrapped_step(w), AMP_STEPPED);
    EXPECT_NE(numbers_of(model.weight), before);
    amp_apex_destroy(handle);
}

TEST_F(Apex, ADisabledHandleDoesNothing) {
    const Model model;
    amp_apex *handle = handle_of(false);
    EXPECT_FALSE(amp_apex_is_active(handle) || amp_apex_has_cache(handle));
    amp_tensor *loss = tensor(AMP_F32, {});
    amp_scaled_loss scaled = amp_handle_scale_loss_open(handle, loss, model.optimizer);
    EXPECT_EQ(scaled.loss, loss);
    amp_scale_loss_close(&scaled);
    amp_region region = amp_model_region_open(handle);
    EXPECT_FALSE(amp_autocast_is_enabled(AMP_DEVICE_CPU));
    amp_autocast_close(&region);
    amp_apex_destroy(handle);
}

TEST_F(Apex, AVerboseHandleTellsCasts) {
    amp_init_args args = args_of<amp_init_args>();
    args.verbose = true;
    amp_apex *handle = amp_init_call(&args);
    testing::internal::CaptureStderr();
    amp_region region = amp_model_region_open(handle);
    op("mm", {tensor(AMP_F32, {2, 2}), tensor(AMP_BF16, {2, 2})});
    op("exp", {tensor(AMP_BF16, {2})});
    amp_autocast_close(&region);
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "amp: Float to Half (mm)\namp: Half to Float (exp)\n");
    amp_apex_destroy(handle);
    amp_apex_destroy(handle_of()); // and is silent again
    testing::internal::CaptureStderr();
    Region silent(AMP_DEVICE_CPU);
    op("mm", {tensor(AMP_F32, {2, 2}), tensor(AMP_F32, {2, 2})});
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

// ---- Recurrent layers -------------------------------------------------------------------------------------------------------
TEST_F(Apex, RecurrentLayersAndCellsAreCast) {
    const Model model;
    amp_apex *apex = initialize({&model}, level("O1"));
    amp_tensor *x = random_tensor(AMP_F32, {3, 2, 4}, 1), *h = random_tensor(AMP_F32, {1, 2, 5}, 2);
    std::vector<amp_tensor *> params = {random_tensor(AMP_F32, {15, 4}, 3), random_tensor(AMP_F32, {15, 5}, 4),
                                        random_tensor(AMP_F32, {15}, 5), random_tensor(AMP_F32, {15}, 6)};
    for (amp_tensor *p : params) amp_tensor_set_requires_grad(p, true);
    amp_tensor_set_requires_grad(x, true);
    amp_region region = amp_model_region_open(apex);
    std::vector<amp_tensor *> outputs;
    call("gru", {x, std::vector<amp_tensor *>{h}, params, true, 1, 0.0, false, false, false}, {}, &outputs);
    ASSERT_EQ(amp_last_status(), AMP_OK) << amp_last_error();
    amp_tensor *cell = op("gru_cell", {op("select", {x, 0, 0}), std::vector<amp_tensor *>{op("select", {h, 0, 0})},
                                       params[0], params[1], params[2], params[3]});
    amp_autocast_close(&region);
    EXPECT_EQ(amp_tensor_dtype(outputs[0]), AMP_BF16);
    EXPECT_EQ(amp_tensor_dtype(cell), AMP_BF16);
    backward(op("sum", {op("to", {outputs[0], AMP_F32})}));
    ASSERT_EQ(amp_last_status(), AMP_OK) << amp_last_error();
    EXPECT_EQ(amp_tensor_dtype(amp_tensor_grad(x)), AMP_F32);
    EXPECT_EQ(amp_tensor_dtype(amp_tensor_grad(params[1])), AMP_F32);
    amp_apex_destroy(apex);
}

} // namespace
