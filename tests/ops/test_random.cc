// Random ops: distributions by fixed seeds, dtypes and bounds, generators and their state, threads, layouts, errors.
#include "amp_test.h"
#include "sanitizers.h"

#include <cstdlib>
#include <map>
#include <set>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "internals.h"

extern "C" {
#include "ops/random_results.h"
}

using namespace amp_test;

namespace {

using Numbers = std::vector<double>;

class Random : public Test {
  protected:
    void SetUp() override {
        Test::SetUp();
        amp_manual_seed(20);
    }
    void TearDown() override {
        amp_set_num_threads(threads_);
        Test::TearDown();
    }

    // The first error of a call; "" if there is none.
    static std::string error_of(const std::string &name, const std::vector<Value> &values,
                                const std::vector<Named> &named = {}) {
        EXPECT_EQ(op(name, values, named), nullptr);
        const std::string error = amp_last_status() == AMP_OK ? "" : amp_last_error();
        amp_clear_error();
        return error;
    }

    const int threads_ = amp_get_num_threads();
};

const amp_dtype floats[] = {AMP_F32, AMP_F64, AMP_F16, AMP_BF16};

double mean_of(const Numbers &x) {
    double sum = 0;
    for (double v : x) sum += v;
    return sum / double(x.size());
}

double moment(const Numbers &x, int power) {
    double sum = 0;
    for (double v : x) sum += std::pow(v, power);
    return sum / double(x.size());
}

// The greatest distance between the share of numbers up to x and what the distribution has there, times √n: above 1.95
// in one of 1,000 sequences (Kolmogorov and Smirnov). For steps of a dtype `step` wide beside.
template <class Distribution>
double distance_from(Numbers x, double step, const Distribution &distribution) {
    std::sort(x.begin(), x.end());
    double greatest = 0;
    for (size_t i = 0; i < x.size(); i++) {
        const double n = double(x.size()), low = distribution(x[i] - step), high = distribution(x[i] + step);
        greatest = std::max({greatest, double(i + 1) / n - high, low - double(i) / n});
    }
    return greatest * std::sqrt(double(x.size()));
}

double uniform_up_to(double x) {
    return std::min(1.0, std::max(0.0, x));
}

double normal_up_to(double x) {
    return 0.5 * std::erfc(-x * M_SQRT1_2);
}

// Σ (counted − expected)²/expected, less its mean, in units of its deviation: of so many cells nearly normal.
double chi_square(const std::vector<int64_t> &counts, double expected) {
    double sum = 0;
    for (int64_t c : counts) sum += (double(c) - expected) * (double(c) - expected) / expected;
    const double freedom = double(counts.size()) - 1;
    return (sum - freedom) / std::sqrt(2 * freedom);
}

// ---- Distributions ----------------------------------------------------------------------------------------------

TEST_F(Random, UniformNumbersAreUniform) {
    for (amp_dtype dtype : floats) {
        SCOPED_TRACE(amp_dtype_name(dtype));
        const Numbers x = numbers_of(op("rand", {AMP_DIMS(200000)}, {{"dtype", dtype}}));
        const double step = dtype == AMP_BF16 ? 0x1p-8 : dtype == AMP_F16 ? 0x1p-11 : 0;
        EXPECT_LT(distance_from(x, step, uniform_up_to), 1.95);
        EXPECT_NEAR(mean_of(x), 0.5 - step / 2, 4 * std::sqrt(1 / 12.0 / 200000));
        EXPECT_GE(*std::min_element(x.begin(), x.end()), 0.0);
        EXPECT_LT(*std::max_element(x.begin(), x.end()), 1.0);
    }
}

TEST_F(Random, NormalNumbersAreNormal) {
    for (amp_dtype dtype : floats) {
        SCOPED_TRACE(amp_dtype_name(dtype));
        const Numbers x = numbers_of(op("randn", {AMP_DIMS(200000)}, {{"dtype", dtype}}));
        const double n = 200000, step = dtype == AMP_BF16 ? 0x1p-7 : dtype == AMP_F16 ? 0x1p-10 : 0;
        EXPECT_LT(distance_from(x, step, normal_up_to), 1.95);
        EXPECT_NEAR(mean_of(x), 0, 4 / std::sqrt(n));
        EXPECT_NEAR(moment(x, 2), 1, 4 * std::sqrt(2 / n));
        EXPECT_NEAR(moment(x, 3), 0, 4 * std::sqrt(15 / n));
        EXPECT_NEAR(moment(x, 4), 3, 4 * std::sqrt(96 / n));
        EXPECT_GT(*std::max_element(x.begin(), x.end()), 4.0); // 6 of 200,000 lie above
        EXPECT_LT(*std::min_element(x.begin(), x.end()), -4.0);
    }
}

// Neighbours, and the two numbers of one pair, have nothing to do with each other.
TEST_F(Random, NeighboursAreIndependent) {
    for (amp_dtype dtype : {AMP_F32, AMP_F64}) {
        const Numbers x = numbers_of(op("randn", {AMP_DIMS(200000)}, {{"dtype", dtype}}));
        for (size_t lag : {1, 2, 16, 32, 48, 64}) {
            double plain = 0, squares = 0;
            for (size_t i = lag; i < x.size(); i++) {
                plain += x[i] * x[i - lag];
                squares += (x[i] * x[i] - 1) * (x[i - lag] * x[i - lag] - 1);
            }
            EXPECT_LT(std::fabs(plain) / std::sqrt(200000), 4) << lag;
            EXPECT_LT(std::fabs(squares) / 2 / std::sqrt(200000), 4) << lag;
        }
    }
}

TEST_F(Random, ComplexNumbersHaveVarianceOne) {
    for (amp_dtype dtype : {AMP_C64, AMP_C128}) {
        amp_tensor *z = op("randn", {AMP_DIMS(50000)}, {{"dtype", dtype}});
        const Numbers size = numbers_of(op("abs", {z}));
        EXPECT_NEAR(moment(size, 2), 1, 4 / std::sqrt(50000));
        EXPECT_NEAR(moment(numbers_of(z), 2), 0.5, 4 * std::sqrt(0.5 / 50000));
    }
}

TEST_F(Random, IntegersAreEquallyLikely) {
    for (amp_dtype dtype : {AMP_I64, AMP_I32, AMP_I16, AMP_I8, AMP_F64, AMP_F32, AMP_F16, AMP_BF16}) {
        std::vector<int64_t> counts(100);
        for (double v : numbers_of(op("randint", {-40, 60, AMP_DIMS(100000)}, {{"dtype", dtype}}))) {
            ASSERT_TRUE(v >= -40 && v < 60 && v == std::floor(v)) << v;
            counts[size_t(v + 40)]++;
        }
        EXPECT_LT(std::fabs(chi_square(counts, 1000)), 3.5) << amp_dtype_name(dtype);
    }
    EXPECT_EQ(numbers_of(op("randint", {1, AMP_DIMS(3)}, {{"dtype", AMP_BOOL}})), Numbers(3, 0));
    const Numbers truths = numbers_of(op("randint", {2, AMP_DIMS(1000)}, {{"dtype", AMP_BOOL}}));
    EXPECT_NEAR(mean_of(truths), 0.5, 0.06);
}

// The eighths of a range that 32 bits cannot tell apart, and of all integers but one.
TEST_F(Random, LargeRangesAreEquallyLikely) {
    for (const bool all : {false, true}) {
        const int64_t low = all ? INT64_MIN : -(int64_t(3) << 40), high = all ? INT64_MAX : int64_t(3) << 40;
        amp_tensor *t = op("randint", {low, high, AMP_DIMS(64000)});
        ASSERT_NE(t, nullptr) << amp_last_error();
        const auto *v = static_cast<const int64_t *>(amp_data(t));
        std::vector<int64_t> counts(8), low_bits(16);
        for (int i = 0; i < 64000; i++) {
            ASSERT_TRUE(v[i] >= low && v[i] < high);
            counts[size_t((double(v[i]) - double(low)) / (double(high) - double(low)) * 8) & 7]++;
            low_bits[size_t(v[i] & 15)]++;
        }
        EXPECT_LT(std::fabs(chi_square(counts, 8000)), 3.5) << all;
        EXPECT_LT(std::fabs(chi_square(low_bits, 4000)), 3.5) << all;
    }
}

TEST_F(Random, PermutationsAreEquallyLikely) {
    std::map<std::vector<double>, int64_t> seen;
    for (int i = 0; i < 2400; i++) {
        Scope scope;
        seen[numbers_of(op("randperm", {4}))]++;
    }
    ASSERT_EQ(seen.size(), 24u);
    std::vector<int64_t> counts;
    for (const auto &entry : seen) counts.push_back(entry.second);
    EXPECT_LT(std::fabs(chi_square(counts, 100)), 3.5);
    Numbers large = numbers_of(op("randperm", {100000})), sorted = large;
    std::sort(sorted.begin(), sorted.end());
    for (size_t i = 0; i < sorted.size(); i++) ASSERT_EQ(sorted[i], double(i));
    EXPECT_NE(large, sorted);
    EXPECT_EQ(amp_tensor_dtype(op("randperm", {5})), AMP_I64);
    EXPECT_EQ(amp_tensor_dtype(op("randperm", {256}, {{"dtype", AMP_U8}})), AMP_U8);
    EXPECT_EQ(amp_tensor_numel(op("randperm", {0})), 0);
}

TEST_F(Random, BernoulliHitsWithItsProbability) {
    const int64_t n = 100000;
    for (double p : {0.0, 1e-4, 0.3, 0.5, 0.999, 1.0}) {
        const double deviation = std::sqrt(p * (1 - p) / double(n));
        for (amp_dtype dtype : {AMP_F32, AMP_F64, AMP_F16, AMP_BF16, AMP_I64, AMP_U8, AMP_BOOL}) {
            const Numbers x = numbers_of(op("bernoulli_", {op("zeros", {AMP_DIMS(n), dtype}), p}));
            EXPECT_NEAR(mean_of(x), p, 4 * deviation) << p << " " << amp_dtype_name(dtype);
            EXPECT_EQ(mean_of(x), moment(x, 2)) << "only 0 and 1";
        }
        for (amp_dtype dtype : {AMP_F32, AMP_F64}) { // the probabilities as a tensor
            amp_tensor *given = op("full", {AMP_DIMS(n), p, dtype});
            EXPECT_NEAR(mean_of(numbers_of(op("bernoulli", {given}))), p, 4 * deviation) << p;
        }
    }
    EXPECT_NEAR(mean_of(numbers_of(op("bernoulli_", {op("zeros", {AMP_DIMS(n)})}))), 0.5, 0.01); // PyTorch's default
}

// A number and a tensor full of it decide alike, element by element, in f32 and f64.
TEST_F(Random, ProbabilitiesAreTheSameAsNumberAndAsTensor) {
    amp_tensor *x = op("zeros", {AMP_DIMS(5000)});
    for (amp_dtype dtype : {AMP_F32, AMP_F64}) {
        amp_manual_seed(7);
        const Numbers a = numbers_of(op("bernoulli", {x, 0.3125}));
        amp_manual_seed(7);
        EXPECT_EQ(numbers_of(op("bernoulli", {x, op("full", {AMP_DIMS(1), 0.3125, dtype})})), a);
    }
}

TEST_F(Random, MultinomialDrawsByWeight) {
    amp_tensor *weights = tensor(AMP_F32, {2, 4}, {1, 0, 2, 5, 3, 3, 0, 0});
    const double want[2][4] = {{0.125, 0, 0.25, 0.625}, {0.5, 0.5, 0, 0}};
    amp_tensor *drawn = op("multinomial", {weights, 20000, true});
    ASSERT_NE(drawn, nullptr) << amp_last_error();
    EXPECT_EQ(amp_tensor_dtype(drawn), AMP_I64);
    const Numbers indices = numbers_of(drawn);
    for (size_t row = 0; row < 2; row++) {
        std::vector<double> share(4);
        for (size_t i = 0; i < 20000; i++) share[size_t(indices[row * 20000 + i])] += 1 / 20000.0;
        for (size_t k = 0; k < 4; k++) {
            EXPECT_NEAR(share[k], want[row][k], 4 * std::sqrt(want[row][k] / 20000)) << row << " " << k;
        }
    }
}

TEST_F(Random, MultinomialWithoutReplacementDrawsEachOnce) {
    const int64_t rows = 20000;
    amp_tensor *weights = op("expand", {tensor(AMP_BF16, {3}, {1, 2, 5}), AMP_DIMS(rows, 3)});
    const Numbers drawn = numbers_of(op("multinomial", {weights, 2}));
    double first[3] = {}, pairs[3][3] = {};
    for (size_t i = 0; i < size_t(rows); i++) {
        ASSERT_NE(drawn[2 * i], drawn[2 * i + 1]);
        first[size_t(drawn[2 * i])] += 1.0 / rows;
        pairs[size_t(drawn[2 * i])][size_t(drawn[2 * i + 1])] += 1.0 / rows;
    }
    const double w[3] = {1, 2, 5};
    for (size_t i = 0; i < 3; i++) {
        EXPECT_NEAR(first[i], w[i] / 8, 0.015) << i;
        for (size_t k = 0; k < 3; k++) {
            if (k == i) continue;
            EXPECT_NEAR(pairs[i][k], w[i] / 8 * w[k] / (8 - w[i]), 0.015) << i << " " << k;
        }
    }
    // all of them, those of weight 0 last
    const Numbers all = numbers_of(op("multinomial", {tensor(AMP_F32, {4}, {0, 1, 0, 1}), 4}));
    EXPECT_EQ(std::set<double>(all.begin(), all.begin() + 2), (std::set<double>{1, 3}));
    EXPECT_EQ(std::set<double>(all.begin(), all.end()).size(), 4u);
}

// ---- Bounds -------------------------------------------------------------------------------------------------------

TEST_F(Random, UpperBoundIsNeverReached) {
    const struct {
        double from, to;
    } bounds[] = {{0, 1}, {-1, 1}, {1, 1.01}, {-3, -2}, {0, 1e-30}, {1000, 1001}, {-1, 0}, {0.1, 0.3}};
    for (amp_dtype dtype : floats) {
        for (const auto &b : bounds) {
            amp_tensor *low = tensor(dtype, {}, {b.from}), *high = tensor(dtype, {}, {b.to});
            const double from = numbers_of(low)[0], to = numbers_of(high)[0]; // rounded to the dtype
            const Numbers x = numbers_of(op("uniform_", {op("empty", {AMP_DIMS(70000), dtype}), b.from, b.to}));
            const double least = *std::min_element(x.begin(), x.end()), most = *std::max_element(x.begin(), x.end());
            EXPECT_GE(least, from) << amp_dtype_name(dtype) << " " << b.from;
            EXPECT_TRUE(most < to || (from == to && most == to)) << amp_dtype_name(dtype) << " " << b.to << " " << most;
        }
    }
}

TEST_F(Random, HalfPrecisionHasTheBitsOfFloat) {
    const auto words_of = [](amp_dtype dtype, double scale) {
        amp_manual_seed(5);
        Numbers x = numbers_of(op("rand", {AMP_DIMS(1000), dtype}));
        for (double &v : x) v = std::floor(v * scale);
        return x;
    };
    EXPECT_EQ(words_of(AMP_BF16, 256), words_of(AMP_F32, 256));
    EXPECT_EQ(words_of(AMP_F16, 2048), words_of(AMP_F32, 2048));
    // all there are of bf16, 1 − 2⁻⁸ the last
    const Numbers x = numbers_of(op("rand", {AMP_DIMS(20000), AMP_BF16}));
    const std::set<double> distinct(x.begin(), x.end());
    EXPECT_EQ(distinct.size(), 256u);
    EXPECT_EQ(*distinct.rbegin(), 1 - 0x1p-8);
}

TEST_F(Random, MeanAndDeviationAreApplied) {
    for (amp_dtype dtype : floats) {
        const Numbers x = numbers_of(op("normal_", {op("empty", {AMP_DIMS(50000), dtype}), 3.0, 0.5}));
        EXPECT_NEAR(mean_of(x), 3, 0.015) << amp_dtype_name(dtype);
        EXPECT_NEAR(moment(x, 2) - mean_of(x) * mean_of(x), 0.25, 0.01) << amp_dtype_name(dtype);
        EXPECT_EQ(numbers_of(op("normal_", {op("empty", {AMP_DIMS(3), dtype}), 3.0, 0.0})), Numbers(3, 3.0));
    }
}

// ---- Dropout --------------------------------------------------------------------------------------------------------

TEST_F(Random, DropoutKeepsScaledElements) {
    for (amp_dtype dtype : floats) {
        for (double p : {0.1, 0.5, 0.9}) {
            amp_tensor *x = op("full", {AMP_DIMS(20000), 3.0, dtype});
            const Numbers y = numbers_of(op("dropout", {x, p}));
            const double scale = 1 / (1 - p); // in f32 for all but f64
            const double kept =
                numbers_of(tensor(dtype, {}, {dtype == AMP_F64 ? 3 * scale : double(3 * float(scale))}))[0];
            double dropped = 0;
            for (double v : y) {
                ASSERT_TRUE(v == 0 || v == kept) << v << ", kept are " << kept;
                dropped += v == 0;
            }
            EXPECT_NEAR(dropped / 20000, p, 4 * std::sqrt(p * (1 - p) / 20000)) << amp_dtype_name(dtype);
        }
    }
}

TEST_F(Random, DropoutMayKeepOrDropAll) {
    amp_tensor *x = tensor(AMP_F32, {5}, {1, 2, INFINITY, NAN, -1}), *whole = tensor(AMP_I64, {2}, {4, 5});
    for (const char *name : {"dropout", "feature_dropout", "alpha_dropout"}) {
        SCOPED_TRACE(name);
        amp_generator_state before = {sizeof before, 0, 0}, after = before;
        ASSERT_EQ(amp_generator_get_state(amp_generator_default(AMP_DEVICE_CPU), &before), AMP_OK);
        amp_tensor *same = op(name, {x, 0.5, false});
        ASSERT_NE(same, nullptr) << amp_last_error();
        EXPECT_EQ(amp_data(same), amp_data(x));
        EXPECT_EQ(amp_data(op(name, {x, 0.0})), amp_data(x));
        EXPECT_EQ(numbers_of(op(name, {whole, 0.5, false})), (Numbers{4, 5}));
        EXPECT_EQ(op(std::string(name) + "_", {x, 0.5, false}), x);
        ASSERT_EQ(amp_generator_get_state(amp_generator_default(AMP_DEVICE_CPU), &after), AMP_OK);
        EXPECT_EQ(before.offset, after.offset) << "nothing was drawn";
    }
    const Numbers none = numbers_of(op("dropout", {x, 1.0})); // as in PyTorch, infinity · 0 is NaN
    EXPECT_TRUE(none[0] == 0 && none[1] == 0 && std::isnan(none[2]) && std::isnan(none[3]) && none[4] == 0);
    EXPECT_EQ(numbers_of(op("alpha_dropout", {tensor(AMP_F32, {3}), 1.0})), Numbers(3, 0.0));
}

TEST_F(Random, FeatureDropoutDropsWholeChannels) {
    amp_tensor *y = op("feature_dropout", {op("ones", {AMP_DIMS(40, 50, 3, 2)}), 0.25});
    ASSERT_NE(y, nullptr) << amp_last_error();
    const Numbers v = numbers_of(y);
    double dropped = 0;
    for (size_t channel = 0; channel < 2000; channel++) {
        for (size_t i = 1; i < 6; i++) ASSERT_EQ(v[channel * 6], v[channel * 6 + i]) << channel;
        ASSERT_TRUE(v[channel * 6] == 0 || v[channel * 6] == 4.0F / 3.0F);
        dropped += v[channel * 6] == 0;
    }
    EXPECT_NEAR(dropped / 2000, 0.25, 0.04);
}

TEST_F(Random, AlphaDropoutKeepsMeanAndVariance) {
    const Numbers y = numbers_of(op("alpha_dropout", {op("randn", {AMP_DIMS(100000)}), 0.3}));
    EXPECT_NEAR(mean_of(y), 0, 0.02);
    EXPECT_NEAR(moment(y, 2), 1, 0.02);
    const double a = 1 / std::sqrt((1.7580993408473766 * 1.7580993408473766 * 0.3 + 1) * 0.7);
    const double least = -1.7580993408473766 * a * 0.7;
    double dropped = 0;
    for (double v : y) dropped += std::fabs(v - least) < 1e-5;
    EXPECT_NEAR(dropped / 100000, 0.3, 0.01);
}

TEST_F(Random, RegionsCastNothing) {
    amp_tensor *x = tensor(AMP_F32, {64});
    Region region(AMP_DEVICE_CPU, AMP_BF16);
    EXPECT_EQ(amp_tensor_dtype(op("rand", {AMP_DIMS(2)})), AMP_F32);
    EXPECT_EQ(amp_tensor_dtype(op("dropout", {x})), AMP_F32);
    EXPECT_EQ(amp_tensor_dtype(op("bernoulli", {x})), AMP_F32);
    EXPECT_EQ(amp_tensor_dtype(op("rand_like", {tensor(AMP_F16, {2})})), AMP_F16);
    EXPECT_EQ(amp_tensor_dtype(op("randint_like", {x, 5})), AMP_F32);
    EXPECT_EQ(amp_tensor_dtype(op("randn_like", {x}, {{"dtype", AMP_F64}})), AMP_F64);
}

// ---- Same bits --------------------------------------------------------------------------------------------------------

struct Call {
    const char *what;
    std::vector<Value> values;
    std::vector<Named> named;
};

// One of each kind, large enough for several threads.
std::vector<Call> large_calls(amp_tensor *x, amp_tensor *p) {
    const amp_dims size = AMP_DIMS(3, 50021);
    return {{"rand", {size}, {}},
            {"rand", {size, AMP_BF16}, {}},
            {"rand", {size, AMP_F64}, {}},
            {"randn", {size}, {}},
            {"randn", {size, AMP_F16}, {}},
            {"randn", {size, AMP_F64}, {}},
            {"randn", {size, AMP_C64}, {}},
            {"randint", {10, size}, {}},
            {"randint", {int64_t(1) << 40, size}, {}},
            {"randperm", {100003}, {}},
            {"bernoulli", {p}, {}},
            {"bernoulli", {x, 0.3}, {}},
            {"dropout", {x}, {}},
            {"dropout", {op("to", {x, AMP_BF16})}, {}},
            {"multinomial", {p, 1000, true}, {}},
            {"multinomial", {p, 1000}, {}}};
}

TEST_F(Random, ThreadsDoNotChangeTheBits) {
    amp_tensor *x = op("randn", {AMP_DIMS(3, 50021)}), *p = op("rand", {AMP_DIMS(3, 50021)});
    for (const Call &c : large_calls(x, p)) {
        Numbers first;
        for (int threads : {1, 2, 5}) {
            Scope scope;
            ASSERT_EQ(amp_set_num_threads(threads), AMP_OK);
            amp_manual_seed(3);
            amp_tensor *y = op(c.what, c.values, c.named);
            ASSERT_NE(y, nullptr) << c.what << ": " << amp_last_error();
            const Numbers got = numbers_of(y);
            if (threads == 1) first = got;
            EXPECT_TRUE(got == first) << c.what << " with " << threads << " threads";
        }
    }
}

// Element i is counted row by row, whatever the strides of the target.
TEST_F(Random, LayoutsDoNotChangeTheBits) {
    const Shape shape = {5, 6, 7, 8};
    amp_tensor *x = random_tensor(AMP_F32, shape, 1);
    amp_tensor *turned = op("permute", {op("empty", {AMP_DIMS(8, 7, 6, 5)}), AMP_DIMS(3, 2, 1, 0)});
    amp_tensor *spread = op("select", {op("empty", {AMP_DIMS(5, 6, 7, 8, 3)}), 4, 1});
    for (const char *name : {"uniform_", "normal_", "bernoulli_", "dropout_"}) {
        SCOPED_TRACE(name);
        amp_tensor *dense = op("clone", {x});
        amp_manual_seed(4);
        const Numbers want = numbers_of(op(name, {dense}));
        for (amp_tensor *target : {turned, spread}) {
            ASSERT_NE(op("add_out", {op("zeros_like", {x}), x}, {{"out", target}}), nullptr) << amp_last_error();
            amp_manual_seed(4);
            EXPECT_EQ(op(name, {target}), target) << amp_last_error();
            EXPECT_EQ(numbers_of(target), want);
        }
    }
    amp_manual_seed(4);
    const Numbers want = numbers_of(op("rand", {AMP_DIMS(5, 6, 7, 8)}));
    amp_manual_seed(4);
    ASSERT_NE(op("rand_out", {AMP_DIMS(5, 6, 7, 8)}, {{"out", turned}}), nullptr) << amp_last_error();
    EXPECT_EQ(numbers_of(turned), want);
    amp_manual_seed(4);
    EXPECT_EQ(numbers_of(op("rand_like", {turned})), want);
    amp_manual_seed(4);
    const Numbers dropped = numbers_of(op("dropout", {x}));
    ASSERT_NE(op("add_out", {op("zeros_like", {x}), x}, {{"out", turned}}), nullptr);
    amp_manual_seed(4);
    EXPECT_EQ(numbers_of(op("dropout", {turned})), dropped);
}

TEST_F(Random, ChannelsLastStaysSo) {
    amp_tensor *x = op("permute", {random_tensor(AMP_F32, {2, 4, 5, 3}, 1), AMP_DIMS(0, 3, 1, 2)});
    for (const char *name : {"rand_like", "randn_like", "dropout"}) {
        amp_tensor *y = op(name, {x});
        EXPECT_EQ(amp_tensor_strides(y)[1], 1) << name;
    }
}

TEST_F(Random, EmptyTensorsDrawNothing) {
    amp_generator_state state = {sizeof state, 1, 1};
    for (const char *name : {"rand", "randn"}) EXPECT_EQ(amp_tensor_numel(op(name, {AMP_DIMS(3, 0)})), 0);
    EXPECT_EQ(amp_tensor_numel(op("randint", {5, AMP_DIMS(0)})), 0);
    EXPECT_EQ(amp_tensor_numel(op("dropout", {tensor(AMP_F32, {0, 2})})), 0);
    EXPECT_EQ(amp_tensor_numel(op("bernoulli", {tensor(AMP_F32, {0})})), 0);
    EXPECT_EQ(amp_tensor_numel(op("multinomial", {tensor(AMP_F32, {0, 3}), 2})), 0);
    EXPECT_EQ(amp_last_status(), AMP_OK) << amp_last_error();
    EXPECT_EQ(amp_generator_get_state(amp_generator_default(AMP_DEVICE_CPU), &state), AMP_OK);
    EXPECT_EQ(state.seed, 20u);
    EXPECT_EQ(state.offset, 0u);
}

// Of seed 0 Philox's first vector, 0x6627e8d5 0xe169c58d 0xbc57ac4c 0x9b00dbd8: each word is 16 elements from the next.
TEST_F(Random, NumbersAreThoseOfTheSequence) {
    amp_manual_seed(0);
    const Numbers x = numbers_of(op("rand", {AMP_DIMS(64)}));
    EXPECT_EQ(x[0], 0x6627e8 / 16777216.0);
    EXPECT_EQ(x[16], 0xe169c5 / 16777216.0);
    EXPECT_EQ(x[32], 0xbc57ac / 16777216.0);
    EXPECT_EQ(x[48], 0x9b00db / 16777216.0);
}

// ---- The gradient's mask ------------------------------------------------------------------------------------------------

amp_tensor *masked; // what the spy made

amp_status spy(amp_call *call) {
    AMP_TRY(amp_call_next(call));
    const amp_random_place place = call->note.random;
    if (!call->note.is_random) return AMP_OK;
    amp_tensor *gradient = amp_backend_tensor(call->device, "spy", AMP_F32, 2, call->outputs[0]->shape);
    const amp_scalar two = amp_float(2);
    AMP_TRY(amp_fill_tensor_with(gradient, &two));
    AMP_TRY(amp_dropout_at(call, gradient, gradient, 0.25, place));
    amp_scope_move(gradient, call->frame->outer);
    masked = gradient;
    return AMP_OK;
}

// A layer above dropout finds in the call's note what its mask is made from.
TEST_F(Random, MaskOfDropoutIsMadeAgain) {
    masked = nullptr;
    amp_layer_install(AMP_LAYER_EXPLAIN, spy);
    amp_layer_activate(AMP_LAYER_EXPLAIN, true);
    amp_tensor *y = op("dropout", {op("ones", {AMP_DIMS(50, 60)}), 0.25});
    amp_layer_activate(AMP_LAYER_EXPLAIN, false);
    amp_layer_install(AMP_LAYER_EXPLAIN, amp_explain_layer);
    ASSERT_TRUE(y && masked) << amp_last_error();
    EXPECT_EQ(numbers_of(op("mul", {y, 2})), numbers_of(masked));
}

// ---- Generators ---------------------------------------------------------------------------------------------------------

TEST_F(Random, SeedsDecideAndCallsGoOn) {
    const Numbers a = numbers_of(op("rand", {AMP_DIMS(100)})), b = numbers_of(op("rand", {AMP_DIMS(100)}));
    EXPECT_NE(a, b);
    amp_manual_seed(20);
    EXPECT_EQ(numbers_of(op("rand", {AMP_DIMS(100)})), a);
    EXPECT_EQ(numbers_of(op("rand", {AMP_DIMS(100)})), b);
    amp_manual_seed(21);
    EXPECT_NE(numbers_of(op("rand", {AMP_DIMS(100)})), a);
}

TEST_F(Random, GeneratorsKeepTheirOwnPlace) {
    amp_generator *g = amp_generator_create(AMP_DEVICE_CPU), *h = amp_generator_create(AMP_DEVICE_CPU);
    ASSERT_TRUE(g && h);
    const Numbers first = numbers_of(op("rand", {AMP_DIMS(70)}, {{"generator", g}}));
    const Numbers second = numbers_of(op("rand", {AMP_DIMS(70)}, {{"generator", g}}));
    op("rand", {AMP_DIMS(70)});
    EXPECT_EQ(numbers_of(op("rand", {AMP_DIMS(70)}, {{"generator", h}})), first);
    EXPECT_EQ(numbers_of(op("rand", {AMP_DIMS(70)}, {{"generator", h}})), second);
    EXPECT_EQ(amp_generator_manual_seed(h, AMP_DEFAULT_SEED), AMP_OK);
    EXPECT_EQ(numbers_of(op("rand", {AMP_DIMS(70)}, {{"generator", h}})), first);
    amp_generator_destroy(g);
    amp_generator_destroy(h);
    amp_generator_destroy(nullptr);
}

TEST_F(Random, StateGoesRound) {
    amp_generator *g = amp_generator_create(AMP_DEVICE_CPU);
    amp_generator_state state = {sizeof state, 0, 0};
    EXPECT_EQ(amp_generator_manual_seed(g, 99), AMP_OK);
    op("randn", {AMP_DIMS(65)}, {{"generator", g}});
    ASSERT_EQ(amp_generator_get_state(g, &state), AMP_OK);
    EXPECT_EQ(state.seed, 99u);
    EXPECT_EQ(state.offset, 2u); // groups of 64
    const Numbers next = numbers_of(op("randn", {AMP_DIMS(65)}, {{"generator", g}}));
    ASSERT_EQ(amp_generator_set_state(amp_generator_default(AMP_DEVICE_CPU), &state), AMP_OK);
    EXPECT_EQ(numbers_of(op("randn", {AMP_DIMS(65)})), next);
    // What cannot be is refused, and changes nothing.
    EXPECT_EQ(amp_generator_get_state(nullptr, &state), AMP_ERROR_INVALID);
    amp_clear_error();
    EXPECT_EQ(amp_generator_set_state(g, nullptr), AMP_ERROR_INVALID);
    amp_clear_error();
    amp_generator_state unsized = {0, 5, 5};
    EXPECT_EQ(amp_generator_set_state(g, &unsized), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"generator_set_state", "struct_size"}));
    ASSERT_EQ(amp_generator_get_state(g, &state), AMP_OK);
    EXPECT_EQ(state.offset, 4u);
    amp_generator_destroy(g);
}

