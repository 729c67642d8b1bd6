// Parameters and checkpoints in files: there and back, what does not fit, and that a failure changes nothing.
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>

#include "amp/grad.h"
#include "ending_memory.h"
#include "recorded.h"

using namespace amp_test;

namespace {

// A small run of everything: two parameters and a buffer, Adam or another, a scheduler, a scaler, a generator.
struct Training {
    explicit Training(uint64_t seed, amp_optimizer_kind kind = AMP_ADAMW, const Shape &shape = {3, 4},
                      const char *name = "fc.weight") {
        p = amp_parameters_create();
        EXPECT_TRUE(amp_parameters_add(p, name, random_tensor(AMP_F32, shape, seed))) << amp_last_error();
        EXPECT_TRUE(amp_parameters_add(p, "fc.bias", random_tensor(AMP_BF16, {3}, seed + 1)));
        EXPECT_TRUE(amp_parameters_add_buffer(p, "mean", random_tensor(AMP_F64, {2}, seed + 2)));
        amp_optimizer_args args = options_of(nullptr);
        args.parameters = p;
        args.master_weights = true;
        optimizer = amp_optimizer_create(kind, &args);
        amp_scheduler_args rates = {};
        rates.struct_size = sizeof rates;
        rates.optimizer = optimizer;
        rates.gamma = amp_opt_float(0.5);
        scheduler = amp_scheduler_create(AMP_EXPONENTIAL_LR, &rates);
        amp_grad_scaler_args scaling = {};
        scaling.struct_size = sizeof scaling;
        scaling.init_scale = amp_opt_float(8.0);
        scaler = amp_grad_scaler_create_call(&scaling);
        generator = amp_generator_create(AMP_DEVICE_CPU);
        training.struct_size = sizeof training;
        training.parameters = p;
        training.optimizers[0] = optimizer;
        training.schedulers[0] = scheduler;
        training.scalers[0] = scaler;
        training.generators[0] = generator;
        training.step = &step;
    }
    ~Training() {
        amp_generator_destroy(generator);
        amp_grad_scaler_destroy(scaler);
        amp_scheduler_destroy(scheduler);
        amp_optimizer_destroy(optimizer);
        amp_parameters_destroy(p);
    }
    Training(const Training &) = delete;
    Training &operator=(const Training &) = delete;

    // Gradients that hang on the step and on random numbers.
    void steps(int count) {
        for (int i = 0; i < count; i++) {
            Scope scope;
            EXPECT_TRUE(amp_grad_scaler_scale(scaler, tensor(AMP_F32, {1})));
            for (int64_t k = 0; k < 2; k++) {
                amp_tensor *t = amp_parameters_at(p, k);
                const Shape shape(amp_tensor_shape(t), amp_tensor_shape(t) + amp_tensor_rank(t));
                amp_tensor *g = op("mul", {random_tensor(amp_tensor_dtype(t), shape, uint64_t(step)),
                                           numbers_of(op("rand", {AMP_DIMS(1)}, {{"generator", generator}}))[0]});
                EXPECT_EQ(amp_tensor_set_grad(t, g), AMP_OK) << amp_last_error();
            }
            op("add_", {amp_parameters_at(p, 2), op("rand", {AMP_DIMS(2)}, {{"dtype", AMP_F64}})});
            EXPECT_EQ(amp_grad_scaler_step(scaler, optimizer), AMP_STEPPED) << amp_last_error();
            EXPECT_EQ(amp_grad_scaler_update(scaler), AMP_OK);
            EXPECT_EQ(amp_scheduler_step(scheduler), AMP_OK);
            step++;
        }
    }
    // Every number that there is.
    std::vector<double> numbers() const {
        std::vector<double> all = {double(step), double(amp_scheduler_get_step(scheduler)),
                                   amp_grad_scaler_get_scale(scaler), amp_optimizer_lr(optimizer, 0)};
        const auto append = [&all](const amp_tensor *t) {
            for (double n : numbers_of(t)) all.push_back(n);
        };
        for (int64_t i = 0; i < amp_parameters_count(p); i++) append(amp_parameters_at(p, i));
        const amp_state state = amp_optimizer_state(optimizer);
        for (int64_t i = 0; i < state.count; i++) append(state.tensors[i]);
        amp_state_free(state);
        for (amp_generator *g : {generator, amp_generator_default(AMP_DEVICE_CPU)}) {
            amp_generator_state at = {};
            at.struct_size = sizeof at;
            EXPECT_EQ(amp_generator_get_state(g, &at), AMP_OK);
            all.push_back(double(at.seed));
            all.push_back(double(at.offset));
        }
        return all;
    }

