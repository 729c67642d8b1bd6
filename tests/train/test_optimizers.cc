// Optimizers follow the trajectories that were recorded from PyTorch, within twice its own error.
#include "recorded.h"

#include "amp/grad.h"
#include "amp/optimizer.h"

using namespace amp_test;

namespace {

struct Algorithm {
    const char *name;
    amp_optimizer_kind kind;
};
const Algorithm algorithms[] = {{"sgd", AMP_SGD},         {"adam", AMP_ADAM},       {"adamw", AMP_ADAMW},
                                {"adagrad", AMP_ADAGRAD}, {"rmsprop", AMP_RMSPROP}, {"adadelta", AMP_ADADELTA},
                                {"nadam", AMP_NADAM},     {"radam", AMP_RADAM},     {"adamax", AMP_ADAMAX}};

const Algorithm *algorithm_of(const std::string &name) {
    for (const Algorithm &a : algorithms) {
        if (name == a.name) return &a;
    }
    return nullptr;
}

struct Parameter {
    amp_tensor *tensor;
    std::vector<double> gradients;
    std::set<int64_t> absent;
};

// One recorded case: its parameters, its optimizer, and its steps.
class Trajectory {
  public:
    Trajectory(const Recorded &file, const json_t *json, const Algorithm &a) : file_(file), json_(json), kind_(a.kind) {
        const char *name;
        json_t *p;
        json_object_foreach(json_object_get(json, "params"), name, p) add(name, p);
        json_t *group;
        size_t i;
        json_array_foreach(json_object_get(json, "groups"), i, group) make(group);
    }
    ~Trajectory() {
        amp_optimizer_destroy(optimizer_);
        for (auto &[name, p] : parameters_) amp_release(p.tensor);
    }
    Trajectory(const Trajectory &) = delete;
    Trajectory &operator=(const Trajectory &) = delete;

    void run() {
        for (int64_t step = 0; step < integer(json_, "steps"); step++) {
            Scope scope;
            before(step);
            for (auto &[name, p] : parameters_) give(p, step);
            ASSERT_EQ(amp_optimizer_step(optimizer_), AMP_OK) << amp_last_error();
            ASSERT_EQ(amp_optimizer_zero_grad(optimizer_), AMP_OK);
            for (int64_t i = 0; i < amp_optimizer_parameter_count(optimizer_); i++) compare(i, step);
        }
        for (int64_t i = 0; i < amp_optimizer_parameter_count(optimizer_); i++) compare_states(i);
    }
    double ours = 0, theirs = 0; // root mean square errors, summed

  private:
    void add(const char *name, const json_t *p) {
        Parameter made;
        made.tensor = amp_keep(tensor(dtype_of(json_), shape_of(p), file_.numbers(text(p, "initial"))));
        made.gradients = file_.numbers(text(p, "grads"));
        json_t *step;
        size_t i;
        json_array_foreach(json_object_get(p, "no_grad_at"), i, step) made.absent.insert(json_integer_value(step));
        parameters_[name] = made;
    }

    void make(const json_t *group) {
        amp_parameters *list = amp_parameters_create();
        json_t *name;
        size_t i;
        json_array_foreach(json_object_get(group, "params"), i, name) {
            const char *which = json_string_value(name);
            ASSERT_TRUE(amp_parameters_add(list, which, parameters_.at(which).tensor)) << amp_last_error();
        }
        // The first group may have options of its own, but the optimizer's are what the later ones start from.
        amp_optimizer_args args = options_of(optimizer_ ? nullptr : json_object_get(json_, "options"));
        args.parameters = list;
        args.master_weights = !optimizer_ && json_is_true(json_object_get(json_, "master_weights"));
        if (!optimizer_) {
            optimizer_ = amp_optimizer_create(kind_, &args);
            ASSERT_TRUE(optimizer_) << amp_last_error();
        } else {
            read_options(group, &args);
            ASSERT_EQ(amp_optimizer_add_group_call(optimizer_, &args), AMP_OK) << amp_last_error();
        }
        amp_parameters_destroy(list);
    }

    void before(int64_t step) {
        json_t *entry;
        size_t i;
        json_array_foreach(json_object_get(json_, "added_groups"), i, entry) {
            if (integer(entry, "before_step") == step) make(entry);
        }
        json_array_foreach(json_object_get(json_, "set_lr"), i, entry) {
            if (integer(entry, "before_step") != step) continue;
            json_t *rate;
            size_t group;
            json_array_foreach(json_object_get(entry, "lr"), group, rate) {
                ASSERT_EQ(amp_optimizer_set_lr(optimizer_, int(group), json_number_value(rate)), AMP_OK);
            }
        }
    }