// Each op takes as many groups of words as its elements need: the next one begins behind.
TEST_F(Random, OpsTakeWhatTheyNeed) {
    amp_generator *g = amp_generator_create(AMP_DEVICE_CPU);
    const struct {
        Call call;
        uint64_t groups;
    } cases[] = {
        {{"rand", {AMP_DIMS(64)}, {}}, 1},
        {{"rand", {AMP_DIMS(65), AMP_BF16}, {}}, 2},
        {{"rand", {AMP_DIMS(64), AMP_F64}, {}}, 2},
        {{"randn", {AMP_DIMS(64), AMP_C64}, {}}, 2},
        {{"randint", {7, AMP_DIMS(64)}, {}}, 2},
        {{"randint", {int64_t(1) << 33, AMP_DIMS(64)}, {}}, 4},
        {{"dropout", {tensor(AMP_F64, {64})}, {}}, 1},
        {{"feature_dropout", {tensor(AMP_F32, {8, 8, 9})}, {}}, 1},
    };
    for (const auto &c : cases) {
        amp_generator_state state = {sizeof state, 1, 0};
        ASSERT_EQ(amp_generator_set_state(g, &state), AMP_OK);
        std::vector<Named> named = c.call.named;
        named.push_back({"generator", g});
        ASSERT_NE(op(c.call.what, c.call.values, named), nullptr) << amp_last_error();
        ASSERT_EQ(amp_generator_get_state(g, &state), AMP_OK);
        EXPECT_EQ(state.offset, c.groups) << c.call.what;
    }
    amp_generator_destroy(g);
}