    amp_parameters *p;
    amp_optimizer *optimizer;
    amp_scheduler *scheduler;
    amp_grad_scaler *scaler;
    amp_generator *generator;
    amp_training training = {};
    int64_t step = 0;
};

class TrainingFiles : public Test {
  protected:
    void SetUp() override {
        folder = testing::TempDir() + "amp-training-XXXXXX";
        ASSERT_NE(mkdtemp(folder.data()), nullptr);
    }
    void TearDown() override {
        std::filesystem::remove_all(folder);
        Test::TearDown();
    }
    std::string path(const std::string &name = "run.safetensors") const {
        return folder + "/" + name;
    }
    size_t files() const {
        size_t count = 0;
        for (const auto &entry : std::filesystem::directory_iterator(folder)) count += entry.exists();
        return count;
    }
    static std::string error() {
        const std::string sentence = amp_last_error();
        amp_clear_error();
        return sentence;
    }
    amp_status save(const Training &run) const {
        return amp_training_save(&run.training, path().c_str());
    }
    amp_status load(const Training &run) const {
        return amp_training_load(&run.training, path().c_str());
    }
    // Loading fails with a sentence that says each of these, and changes nothing.
    void refuses(const Training &run, const std::vector<std::string> &words) const {
        const auto before = run.numbers();
        EXPECT_NE(load(run), AMP_OK);
        const std::string sentence = error();
        for (const std::string &word : words) EXPECT_NE(sentence.find(word), std::string::npos) << sentence;
        EXPECT_EQ(run.numbers(), before);
    }
    amp_status save_parameters(const amp_parameters *p, amp_dtype dtype = AMP_DTYPE_NONE) const {
        const std::string to = path();
        amp_parameters_save_args args = {};
        args.struct_size = sizeof args;
        args.parameters = p;
        args.path = to.c_str();
        args.dtype = dtype;
        return amp_parameters_save_call(&args);
    }
    std::string folder;
};

// ---- Parameters ----

TEST_F(TrainingFiles, ParametersComeBackInPlace) {
    Training first(1), second(10);
    amp_tensor *view = op("select", {op("detach", {amp_parameters_at(second.p, 0)}), 0, 1});
    ASSERT_EQ(save_parameters(first.p), AMP_OK) << amp_last_error();
    amp_tensor *same = amp_parameters_at(second.p, 0);
    ASSERT_EQ(amp_parameters_load(second.p, path().c_str()), AMP_OK) << amp_last_error();
    EXPECT_EQ(amp_parameters_at(second.p, 0), same);
    for (int64_t i = 0; i < 3; i++)
        EXPECT_EQ(numbers_of(amp_parameters_at(first.p, i)), numbers_of(amp_parameters_at(second.p, i)));
    EXPECT_EQ(numbers_of(view)[0], numbers_of(amp_parameters_at(first.p, 0))[4]) << "views see it";
    EXPECT_TRUE(amp_tensor_requires_grad(same));
}

TEST_F(TrainingFiles, WhatCannotTakeAValueIsSaidBeforeAnyIsWritten) {
    amp_parameters *saved = amp_parameters_create(), *list = amp_parameters_create();
    for (const char *name : {"a", "b"}) amp_parameters_add(saved, name, tensor(AMP_F32, {2}, {7, 7}));
    ASSERT_EQ(save_parameters(saved), AMP_OK) << amp_last_error();
    amp_tensor *a = amp_parameters_add(list, "a", tensor(AMP_F32, {2}, {1, 2}));
    amp_parameters_add_buffer(list, "b", op("expand", {tensor(AMP_F32, {1}, {3}), AMP_DIMS(2)}));
    EXPECT_NE(amp_parameters_load(list, path().c_str()), AMP_OK);
    EXPECT_NE(error().find("what is loaded into"), std::string::npos);
    EXPECT_EQ(numbers_of(a), (std::vector<double>{1, 2}));
    amp_parameters_destroy(saved);
    amp_parameters_destroy(list);
}

TEST_F(TrainingFiles, AnOldCastIsNotServedAfterALoad) {
    Training first(1), second(10);
    amp_tensor *x = random_tensor(AMP_F32, {2, 4}, 3);
    const auto product = [&](const Training &run) {
        const Region region;
        return numbers_of(op("linear", {x, amp_parameters_at(run.p, 0)}));
    };
    EXPECT_NE(product(first), product(second));
    ASSERT_EQ(save_parameters(first.p), AMP_OK);
    ASSERT_EQ(amp_parameters_load(second.p, path().c_str()), AMP_OK) << amp_last_error();
    EXPECT_EQ(product(first), product(second));
}

TEST_F(TrainingFiles, ParametersMayBeF32InTheFile) {
    Training first(1), second(10);
    ASSERT_EQ(save_parameters(first.p, AMP_F32), AMP_OK) << amp_last_error();
    amp_safetensors *file = amp_safetensors_open(path().c_str());
    for (const char *name : {"fc.weight", "fc.bias", "mean"})
        EXPECT_EQ(amp_tensor_dtype(amp_safetensors_get(file, name)), AMP_F32) << name;
    amp_safetensors_close(file);
    ASSERT_EQ(amp_parameters_load(second.p, path().c_str()), AMP_OK) << amp_last_error();
    EXPECT_EQ(numbers_of(amp_parameters_at(first.p, 1)), numbers_of(amp_parameters_at(second.p, 1)));
    EXPECT_EQ(amp_tensor_dtype(amp_parameters_at(second.p, 1)), AMP_BF16);
    EXPECT_EQ(save_parameters(first.p, AMP_I32), AMP_ERROR_DTYPE);
    EXPECT_EQ(error(), "parameters_save: the dtype is i32; expected a floating one");
    ASSERT_EQ(save_parameters(first.p, AMP_BF16), AMP_OK);
    EXPECT_EQ(amp_parameters_load(second.p, path().c_str()), AMP_ERROR_DTYPE);
    EXPECT_NE(error().find("'fc.weight' is [3, 4] bf16 in the file; expected [3, 4] f32"), std::string::npos);
}

TEST_F(TrainingFiles, ParametersOfAnotherModelAreNamed) {
    Training other(1, AMP_ADAMW, {3, 4}, "fc1.weight"), wide(1, AMP_ADAMW, {3, 5}), here(5);
    const auto before = here.numbers();
    ASSERT_EQ(save_parameters(other.p), AMP_OK);
    EXPECT_EQ(amp_parameters_load(here.p, path().c_str()), AMP_ERROR_INVALID);
    EXPECT_EQ(error(), "parameters_load: " + path() + ": the file has no 'fc.weight'; did you mean 'fc1.weight'?");
    ASSERT_EQ(save_parameters(wide.p), AMP_OK);
    EXPECT_EQ(amp_parameters_load(here.p, path().c_str()), AMP_ERROR_INVALID);
    EXPECT_NE(error().find("'fc.weight' is [3, 5] f32 in the file; expected [3, 4] f32"), std::string::npos);
    ASSERT_EQ(save_parameters(here.p), AMP_OK);
    amp_parameters *less = amp_parameters_create();
    amp_parameters_add(less, "fc.weight", random_tensor(AMP_F32, {3, 4}, 1));
    amp_parameters_add(less, "fc.bias", random_tensor(AMP_BF16, {3}, 1));
    EXPECT_EQ(amp_parameters_load(less, path().c_str()), AMP_ERROR_INVALID);
    EXPECT_NE(error().find("the file has 'mean', which is no parameter here"), std::string::npos);
    amp_parameters_destroy(less);
    EXPECT_EQ(amp_parameters_load(here.p, nullptr), AMP_ERROR_INVALID);
    EXPECT_EQ(error(), "parameters_load: the path is NULL");
    EXPECT_EQ(amp_parameters_load(here.p, path("none").c_str()), AMP_ERROR_IO);
    EXPECT_NE(error().find("cannot open it"), std::string::npos);
    EXPECT_EQ(here.numbers(), before);
}

TEST_F(TrainingFiles, BuffersAreNoOptimizers) {
    Training run(1);
    EXPECT_EQ(amp_optimizer_parameter_count(run.optimizer), 2);
    EXPECT_FALSE(amp_tensor_requires_grad(amp_parameters_at(run.p, 2)));
    EXPECT_FALSE(amp_parameters_add_buffer(run.p, "other", amp_parameters_at(run.p, 0)));
    EXPECT_NE(error().find("is in the list already"), std::string::npos);
    amp_tensor *leaf = tensor(AMP_F32, {1});
    amp_tensor_set_requires_grad(leaf, true);
    EXPECT_FALSE(amp_parameters_add_buffer(run.p, "other", leaf));
    EXPECT_EQ(error(), "parameters_add_buffer: 'other' requires gradients; a buffer does not");
}

TEST_F(TrainingFiles, OptimizersOfBuffersAloneAreRefused) {
    amp_parameters *p = amp_parameters_create();
    amp_parameters_add_buffer(p, "mean", tensor(AMP_F32, {2}));
    amp_optimizer_args args = options_of(nullptr);
    args.parameters = p;
    EXPECT_FALSE(amp_optimizer_create(AMP_SGD, &args));
    EXPECT_EQ(error(), "optimizer_create: the list has buffers alone; expected a parameter");
    Training run(1);
    EXPECT_EQ(amp_optimizer_add_group_call(run.optimizer, &args), AMP_ERROR_INVALID);
    EXPECT_EQ(error(), "optimizer_add_group: the list has buffers alone; expected a parameter");
    EXPECT_EQ(amp_optimizer_group_count(run.optimizer), 1);
    amp_lbfgs_args of_lbfgs = {};
    of_lbfgs.struct_size = sizeof of_lbfgs;
    of_lbfgs.parameters = p;
    EXPECT_FALSE(amp_lbfgs_create(&of_lbfgs));
    EXPECT_EQ(error(), "lbfgs_create: the list has buffers alone; expected a parameter");
    amp_parameters_destroy(p);
}

// ---- Checkpoints ----

TEST_F(TrainingFiles, ARunGoesOnWithTheSameBits) {
    for (amp_optimizer_kind kind : {AMP_SGD, AMP_ADAMW, AMP_NADAM, AMP_ADAGRAD, AMP_RMSPROP}) {
        amp_manual_seed(5);
        Training first(1, kind), second(10, kind);
        first.steps(3);
        ASSERT_EQ(save(first), AMP_OK) << amp_last_error();
        first.steps(2);
        const auto want = first.numbers();
        second.steps(1); // what is loaded over
        ASSERT_EQ(load(second), AMP_OK) << amp_last_error();
        EXPECT_EQ(second.step, 3);
        second.steps(2);
        EXPECT_EQ(second.numbers(), want);
    }
    EXPECT_EQ(files(), 1u);
}

TEST_F(TrainingFiles, ACheckpointOfTheBeginningTakesStatesAway) {
    Training first(1), second(10);
    ASSERT_EQ(save(first), AMP_OK) << amp_last_error();
    second.steps(2);
    ASSERT_EQ(load(second), AMP_OK) << amp_last_error();
    EXPECT_EQ(second.numbers(), first.numbers());
}

TEST_F(TrainingFiles, WhatDiffersIsNamed) {
    Training here(1);
    here.steps(1);
    ASSERT_EQ(save(here), AMP_OK);
    refuses(Training(1, AMP_SGD), {"training_load: " + path() + ": optimizer0 is AdamW in the file, and SGD here"});
    refuses(Training(1, AMP_ADAMW, {4, 4}), {"'fc.weight", "is [3, 4] f32", "[4, 4] f32"});
    refuses(Training(1, AMP_ADAMW, {3, 4}, "fc.weights"), {"'fc.weights"});
    Training less(1), more(1);
    less.training.schedulers[0] = nullptr;
    refuses(less, {"the file has 'scheduler0.", "there is no scheduler0 here"});
    more.training.generators[1] = more.generator;
    refuses(more, {"the file has no generator1"});
    more.training.generators[1] = nullptr;
    more.training.optimizers[1] = more.optimizer;
    refuses(more, {"the file has no optimizer1"});
    Training without(1);
    without.training.step = nullptr;
    refuses(without, {"the file has 'training.step', and there is no step here"});
    ASSERT_EQ(save(without), AMP_OK) << amp_last_error();
    ASSERT_EQ(load(without), AMP_OK) << amp_last_error();
    refuses(here, {"the file has no 'training.step'"});
    ASSERT_EQ(save(here), AMP_OK);
    Training two(1);
    amp_parameters *list = amp_parameters_create();
    amp_parameters_add(list, "more", tensor(AMP_F32, {2}));
    amp_optimizer_args args = options_of(nullptr);
    args.parameters = list;
    ASSERT_EQ(amp_optimizer_add_group_call(two.optimizer, &args), AMP_OK);
    amp_parameters_destroy(list);
    refuses(two, {"optimizer0: there is no 'group1.lr'"});
    ASSERT_EQ(save_parameters(here.p), AMP_OK);
    refuses(here, {"amp_training_save did not write this file"});
}

TEST_F(TrainingFiles, ADisabledScalersStateIsNone) {
    Training here(1), off(2);
    amp_grad_scaler_args args = {};
    args.struct_size = sizeof args;
    args.enabled = amp_opt_bool(false);
    amp_grad_scaler *disabled = amp_grad_scaler_create_call(&args);
    off.training.scalers[0] = disabled;
    ASSERT_EQ(save(off), AMP_OK) << amp_last_error();
    refuses(here, {"scaler0: the state is empty, as of a scaler that was disabled"});
    ASSERT_EQ(save(here), AMP_OK);
    EXPECT_EQ(load(off), AMP_OK) << amp_last_error();
    EXPECT_EQ(amp_grad_scaler_get_scale(disabled), 1);
    amp_grad_scaler_destroy(disabled);
}

TEST_F(TrainingFiles, AScalerBetweenStepAndUpdateIsNotSaved) {
    Training run(1);
    amp_grad_scaler_scale(run.scaler, tensor(AMP_F32, {1}));
    amp_tensor_set_grad(amp_parameters_at(run.p, 0), random_tensor(AMP_F32, {3, 4}, 1));
    ASSERT_EQ(amp_grad_scaler_step(run.scaler, run.optimizer), AMP_STEPPED) << amp_last_error();
    EXPECT_EQ(save(run), AMP_ERROR_INVALID);
    EXPECT_EQ(error(), "training_save: scaler0 was stepped and not updated; save after amp_grad_scaler_update");
    EXPECT_EQ(files(), 0u);
    EXPECT_EQ(amp_grad_scaler_update(run.scaler), AMP_OK);
    EXPECT_EQ(save(run), AMP_OK) << amp_last_error();
}

TEST_F(TrainingFiles, ATruncatedFileIsOneSentenceWhereverItEnds) {
    Training run(1);
    run.steps(1);
    ASSERT_EQ(save(run), AMP_OK);
    std::ifstream in(path(), std::ios::binary);
    const std::string whole{std::istreambuf_iterator<char>(in), {}};
    for (size_t bytes = 0; bytes < whole.size(); bytes += bytes < 64 ? 1 : 97) {
        std::ofstream(path(), std::ios::binary | std::ios::trunc) << whole.substr(0, bytes);
        refuses(run, {"training_load: safetensors_open: " + path()});
    }
    std::ofstream(path(), std::ios::binary | std::ios::trunc) << whole;
    EXPECT_EQ(load(run), AMP_OK) << amp_last_error();
}

// Whatever bytes a file has: it is loaded, or refused.
TEST_F(TrainingFiles, NoByteOfAFileIsTrusted) {
    Training run(1);
    run.steps(1);
    ASSERT_EQ(save(run), AMP_OK);
    std::ifstream in(path(), std::ios::binary);
    const std::string whole{std::istreambuf_iterator<char>(in), {}};
    uint64_t random = 1;
    for (int round = 0; round < 400; round++) {
        std::string broken = whole;
        random = random * 6364136223846793005u + 1442695040888963407u;
        broken[(random >> 33) % broken.size()] = char(random >> 25);
        std::ofstream(path(), std::ios::binary | std::ios::trunc) << broken;
        const amp_status status = load(run);
        EXPECT_EQ(error().empty(), status == AMP_OK);
    }
    std::ofstream(path(), std::ios::binary | std::ios::trunc) << whole;
    EXPECT_EQ(load(run), AMP_OK) << amp_last_error();
}

TEST_F(TrainingFiles, AFullDiskLeavesTheOldFile) {
    Training run(1);
    run.steps(1);
    ASSERT_EQ(save(run), AMP_OK);
    const auto saved = run.numbers();
    struct rlimit before;
    ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
    const struct rlimit small = {1000, before.rlim_max};
    void (*const handler)(int) = std::signal(SIGXFSZ, SIG_IGN);
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    run.steps(1);
    const amp_status status = save(run);
    const std::string sentence = error();
    setrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, handler);
    EXPECT_EQ(status, AMP_ERROR_IO);
    EXPECT_EQ(sentence, "training_save: save_safetensors: " + path() + ": cannot write it: File too large");
    EXPECT_EQ(files(), 1u) << "nothing half-written is left";
    ASSERT_EQ(load(run), AMP_OK) << amp_last_error();
    EXPECT_EQ(run.numbers(), saved);
}

