// Losses by element: formulas in every dtype against f64, special values, reductions, what bad input is told.
#include <functional>

#include "amp_test.h"

using namespace amp_test;

namespace {

class Losses : public Test {};

double softplus(double x) {
    return std::log1p(std::exp(-std::fabs(x))) + std::max(x, 0.0);
}

double clamped_log(double x) {
    return std::max(std::log(x), -100.0);
}

struct Case {
    const char *op;
    std::vector<Named> options;
    bool probabilities;                              // of both tensors
    std::function<double(double x, double t)> value; // of one element
};

std::vector<Case> cases() {
    return {
        {"mse_loss", {}, false, [](double x, double t) { return (x - t) * (x - t); }},
        {"l1_loss", {}, false, [](double x, double t) { return std::fabs(x - t); }},
        {"smooth_l1_loss",
         {{"beta", 0.25}},
         false,
         [](double x, double t) {
             const double z = std::fabs(x - t);
             return z < 0.25 ? 0.5 * z * z / 0.25 : z - 0.125;
         }},
        {"huber_loss",
         {{"delta", 0.25}},
         false,
         [](double x, double t) {
             const double z = std::fabs(x - t);
             return z < 0.25 ? 0.5 * z * z : 0.25 * (z - 0.125);
         }},
        {"hinge_embedding_loss",
         {{"margin", 0.5}},
         false,
         [](double x, double t) { return (t == 1 ? 0 : std::max(0.0, 0.5 - x)) + (t == -1 ? 0 : x); }},
        {"soft_margin_loss", {}, false, [](double x, double t) { return softplus(-t * x); }},
        {"binary_cross_entropy_with_logits", {}, false, [](double x, double t) { return softplus(x) - t * x; }},
        {"binary_cross_entropy",
         {},
         true,
         [](double x, double t) { return -t * clamped_log(x) - (1 - t) * clamped_log(1 - x); }},
        {"kl_div", {}, true, [](double x, double t) { return t * ((t == 0 ? 0 : std::log(t)) - x); }},
        {"kl_div", {{"log_target", true}}, false, [](double x, double t) { return std::exp(t) * (t - x); }},
        {"poisson_nll_loss", {}, false, [](double x, double t) { return std::exp(x) - t * x; }},
        {"poisson_nll_loss",
         {{"log_input", false}},
         true,
         [](double x, double t) { return x - t * std::log(x + 1e-8); }},
    };
}

amp_tensor *operand(amp_dtype dtype, const Shape &shape, uint64_t seed, bool probabilities) {
    amp_tensor *t = random_tensor(dtype, shape, seed);
    return probabilities ? op("abs", {t}) : t;
}

double tolerance_of(amp_dtype dtype) {
    return dtype == AMP_F64 ? 1e-14 : dtype == AMP_F32 ? 5e-7 : dtype == AMP_F16 ? 0x1p-10 : 0x1p-7;
}

TEST_F(Losses, MatchTheirFormulasInEveryDtype) {
    for (amp_dtype dtype : {AMP_F64, AMP_F32, AMP_F16, AMP_BF16}) {
        for (const Case &c : cases()) {
            SCOPED_TRACE(std::string(c.op) + " " + amp_dtype_name(dtype));
            amp_tensor *x = operand(dtype, {3, 1100}, 1, c.probabilities);
            amp_tensor *t = operand(dtype, {3, 1100}, 2, c.probabilities);
            const std::vector<double> xs = numbers_of(x), ts = numbers_of(t);
            std::vector<double> want;
            double sum = 0;
            for (size_t i = 0; i < xs.size(); i++) sum += (want.push_back(c.value(xs[i], ts[i])), want.back());
            std::vector<Named> none = c.options, total = c.options;
            none.push_back({"reduction", "none"});
            total.push_back({"reduction", "sum"});
            expect_near(op(c.op, {x, t}, none), want, tolerance_of(dtype));
            expect_near(op(c.op, {x, t}, c.options), {sum / 3300}, tolerance_of(dtype));
            if (dtype != AMP_F16) expect_near(op(c.op, {x, t}, total), {sum}, tolerance_of(dtype));
        }
    }
}

// More elements than what is computed in f64 for being so few: these numbers over and over.
amp_tensor *many(const std::vector<double> &numbers) {
    return tensor(AMP_F32, {2400}, numbers);
}
std::vector<double> repeated(const std::vector<double> &numbers) {
    std::vector<double> all;
    for (size_t i = 0; i < 2400; i++) all.push_back(numbers[i % numbers.size()]);
    return all;
}

TEST_F(Losses, SmallLogarithmsKeepTheirDigits) {
    amp_tensor *x = many({30, -40, 20}), *t = many({1, 0, 1});
    const std::vector<double> got = numbers_of(op("binary_cross_entropy_with_logits", {x, t}, {{"reduction", "none"}}));
    const std::vector<double> want = {softplus(-30), softplus(-40), softplus(-20)};
    for (size_t i = 0; i < 3; i++) EXPECT_NEAR(got[i] / want[i], 1, 1e-6);
    amp_tensor *p = many({1e-9}), *zero = many({0});
    EXPECT_NEAR(numbers_of(op("binary_cross_entropy", {p, zero}))[0] / 1e-9, 1, 1e-6);
}

TEST_F(Losses, NothingOverflows) {
    const std::vector<double> want = repeated({0, 1000, 1000, 0});
    amp_tensor *x = many({1000, -1000, 1000, -1000}), *t = many({1, 1, 0, 0});
    expect_near(op("binary_cross_entropy_with_logits", {x, t}, {{"reduction", "none"}}), want, 0);
    amp_tensor *labels = many({1, 1, -1, -1});
    expect_near(op("soft_margin_loss", {x, labels}, {{"reduction", "none"}}), want, 0);
    amp_tensor *p = many({0, 1}), *wrong = many({1, 0});
    expect_near(op("binary_cross_entropy", {p, wrong}, {{"reduction", "none"}}), repeated({100}), 0);
}

TEST_F(Losses, NanStays) {
    for (const Case &c : cases()) {
        if (!std::strcmp(c.op, "binary_cross_entropy")) continue; // NaN is no probability
        amp_tensor *x = many({NAN, 0.5}), *t = many({0.5});
        const std::vector<double> got = numbers_of(op(c.op, {x, t}, {{"reduction", "none"}}));
        EXPECT_TRUE(std::isnan(got[0])) << c.op;
        EXPECT_FALSE(std::isnan(got[1])) << c.op;
    }
}

TEST_F(Losses, OfNothing) {
    amp_tensor *x = tensor(AMP_F32, {0, 3});
    for (const char *name : {"mse_loss", "l1_loss", "kl_div", "binary_cross_entropy"}) {
        EXPECT_TRUE(std::isnan(numbers_of(op(name, {x, x}))[0])) << name;
        EXPECT_EQ(numbers_of(op(name, {x, x}, {{"reduction", "sum"}}))[0], 0) << name;
        EXPECT_EQ(amp_tensor_numel(op(name, {x, x}, {{"reduction", "none"}})), 0) << name;
    }
}

TEST_F(Losses, WeightsBroadcast) {
    amp_tensor *x = random_tensor(AMP_F32, {4, 3}, 3), *t = op("abs", {random_tensor(AMP_F32, {4, 3}, 4)});
    amp_tensor *w = tensor(AMP_F32, {3}, {0.5, 2, -1}), *f = tensor(AMP_F32, {3}, {3, 1, 0.25});
    const std::vector<double> xs = numbers_of(x), ts = numbers_of(t), ws = numbers_of(w), fs = numbers_of(f);
    std::vector<double> want;
    for (size_t i = 0; i < 12; i++) {
        want.push_back(ws[i % 3] * (fs[i % 3] * ts[i] * softplus(-xs[i]) + (1 - ts[i]) * softplus(xs[i])));
    }
    expect_near(op("binary_cross_entropy_with_logits", {x, t, w, f}, {{"reduction", "none"}}), want, 5e-7);
}

TEST_F(Losses, BroadcastAndStrided) {
    amp_tensor *x = op("transpose", {random_tensor(AMP_F32, {5, 4}, 5), 0, 1}), *t = random_tensor(AMP_F32, {5}, 6);
    const std::vector<double> xs = numbers_of(x), ts = numbers_of(t);
    std::vector<double> want;
    for (size_t i = 0; i < 20; i++) want.push_back(std::fabs(xs[i] - ts[i % 5]));
    expect_near(op("l1_loss", {x, t}, {{"reduction", "none"}}), want, 1e-7);
}

TEST_F(Losses, MarginRanking) {
    amp_tensor *a = tensor(AMP_F32, {3}, {1, 2, 3}), *b = tensor(AMP_F32, {3}, {2, 2, 1});
    amp_tensor *t = tensor(AMP_F32, {3}, {1, -1, 1});
    expect_near(op("margin_ranking_loss", {a, b, t}, {{"margin", 0.5}, {"reduction", "none"}}), {1.5, 0.5, 0}, 0);
}

TEST_F(Losses, BatchmeanIsKlDivsAlone) {
    amp_tensor *x = tensor(AMP_F32, {2, 3}, {-1}), *t = tensor(AMP_F32, {2, 3}, {1});
    expect_near(op("kl_div", {x, t}, {{"reduction", "batchmean"}}), {3}, 0);
    EXPECT_EQ(op("mse_loss", {x, t}, {{"reduction", "batchmean"}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"mse_loss", "reduction", "batchmean", "none"}));
}

TEST_F(Losses, IntegersWhereTheResultIsOne) {
    amp_tensor *x = tensor(AMP_I32, {3}, {5, 2, 1}), *t = tensor(AMP_I32, {3}, {1, 4, 1});
    amp_tensor *sum = op("l1_loss", {x, t}, {{"reduction", "sum"}});
    EXPECT_EQ(amp_tensor_dtype(sum), AMP_I64);
    expect_near(sum, {6}, 0);
    EXPECT_EQ(op("l1_loss", {x, t}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"l1_loss", "i32", "floating"}));
    EXPECT_EQ(op("mse_loss", {x, t}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"mse_loss", "i32", "floating"}));
    EXPECT_EQ(amp_tensor_dtype(op("mse_loss", {op("to", {x, AMP_BF16}), t})), AMP_BF16);
    EXPECT_EQ(amp_tensor_dtype(op("hinge_embedding_loss", {x, t})), AMP_F32);
}

