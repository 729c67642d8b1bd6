// Running sums, products and extremes; variance, logsumexp, prod; extremes with their places: long rows, NaN and
// infinities, empty and strided input, bf16, the error sentences.
#include <algorithm>

#include "amp_test.h"

using namespace amp_test;

namespace {

class Scans : public Test {};

using Numbers = std::vector<double>;

TEST_F(Scans, CumsumOfLongRowsKeepsItsPrecision) {
    for (amp_dtype dtype : {AMP_F32, AMP_F64}) {
        for (int64_t n : {1, 7, 8, 511, 512, 513, 100003}) {
            amp_tensor *x = random_tensor(dtype, {n}, uint64_t(n));
            const Numbers in = numbers_of(x), out = numbers_of(op("cumsum", {x, 0}));
            long double sum = 0;
            for (size_t i = 0; i < in.size(); i++) {
                sum += in[i];
                ASSERT_NEAR(out[i], double(sum), dtype == AMP_F32 ? 1e-7 * std::fabs(double(sum)) + 1e-12 : 1e-10) << i;
            }
        }
    }
}

TEST_F(Scans, GoAlongAnyDimension) {
    amp_tensor *x = tensor(AMP_F32, {2, 3}, {1, 2, 3, 4, 5, 6});
    EXPECT_EQ(numbers_of(op("cumsum", {x, 0})), Numbers({1, 2, 3, 5, 7, 9}));
    EXPECT_EQ(numbers_of(op("cumsum", {op("t", {x}), 0})), Numbers({1, 4, 3, 9, 6, 15}));
    EXPECT_EQ(numbers_of(op("cumprod", {x, -1})), Numbers({1, 2, 6, 4, 20, 120}));
    EXPECT_EQ(numbers_of(op("cumsum", {tensor(AMP_F32, {}, {3}), 0})), Numbers({3}));
    EXPECT_EQ(numbers_of(op("cumsum", {tensor(AMP_F32, {0, 3}), 0})), Numbers());
    EXPECT_EQ(op("cumsum_", {x, 1}), x);
    EXPECT_EQ(numbers_of(x), Numbers({1, 3, 6, 4, 9, 15}));
}

TEST_F(Scans, IntegersBecomeI64) {
    amp_tensor *x = tensor(AMP_U8, {3}, {200, 200, 2});
    EXPECT_EQ(amp_tensor_dtype(op("cumsum", {x, 0})), AMP_I64);
    EXPECT_EQ(numbers_of(op("cumprod", {x, 0})), Numbers({200, 40000, 80000}));
    EXPECT_EQ(numbers_of(op("prod", {tensor(AMP_BOOL, {3}, {1, 1, 1})})), Numbers({1}));
    EXPECT_EQ(amp_tensor_dtype(op("prod", {x})), AMP_I64);
}

// What comes before an overflow or a zero does not see it, however the row is cut up.
TEST_F(Scans, OverflowAndZerosStayWhereTheyAre) {
    Numbers numbers(600, 1e30);
    numbers[0] = 0;
    const Numbers zeros = numbers_of(op("cumprod", {tensor(AMP_F32, {600}, numbers), 0}));
    EXPECT_EQ(std::count(zeros.begin(), zeros.end(), 0.0), 600);
    Numbers mixed(600, 1.0);
    mixed[100] = INFINITY;
    mixed[400] = -INFINITY;
    const Numbers sums = numbers_of(op("cumsum", {tensor(AMP_F64, {600}, mixed), 0}));
    EXPECT_EQ(sums[99], 100);
    EXPECT_EQ(sums[399], INFINITY);
    EXPECT_TRUE(std::isnan(sums[400]));
}

TEST_F(Scans, CummaxTakesTheLastOfEqualsAndKeepsNaN) {
    const auto got = both("cummax", {tensor(AMP_F32, {6}, {1, 3, 3, 2, NAN, 9}), 0});
    const Numbers values = numbers_of(got[0]);
    EXPECT_EQ(Numbers(values.begin(), values.begin() + 4), Numbers({1, 3, 3, 3}));
    EXPECT_TRUE(std::isnan(values[4]) && std::isnan(values[5]));
    EXPECT_EQ(numbers_of(got[1]), Numbers({0, 1, 2, 2, 4, 4}));
    EXPECT_EQ(numbers_of(both("cummin", {tensor(AMP_I16, {3}, {2, 3, 1}), 0})[0]), Numbers({2, 2, 1}));
}

TEST_F(Scans, ArgmaxIsTheFirstAndANaNWins) {
    for (amp_dtype dtype : {AMP_F64, AMP_F32, AMP_BF16}) {
        EXPECT_EQ(numbers_of(op("argmax", {tensor(dtype, {5}, {1, 7, 7, NAN, NAN})})), Numbers({3}));
        EXPECT_EQ(numbers_of(op("argmin", {tensor(dtype, {4}, {5, 1, 1, 2})})), Numbers({1}));
        for (int64_t n : {1, 512, 513, 70001}) { // of one row, threads share the pieces
            Numbers numbers(static_cast<size_t>(n), -2.0);
            numbers[size_t(n - 1)] = numbers[size_t(n / 2)] = 5;
            amp_tensor *x = tensor(dtype, {n}, numbers);
            EXPECT_EQ(numbers_of(op("argmax", {x})), Numbers({double(n / 2)})) << n;
            EXPECT_EQ(numbers_of(both("max", {x, 0})[0]), Numbers({5}));
        }
    }
    const auto rows = both("min", {tensor(AMP_I32, {2, 2}, {4, 1, 0, 3}), 0, true});
    EXPECT_EQ(numbers_of(rows[0]), Numbers({0, 1}));
    EXPECT_EQ(numbers_of(rows[1]), Numbers({1, 0}));
    EXPECT_EQ(amp_tensor_rank(rows[0]), 2);
}

TEST_F(Scans, VarianceFarFromZeroIsExact) {
    const int64_t n = 100001;
    Numbers numbers;
    for (int64_t i = 0; i < n; i++) numbers.push_back(4096.0 + double(i % 3));
    double mean = 0, square = 0;
    for (double x : numbers) mean += (x - 4096.0) / double(n);
    mean += 4096.0;
    for (double x : numbers) square += (x - mean) * (x - mean);
    for (amp_dtype dtype : {AMP_F32, AMP_F64}) {
        amp_tensor *x = tensor(dtype, {n}, numbers);
        const auto got = both("var_mean", {x});
        EXPECT_NEAR(numbers_of(got[0])[0], square / double(n - 1), 2e-7);
        EXPECT_NEAR(numbers_of(got[1])[0], mean, dtype == AMP_F32 ? 5e-4 : 1e-9);
        amp_tensor *columns = op("t", {op("reshape", {op("narrow", {x, 0, 0, 99999}), AMP_DIMS(33333, 3)})});
        for (double v : numbers_of(op("var", {columns, 1}))) EXPECT_EQ(v, 0);
    }
}

TEST_F(Scans, VarianceOfOneOrNoneIsNaN) {
    amp_tensor *one = tensor(AMP_F32, {1}, {3});
    EXPECT_TRUE(std::isnan(numbers_of(op("var", {one}))[0]));
    EXPECT_EQ(numbers_of(op("var", {one}, {{"correction", 0}})), Numbers({0}));
    EXPECT_TRUE(std::isnan(numbers_of(op("std", {tensor(AMP_F32, {0})}))[0]));
    EXPECT_TRUE(std::isnan(numbers_of(op("var", {tensor(AMP_F32, {3}, {1, INFINITY, 2})}))[0]));
    EXPECT_EQ(numbers_of(op("var", {tensor(AMP_C64, {2}, {1, 3})})), Numbers({2}));
    EXPECT_EQ(op("var", {one}, {{"unbiased", true}, {"correction", 1}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"var", "'unbiased'", "'correction'"}));
    EXPECT_EQ(op("std", {tensor(AMP_I64, {2})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"std", "[2] i64"}));
}

TEST_F(Scans, LogsumexpNeitherOverflowsNorLosesInfinities) {
    for (amp_dtype dtype : {AMP_F32, AMP_F64}) {
        EXPECT_NEAR(numbers_of(op("logsumexp", {tensor(dtype, {2}, {1000, 1000}), 0}))[0], 1000 + std::log(2), 1e-4);
        EXPECT_EQ(numbers_of(op("logsumexp", {tensor(dtype, {2}, {-INFINITY, -INFINITY}), 0})), Numbers({-INFINITY}));
        EXPECT_EQ(numbers_of(op("logsumexp", {tensor(dtype, {2}, {INFINITY, INFINITY}), 0})), Numbers({INFINITY}));
        EXPECT_TRUE(std::isnan(numbers_of(op("logsumexp", {tensor(dtype, {2}, {NAN, 1}), 0}))[0]));
        EXPECT_EQ(numbers_of(op("logsumexp", {tensor(dtype, {0}), 0})), Numbers({-INFINITY}));
        const int64_t n = 80000; // pieces that begin with −inf alone
        Numbers numbers(size_t(n), -INFINITY);
        numbers[size_t(n - 1)] = 3;
        EXPECT_NEAR(numbers_of(op("logsumexp", {tensor(dtype, {n}, numbers), 0}))[0], 3, 1e-6);
    }
}

TEST_F(Scans, OfNothingThereIsNoExtreme) {
    amp_tensor *none = tensor(AMP_F32, {2, 0});
    EXPECT_EQ(op("argmax", {none, 1}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"argmax", "[2, 0] f32"}));
    EXPECT_EQ(numbers_of(both("max", {none, 0})[0]), Numbers());
    EXPECT_EQ(op("max", {tensor(AMP_C64, {2}), 0}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"max", "complex"}));
    EXPECT_EQ(op("cumsum", {none, 2}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"cumsum", "'dim' is 2"}));
}

