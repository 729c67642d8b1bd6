// Gradients are clipped as PyTorch's recorded ones; norms are those of f64.
#include "recorded.h"

#include "amp/grad.h"

using namespace amp_test;

namespace {

struct Clipped {
    explicit Clipped(const Recorded &file, const json_t *json) {
        json_t *g;
        size_t i;
        json_array_foreach(json_object_get(json, "grads"), i, g) {
            const std::vector<double> values = file.numbers(text(g, "tensor"));
            amp_tensor *t = tensor(dtype_of(g), shape_of(g), values);
            EXPECT_TRUE(amp_parameters_add(list, ("p" + std::to_string(i)).c_str(), t)) << amp_last_error();
            EXPECT_EQ(amp_tensor_set_grad(t, tensor(dtype_of(g), shape_of(g), values)), AMP_OK);
            before.push_back(values);
        }
        EXPECT_TRUE(amp_parameters_add(list, "without", tensor(AMP_F32, {2})));
    }
    ~Clipped() {
        amp_parameters_destroy(list);
    }
    Clipped(const Clipped &) = delete;
    Clipped &operator=(const Clipped &) = delete;
    amp_parameters *list = amp_parameters_create();
    std::vector<std::vector<double>> before;
};

void expect_same(double got, double want, double tolerance, const std::string &where) {
    if (std::isnan(want))
        EXPECT_TRUE(std::isnan(got)) << where;
    else if (std::isinf(want))
        EXPECT_EQ(got, want) << where;
    else
        EXPECT_NEAR(got, want, tolerance) << where;
}

double clip_norm(amp_parameters *list, const json_t *options) {
    amp_clip_grad_norm_args args = {};
    args.struct_size = sizeof args;
    args.parameters = list;
    args.max_norm = number(options, "max_norm");
    if (json_object_get(options, "norm_type")) args.norm_type = amp_opt_float(number(options, "norm_type"));
    args.error_if_nonfinite = json_is_true(json_object_get(options, "error_if_nonfinite"));
    return amp_clip_grad_norm_call(&args);
}

class Clipping : public Test {};

TEST_F(Clipping, IsThatOfTheRecordedCases) {
    Recorded file("clipping");
    if (!file) GTEST_SKIP() << "neither AMP_GOLDEN_TRAIN nor AMP_GOLDEN names a folder of recorded training";
    for (size_t c = 0; c < json_array_size(file.cases()); c++) {
        Scope scope;
        const json_t *json = json_array_get(file.cases(), c), *options = json_object_get(json, "options");
        const std::string name = text(json, "name");
        Clipped clipped(file, json);
        const bool by_norm = text(json, "function") == "clip_grad_norm_", fails = json_object_get(json, "error");
        const json_t *returns = json_object_get(json, "returns"), *after = json_object_get(json, "after");
        // PyTorch's norm may be off: of 16-bit gradients it is rounded so, and squares over- and underflow. What follows from
        // the truth counts then.
        const double truth = number(returns, "truth"), theirs = number(returns, "value");
        const bool is_off = by_norm && !fails && std::isfinite(truth) && std::fabs(theirs - truth) > 1e-7 * truth;
        const double factor = std::min(1.0, number(options, "max_norm") / (truth + 1e-6));
        if (by_norm) {
            const double total = clip_norm(clipped.list, options);
            EXPECT_EQ(amp_last_status(), fails ? AMP_ERROR_INVALID : AMP_OK) << name << ": " << amp_last_error();
            if (!fails) expect_same(total, truth, 1e-9 * truth, name);
        } else {
            EXPECT_EQ(amp_clip_grad_value(clipped.list, number(options, "clip_value")), AMP_OK) << amp_last_error();
        }
        amp_clear_error();
        for (size_t i = 0; i < clipped.before.size(); i++) {
            const std::vector<double> got = numbers_of(amp_tensor_grad(amp_parameters_at(clipped.list, int64_t(i))));
            const json_t *a = json_array_get(after, i);
            std::vector<double> want = fails || is_off ? clipped.before[i] : file.numbers(text(a, "tensor"));
            for (size_t k = 0; is_off && k < want.size(); k++)
                want[k] = text(a, "dtype") == "f32" ? double(float(want[k] * factor)) : want[k] * factor;
            for (size_t k = 0; k < got.size(); k++) {
                const double tolerance = fails ? 0 : number(a, "atol") + number(a, "rtol") * std::fabs(want[k]);
                expect_same(got[k], want[k], tolerance, name + " " + std::to_string(i));
            }
        }
    }
}

} // namespace