struct SmallDisk {
    explicit SmallDisk(const std::string &where) : path(where) {
        is_mounted = mount("amp", path.c_str(), "tmpfs", 0, "size=16k") == 0;
    }
    ~SmallDisk() {
        if (is_mounted) umount(path.c_str());
    }
    SmallDisk(const SmallDisk &) = delete;
    SmallDisk &operator=(const SmallDisk &) = delete;
    std::string path;
    bool is_mounted;
};

TEST_F(TrainingFiles, AFullTmpfsLeavesTheOldFile) {
    const SmallDisk disk(folder);
    if (!disk.is_mounted) GTEST_SKIP() << "a tmpfs cannot be mounted here";
    Training run(1);
    run.steps(1);
    const auto saved = run.numbers();
    EXPECT_EQ(save(run), AMP_OK) << amp_last_error();
    std::ofstream(path("ballast")) << std::string(3000, 'x');
    EXPECT_EQ(files(), 2u);
    Training changed(7);
    changed.steps(2);
    while (save(changed) == AMP_OK) std::ofstream(path("ballast"), std::ios::app) << std::string(1000, 'x');
    EXPECT_NE(error().find("No space left on device"), std::string::npos);
    EXPECT_EQ(files(), 2u) << "nothing half-written is left";
    std::filesystem::remove(path("ballast"));
    EXPECT_EQ(load(run), AMP_OK) << amp_last_error();
    EXPECT_NE(run.numbers(), saved) << "the other's, of the last time that there was room";
}