TEST_F(Scans, MovementKeepsEveryElement) {
    amp_tensor *x = tensor(AMP_I16, {2, 3}, {1, 2, 3, 4, 5, 6});
    EXPECT_EQ(numbers_of(op("repeat", {x, AMP_DIMS(2, 1, 2)})),
              Numbers({1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6, 1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6}));
    EXPECT_EQ(numbers_of(op("tile", {x, AMP_DIMS(0)})), Numbers());
    EXPECT_EQ(numbers_of(op("flip", {x, AMP_DIMS(0, 1)})), Numbers({6, 5, 4, 3, 2, 1}));
    EXPECT_EQ(numbers_of(op("roll", {x, AMP_DIMS(1, -1), AMP_DIMS(0, 1)})), Numbers({5, 6, 4, 2, 3, 1}));
    EXPECT_EQ(numbers_of(op("roll", {op("t", {x}), -2})), Numbers({2, 5, 3, 6, 1, 4}));
    EXPECT_EQ(numbers_of(op("triu", {x, 1})), Numbers({0, 2, 3, 0, 0, 6}));
    EXPECT_EQ(numbers_of(op("tril", {x, INT64_MIN + 1})), Numbers(6, 0));
    EXPECT_EQ(op("repeat", {x, AMP_DIMS(2)}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"repeat", "'repeats'", "[2, 3]"}));
    EXPECT_EQ(op("roll", {x, AMP_DIMS(1, 2)}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"roll", "'shifts'"}));
    EXPECT_EQ(op("tril", {tensor(AMP_F32, {3})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"tril", "[3] f32"}));
}

