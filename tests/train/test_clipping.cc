// Gradients are clipped as PyTorch's recorded ones; norms are those of f64.
#include <cmath>

#include "ending_memory.h"
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

// Gradients of every kind in one list; what is made of the same seed is the same.
struct Motley {
    Motley() {
        amp_tensor *wide = op("zeros", {AMP_DIMS(7, 90)}), *slice = op("slice", {wide, 1, 3, 80, 1});
        op("copy_", {slice, random_tensor(AMP_F32, {7, 77}, 2)});
        grads = {random_tensor(AMP_F32, {3}, 1),     slice,
                 random_tensor(AMP_F32, {0, 5}, 3),  random_tensor(AMP_BF16, {50021}, 4),
                 random_tensor(AMP_F16, {5001}, 5),  random_tensor(AMP_F64, {100, 3}, 6),
                 random_tensor(AMP_F32, {130001}, 7)};
        for (size_t i = 0; i < grads.size(); i++) {
            amp_tensor *t = op("zeros_like", {grads[i]});
            EXPECT_TRUE(amp_parameters_add(list, ("p" + std::to_string(i)).c_str(), t));
            EXPECT_EQ(amp_tensor_set_grad(t, grads[i]), AMP_OK) << amp_last_error();
        }
    }
    ~Motley() {
        amp_parameters_destroy(list);
    }
    Motley(const Motley &) = delete;
    Motley &operator=(const Motley &) = delete;
    double norm(double order, double most) const {
        amp_clip_grad_norm_args args = {};
        args.struct_size = sizeof args;
        args.parameters = list;
        args.max_norm = most;
        args.norm_type = amp_opt_float(order);
        return amp_clip_grad_norm_call(&args);
    }
    std::vector<std::vector<double>> values() const {
        std::vector<std::vector<double>> all;
        for (int64_t i = 0; i < int64_t(grads.size()); i++)
            all.push_back(numbers_of(amp_tensor_grad(amp_parameters_at(list, i))));
        return all;
    }
    amp_parameters *list = amp_parameters_create();
    std::vector<amp_tensor *> grads;
};

TEST_F(Clipping, IsTheSameOpByOpAndByAnyNumberOfThreads) {
    const int before = amp_get_num_threads();
    double norm = 0;
    for (int threads : {1, 2, 5}) {
        SCOPED_TRACE(threads);
        ASSERT_EQ(amp_set_num_threads(threads), AMP_OK);
        const Scope scope;
        Motley m;
        double sum = 0;
        for (const auto &grad : m.values()) {
            for (double x : grad) sum += x * x;
        }
        std::vector<std::vector<double>> want;
        const double total = m.norm(2, INFINITY);
        EXPECT_NEAR(total, std::sqrt(sum), 1e-12 * std::sqrt(sum));
        if (threads == 1) norm = total;
        EXPECT_EQ(total, norm);
        for (amp_tensor *g : m.grads) want.push_back(numbers_of(op("mul", {g, amp_float(0.5 / (total + 1e-6))})));
        EXPECT_EQ(m.norm(2, 0.5), total);
        EXPECT_EQ(m.values(), want);
        Motley other;
        want.clear();
        for (amp_tensor *g : other.grads) want.push_back(numbers_of(op("clamp", {g, amp_float(-0.3), amp_float(0.3)})));
        ASSERT_EQ(amp_clip_grad_value(other.list, 0.3), AMP_OK) << amp_last_error();
        EXPECT_EQ(other.values(), want);
    }
    ASSERT_EQ(amp_set_num_threads(before), AMP_OK);
}

TEST_F(Clipping, SquaresOfAnyF32DoNotOverflowAndWhatIsNotFiniteIsSeen) {
    const double large = 3e38 * std::sqrt(130001.0);
    const Motley much, none, endless;
    op("fill_", {much.grads[6], amp_float(3e38)});
    EXPECT_NEAR(much.norm(2, INFINITY), large, 1e-6 * large);
    op("fill_", {op("select", {none.grads[6], 0, 130000}), amp_float(NAN)});
    EXPECT_TRUE(std::isnan(none.norm(2, INFINITY)));
    op("fill_", {op("select", {endless.grads[6], 0, 70000}), amp_float(-INFINITY)});
    EXPECT_EQ(endless.norm(2, INFINITY), INFINITY);
}

