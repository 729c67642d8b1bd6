// Recorded training of PyTorch: cases of NAME.json and their tensors.
#ifndef AMP_TESTS_TRAIN_RECORDED_H
#define AMP_TESTS_TRAIN_RECORDED_H

#include <jansson.h>

#include <cmath>
#include <cstdlib>
#include <map>
#include <set>
#include <string>

#include "amp/io.h"
#include "amp/optimizer.h"
#include "amp_test.h"

namespace amp_test {

inline std::string text(const json_t *object, const char *field) {
    const char *value = json_string_value(json_object_get(object, field));
    return value ? value : "";
}

inline int64_t integer(const json_t *object, const char *field) {
    return json_integer_value(json_object_get(object, field));
}

// {"float": "inf"} where JSON has no word for it.
inline double number_of(const json_t *value) {
    if (!json_is_object(value)) return json_is_boolean(value) ? json_is_true(value) : json_number_value(value);
    return std::strtod(text(value, "float").c_str(), nullptr);
}

inline double number(const json_t *object, const char *field) {
    return number_of(json_object_get(object, field));
}

inline amp_dtype dtype_named(const std::string &name) {
    return name == "bf16" ? AMP_BF16 : name == "f16" ? AMP_F16 : name == "f64" ? AMP_F64 : AMP_F32;
}

inline amp_dtype dtype_of(const json_t *object) {
    return dtype_named(text(object, "dtype"));
}

inline double unit_of(amp_dtype dtype) {
    return dtype == AMP_BF16 ? 0.05 : dtype == AMP_F16 ? 0.01 : 1e-5;
}

inline Shape shape_of(const json_t *object) {
    Shape shape;
    json_t *extent;
    size_t i;
    json_array_foreach(json_object_get(object, "shape"), i, extent) shape.push_back(json_integer_value(extent));
    return shape;
}

inline std::vector<double> list_of(const json_t *list) {
    std::vector<double> numbers;
    json_t *value;
    size_t i;
    json_array_foreach(const_cast<json_t *>(list), i, value) numbers.push_back(number_of(value));
    return numbers;
}

// Options of PyTorch, by their names, on top of what is there.
inline void read_options(const json_t *options, amp_optimizer_args *a) {
    const std::map<std::string, amp_opt_float *> floats = {{"lr", &a->lr},
                                                           {"weight_decay", &a->weight_decay},
                                                           {"momentum", &a->momentum},
                                                           {"dampening", &a->dampening},
                                                           {"eps", &a->eps},
                                                           {"alpha", &a->alpha},
                                                           {"rho", &a->rho},
                                                           {"lr_decay", &a->lr_decay},
                                                           {"initial_accumulator_value", &a->initial_accumulator_value},
                                                           {"momentum_decay", &a->momentum_decay}};
    const std::map<std::string, amp_opt_bool *> bools = {{"nesterov", &a->nesterov},
                                                         {"amsgrad", &a->amsgrad},
                                                         {"centered", &a->centered},
                                                         {"decoupled_weight_decay", &a->decoupled_weight_decay},
                                                         {"maximize", &a->maximize}};
    const char *name;
    json_t *value;
    json_object_foreach(const_cast<json_t *>(options), name, value) {
        if (floats.count(name)) *floats.at(name) = amp_opt_float(number_of(value));
        if (bools.count(name)) *bools.at(name) = amp_opt_bool(json_is_true(value));
        if (std::string(name) != "betas") continue;
        a->beta1 = amp_opt_float(number_of(json_array_get(value, 0)));
        a->beta2 = amp_opt_float(number_of(json_array_get(value, 1)));
    }
}

inline amp_optimizer_args options_of(const json_t *options) {
    amp_optimizer_args args = {};
    args.struct_size = sizeof args;
    if (options) read_options(options, &args);
    return args;
}

class Recorded {
  public:
    explicit Recorded(const std::string &name) {
        const char *folder = std::getenv("AMP_GOLDEN_TRAIN"), *golden = std::getenv("AMP_GOLDEN");
        if (!folder && !golden) return;
        const std::string path = (folder ? folder : std::string(golden) + "/../golden_train") + std::string("/") + name;
        cases_ = json_load_file((path + ".json").c_str(), 0, nullptr);
        if (!cases_) return;
        tensors_ = amp_safetensors_open((path + ".safetensors").c_str());
        amp_clear_error(); // some have none
    }
    ~Recorded() {
        json_decref(cases_);
        amp_safetensors_close(tensors_);
    }
    Recorded(const Recorded &) = delete;
    Recorded &operator=(const Recorded &) = delete;
    explicit operator bool() const {
        return cases_ != nullptr;
    }
    const json_t *cases() const {
        return cases_;
    }
    std::vector<double> numbers(const std::string &key) const {
        Scope scope;
        amp_tensor *t = amp_safetensors_get(tensors_, key.c_str());
        if (!t) ADD_FAILURE() << amp_last_error();
        return numbers_of(t);
    }

  private:
    json_t *cases_ = nullptr;
    amp_safetensors *tensors_ = nullptr;
};

} // namespace amp_test

#endif // AMP_TESTS_TRAIN_RECORDED_H