TEST_F(Scans, LerpMeetsItsEnds) {
    amp_tensor *a = tensor(AMP_F32, {2}, {1e8, 1}), *b = tensor(AMP_F32, {2}, {3, 4});
    EXPECT_EQ(numbers_of(op("lerp", {a, b, 1.0})), Numbers({3, 4}));
    EXPECT_EQ(numbers_of(op("lerp", {a, b, tensor(AMP_F32, {2}, {0, 0.5})})), Numbers({1e8, 2.5}));
    EXPECT_EQ(op("lerp", {a, tensor(AMP_F64, {2}), 0.5}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"lerp", "f32", "f64"}));
    EXPECT_EQ(
        numbers_of(op("addcmul", {tensor(AMP_I32, {1}, {1}), tensor(AMP_I32, {1}, {2}), tensor(AMP_I32, {1}, {3})},
                      {{"value", 4}})),
        Numbers({25}));
    EXPECT_EQ(op("addcdiv", {tensor(AMP_I32, {1}), tensor(AMP_I32, {1}), tensor(AMP_I32, {1})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"addcdiv", "[1] i32"}));
}

TEST_F(Scans, EqualComparesShapesAndElements) {
    amp_tensor *x = tensor(AMP_F32, {2}, {1, 2});
    EXPECT_EQ(numbers_of(op("equal", {x, op("clone", {x})})), Numbers({1}));
    EXPECT_EQ(numbers_of(op("equal", {x, tensor(AMP_F32, {2}, {1, 3})})), Numbers({0}));
    EXPECT_EQ(numbers_of(op("equal", {x, tensor(AMP_F32, {2, 1}, {1, 2})})), Numbers({0}));
    EXPECT_EQ(numbers_of(op("equal", {tensor(AMP_F32, {0}), tensor(AMP_F32, {0})})), Numbers({1}));
    amp_tensor *nan = tensor(AMP_F32, {1}, {NAN});
    EXPECT_EQ(numbers_of(op("equal", {nan, nan})), Numbers({0}));
}

} // namespace