TEST_F(Clipping, AGradientOfTwoParametersIsScaledTwice) {
    const int before = amp_get_num_threads();
    ASSERT_EQ(amp_set_num_threads(4), AMP_OK);
    amp_tensor *g = op("full", {AMP_DIMS(200000), amp_float(8)});
    amp_tensor *const both[] = {g, g};
    amp_foreach_clip_args args = {};
    args.struct_size = sizeof args;
    args.grads = {both, 2, nullptr};
    args.factor = 0.5;
    args.limit = INFINITY;
    ASSERT_TRUE(amp_foreach_clip_call(&args)) << amp_last_error();
    EXPECT_EQ(numbers_of(g), std::vector<double>(200000, 2));
    ASSERT_EQ(amp_set_num_threads(before), AMP_OK);
}

amp_tensor *complex_tensor(const std::vector<double> &pairs) {
    return op("view_as_complex", {tensor(AMP_F32, {int64_t(pairs.size()) / 2, 2}, pairs)});
}

// |3 + 4i| is 5: norms of every order, and what becomes of it, are PyTorch 2.13's.
TEST_F(Clipping, ComplexGradientsCountByTheirAbsoluteValues) {
    const struct {
        double order, norm;
    } cases[] = {{2, std::sqrt(51.0)}, {1, 13}, {INFINITY, 5}, {3, 6.00924500691737}};
    for (const auto &c : cases) {
        const Scope scope;
        amp_parameters *list = amp_parameters_create();
        amp_tensor *p = amp_parameters_add(list, "complex", tensor(AMP_C64, {2}, {0}));
        amp_tensor *q = amp_parameters_add(list, "real", op("zeros", {AMP_DIMS(2)}));
        ASSERT_EQ(amp_tensor_set_grad(p, complex_tensor({3, 4, 0, 1})), AMP_OK) << amp_last_error();
        ASSERT_EQ(amp_tensor_set_grad(q, tensor(AMP_F32, {2}, {3, 4})), AMP_OK);
        amp_clip_grad_norm_args args = {};
        args.struct_size = sizeof args;
        args.parameters = list;
        args.max_norm = 1;
        args.norm_type = amp_opt_float(c.order);
        EXPECT_NEAR(amp_clip_grad_norm_call(&args), c.norm, 1e-12 * c.norm) << amp_last_error();
        const double factor = std::min(1.0, 1 / (c.norm + 1e-6));
        const std::vector<double> got = numbers_of(op("view_as_real", {amp_tensor_grad(p)}));
        const std::vector<double> before = {3, 4, 0, 1};
        for (size_t i = 0; i < 4; i++) EXPECT_FLOAT_EQ(float(got[i]), float(before[i] * factor));
        EXPECT_FLOAT_EQ(float(numbers_of(amp_tensor_grad(q))[1]), float(4 * factor));
        amp_parameters_destroy(list);
    }
}

TEST_F(Clipping, ComplexGradientsHaveNoValueToBeClippedBy) {
    amp_parameters *list = amp_parameters_create();
    amp_tensor *q = amp_parameters_add(list, "real", op("zeros", {AMP_DIMS(1)}));
    amp_tensor *p = amp_parameters_add(list, "spectrum", tensor(AMP_C64, {1}, {0}));
    ASSERT_EQ(amp_tensor_set_grad(q, tensor(AMP_F32, {1}, {3})), AMP_OK);
    ASSERT_EQ(amp_tensor_set_grad(p, complex_tensor({3, 4})), AMP_OK);
    EXPECT_EQ(amp_clip_grad_value(list, 1), AMP_ERROR_DTYPE);
    EXPECT_NE(std::string(amp_last_error()).find("'spectrum'"), std::string::npos) << amp_last_error();
    amp_clear_error();
    EXPECT_EQ(numbers_of(amp_tensor_grad(q))[0], 3);
    amp_parameters_destroy(list);
}

TEST_F(Clipping, WithoutMemoryNothingIsClipped) {
    Motley m;
    const auto want = m.values();
    EndingMemory memory;
    memory.until_it_works([&] { (void)m.norm(2, INFINITY); }, [&] { ASSERT_EQ(m.values(), want); });
    EXPECT_EQ(m.values(), want);
}

} // namespace