// Values of PyTorch 2.13.
TEST_F(Losses, DifferencesOfIntegersWrap) {
    const int64_t shape[] = {3}, least = INT64_MIN, most = INT64_MAX;
    const int64_t x[] = {0, most, least}, t[] = {least, -2, 1}, want[] = {least, most, most};
    amp_tensor *z = op("l1_loss", {amp_from_data(x, AMP_I64, 1, shape), amp_from_data(t, AMP_I64, 1, shape)},
                       {{"reduction", "none"}});
    ASSERT_EQ(amp_tensor_dtype(z), AMP_I64);
    EXPECT_EQ(0, std::memcmp(amp_data(z), want, sizeof want));
}

TEST_F(Losses, RefuseBadInput) {
    amp_tensor *x = tensor(AMP_F32, {2, 3}, {0.5}), *y = tensor(AMP_F32, {4}, {0.5});
    amp_tensor *z = tensor(AMP_F32, {3}, {1.5}), *bad = many({0.5, NAN, 0.25});
    EXPECT_EQ(op("mse_loss", {x, y}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"mse_loss", "[2, 3]", "[4]", "broadcast"}));
    EXPECT_EQ(op("binary_cross_entropy", {x, z}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"binary_cross_entropy", "target", "[3]", "equal shapes"}));
    EXPECT_EQ(op("binary_cross_entropy", {z, z}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"binary_cross_entropy", "input", "0 to 1"}));
    EXPECT_EQ(op("binary_cross_entropy", {bad, bad}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"binary_cross_entropy", "input", "0 to 1"}));
    EXPECT_EQ(op("huber_loss", {x, x}, {{"delta", 0.0}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"huber_loss", "delta"}));
    EXPECT_EQ(op("smooth_l1_loss", {x, x}, {{"beta", -1.0}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"smooth_l1_loss", "beta"}));
}

} // namespace