TEST_F(Random, FailedCallsDrawNothing) {
    amp_generator_state state = {sizeof state, 0, 0};
    error_of("randint", {5, 5, AMP_DIMS(3)});
    error_of("rand_out", {AMP_DIMS(3)}, {{"out", tensor(AMP_F32, {4})}});
    error_of("dropout", {tensor(AMP_I64, {3})});
    ASSERT_EQ(amp_generator_get_state(amp_generator_default(AMP_DEVICE_CPU), &state), AMP_OK);
    EXPECT_EQ(state.offset, 0u);
}

TEST_F(Random, ThreadsNeverShareNumbers) {
    enum { THREADS = 4, CALLS = 200 };
    std::vector<std::vector<double>> firsts(THREADS);
    std::vector<std::thread> threads;
    for (size_t t = 0; t < THREADS; t++) {
        threads.emplace_back([&firsts, t] {
            for (int i = 0; i < CALLS; i++) {
                Scope scope;
                amp_tensor *x = op("rand", {AMP_DIMS(3), AMP_F64});
                if (x) firsts[t].push_back(numbers_of(x)[0]);
            }
        });
    }
    for (std::thread &thread : threads) thread.join();
    std::set<double> distinct;
    for (const auto &each : firsts) distinct.insert(each.begin(), each.end());
    EXPECT_EQ(distinct.size(), size_t(THREADS * CALLS));
    amp_generator_state state = {sizeof state, 0, 0};
    ASSERT_EQ(amp_generator_get_state(amp_generator_default(AMP_DEVICE_CPU), &state), AMP_OK);
    EXPECT_EQ(state.offset, uint64_t(THREADS * CALLS));
}