    void give(const Parameter &p, int64_t step) {
        if (p.absent.count(step)) return;
        const int64_t n = amp_tensor_numel(p.tensor);
        const int64_t *shape = amp_tensor_shape(p.tensor);
        const auto begin = p.gradients.begin() + step * n;
        amp_tensor *g = n > 0 ? tensor(amp_tensor_dtype(p.tensor), Shape(shape, shape + amp_tensor_rank(p.tensor)),
                                       std::vector<double>(begin, begin + n))
                              : op("zeros_like", {p.tensor});
        ASSERT_EQ(amp_tensor_set_grad(p.tensor, g), AMP_OK) << amp_last_error();
    }

    void compare(int64_t index, int64_t step) {
        const std::string name = amp_optimizer_parameter_name(optimizer_, index);
        const json_t *after = json_object_get(json_object_get(json_object_get(json_, "params"), name.c_str()), "after");
        const std::vector<double> got = numbers_of(amp_optimizer_master(optimizer_, index));
        const std::vector<double> want = file_.numbers(text(after, "tensor"));
        const double rtol = number(after, "rtol"), atol = number(after, "atol");
        double square = 0;
        for (size_t i = 0; i < got.size(); i++) {
            const double truth = want[size_t(step) * got.size() + i];
            ASSERT_LE(std::fabs(got[i] - truth), atol + rtol * std::fabs(truth))
                << text(json_, "name") << " " << name << "[" << i << "] after step " << step << ": " << got[i]
                << ", not " << truth;
            square += (got[i] - truth) * (got[i] - truth);
        }
        ours += got.empty() ? 0 : square / double(got.size()) / double(integer(json_, "steps"));
        if (step == 0) theirs += number(after, "torch_rms") * number(after, "torch_rms");
    }

    // PyTorch's state after the last step, by name: as near as the parameter.
    void compare_states(int64_t index) {
        const std::string name = amp_optimizer_parameter_name(optimizer_, index);
        const json_t *state = json_object_get(json_object_get(json_object_get(json_, "params"), name.c_str()), "state");
        const amp_state have = amp_optimizer_state(optimizer_);
        ASSERT_GT(have.count, 0) << amp_last_error();
        const char *key;
        json_t *value;
        json_object_foreach(const_cast<json_t *>(state), key, value) {
            const amp_tensor *t = nullptr;
            for (int64_t i = 0; i < have.count; i++) {
                if (have.names[i] == name + "." + key) t = have.tensors[i];
            }
            ASSERT_TRUE(t) << text(json_, "name") << ": no state " << name << "." << key;
            const double unit =
                json_is_true(json_object_get(json_, "master_weights")) ? 1e-5 : unit_of(dtype_of(json_));
            if (json_is_number(value))
                EXPECT_NEAR(amp_item(t), json_number_value(value), 1e-5 * json_number_value(value)) << name << key;
            else
                compare_state(t, file_.numbers(text(value, "tensor")), unit, name + "." + key);
        }
        amp_state_free(have);
    }

    void compare_state(const amp_tensor *t, const std::vector<double> &want, double unit, const std::string &name) {
        const std::vector<double> got = numbers_of(t);
        ASSERT_EQ(got.size(), want.size());
        double largest = 0;
        for (double x : want) largest = std::max(largest, std::fabs(x));
        for (size_t i = 0; i < got.size(); i++)
            EXPECT_NEAR(got[i], want[i], unit * largest) << text(json_, "name") << " " << name << "[" << i << "]";
    }

    const Recorded &file_;
    const json_t *json_;
    amp_optimizer_kind kind_;
    std::map<std::string, Parameter> parameters_;
    amp_optimizer *optimizer_ = nullptr;
};

class Optimizers : public Test {};

TEST_F(Optimizers, FollowTheRecordedTrajectories) {
    Recorded file("optimizers");
    if (!file) GTEST_SKIP() << "neither AMP_GOLDEN_TRAIN nor AMP_GOLDEN names a folder of recorded training";
    std::map<std::string, std::pair<int, double>> ratios;
    for (size_t i = 0; i < json_array_size(file.cases()); i++) {
        const json_t *json = json_array_get(file.cases(), i);
        const Algorithm *a = algorithm_of(text(json, "optimizer"));
        if (!a) continue; // of those that PyTorch has beside
        SCOPED_TRACE(text(json, "name"));
        Scope scope;
        Trajectory trajectory(file, json, *a);
        trajectory.run();
        auto &[cases, sum] = ratios[a->name];
        cases++;
        sum += std::log(std::max(trajectory.ours, 1e-30) / std::max(trajectory.theirs, 1e-30)) / 2;
    }
    for (const auto &[name, ratio] : ratios) {
        printf("%-9s %3d cases, error %.2f of PyTorch's in geometric mean\n", name.c_str(), ratio.first,
               std::exp(ratio.second / ratio.first));
    }
}

} // namespace