TEST_F(TrainingFiles, BadInputIsOneSentence) {
    Training run(1);
    EXPECT_EQ(amp_training_save(nullptr, path().c_str()), AMP_ERROR_INVALID);
    EXPECT_NE(error().find("training_save"), std::string::npos);
    EXPECT_EQ(amp_training_save(&run.training, nullptr), AMP_ERROR_INVALID);
    EXPECT_EQ(error(), "training_save: the path is NULL");
    EXPECT_EQ(amp_training_save(&run.training, (folder + "/no/file").c_str()), AMP_ERROR_IO);
    EXPECT_NE(error().find("No such file"), std::string::npos);
    refuses(run, {"training_load: safetensors_open: " + path() + ": cannot open it"});
}

TEST_F(TrainingFiles, AParameterThatWasReleasedIsNamed) {
    {
        Training run(1);
        for (int owner = 0; owner < 3; owner++)
            amp_release(amp_parameters_at(run.p, 0)); // the list, the optimizer, the scope
        EXPECT_EQ(save(run), AMP_ERROR_INVALID);
        EXPECT_EQ(error(), "training_save: parameter 'fc.weight' was released");
        EXPECT_EQ(save_parameters(run.p), AMP_ERROR_INVALID);
        EXPECT_EQ(error(), "parameters_save: parameter 'fc.weight' was released");
        EXPECT_EQ(amp_optimizer_step(run.optimizer), AMP_ERROR_INVALID);
        EXPECT_EQ(error(), "optimizer_step: parameter 'fc.weight' was released");
    }
    EXPECT_NE(error(), "") << "both owners find it gone";
}

TEST_F(TrainingFiles, MemoryMayEndAnywhere) {
    EndingMemory memory;
    const Scope scope;
    Training first(1), second(10);
    first.steps(2);
    ASSERT_EQ(save(first), AMP_OK);
    const auto want = first.numbers(), before = second.numbers();
    memory.until_it_works([&] { save(first); }, [&] { EXPECT_EQ(files(), 1u); });
    memory.until_it_works([&] { save_parameters(first.p); });
    memory.until_it_works([&] { amp_parameters_load(second.p, path().c_str()); },
                          [&] { ASSERT_EQ(second.numbers(), before) << "nothing is changed"; });
    ASSERT_EQ(save(first), AMP_OK);
    const auto loaded = second.numbers();
    memory.until_it_works([&] { load(second); }, [&] { ASSERT_EQ(second.numbers(), loaded) << "nothing is changed"; });
    EXPECT_EQ(second.numbers(), want);
}

} // namespace