TEST_F(Random, ForkedChildHasTheParentsPlace) {
    if (amp_test::under_tsan) {
        GTEST_SKIP() << "the thread sanitizer does not follow a fork";
    }
    op("rand", {AMP_DIMS(3)});
    amp_set_num_threads(1);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    amp_generator_state state = {sizeof state, 0, 0};
    const bool same = amp_generator_get_state(amp_generator_default(AMP_DEVICE_CPU), &state) == AMP_OK &&
                      state.seed == 20 && state.offset == 1;
    if (child == 0) _exit(same && op("rand", {AMP_DIMS(3)}) ? 0 : 1);
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_TRUE(same);
}

// ---- Errors ---------------------------------------------------------------------------------------------------------------

TEST_F(Random, WrongArgumentsAreNamed) {
    amp_tensor *x = tensor(AMP_F32, {3}), *whole = tensor(AMP_I64, {3});
    const struct {
        const char *name;
        std::vector<Value> values;
        const char *error;
    } cases[] = {
        {"rand", {AMP_DIMS(2), AMP_I64}, "rand: 'dtype' is i64; expected f32, f64, f16, bf16, c64 or c128"},
        {"randn_like", {whole}, "randn_like: 'input' is i64; expected f32, f64, f16, bf16, c64 or c128"},
        {"uniform_",
         {x, 1.0, 0.0},
         "uniform_: 'from' is 1 and 'to' 0; expected from ≤ to, and to − from finite in f32"},
        {"uniform_",
         {x, -3e38, 3e38},
         "uniform_: 'from' is -3e+38 and 'to' 3e+38; expected from ≤ to, and to − from finite in f32"},
        {"uniform_",
         {x, NAN, 1.0},
         "uniform_: 'from' is nan and 'to' 1; expected from ≤ to, and to − from finite in f32"},
        {"uniform_",
         {tensor(AMP_F16, {3}), 0.0, 1e6},
         "uniform_: 'from' is 0 and 'to' 1e+06; expected from ≤ to, and to − from finite in f16"},
        {"normal_", {x, 0.0, -1.0}, "normal_: 'std' is -1; expected a number from 0 up"},
        {"normal_", {x, 0.0, NAN}, "normal_: 'std' is nan; expected a number from 0 up"},
        {"randint", {5, 5, AMP_DIMS(2)}, "randint: 'low' is 5 and 'high' 5; expected low < high"},
        {"randint", {0, AMP_DIMS(2)}, "randint: 'low' is 0 and 'high' 0; expected low < high"},
        {"randint",
         {300, AMP_DIMS(2), AMP_U8},
         "randint: 'low' is 0 and 'high' 300; u8 holds all integers from 0 to 255 only"},
        {"randint",
         {-1, 5, AMP_DIMS(2), AMP_U8},
         "randint: 'low' is -1 and 'high' 5; u8 holds all integers from 0 to 255 only"},
        {"randint",
         {3, AMP_DIMS(2), AMP_BOOL},
         "randint: 'low' is 0 and 'high' 3; bool holds all integers from 0 to 1 only"},
        {"randint",
         {258, AMP_DIMS(2), AMP_BF16},
         "randint: 'low' is 0 and 'high' 258; bf16 holds all integers from -256 to 256 only"},
        {"randint", {3, AMP_DIMS(2), AMP_C64}, "randint: the result would be c64; expected a real dtype"},
        {"randperm",
         {-1},
         "randperm: 'n' is -1; expected a number from 0 to 9223372036854775807, as many as i64 can tell "
         "apart"},
        {"randperm",
         {257, AMP_U8},
         "randperm: 'n' is 257; expected a number from 0 to 256, as many as u8 can tell apart"},
        {"randperm",
         {2050, AMP_F16},
         "randperm: 'n' is 2050; expected a number from 0 to 2049, as many as f16 can tell apart"},
        {"randperm", {2, AMP_BOOL}, "randperm: the result would be bool; expected a real dtype other than bool"},
        {"bernoulli", {x, 1.5}, "bernoulli: 'p' is 1.5; expected a probability, from 0 to 1"},
        {"bernoulli_", {x, NAN}, "bernoulli_: 'p' is nan; expected a probability, from 0 to 1"},
        {"bernoulli",
         {tensor(AMP_F32, {2}, {0.5, 1.5})},
         "bernoulli: 'input' has elements from 0.5 to 1.5; expected probabilities, from 0 to 1"},
        {"bernoulli",
         {tensor(AMP_F32, {2}, {NAN, 0.5})},
         "bernoulli: 'input' has elements from nan to nan; expected probabilities, from 0 to 1"},
        {"bernoulli", {whole}, "bernoulli: 'input' is [3] i64; expected f32, f64, f16 or bf16"},
        {"bernoulli_", {x, whole}, "bernoulli_: 'p' is [3] i64; expected f32, f64, f16 or bf16"},
        {"bernoulli_", {tensor(AMP_C64, {3}), 0.5}, "bernoulli_: 'input' is [3] c64; expected a real dtype"},
        {"dropout", {x, 1.5}, "dropout: 'p' is 1.5; expected a probability, from 0 to 1"},
        {"dropout", {x, -0.1, false}, "dropout: 'p' is -0.1; expected a probability, from 0 to 1"},
        {"dropout", {whole}, "dropout: 'input' is [3] i64; expected f32, f64, f16 or bf16"},
        {"feature_dropout", {x}, "feature_dropout: 'input' is [3] f32; expected (N, C, …)"},
        {"multinomial",
         {whole, 1},
         "multinomial: 'input' is [3] i64; expected weights in f32, f64, f16 or bf16 of rank 1 or 2"},
        {"multinomial",
         {tensor(AMP_F32, {1, 1, 1}), 1},
         "multinomial: 'input' is [1, 1, 1] f32; expected weights in f32, f64, f16 or bf16 of rank 1 or 2"},
        {"multinomial",
         {x, 0},
         "multinomial: 'num_samples' is 0 and input [3] f32; expected at least 1, and without "
         "replacement no more than there are weights"},
        {"multinomial",
         {x, 4},
         "multinomial: 'num_samples' is 4 and input [3] f32; expected at least 1, and without "
         "replacement no more than there are weights"},
        {"multinomial", {tensor(AMP_F32, {3}, {1, NAN, 1}), 1}, "multinomial: the least weight is nan"},
        {"multinomial", {tensor(AMP_F32, {3}, {1, -1, 1}), 1}, "multinomial: the least weight is -1"},
        {"multinomial",
         {tensor(AMP_F32, {3}, {1, INFINITY, 1}), 1, true},
         "multinomial: the least weight is 1, and the sums of rows are from inf to inf"},
        {"multinomial",
         {tensor(AMP_F32, {2, 2}, {1, 1, 0, 0}), 1},
         "multinomial: the least weight is 0, and the sums of rows are from 0 to 2"},
        {"multinomial", {tensor(AMP_F32, {3, 0}), 1, true}, "multinomial: the least weight is 0"},
    };
    for (const auto &c : cases)
        EXPECT_EQ(error_of(c.name, c.values).substr(0, std::strlen(c.error)), c.error) << c.name;
}

TEST_F(Random, GeneratorsOfOtherDevicesAreRefused) {
    EXPECT_EQ(amp_generator_create(amp_device(7)), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DEVICE, {"generator_create", "7"}));
    amp_generator *g = amp_generator_create(AMP_DEVICE_CUDA);
    ASSERT_NE(g, nullptr);
    EXPECT_EQ(error_of("rand", {AMP_DIMS(2)}, {{"generator", g}}),
              "rand: 'generator' is for cuda, the op runs on cpu; both must be the same");
    EXPECT_EQ(error_of("rand", {AMP_DIMS(2)}, {{"generator", 5}}).rfind("rand: 'generator' must be a generator", 0),
              0u);
    amp_generator_destroy(g);
}

} // namespace
